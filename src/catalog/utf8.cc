#include "catalog/utf8.h"

#include <cstddef>
#include <cstdint>

namespace cairn::catalog {

bool is_catalog_text(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto lead = static_cast<uint8_t>(text[i]);
    if (lead == 0) return false;
    size_t more = lead < 0x80 ? 0 : (lead >= 0xC2 && lead <= 0xDF) ? 1 : (lead >> 4) == 0xE ? 2 : (lead >= 0xF0 && lead <= 0xF4) ? 3 : 4;
    if (more == 4 || i + more >= text.size()) return false;
    uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
    for (size_t k = 1; k <= more; ++k) {
      auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    if ((more == 2 && (point < 0x800 || surrogate)) || (more == 3 && (point < 0x10000 || point > 0x10FFFF))) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace cairn::catalog
