#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/core.h>

#include "base/check.h"
#include "trainer/safetensors.h"

namespace cairn::trainer {
namespace {

constexpr size_t kReadBlockBytes = 1 << 20;

Status read_exactly(os::ReadableFile& file, const std::string& path, uint64_t offset, std::span<uint8_t> out) {
  CAIRN_TRY(size_t got, file.read_at(offset, out));
  if (got == out.size()) return ok();
  return Error(Code::kDataInvalid, fmt::format("{}: became shorter while it was read", path));
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(os::FileSystem& files, const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  CAIRN_TRY(file.file_, files.open_read(path));
  CAIRN_TRY(uint64_t size, file.file_->size());
  uint8_t first_bytes[8] = {};
  CAIRN_TRY(size_t got, file.file_->read_at(0, first_bytes));
  CAIRN_TRY(uint64_t header_size, parse_safetensors_size(std::span<const uint8_t>(first_bytes, got), size, path));
  std::string text(header_size, '\0');
  CAIRN_CHECK_OK(read_exactly(*file.file_, path, 8, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  file.data_start_ = 8 + header_size;
  CAIRN_TRY(file.header_, parse_safetensors_header(text, size - file.data_start_, path));
  for (size_t i = 0; i < file.header_.tensors.size(); ++i) file.index_.emplace(file.header_.tensors[i].name, i);
  return file;
}

const TensorLayout* SafetensorsFile::find(std::string_view name) const {
  auto at = index_.find(name);
  return at == index_.end() ? nullptr : &header_.tensors[at->second];
}

Status SafetensorsFile::read(const TensorLayout& tensor, uint64_t offset, std::span<uint8_t> out) const {
  CAIRN_CHECK(offset <= tensor.end - tensor.begin && out.size() <= tensor.end - tensor.begin - offset);
  return read_exactly(*file_, path_, data_start_ + tensor.begin + offset, out);
}

Status SafetensorsFile::read_floats(const TensorLayout& tensor, uint64_t first, std::span<float> out) const {
  if (tensor.type == TensorType::kF32) {
    return read(tensor, first * 4, {reinterpret_cast<uint8_t*>(out.data()), out.size_bytes()});
  }
  if (tensor.type != TensorType::kF16 && tensor.type != TensorType::kBF16) {
    return Error(Code::kFormatUnsupported, fmt::format("{}: tensor '{}' is {}; F32, F16 and BF16 can be loaded", path_,
                                                       tensor.name, name_of(tensor.type)));
  }
  std::vector<uint16_t> block(std::min(out.size(), kReadBlockBytes / 2));
  for (size_t done = 0; done < out.size();) {
    size_t count = std::min(block.size(), out.size() - done);
    CAIRN_CHECK_OK(read(tensor, (first + done) * 2, {reinterpret_cast<uint8_t*>(block.data()), count * 2}));
    float* to = out.data() + done;
    if (tensor.type == TensorType::kBF16) {
      for (size_t i = 0; i < count; ++i) to[i] = float_of_bfloat16(block[i]);
    } else {
      for (size_t i = 0; i < count; ++i) to[i] = float_of_float16(block[i]);
    }
    done += count;
  }
  return ok();
}

Result<SafetensorsWriter> SafetensorsWriter::create(os::FileSystem& files, const std::string& path,
                                                    std::vector<TensorLayout> tensors,
                                                    std::map<std::string, std::string> metadata) {
  SafetensorsWriter writer;
  CAIRN_TRY(writer.header_, lay_out_tensors(std::move(tensors), std::move(metadata)));
  std::string head = safetensors_header_bytes(writer.header_);
  if (head.size() - 8 > kSafetensorsHeaderBytesMax) {
    return Error(Code::kLimitExceeded,
                 fmt::format("{}: {} tensors need a header of {} bytes, more than {}", path,
                             writer.header_.tensors.size(), head.size(), kSafetensorsHeaderBytesMax));
  }
  CAIRN_TRY(writer.file_, files.create_exclusive(path, 0644));
  CAIRN_CHECK_OK(writer.file_->write({reinterpret_cast<const uint8_t*>(head.data()), head.size()}));
  writer.data_size_ = writer.header_.tensors.empty() ? 0 : writer.header_.tensors.back().end;
  writer.file_size_ = head.size() + writer.data_size_;
  return writer;
}

Status SafetensorsWriter::write(std::span<const uint8_t> bytes) {
  CAIRN_CHECK(bytes.size() <= data_size_ - written_);
  CAIRN_CHECK_OK(file_->write(bytes));
  written_ += bytes.size();
  return ok();
}

Status SafetensorsWriter::finish() {
  CAIRN_CHECK(written_ == data_size_);
  CAIRN_CHECK_OK(file_->sync());
  return file_->close();
}

uint16_t bfloat16_of(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float float_of_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float float_of_float16(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero and subnormal numbers
  return sign != 0 ? -magnitude : magnitude;
}

}  // namespace cairn::trainer
