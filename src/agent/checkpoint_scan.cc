#include "agent/checkpoint_scan.h"

#include <map>

#include "base/whole_number.h"
#include "os/tree.h"

namespace cairn::agent {
namespace {

bool is_file(const os::Directory& dir, std::string_view relative) {
  auto stat = dir.stat(relative);
  return stat && stat->type == os::FileType::kFile;
}

bool is_complete(const os::Directory& step) {
  if (is_file(step, "trainer/.metadata")) return true;
  if (!is_file(step, "model.safetensors.index.json")) return false;
  constexpr std::string_view kPrefix = "model-";
  constexpr std::string_view kSuffix = ".safetensors";
  auto names = step.list_names(100'000);
  if (!names) return false;
  std::map<uint64_t, uint64_t> found;  // total → how many of it
  for (std::string_view file : *names) {
    if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
    std::string_view middle = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
    size_t of = middle.find("-of-");
    if (of == std::string_view::npos || !whole_number<uint64_t>(middle.substr(0, of))) continue;
    if (std::optional<uint64_t> total = whole_number<uint64_t>(middle.substr(of + 4))) ++found[*total];
  }
  for (const auto& [total, count] : found) {
    if (total == count) return true;
  }
  return false;
}

}  // namespace

Result<std::optional<uint64_t>> newest_complete_step(const std::string& top, const std::string& checkpoints_dir) {
  CAIRN_TRY(os::Directory volume, os::Directory::open(top));
  std::optional<uint64_t> newest;
  auto dir = volume.open_directory(checkpoints_dir);
  if (!dir) return newest;
  CAIRN_TRY(std::vector<std::string> names, dir->list_names());
  for (std::string_view name : names) {
    if (!name.starts_with("step_")) continue;
    std::optional<uint64_t> step = whole_number<uint64_t>(name.substr(5));
    if (!step || (newest && *step <= *newest)) continue;
    auto folder = dir->open_directory(name);
    if (folder && is_complete(*folder)) newest = step;
  }
  return newest;
}

}  // namespace cairn::agent
