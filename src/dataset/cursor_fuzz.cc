// Any bytes as the cursor of fake data: what is taken is written again as the same counts, and gives a row.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "dataset/fake_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::dataset;
  FakeRowsOptions options;
  options.seq_len = 4;
  options.vocab_size = 3;
  options.variable_length = true;
  auto rows = make_fake_rows(options);
  CAIRN_CHECK(rows);
  if (!(*rows)->restore({reinterpret_cast<const char*>(data), size})) return 0;
  auto again = make_fake_rows(options);
  CAIRN_CHECK(again && (*again)->restore((*rows)->cursor()) && (*again)->cursor() == (*rows)->cursor());
  CAIRN_CHECK((*rows)->next());
  return 0;
}
