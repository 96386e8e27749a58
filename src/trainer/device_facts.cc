#include "trainer/device_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#ifdef CAIRN_TRAINER_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#endif
#include <fmt/format.h>

#include "trainer/runtime.h"

namespace cairn::trainer {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

// Dense bf16.
#ifdef CAIRN_TRAINER_CUDA
double peak_flops_of_gpu(const std::string& name) {
  if (name.find("A100") != std::string::npos) return 312e12;
  if (name.find("H100") != std::string::npos || name.find("H200") != std::string::npos) return 989e12;
  if (name.find("B200") != std::string::npos) return 2250e12;
  return 0;
}
#endif

double memory_of_machine_gib() {
  double total = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  // A container's own limit, where there is one: a number of bytes, or "max".
  if (std::ifstream file("/sys/fs/cgroup/memory.max"); file) {
    uint64_t limit = 0;
    if (file >> limit && limit > 0) total = std::min(total, static_cast<double>(limit));
  }
  return total / kGib;
}

// What says that the run is to have GPUs; empty: nothing does.
std::string wish_for_gpus(const GpuSight& gpus) {
  if (gpus.given_devices) {
    const std::string& given = *gpus.given_devices;
    bool none = given.empty() || given == "-1" || given == "NoDevFiles";
    return none ? std::string() : "CUDA_VISIBLE_DEVICES=" + given;
  }
  const std::string& type = gpus.wished_type;
  bool none = type.empty() || type == "cpu" || type == "0" || type.ends_with(":0");
  return none ? std::string() : "gpu_type = \"" + type + "\"";
}

}  // namespace

GpuSight look_for_gpus(const std::string& wished_type) {
  GpuSight gpus;
  gpus.wished_type = wished_type;
  if (const char* given = std::getenv("CUDA_VISIBLE_DEVICES")) gpus.given_devices = given;
#ifdef CAIRN_TRAINER_CUDA
  gpus.built = true;
  if (at::hasCUDA()) gpus.usable = static_cast<int>(at::cuda::device_count());
#endif
  return gpus;
}

Result<c10::Device> training_device(const GpuSight& gpus, int rank, int size) {
  if (gpus.usable == 0) {
    std::string wish = wish_for_gpus(gpus);
    if (wish.empty()) return c10::Device(c10::kCPU);
    return Error(Code::kGpuTypeUnavailable,
                 fmt::format("the run is to train on GPUs ({}), but {}", wish,
                             gpus.built ? "CUDA finds none that it can use" : "this cairn-trainer is built without CUDA"),
                 fmt::format("{}; to train on the CPU, start it with --gpu-type cpu (by hand with CUDA_VISIBLE_DEVICES= )",
                             gpus.built ? "nvidia-smi on the node shows whether driver and GPU work"
                                        : "put a cairn-trainer with CUDA on the node"));
  }
  if (size > gpus.usable) {
    return Error(Code::kGpuTypeUnavailable, fmt::format("{} processes want a GPU each, and {} can be used", size, gpus.usable),
                 fmt::format("lower deployment.num_train_gpus (--processes) to {}, or train on the CPU: CUDA_VISIBLE_DEVICES= ", gpus.usable));
  }
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(rank));
}

bool has_bfloat16(c10::Device device) {
#ifdef CAIRN_TRAINER_CUDA
  if (device.is_cuda()) return at::cuda::getDeviceProperties(device.index())->major >= 8;
#endif
  return device.is_cpu() && cpu_has_bfloat16();
}

DeviceFacts::DeviceFacts(c10::Device device) : device_(device), name_("CPU") {
#ifdef CAIRN_TRAINER_CUDA
  if (device.is_cuda()) {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(device.index());
    name_ = properties->name;
    total_memory_gib_ = static_cast<double>(properties->totalGlobalMem) / kGib;
    peak_flops_ = peak_flops_of_gpu(name_);
    return;
  }
#endif
  total_memory_gib_ = memory_of_machine_gib();
}

std::string DeviceFacts::text() const {
  std::string peak = peak_flops_ > 0 ? fmt::format(", {:.0f} TFLOP/s bf16 peak", peak_flops_ / 1e12) : "";
  return fmt::format("{} ({:.1f} GiB memory{})", name_, total_memory_gib_, peak);
}

double DeviceFacts::mfu_percent(double tokens_per_second, const DecoderSpec& spec, int64_t sequence_length) const {
  if (peak_flops_ <= 0) return std::numeric_limits<double>::quiet_NaN();
  return 100 * flops_per_token(spec, sequence_length) * tokens_per_second / peak_flops_;
}

double DeviceFacts::peak_memory_gib() const {
#ifdef CAIRN_TRAINER_CUDA
  if (device_.is_cuda()) {
    auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(device_.index());
    return static_cast<double>(stats.reserved_bytes[0].peak) / kGib;
  }
#endif
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / kGib;
}

}  // namespace cairn::trainer
