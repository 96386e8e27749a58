// How deep the arrays and objects of a JSON text stand within each other, before anything is built of it: what parses, copies,
// compares or prints a document may call itself once for each level, and a hostile text would use up the stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace cairn::codec {

// Whether any stands more than `levels` deep. Of what is no JSON it says something. Pure; linear.
bool json_deeper_than(std::string_view text, size_t levels);

}  // namespace cairn::codec
