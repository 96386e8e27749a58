#include "trainer/safetensors.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace cairn::trainer {
namespace {

struct TypeRow {
  std::string_view name;
  uint64_t bytes;
};
constexpr TypeRow kTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                              {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                              {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

std::optional<TensorType> type_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].name == name) return static_cast<TensorType>(i);
  }
  return std::nullopt;
}

std::string shortened(std::string_view name) {
  return std::string(name.substr(0, 200));
}

// Bytes of a tensor, or nothing when the number does not fit.
std::optional<uint64_t> byte_size(TensorType type, std::span<const int64_t> shape) {
  uint64_t size = bytes_of(type);
  for (int64_t dimension : shape) {
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(dimension), &size)) return std::nullopt;
  }
  return size;
}

// Takes the JSON as events: a header may have a hundred megabytes, and only so are doubled keys seen.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderHandler(const std::string& file) : file_(file) {}

  SafetensorsHeader header;
  std::optional<Error> error;

  bool start_object(std::size_t) override {
    if (depth_ == 0) return ++depth_, true;
    if (depth_ == 1) {
      ++depth_;
      tensor_ = {};
      begin_end_.clear();
      has_type_ = has_shape_ = has_offsets_ = false;
      return true;
    }
    return fail("has an object where none belongs");
  }
  bool end_object() override {
    --depth_;
    return depth_ != 1 || in_metadata_ || end_tensor();
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second) return fail(fmt::format("names '{}' twice", shortened(name)));
      in_metadata_ = name == "__metadata__";
      name_ = name;
      return true;
    }
    key_ = name;
    if (in_metadata_) {
      return header.metadata.contains(name) ? fail(fmt::format("has the metadata '{}' twice", shortened(name))) : true;
    }
    bool& seen = name == "dtype" ? has_type_ : name == "shape" ? has_shape_ : has_offsets_;
    if (name != "dtype" && name != "shape" && name != "data_offsets") {
      return fail(fmt::format("has the unknown key '{}' in tensor '{}'", shortened(name), shortened(name_)));
    }
    if (seen) return fail(fmt::format("has '{}' twice in tensor '{}'", name, shortened(name_)));
    return seen = true;
  }
  bool string(string_t& text) override {
    if (depth_ != 2 || in_array_) return fail("has a string where none belongs");
    if (in_metadata_) return header.metadata.emplace(key_, text), true;
    if (key_ != "dtype") return wrong_value();
    auto type = type_of(text);
    if (!type) {
      error = Error(Code::kFormatUnsupported, fmt::format("{}: tensor '{}' has the unknown dtype '{}'", file_,
                                                          shortened(name_), shortened(text)));
      return false;
    }
    return tensor_.type = *type, true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || in_array_ || key_ == "dtype") return fail("has a list where none belongs");
    return in_array_ = true;
  }
  bool end_array() override { return in_array_ = false, true; }
  bool number_unsigned(number_unsigned_t value) override {
    if (!in_array_) return depth_ == 2 && !in_metadata_ ? wrong_value() : fail("has a number where none belongs");
    if (key_ == "data_offsets") {
      if (begin_end_.size() == 2) return wrong_value();
      return begin_end_.push_back(value), true;
    }
    if (tensor_.shape.size() == kTensorDimensionsMax || value > static_cast<uint64_t>(INT64_MAX)) return wrong_value();
    return tensor_.shape.push_back(static_cast<int64_t>(value)), true;
  }
  bool number_integer(number_integer_t) override { return fail("has a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return fail("has a number that is not whole"); }
  bool boolean(bool) override { return fail("has a boolean"); }
  bool null() override { return fail("has a null"); }
  bool binary(binary_t&) override { return fail("has binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail(fmt::format("is not JSON (at byte {})", position));
  }

  bool fail(const std::string& what) {
    if (!error) error = Error(Code::kDataInvalid, fmt::format("{}: the safetensors header {}", file_, what));
    return false;
  }

 private:
  bool wrong_value() { return fail(fmt::format("has a wrong '{}' in tensor '{}'", shortened(key_), shortened(name_))); }

  bool end_tensor() {
    if (!has_type_ || !has_shape_ || begin_end_.size() != 2) {
      return fail(fmt::format("lacks dtype, shape or data_offsets in tensor '{}'", shortened(name_)));
    }
    tensor_.name = name_;
    tensor_.begin = begin_end_[0];
    tensor_.end = begin_end_[1];
    auto size = byte_size(tensor_.type, tensor_.shape);
    if (!size || tensor_.end < tensor_.begin || tensor_.end - tensor_.begin != *size) {
      return fail(fmt::format("gives tensor '{}' ({} {}) the bytes {} to {}, which is not its size", shortened(name_),
                              name_of(tensor_.type), shape_text(tensor_.shape), tensor_.begin, tensor_.end));
    }
    header.tensors.push_back(std::move(tensor_));
    return true;
  }

  const std::string& file_;
  std::set<std::string> names_;
  std::string name_, key_;
  TensorLayout tensor_;
  std::vector<uint64_t> begin_end_;
  int depth_ = 0;
  bool in_metadata_ = false, in_array_ = false;
  bool has_type_ = false, has_shape_ = false, has_offsets_ = false;
};

Status check_contiguous(const SafetensorsHeader& header, uint64_t data_size, const std::string& file) {
  uint64_t at = 0;
  for (const TensorLayout& tensor : header.tensors) {
    if (tensor.begin != at) {
      return Error(
          Code::kDataInvalid,
          fmt::format("{}: tensor '{}' begins at byte {} of the data, where {} is expected: tensors {}", file,
                      shortened(tensor.name), tensor.begin, at, tensor.begin < at ? "overlap" : "leave a hole"));
    }
    at = tensor.end;
  }
  if (at == data_size) return ok();
  return Error(Code::kDataInvalid,
               fmt::format("{}: the header describes {} bytes of tensors, the file has {}: it is {}", file, at,
                           data_size, data_size < at ? "truncated" : "too long"));
}

}  // namespace

std::string_view name_of(TensorType type) {
  return kTypes[static_cast<size_t>(type)].name;
}
uint64_t bytes_of(TensorType type) {
  return kTypes[static_cast<size_t>(type)].bytes;
}
std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

const TensorLayout* SafetensorsHeader::find(std::string_view name) const {
  auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const TensorLayout& tensor) { return tensor.name == name; });
  return at == tensors.end() ? nullptr : &*at;
}

Result<uint64_t> parse_safetensors_size(std::span<const uint8_t> first_bytes, uint64_t file_size,
                                        const std::string& file) {
  if (first_bytes.size() < 8 || file_size < 8) {
    return Error(Code::kDataInvalid, fmt::format("{}: {} bytes are too few for a safetensors file", file, file_size));
  }
  uint64_t size = 0;
  for (int i = 7; i >= 0; --i) size = size << 8 | first_bytes[static_cast<size_t>(i)];
  if (size > kSafetensorsHeaderBytesMax) {
    return Error(Code::kDataInvalid,
                 fmt::format("{}: a safetensors header of {} bytes, more than {}: this is no such file", file, size,
                             kSafetensorsHeaderBytesMax));
  }
  if (size > file_size - 8) {
    return Error(Code::kDataInvalid,
                 fmt::format("{}: truncated: a header of {} bytes in a file of {}", file, size, file_size));
  }
  return size;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, uint64_t data_size, const std::string& file) {
  HeaderHandler handler(file);
  if (text.empty() || text.front() != '{') {
    handler.fail("is not a JSON object");
  } else if (!nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) {
    handler.fail("cannot be read");
  }
  if (handler.error) return *std::move(handler.error);
  auto& tensors = handler.header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const TensorLayout& left, const TensorLayout& right) {
    return std::tie(left.begin, left.end, left.name) < std::tie(right.begin, right.end, right.name);
  });
  CAIRN_CHECK_OK(check_contiguous(handler.header, data_size, file));
  return std::move(handler.header);
}

Result<SafetensorsHeader> lay_out_tensors(std::vector<TensorLayout> tensors,
                                          std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorLayout& left, const TensorLayout& right) {
    return std::tie(right.type, left.name) < std::tie(left.type, right.name);
  });
  std::set<std::string_view> names;
  uint64_t at = 0;
  for (TensorLayout& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Error(Code::kRequestInvalid, fmt::format("two tensors are named '{}'", shortened(tensor.name)));
    }
    auto size = byte_size(tensor.type, tensor.shape);
    tensor.begin = at;
    if (!size || __builtin_add_overflow(at, *size, &at)) {
      return Error(Code::kLimitExceeded, fmt::format("tensor '{}' {} does not fit in a file", shortened(tensor.name),
                                                     shape_text(tensor.shape)));
    }
    tensor.end = at;
  }
  return SafetensorsHeader{std::move(tensors), std::move(metadata)};
}

std::string safetensors_header_bytes(const SafetensorsHeader& header) {
  auto quoted = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string text(8, '\0');
  text += '{';
  if (!header.metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) text += fmt::format("{}:{},", quoted(key), quoted(value));
    text.back() = '}';
    text += ',';
  }
  for (const TensorLayout& tensor : header.tensors) {
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", quoted(tensor.name),
                        name_of(tensor.type), fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t size = text.size() - 8;
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(size >> (8 * i) & 0xff);
  return text;
}

}  // namespace cairn::trainer
