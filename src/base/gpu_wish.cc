#include "base/gpu_wish.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/whole_number.h"

namespace cairn {
namespace {

bool is_cpu(std::string_view type) {
  return type.size() == 3 && std::equal(type.begin(), type.end(), "cpu", [](char a, char b) { return (a | 0x20) == b; });
}

}  // namespace

Result<GpuWish> parse_gpu(std::string_view text) {
  constexpr int64_t kGpusMax = 1024;
  GpuWish wish;
  if (text.empty() || text == "cpu") return wish;
  std::string_view count = text;
  if (!whole_number<int64_t>(text)) {
    size_t colon = text.find(':');
    wish.type = std::string(text.substr(0, colon));
    count = colon == std::string_view::npos ? "1" : text.substr(colon + 1);
  }
  bool letter_first = wish.type.empty() || std::isalpha(static_cast<unsigned char>(wish.type[0])) != 0;
  bool type_ok = letter_first && std::all_of(wish.type.begin(), wish.type.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
  wish.count = whole_number<int64_t>(count).value_or(-1);
  if (!type_ok || wish.type.size() > 64 || wish.count < 0 || wish.count > kGpusMax) {
    return Error(Code::kUsage, fmt::format("'{}' is no number of GPUs", text), "write cpu, a number, a type, or TYPE:NUMBER");
  }
  if (is_cpu(wish.type)) {
    return Error(Code::kUsage, fmt::format("'{}' is no number of GPUs: cpu asks for none, and stands alone", text),
                 "write cpu; processes on a CPU are [deployment] num_train_gpus");
  }
  if (wish.count == 0) wish.type.clear();
  return wish;
}

}  // namespace cairn
