// Checkpoints as the tree of the run's volume shows them. A step folder is complete when its marker is there: the trainer's
// own, which is written last, or the index of a sharded model with all its shards (named "model-00001-of-00004.safetensors": the
// names say how many there must be).
#include <algorithm>
#include <map>

#include "base/whole_number.h"
#include "run/internal.h"
#include "run/runs.h"
#include "volume/reads.h"

namespace cairn::run {
namespace {

constexpr int64_t kPage = 10'000;
constexpr size_t kCheckpointsMax = 100'000;

std::string_view last_segment(std::string_view path) {
  size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Nothing when there is no such entry.
Result<std::optional<volume::EntryInfo>> entry(volume::Reads& reads, VolumeId volume, const volume::ReadFrom& from,
                                               const std::string& path) {
  auto info = reads.stat(volume, from, path);
  if (info) return std::optional<volume::EntryInfo>(*std::move(info));
  if (info.error().code() == Code::kPathNotFound) return std::optional<volume::EntryInfo>();
  return std::move(info).error();
}

Result<bool> all_shards(volume::Reads& reads, VolumeId volume, const volume::ReadFrom& from, const std::string& folder) {
  constexpr std::string_view kPrefix = "model-";
  constexpr std::string_view kSuffix = ".safetensors";
  CAIRN_TRY(volume::NamesPage page, reads.ls(volume, from, folder, {}, kPage));
  std::map<int64_t, int64_t> found;  // total → how many of it
  for (const volume::EntryInfo& info : page.entries) {
    std::string_view file = last_segment(info.path);
    if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) continue;
    std::string_view numbers = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
    size_t of = numbers.find("-of-");
    if (of == std::string_view::npos) continue;
    std::optional<int64_t> total = whole_number<int64_t>(numbers.substr(of + 4));
    if (total && whole_number<int64_t>(numbers.substr(0, of))) ++found[*total];
  }
  return std::any_of(found.begin(), found.end(), [](const auto& shards) { return shards.second == shards.first; });
}

}  // namespace

Result<std::vector<CheckpointView>> Runs::checkpoints(UserId owner, RunId id) {
  CAIRN_TRY(RunView view, get(owner, id));
  std::vector<CheckpointView> checkpoints;
  const catalog::RunMountRow* primary = view.primary();
  if (primary == nullptr) return checkpoints;
  volume::Reads& reads = context_.reads;
  std::string top = output_directory(id) + "/checkpoints";
  volume::ReadFrom from;
  std::string after;
  while (checkpoints.size() < kCheckpointsMax) {
    auto page = reads.ls(primary->volume, from, top, after, kPage);
    if (!page) {
      if (page.error().code() == Code::kPathNotFound || page.error().code() == Code::kSnapshotNotFound) break;
      return std::move(page).error();
    }
    // All pages and figures are of the snapshot that the first page saw.
    from.snapshot = page->snapshot;
    for (const volume::EntryInfo& info : page->entries) {
      std::string_view step_name = last_segment(info.path);
      if (info.kind != volume::EntryKind::kDirectory || !step_name.starts_with("step_")) continue;
      std::optional<int64_t> step = whole_number<int64_t>(step_name.substr(5));
      if (!step) continue;
      CheckpointView checkpoint;
      checkpoint.step = *step;
      checkpoint.path = info.path;
      checkpoint.snapshot = page->snapshot;
      CAIRN_TRY(volume::Counts counts, reads.du(primary->volume, from, info.path));
      checkpoint.files = counts.files;
      checkpoint.bytes = counts.bytes;
      CAIRN_TRY(std::optional<volume::EntryInfo> marker, entry(reads, primary->volume, from, info.path + "/trainer/.metadata"));
      checkpoint.complete = marker.has_value();
      if (!marker) {
        CAIRN_TRY(marker, entry(reads, primary->volume, from, info.path + "/model.safetensors.index.json"));
        if (marker) {
          CAIRN_TRY(checkpoint.complete, all_shards(reads, primary->volume, from, info.path));
        }
      }
      checkpoint.at = Time{(marker ? marker->mtime_ns : info.mtime_ns) / 1000};
      checkpoints.push_back(std::move(checkpoint));
    }
    if (!page->more) break;
    after = page->next_after;
  }
  std::sort(checkpoints.begin(), checkpoints.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return checkpoints;
}

}  // namespace cairn::run
