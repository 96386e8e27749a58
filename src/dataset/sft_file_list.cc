#include "dataset/sft_file_list.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "dataset/sft_files.h"
#include "os/tree.h"

namespace cairn::dataset {

namespace {

constexpr size_t kFolderDepthMax = 32;
constexpr std::array<std::string_view, 4> kEndings = {".jsonl", ".ndjson", ".json", ".parquet"};
constexpr std::array<std::string_view, 2> kTrainWords = {"train", "training"};
constexpr std::array<std::string_view, 8> kOtherWords = {"validation", "valid", "val", "dev", "test", "testing", "eval", "evaluation"};

template <class Words>
bool holds(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Status walk(const os::Directory& folder, const std::string& prefix, size_t depth, std::vector<std::string>& files) {
  if (depth > kFolderDepthMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: more than {} folders in one another", folder.shown_as(), kFolderDepthMax));
  }
  CAIRN_TRY(std::vector<os::TreeEntry> entries, folder.list(kSftFilesMax));
  for (const os::TreeEntry& entry : entries) {
    if (entry.name.starts_with('.')) continue;
    std::string path = prefix + entry.name;
    if (entry.stat.type == os::FileType::kDirectory) {
      CAIRN_TRY(os::Directory inner, folder.open_directory(entry.name));
      CAIRN_CHECK_OK(walk(inner, path + "/", depth + 1, files));
      continue;
    }
    bool wanted = std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) { return path.ends_with(ending); });
    if (!wanted) continue;
    if (entry.stat.type != os::FileType::kFile) {
      return Error(Code::kDataInvalid, fmt::format("{}/{} is a link or no regular file", folder.shown_as(), entry.name),
                   "put the file itself there");
    }
    if (files.size() >= kSftFilesMax) return Error(Code::kLimitExceeded, fmt::format("more than {} data files", kSftFilesMax));
    files.push_back(std::move(path));
  }
  return ok();
}

}  // namespace

DataSplit split_of(std::string_view path) {
  DataSplit split = DataSplit::kNone;
  auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (size_t at = 0; at < path.size();) {
    size_t end = at;
    std::string word;
    while (end < path.size() && is_letter(path[end])) word += static_cast<char>(path[end++] | 0x20);
    if (holds(kTrainWords, word)) return DataSplit::kTrain;
    if (holds(kOtherWords, word)) split = DataSplit::kOther;
    at = end + 1;
  }
  return split;
}

bool is_parquet_name(std::string_view name) { return name.ends_with(".parquet"); }

Result<SftFileList> list_sft_files(const std::string& folder) {
  CAIRN_TRY(os::Directory root, os::Directory::open(folder));
  std::vector<std::string> files;
  CAIRN_CHECK_OK(walk(root, "", 0, files));
  std::sort(files.begin(), files.end());
  auto any = [&](DataSplit split) {
    return std::any_of(files.begin(), files.end(), [&](const std::string& file) { return split_of(file) == split; });
  };
  SftFileList list;
  bool all = !any(DataSplit::kTrain) && !any(DataSplit::kNone);
  DataSplit wanted = any(DataSplit::kTrain) ? DataSplit::kTrain : DataSplit::kNone;
  for (std::string& file : files) {
    auto& target = all || split_of(file) == wanted ? list.taken : list.left_aside;
    target.push_back(std::move(file));
  }
  return list;
}

}  // namespace cairn::dataset
