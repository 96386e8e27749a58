// Request bodies, queries, paths and error documents are arbitrary bytes from the network: decoding any of them must neither
// crash nor throw, and what is accepted must be written and read back to the same text. The first byte chooses the decoder.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/json.h"
#include "api/routes.h"
#include "api/types.h"

namespace {

using namespace cairn::api;

template <class T>
void decode(std::string_view text) {
  auto value = request_from_json<T>(text);
  if (!value) return;
  std::string once = to_json(*value);
  auto again = request_from_json<T>(once);
  if (!again || to_json(*again) != once) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 10) {
    case 0: decode<CreateVolume>(text); break;
    case 1: decode<RequestPacks>(text); break;
    case 2: decode<CreateRun>(text); break;
    case 3: decode<HeartbeatAttempt>(text); break;
    case 4: decode<RemovePaths>(text); break;
    case 5: decode<RegisterNode>(text); break;
    case 6: decode<Publish>(text); break;
    case 7: decode<FinishAttempt>(text); break;
    case 8: {
      auto query = Query::parse(text);
      if (query) {
        (void)query->hex("path");
        (void)query->number("limit", 0, 100);
      }
      (void)match_route("GET", text);
      (void)listing_cursor_from_text(text);
      break;
    }
    case 9:
      (void)error_from_json(text, 500);
      (void)time_from_rfc3339(text);
      break;
  }
  return 0;
}
