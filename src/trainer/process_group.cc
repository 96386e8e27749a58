#include "trainer/process_group.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "trainer/torch_guard.h"

namespace cairn::trainer {
namespace {

constexpr int64_t kPieceElementsMax = 8 * 1024 * 1024;  // 32 MiB of fp32

class Alone final : public ProcessGroup {
 public:
  Alone() : ProcessGroup(0, 1, c10::Device(c10::kCPU)) {}
  Status sum(at::Tensor&) override { return ok(); }
  Status copy_from_first(at::Tensor&) override { return ok(); }
};

}  // namespace

std::unique_ptr<ProcessGroup> ProcessGroup::alone() { return std::make_unique<Alone>(); }

Status ProcessGroup::sum(std::span<double> values) {
  if (size_ == 1) return ok();
  return guard_torch("summing over the processes", [&]() -> Status {
    at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kDouble);
    std::copy(values.begin(), values.end(), tensor.data_ptr<double>());
    tensor = tensor.to(device_);
    CAIRN_CHECK_OK(sum(tensor));
    tensor = tensor.cpu();
    std::copy_n(tensor.data_ptr<double>(), values.size(), values.begin());
    return ok();
  });
}

Status ProcessGroup::sum_in_pieces(const at::Tensor& flat) {
  if (size_ == 1) return ok();
  return guard_torch("summing gradients", [&]() -> Status {
    c10::NoGradGuard no_grad;
    for (int64_t begin = 0; begin < flat.numel(); begin += kPieceElementsMax) {
      at::Tensor piece = flat.narrow(0, begin, std::min(kPieceElementsMax, flat.numel() - begin));
      CAIRN_CHECK_OK(sum(piece));
    }
    return ok();
  });
}

Status ProcessGroup::copy_from_first_in_pieces(const at::Tensor& flat) {
  if (size_ == 1) return ok();
  return guard_torch("copying the first process's parameters", [&]() -> Status {
    c10::NoGradGuard no_grad;
    for (int64_t begin = 0; begin < flat.numel(); begin += kPieceElementsMax) {
      at::Tensor piece = flat.narrow(0, begin, std::min(kPieceElementsMax, flat.numel() - begin)).detach();
      CAIRN_CHECK_OK(copy_from_first(piece));
    }
    return ok();
  });
}

Status ProcessGroup::agree(const Status& mine, std::string_view what) {
  double failed = mine ? 0 : 1;
  Status summed = sum({&failed, 1});
  if (!mine) return mine;
  CAIRN_CHECK_OK(summed);
  if (failed > 0) return Error(Code::kInternal, fmt::format("{}: another process has failed", what));
  return ok();
}

}  // namespace cairn::trainer
