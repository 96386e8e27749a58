#include "trainer/torch_guard.h"

#include <fmt/core.h>

namespace cairn::trainer {

Error error_of_torch(const std::exception& exception, const char* what) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&exception);
  std::string text = torch_error != nullptr ? torch_error->what_without_backtrace() : exception.what();
  bool short_of_memory = dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ||
                         text.find("not enough memory") != std::string::npos ||
                         text.find("out of memory") != std::string::npos;
  if (short_of_memory) {
    return Error(Code::kLimitExceeded, fmt::format("{} needs more memory than there is: {}", what, text.substr(0, 400)),
                 "lower data.micro_batch_size or data.seq_len, or set [model.ac]");
  }
  return Error(Code::kInternal, fmt::format("{} failed in libtorch: {}", what, text.substr(0, 2000)));
}

}  // namespace cairn::trainer
