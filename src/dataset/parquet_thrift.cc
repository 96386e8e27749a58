#include "dataset/parquet_thrift.h"

#include "codec/bytes.h"

namespace cairn::dataset {
namespace {

constexpr int kSkipDepthMax = 32;

}  // namespace

uint8_t ThriftReader::byte() {
  if (!ok_) return 0;
  if (position_ == view_.size()) {
    ran_out_ = true;
    fail();
    return 0;
  }
  return view_[position_++];
}

uint64_t ThriftReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && ok_; shift += 7) {
    uint8_t part = byte();
    value |= static_cast<uint64_t>(part & 0x7F) << shift;
    if (part < 0x80) return value;
  }
  fail();
  return 0;
}

int64_t ThriftReader::zigzag() {
  uint64_t value = varint();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

bool ThriftReader::next(Field& field) {
  uint8_t head = byte();
  if (!ok_ || head == kStop) return false;
  field.type = head & 0x0F;
  int64_t id = head >> 4 != 0 ? field.id + (head >> 4) : zigzag();
  if (id < INT16_MIN || id > INT16_MAX || field.type == kStop || field.type > kStruct) fail();
  field.id = static_cast<int32_t>(id);
  return ok_;
}

int64_t ThriftReader::integer(const Field& field) {
  if (field.type == kI8) return static_cast<int8_t>(byte());
  if (field.type != kI16 && field.type != kI32 && field.type != kI64) fail();
  return ok_ ? zigzag() : 0;
}

bool ThriftReader::boolean(const Field& field) {
  if (field.type != kTrue && field.type != kFalse) fail();
  return field.type == kTrue;
}

std::string_view ThriftReader::binary(const Field& field) {
  if (field.type != kBinary) fail();
  return binary_element();
}

std::string_view ThriftReader::binary_element() {
  uint64_t size = varint();
  size_t start = position_;
  skip_bytes(size);
  return ok_ ? codec::as_text(view_.subspan(start, size)) : std::string_view();
}

bool ThriftReader::structure(const Field& field) {
  if (field.type != kStruct) fail();
  return ok_;
}

size_t ThriftReader::list(const Field& field, uint8_t type) {
  if (field.type != kList && field.type != kSet) fail();
  uint8_t head = byte();
  uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
  if (count > 0 && (head & 0x0F) != type) fail();
  // Every element takes a byte at least.
  if (ok_ && count > view_.size() - position_) {
    ran_out_ = true;
    fail();
  }
  return ok_ ? count : 0;
}

void ThriftReader::skip_bytes(uint64_t count) {
  if (!ok_) return;
  if (count > view_.size() - position_) {
    ran_out_ = true;
    fail();
    return;
  }
  position_ += count;
}

void ThriftReader::skip_elements(uint64_t count, uint8_t type, int depth) {
  for (uint64_t i = 0; i < count && ok_; ++i) {
    // In a list a boolean is a byte.
    if (type == kTrue || type == kFalse) {
      byte();
    } else {
      skip_value(type, depth);
    }
  }
}

void ThriftReader::skip_value(uint8_t type, int depth) {
  if (depth > kSkipDepthMax) fail();
  if (!ok_) return;
  switch (type) {
    case kTrue:
    case kFalse:
      return;
    case kI8:
      byte();
      return;
    case kI16:
    case kI32:
    case kI64:
      varint();
      return;
    case kDouble:
      skip_bytes(8);
      return;
    case kBinary:
      skip_bytes(varint());
      return;
    case kList:
    case kSet: {
      uint8_t head = byte();
      uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
      skip_elements(count, head & 0x0F, depth + 1);
      return;
    }
    case kMap: {
      uint64_t count = varint();
      uint8_t types = count > 0 ? byte() : uint8_t{0};
      for (uint64_t i = 0; i < count && ok_; ++i) {
        skip_elements(1, types >> 4, depth + 1);
        skip_elements(1, types & 0x0F, depth + 1);
      }
      return;
    }
    case kStruct: {
      Field field;
      while (next(field)) skip_value(field.type, depth + 1);
      return;
    }
    default:
      fail();
  }
}

}  // namespace cairn::dataset
