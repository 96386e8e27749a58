// Thrift's compact protocol as Parquet's footer and page headers use it: walks over fields, skips what nobody asked for. Like
// codec::ByteReader it fails for good at the first thing that does not fit, and then gives zeros and ends every loop.
//
//   ThriftReader::Field field;                     // one for each struct that is walked
//   while (reader.next(field)) {
//     if (field.id == 3) rows = reader.integer(field);
//     else reader.skip(field);
//   }
#pragma once

#include <cstdint>
#include <string_view>

#include "codec/bytes.h"

namespace cairn::dataset {

class ThriftReader {
 public:
  explicit ThriftReader(codec::ByteView view) : view_(view) {}

  enum Type : uint8_t { kStop = 0, kTrue = 1, kFalse = 2, kI8 = 3, kI16 = 4, kI32 = 5, kI64 = 6, kDouble = 7, kBinary = 8, kList = 9,
                        kSet = 10, kMap = 11, kStruct = 12 };
  struct Field {
    int32_t id = 0;
    uint8_t type = kStop;
  };

  // The next field of a struct whose fields are walked with this `field`; false at its end.
  bool next(Field& field);
  int64_t integer(const Field& field);   // i8 to i64
  bool boolean(const Field& field);
  std::string_view binary(const Field& field);
  // Begins a struct: its fields follow with a Field of their own.
  bool structure(const Field& field);
  // Begins a list of elements of `type`; their number is at most the bytes that are left.
  size_t list(const Field& field, uint8_t type);
  // An element of a list of strings or integers.
  std::string_view binary_element();
  int64_t integer_element() { return zigzag(); }
  void skip(const Field& field) { skip_value(field.type, 0); }

  bool ok() const { return ok_; }
  // The input ended too early, as opposed to holding nonsense.
  bool ran_out() const { return ran_out_; }
  size_t position() const { return position_; }

 private:
  uint8_t byte();
  uint64_t varint();
  int64_t zigzag();
  void fail() { ok_ = false; }
  void skip_bytes(uint64_t count);
  void skip_value(uint8_t type, int depth);
  void skip_elements(uint64_t count, uint8_t type, int depth);

  codec::ByteView view_;
  size_t position_ = 0;
  bool ok_ = true, ran_out_ = false;
};

}  // namespace cairn::dataset
