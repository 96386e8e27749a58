// What tells this machine and this start of it from others.
#pragma once

#include <string>

#include "base/result.h"

namespace cairn::os {

std::string host_name();
// Changes with every boot: tells a journal written before a power loss from one written since.
Result<std::string> boot_id();
// Logical processors this process may run on.
size_t usable_cpus();
Result<std::string> current_directory();
// Absolute path of the running program.
Result<std::string> executable_path();
// Absolute path of a program that was installed in the running one's folder; file_not_found names it when it was not.
Result<std::string> program_beside(const std::string& name);

}  // namespace cairn::os
