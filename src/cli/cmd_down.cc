#include <signal.h>

#include "cli/commands.h"
#include "cli/one_box.h"
#include "os/file_system.h"
#include "os/process.h"

namespace cairn::cli {

void add_down(Verb root) {
  auto data = std::make_shared<std::string>();
  root.add("down", "End what 'cairn up' started: runs are drained, what they changed is saved")
      .text("--data", *data, "The folder given to 'cairn up'", true)
      .run([data](Context& context) -> Result<int> {
        CAIRN_CHECK_OK(check_box_folder(*data));
        CAIRN_TRY(bool there, os::posix_file_system().exists(*data));
        if (!there) return Error(Code::kFileNotFound, "there is no folder " + *data);
        CAIRN_TRY(auto running, one_box_pid(*data));
        if (!running) {
          context.output().line("nothing runs in " + *data);
          return 0;
        }
        CAIRN_CHECK_OK(os::signal_process(*running, SIGTERM));
        Time noted = system_clock().now();
        while (!context.cancel().cancelled()) {
          CAIRN_TRY(auto still, one_box_pid(*data));
          if (!still || *still != *running) {
            context.output().line("stopped; start again with: cairn up --data " + *data);
            return 0;
          }
          if (system_clock().now() - noted > Duration(seconds(10))) {
            context.output().note("waiting for runs to end and save what they changed ...");
            noted = system_clock().now();
          }
          system_clock().sleep_for(milliseconds(30));
        }
        return Error(Code::kCancelled, "it is still ending", "watch " + *data + "/logs/up.log");
      });
}

}  // namespace cairn::cli
