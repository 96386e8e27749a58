// Any bytes as a row; what is read renders in both formats, with bodies in order and inside the text.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "dataset/conversation.h"
#include "dataset/renderer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::dataset;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto value = parse_json(text);
  if (!value) return 0;
  // What was printed reads back as the same.
  std::string printed = python_json(*value);
  auto again = parse_json(printed);
  CAIRN_CHECK(again && python_json(*again) == printed);
  for (bool columns : {false, true}) {
    auto conversation = conversation_of(*value, "row 1", columns);
    if (!conversation) continue;
    for (ChatFormat format : {ChatFormat::kQwen3, ChatFormat::kPrimeQwen3}) {
      RenderedText rendered = make_renderer({format, columns})->render(*conversation);
      size_t last = 0;
      for (const BodySpan& body : rendered.bodies) {
        CAIRN_CHECK(body.begin >= last && body.begin < body.end && body.end <= rendered.text.size());
        last = body.end;
      }
    }
  }
  return 0;
}
