#include "trainer/volume_paths.h"

#include <cstdlib>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "config/training_paths.h"

namespace cairn::trainer {
namespace {

std::optional<std::string> without_links(const std::string& path) {
  std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? std::optional<std::string>(real.get()) : std::nullopt;
}

bool lies_below(const std::string& path, const std::string& root) {
  if (root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

}  // namespace

Result<std::string> path_on_volume(const std::string& root, std::string_view spelled) {
  CAIRN_TRY(std::string path, config::on_volume(root, spelled));
  std::optional<std::string> real_root = without_links(root), real = without_links(path);
  if (!real_root || !real || lies_below(*real, *real_root)) return path;
  return Error(Code::kConfigInvalid, fmt::format("'{}' leads out of the volume: {} is or lies behind a link to {}", spelled, path, *real),
               "put on the volume what it points to, or name the folder that holds both by --volume-root");
}

}  // namespace cairn::trainer
