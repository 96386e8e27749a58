// An Error says what went wrong in terms a user can act on: a code from the one table (error_codes.def), a message that
// names the object and the numbers, a hint with the next command, and, for conflicts, the holder. Layers add context on
// the way up with `while()`. Errors are values: nothing in Cairn throws across a module boundary.
//
// Thread-safe as any value type.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cairn {

enum class Code {
#define CAIRN_ERROR(name, wire, http, err, exit_code, retry) name,
#include "base/error_codes.def"
#undef CAIRN_ERROR
};

enum class RetryClass { kNever, kBackoff, kAfterHolder, kReadBack };

// The stable name that stands in JSON, logs and documentation, e.g. "lease_lost".
std::string_view wire_name(Code code);
int http_status(Code code);
int errno_of(Code code);
int exit_code(Code code);
RetryClass retry_class(Code code);
// The code with that wire name, or nothing for a name this build does not know.
std::optional<Code> code_from_wire(std::string_view wire);

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message, std::string hint = {})
      : code_(code), message_(std::move(message)), hint_(std::move(hint)) {}

  // An operating-system failure: "<what>: <strerror>". ENOSPC, ENOENT, EACCES … map to their own codes, others to io_error.
  static Error from_errno(int err, std::string_view what);

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  const std::string& holder() const { return holder_; }

  // Both return *this, so that an error can be completed where it is returned.
  Error& with_hint(std::string hint) & { hint_ = std::move(hint); return *this; }
  Error&& with_hint(std::string hint) && { hint_ = std::move(hint); return std::move(*this); }
  Error&& with_holder(std::string holder) && { holder_ = std::move(holder); return std::move(*this); }
  // Prepends what was being done: "while staging 'research': <message>".
  Error&& while_doing(std::string_view what) &&;

  // "lease_lost: <message>" for logs.
  std::string to_string() const;

 private:
  Code code_;
  std::string message_;
  std::string hint_;
  std::string holder_;
};

}  // namespace cairn
