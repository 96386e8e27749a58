// A device that is not the CPU, for machines without a GPU: tensors of torch's spare device type whose memory is the
// host's and whose operations are the CPU's. It refuses an operation that mixes its tensors with the CPU's, as a GPU
// does, and takes the trainer's ways for devices other than the CPU. For tests; links into one program at most.
#pragma once

#include <c10/core/Device.h>

namespace cairn::trainer {

inline c10::Device stand_in_device() {
  return c10::Device(c10::DeviceType::PrivateUse1, 0);
}

}  // namespace cairn::trainer
