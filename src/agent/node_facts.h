// What this machine has: processors, memory, disk, GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/result.h"

namespace cairn::agent {

struct Gpu {
  int64_t index = 0;  // /dev/nvidia<index>
  std::string name;
};

// NVIDIA devices by /proc/driver/nvidia and /dev; empty where there are none.
std::vector<Gpu> find_gpus(const std::string& proc_dir = "/proc/driver/nvidia/gpus", const std::string& dev_dir = "/dev");
// Facts for registering; the disk is the one `state_dir` lies on.
Result<api::RegisterNode> node_facts(const std::string& name, const std::string& state_dir);

}  // namespace cairn::agent
