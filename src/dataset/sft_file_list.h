// Which files of a folder are training data; private to sft_files.cc and its test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

enum class DataSplit { kNone, kTrain, kOther };

// By the words of a relative path: "data/train-00000-of-00001.parquet" is kTrain, "test.jsonl" kOther, "latest.jsonl" kNone.
DataSplit split_of(std::string_view relative_path);
bool is_parquet_name(std::string_view name);

struct SftFileList {
  std::vector<std::string> taken;       // relative to the folder, in byte order
  std::vector<std::string> left_aside;  // of other splits
};

// data_invalid for a link, limit_exceeded for too many files or folders in folders. Names that begin with '.' are passed over.
Result<SftFileList> list_sft_files(const std::string& folder);

}  // namespace cairn::dataset
