// The processes that train one model together, each with its share of every batch: sums over them and copies from the first. One
// process alone is a group too, whose operations do nothing. CPU tensors go through gloo on the loopback interface, CUDA tensors
// through NCCL, where this build has them.
//
// All processes must make the same calls in the same order. An operation that does not end within the time limit, or whose other
// side is gone, is deadline_exceeded or io_error. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

#include "base/clock.h"
#include "base/result.h"

namespace cairn::trainer {

struct Membership {
  int rank = 0;
  int size = 1;
  std::string store;  // file through which the processes find each other
  Duration timeout = seconds(3600);
};

class ProcessGroup {
 public:
  static std::unique_ptr<ProcessGroup> alone();
  // Waits for the others. config_unsupported: this build has no NCCL or gloo for several processes on such a device.
  static Result<std::unique_ptr<ProcessGroup>> join(const Membership& membership, c10::Device device);
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_first() const { return rank_ == 0; }

  // In place, over all processes. REQUIRES: on the group's device, contiguous, of the same shape everywhere.
  virtual Status sum(at::Tensor& tensor) = 0;
  // The first process's bytes, everywhere.
  virtual Status copy_from_first(at::Tensor& tensor) = 0;

  Status sum(std::span<double> values);
  // The same for one large flat tensor, a piece at a time. Alone they do nothing.
  Status sum_in_pieces(const at::Tensor& flat);
  Status copy_from_first_in_pieces(const at::Tensor& flat);
  // Ok only when every process says ok: the own error, or that another process has failed.
  Status agree(const Status& mine, std::string_view what);

 protected:
  ProcessGroup(int rank, int size, c10::Device device) : rank_(rank), size_(size), device_(device) {}

 private:
  int rank_;
  int size_;
  c10::Device device_;
};

}  // namespace cairn::trainer
