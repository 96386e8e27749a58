#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace cairn {
namespace {

struct Row {
  std::string_view wire;
  int http;
  int err;
  int exit_code;
  RetryClass retry;
};

constexpr Row kRows[] = {
#define CAIRN_ERROR(name, wire, http, err, exit_code, retry) {wire, http, err, exit_code, RetryClass::retry},
#include "base/error_codes.def"
#undef CAIRN_ERROR
};

const Row& row(Code code) { return kRows[static_cast<size_t>(code)]; }

Code code_of_errno(int err) {
  switch (err) {
    case ENOSPC:
    case EDQUOT: return Code::kNoSpaceLeft;
    case ENOENT: return Code::kFileNotFound;
    case EACCES:
    case EPERM: return Code::kFileUnreadable;
    case EEXIST: return Code::kFileExists;
    case ENOTDIR:
    case EISDIR:
    case ELOOP: return Code::kPathTypeConflict;
    default: return Code::kIoError;
  }
}

}  // namespace

std::string_view wire_name(Code code) { return row(code).wire; }
int http_status(Code code) { return row(code).http; }
int errno_of(Code code) { return row(code).err; }
int exit_code(Code code) { return row(code).exit_code; }
RetryClass retry_class(Code code) { return row(code).retry; }

std::optional<Code> code_from_wire(std::string_view wire) {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].wire == wire) return static_cast<Code>(i);
  }
  return std::nullopt;
}

Error Error::from_errno(int err, std::string_view what) {
  char buffer[128];
  return Error(code_of_errno(err), std::string(what) + ": " + strerror_r(err, buffer, sizeof buffer));
}

Error&& Error::while_doing(std::string_view what) && {
  message_ = "while " + std::string(what) + ": " + message_;
  return std::move(*this);
}

std::string Error::to_string() const { return std::string(wire_name(code_)) + ": " + message_; }

}  // namespace cairn
