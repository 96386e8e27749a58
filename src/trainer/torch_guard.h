// Keeps torch's exceptions in the file that called torch.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <c10/util/Exception.h>

#include "base/result.h"

namespace cairn::trainer {

// limit_exceeded when memory is short, else internal with torch's words.
Error error_of_torch(const std::exception& exception, const char* what);

// The result of `function`, which returns a Result or Status and may throw; `what` says what was being done ("the
// backward pass").
template <class Function>
auto guard_torch(const char* what, Function&& function) -> std::invoke_result_t<Function> {
  try {
    return std::forward<Function>(function)();
  } catch (const std::exception& exception) {
    return error_of_torch(exception, what);
  }
}

}  // namespace cairn::trainer
