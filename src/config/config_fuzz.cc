// Training configs come from users and are read by the server: no text may crash it.
#include <cstdint>
#include <string_view>

#include "config/client_settings.h"
#include "config/server_settings.h"
#include "config/training_head.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)cairn::config::read_training_head(text, "fuzz.toml");
  (void)cairn::config::parse_server_settings(text, "fuzz.toml");
  (void)cairn::config::parse_client_settings(text, "fuzz.toml");
  return 0;
}
