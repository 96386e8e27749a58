// CAIRN_CHECK states what only a programming error can break. It stays on in release builds and ends the process with the
// place and the condition. Data from disk, network or users never reaches a check before it was validated.
#pragma once

namespace cairn {

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

#define CAIRN_CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::cairn::check_failed(__FILE__, __LINE__, #condition))

}  // namespace cairn
