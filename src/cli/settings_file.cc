#include "cli/settings_file.h"

#include "os/file_system.h"

namespace cairn::cli {

Status save_settings(const std::string& path, const config::ClientSettings& settings) {
  if (path.empty()) {
    return Error(Code::kUsage, "there is no place for the configuration: neither HOME nor CAIRN_CONFIG is set");
  }
  size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    CAIRN_CHECK_OK(os::posix_file_system().make_directories(path.substr(0, slash), 0700));
  }
  std::string text = config::render_client_settings(settings);
  return os::posix_file_system().write_file_atomic(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 0600);
}

}  // namespace cairn::cli
