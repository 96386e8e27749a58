// Files of tensors in the safetensors format (docs/formats/safetensors.md): a bounded, strict reader and a streaming
// writer whose bytes are those of the reference implementation. Weights, exported models and checkpoints are such
// files.
//
// No torch. A SafetensorsFile may be shared by threads; a SafetensorsWriter belongs to one. Reading gives data_invalid,
// with the file's name and the numbers, for whatever is not exactly as the format says, and format_unsupported for
// unknown dtypes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/file_system.h"

namespace cairn::trainer {

inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;
inline constexpr size_t kTensorDimensionsMax = 64;

// In the order of the reference implementation, which is also the order of files (the last ones first).
enum class TensorType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

std::string_view name_of(TensorType type);  // "F32"
uint64_t bytes_of(TensorType type);         // of one element

struct TensorLayout {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes, from the start of the data
  uint64_t end = 0;

  uint64_t size() const { return (end - begin) / bytes_of(type); }  // elements
};

// "[2, 3]"
std::string shape_text(std::span<const int64_t> shape);

struct SafetensorsHeader {
  std::vector<TensorLayout> tensors;  // by offset: without holes from 0 to the end of the data
  std::map<std::string, std::string> metadata;

  const TensorLayout* find(std::string_view name) const;  // linear
};

// The size of the header that follows the first 8 bytes of a file.
Result<uint64_t> parse_safetensors_size(std::span<const uint8_t> first_bytes, uint64_t file_size,
                                        const std::string& file);
// `text` is the header, `data_size` the number of bytes after it.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, uint64_t data_size, const std::string& file);

// Orders tensors as the reference does (alignment, then name) and sets their offsets; limit_exceeded when the sum
// overflows, request_invalid when two have one name.
Result<SafetensorsHeader> lay_out_tensors(std::vector<TensorLayout> tensors,
                                          std::map<std::string, std::string> metadata);
// Everything before the data: the length, the JSON, spaces to a multiple of 8.
std::string safetensors_header_bytes(const SafetensorsHeader& header);

class SafetensorsFile {
 public:
  // file_not_found when absent.
  static Result<SafetensorsFile> open(os::FileSystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  const TensorLayout* find(std::string_view name) const;
  // Bytes of the tensor from `offset` on. REQUIRES: they lie within it.
  Status read(const TensorLayout& tensor, uint64_t offset, std::span<uint8_t> out) const;
  // Elements from `first` on as fp32; format_unsupported unless the tensor is F32, F16 or BF16.
  Status read_floats(const TensorLayout& tensor, uint64_t first, std::span<float> out) const;

 private:
  std::string path_;
  std::shared_ptr<os::ReadableFile> file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> index_;
  uint64_t data_start_ = 0;
};

class SafetensorsWriter {
 public:
  // Makes the file and writes its header; file_exists when the name is taken. Offsets in `tensors` are ignored.
  static Result<SafetensorsWriter> create(os::FileSystem& files, const std::string& path,
                                          std::vector<TensorLayout> tensors,
                                          std::map<std::string, std::string> metadata = {{"format", "pt"}});

  // The tensors in the order in which their bytes are to be written.
  const std::vector<TensorLayout>& tensors() const { return header_.tensors; }
  Status write(std::span<const uint8_t> bytes);
  // Everything is on stable storage when this returns ok (the name in its folder is not: sync_directory). REQUIRES: all
  // bytes were written.
  Status finish();
  uint64_t file_size() const { return file_size_; }

 private:
  SafetensorsHeader header_;
  std::unique_ptr<os::WritableFile> file_;
  uint64_t data_size_ = 0, written_ = 0, file_size_ = 0;
};

// Round to nearest even, as torch does; a NaN stays one.
uint16_t bfloat16_of(float value);
float float_of_bfloat16(uint16_t bits);
float float_of_float16(uint16_t bits);

}  // namespace cairn::trainer
