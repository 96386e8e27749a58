// The first byte chooses the parser. What is accepted writes and reads back as the same value.
#include "base/check.h"
#include "trainer/checkpoint_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::trainer;
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    auto marker = parse_marker(text, "input");
    if (!marker) return 0;
    std::string written = write_marker(*marker);
    auto again = parse_marker(written, "written");
    CAIRN_CHECK(again.has_value());
    CAIRN_CHECK(write_marker(*again) == written);
  } else {
    auto state = parse_state(text, "input");
    if (!state) return 0;
    std::string written = write_state(*state);
    auto again = parse_state(written, "written");
    CAIRN_CHECK(again.has_value());
    CAIRN_CHECK(write_state(*again) == written);
  }
  return 0;
}
