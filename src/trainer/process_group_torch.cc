// ProcessGroup on torch's c10d: gloo, and NCCL where torch was built with it.
#include <chrono>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif
#include <torch/version.h>

#include "trainer/process_group.h"
#include "trainer/torch_guard.h"

namespace cairn::trainer {
namespace {

#if TORCH_VERSION_MAJOR >= 2
using Backend = c10d::Backend;
#else
using Backend = c10d::ProcessGroup;
#endif

class TorchGroup final : public ProcessGroup {
 public:
  TorchGroup(const Membership& membership, c10::Device device, c10::intrusive_ptr<Backend> backend)
      : ProcessGroup(membership.rank, membership.size, device), backend_(std::move(backend)), timeout_(membership.timeout) {}

  Status sum(at::Tensor& tensor) override {
    return call("a sum over the processes", [&] {
      std::vector<at::Tensor> tensors{tensor};
      return backend_->allreduce(tensors);
    });
  }

  Status copy_from_first(at::Tensor& tensor) override {
    return call("a copy to the processes", [&] {
      std::vector<at::Tensor> tensors{tensor};
      return backend_->broadcast(tensors);
    });
  }

 private:
  template <class Start>
  Status call(const char* what, Start&& start) {
    auto begin = std::chrono::steady_clock::now();
    try {
      start()->wait();
      return ok();
    } catch (const std::exception& exception) {
      auto took = std::chrono::steady_clock::now() - begin;
      std::string text = error_of_torch(exception, what).message();
      if (took >= timeout_) {
        return Error(Code::kDeadlineExceeded, fmt::format("{} did not end within {} s: {}", what, timeout_.count() / 1'000'000, text),
                     "one process is stuck or very slow; dist_timeout_seconds sets the limit");
      }
      return Error(Code::kIoError, fmt::format("{} failed, another process is gone: {}", what, text));
    }
  }

  c10::intrusive_ptr<Backend> backend_;
  Duration timeout_;
};

c10::intrusive_ptr<Backend> make_backend(const Membership& membership, c10::Device device, c10::intrusive_ptr<c10d::Store> store) {
  auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(membership.timeout);
#ifdef USE_C10D_NCCL
  if (device.is_cuda()) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, membership.rank, membership.size, options);
  }
#else
  static_cast<void>(device);
#endif
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  // Loopback by address: a sandbox may have no other interface and no name for itself.
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 1;
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, membership.rank, membership.size, options);
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::join(const Membership& membership, c10::Device device) {
  if (membership.size == 1) return alone();
#ifndef USE_C10D_NCCL
  if (device.is_cuda()) {
    return Error(Code::kConfigUnsupported, "several processes on CUDA need NCCL, which this build does not have",
                 "set deployment.num_train_gpus = 1");
  }
#endif
  std::unique_ptr<ProcessGroup> group;
  CAIRN_CHECK_OK(guard_torch("meeting the other processes", [&]() -> Status {
    auto store = c10::make_intrusive<c10d::FileStore>(membership.store, membership.size);
    store->setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(membership.timeout));
    group = std::make_unique<TorchGroup>(membership, device, make_backend(membership, device, store));
    return ok();
  }));
  return group;
}

}  // namespace cairn::trainer
