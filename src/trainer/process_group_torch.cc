// ProcessGroup on torch's c10d: gloo and NCCL, each where the build found its headers.
#include <chrono>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/version.h>
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#ifdef USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

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

[[maybe_unused]] std::chrono::milliseconds timeout_of(const Membership& membership) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(membership.timeout);
}

#ifdef USE_C10D_NCCL
c10::intrusive_ptr<Backend> make_nccl(const Membership& membership, c10::intrusive_ptr<c10d::Store> store) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout_of(membership);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, membership.rank, membership.size, options);
}
#endif

#ifdef USE_C10D_GLOO
c10::intrusive_ptr<Backend> make_gloo(const Membership& membership, c10::intrusive_ptr<c10d::Store> store) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout_of(membership));
  // Loopback by address: a sandbox may have no other interface and no name for itself.
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 1;
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, membership.rank, membership.size, options);
}
#endif

using MakeBackend = c10::intrusive_ptr<Backend> (*)(const Membership& membership, c10::intrusive_ptr<c10d::Store> store);

// Null: this build has none for such a device.
MakeBackend backend_for(c10::Device device) {
  if (device.is_cuda()) {
#ifdef USE_C10D_NCCL
    return make_nccl;
#else
    return nullptr;
#endif
  }
#ifdef USE_C10D_GLOO
  return make_gloo;
#else
  return nullptr;
#endif
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::join(const Membership& membership, c10::Device device) {
  if (membership.size == 1) return alone();
  MakeBackend make_backend = backend_for(device);
  if (make_backend == nullptr) {
    const char* what = device.is_cuda() ? "CUDA need NCCL" : "the CPU need gloo";
    return Error(Code::kConfigUnsupported, fmt::format("several processes on {}, which this cairn-trainer is built without", what),
                 "set deployment.num_train_gpus = 1 (--processes 1)");
  }
  std::unique_ptr<ProcessGroup> group;
  CAIRN_CHECK_OK(guard_torch("meeting the other processes", [&]() -> Status {
    auto store = c10::make_intrusive<c10d::FileStore>(membership.store, membership.size);
    store->setTimeout(std::chrono::duration_cast<std::chrono::milliseconds>(membership.timeout));
    group = std::make_unique<TorchGroup>(membership, device, make_backend(membership, store));
    return ok();
  }));
  return group;
}

}  // namespace cairn::trainer
