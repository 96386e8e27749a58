// The check that every store makes before it reads a range.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "object/object_key.h"

namespace cairn::object {

// data_corrupt unless [offset, offset + length) lies within an object of `size` bytes.
inline Status check_range(const ObjectKey& key, uint64_t size, uint64_t offset, uint64_t length) {
  if (offset <= size && length <= size - offset) return ok();
  return Error(Code::kDataCorrupt, "object " + key.text() + " has " + std::to_string(size) + " bytes; " +
                                       std::to_string(length) + " at " + std::to_string(offset) + " were asked for");
}

inline Error object_not_found(const ObjectKey& key) {
  return Error(Code::kObjectNotFound, "there is no object " + key.text());
}
inline Error object_exists(const ObjectKey& key) {
  return Error(Code::kObjectExists, "object " + key.text() + " is already there");
}

// For writers: what was appended against what was declared.
inline Error wrong_size(const ObjectKey& key, uint64_t declared, uint64_t given) {
  return Error(Code::kRequestInvalid, "object " + key.text() + " was declared with " + std::to_string(declared) +
                                          " bytes and got " + std::to_string(given));
}

}  // namespace cairn::object
