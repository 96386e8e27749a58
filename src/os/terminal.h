// What the command line asks of a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace cairn::os {

bool is_terminal(int fd);
// Columns, or `otherwise` when `fd` is no terminal.
size_t terminal_width(int fd, size_t otherwise = 80);
// Asks on the terminal without showing what is typed; file_unreadable when there is no terminal.
Result<std::string> read_hidden_line(const std::string& prompt);

}  // namespace cairn::os
