#include "programs.h"
#include "server/instance.h"

namespace cairn::apps {

Result<int> run_server(const std::string& config_file, CancelToken stop, bool restored) {
  CAIRN_CHECK_OK(server::serve(config_file, stop, restored));
  return 0;
}

}  // namespace cairn::apps
