#include "agent/node_facts.h"

#include <algorithm>
#include <map>

#include "base/whole_number.h"
#include "os/disk.h"
#include "os/file_system.h"
#include "os/host.h"

namespace cairn::agent {
namespace {

constexpr size_t kProcFileBytesMax = 64 * 1024;

// The value after "Key:" in a /proc file.
std::string proc_value(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    size_t newline = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(std::min(newline + 1, text.size()));
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    line.remove_prefix(key.size() + 1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    return std::string(line);
  }
  return {};
}

// "NVIDIA H100 80GB HBM3" → "nvidia-h100-80gb-hbm3": a type as `--gpu-type` takes it.
std::string type_name(std::string_view model) {
  std::string name;
  for (char c : model) {
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (word) {
      name.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    } else if (!name.empty() && name.back() != '-') {
      name.push_back('-');
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "gpu" : name;
}

// /proc files have no size: read_file works by size, so they are read to their end.
Result<std::string> read_proc(const std::string& path) {
  CAIRN_TRY(std::unique_ptr<os::ReadableFile> file, os::posix_file_system().open_read(path));
  std::string text(kProcFileBytesMax, '\0');
  CAIRN_TRY(size_t count, file->read_at(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  text.resize(count);
  return text;
}

}  // namespace

std::vector<Gpu> find_gpus(const std::string& proc_dir, const std::string& dev_dir) {
  std::vector<Gpu> gpus;
  auto cards = os::posix_file_system().list(proc_dir);
  if (!cards) return gpus;
  for (const os::DirectoryEntry& card : *cards) {
    auto text = read_proc(proc_dir + "/" + card.name + "/information");
    if (!text) continue;
    std::string minor = proc_value(*text, "Device Minor");
    Gpu gpu;
    auto index = whole_number<decltype(gpu.index)>(minor);
    if (!index) continue;
    gpu.index = *index;
    auto device = os::posix_file_system().exists(dev_dir + "/nvidia" + std::to_string(gpu.index));
    if (!device || !*device) continue;
    gpu.name = type_name(proc_value(*text, "Model"));
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
  return gpus;
}

Result<api::RegisterNode> node_facts(const std::string& name, const std::string& state_dir) {
  api::RegisterNode facts;
  facts.name = name;
  facts.version = CAIRN_VERSION;
  CAIRN_TRY(facts.boot_id, os::boot_id());
  facts.cpus = os::usable_cpus();
  if (auto memory = read_proc("/proc/meminfo")) {
    std::string kib = proc_value(*memory, "MemTotal");  // "24669212 kB"
    facts.memory_bytes = whole_number<uint64_t>(kib.substr(0, kib.find(' '))).value_or(0) * 1024;
  }
  CAIRN_TRY(os::DiskSpace disk, os::disk_space(state_dir));
  facts.disk_total_bytes = disk.total_bytes;
  facts.disk_free_bytes = disk.available_bytes;
  std::map<std::string, uint64_t> counts;
  for (const Gpu& gpu : find_gpus()) ++counts[gpu.name];
  for (const auto& [type, count] : counts) facts.gpus.push_back(api::GpuInfo{type, count});
  return facts;
}

}  // namespace cairn::agent
