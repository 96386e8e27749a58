#include <signal.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/logged_error.h"
#include "cli/one_box.h"
#include "cli/settings_file.h"
#include "os/file_system.h"
#include "os/host.h"

namespace cairn::cli {
namespace {

struct Options {
  OneBoxOptions box;
  bool detach = false;
};

constexpr auto kReadyTime = minutes(3);

Result<std::string> absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  CAIRN_TRY(std::string here, os::current_directory());
  return here + "/" + path;
}

// The first box on this machine becomes the user's server; a configuration that is there is left alone.
Result<std::string> keep_as_default(Context& context, const OneBoxReady& ready) {
  std::string path = context.config_path();
  if (path.empty()) return std::string();
  CAIRN_TRY(bool there, os::posix_file_system().exists(path));
  if (there) return std::string();
  config::ClientSettings settings;
  settings.url = ready.url;
  settings.token = ready.admin_token;
  settings.ca_file = ready.ca_file;
  CAIRN_CHECK_OK(save_settings(path, settings));
  return path;
}

Result<std::string> box_url(const std::string& data_dir) {
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(data_dir + "/ready", 4096));
  size_t begin = text.find("http");
  size_t end = text.find('"', begin);
  return begin == std::string::npos || end == std::string::npos ? std::string() : text.substr(begin, end - begin);
}

void say_ready(Context& context, const std::string& url, const std::string& data_dir, const std::string& config_file) {
  Output& output = context.output();
  if (output.json()) {
    output.document(JsonText().add("url", url).add("data_dir", data_dir).add("admin_token_file", data_dir + "/admin-token").str());
    return;
  }
  output.line("Cairn runs at " + url + ", everything below " + data_dir);
  if (!config_file.empty()) output.line("signed in: " + config_file);
  output.line("next: cairn volumes create research --size 100Gi");
}

Result<int> run_attached(Context& context, const OneBoxOptions& options) {
  OneBox box(options, [&](const std::string& url, const std::string& token, const std::string& ca_file) {
    return context.make_client(url, token, ca_file);
  });
  CAIRN_CHECK_OK(box.prepare());
  CAIRN_TRY(OneBoxReady ready, box.start(context.cancel()));
  CAIRN_TRY(std::string config_file, keep_as_default(context, ready));
  say_ready(context, ready.url, options.data_dir, config_file);
  CAIRN_CHECK_OK(box.run_until(context.cancel()));
  context.output().note("stopped; start again with: cairn up --data " + options.data_dir);
  return 0;
}

// Starts the same command in the background and waits until it says that it is ready.
Result<int> run_detached(Context& context, const OneBoxOptions& options) {
  const std::string& dir = options.data_dir;
  CAIRN_TRY(auto running, one_box_pid(dir));
  if (running) {
    return Error(Code::kBusy, "Cairn runs in " + dir + " already (process " + std::to_string(*running) + ")",
                 "end it with: cairn down --data " + dir);
  }
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(dir + "/logs", 0700));
  static_cast<void>(os::posix_file_system().remove(dir + "/ready"));
  std::string log_file = dir + "/logs/up.log";
  CAIRN_TRY(os::Fd log, os::open_append_fd(log_file, 0600));
  CAIRN_TRY(os::FileStat before, os::posix_file_system().stat(log_file));
  const uint64_t log_start = before.size;
  CAIRN_TRY(std::string program, os::executable_path());
  os::SpawnOptions spawn;
  spawn.argv = {program, "up", "--data", dir};
  for (auto [flag, value] : {std::pair{"--listen", &options.listen}, {"--store", &options.store}, {"--catalog", &options.catalog}}) {
    if (!value->empty()) spawn.argv.insert(spawn.argv.end(), {flag, *value});
  }
  if (!context.global().config_file.empty()) spawn.argv.insert(spawn.argv.end(), {"--config-file", context.global().config_file});
  if (options.restored) spawn.argv.push_back("--restored");
  spawn.stdout_fd = log.get();
  spawn.stderr_fd = log.get();
  spawn.cwd = "/";
  spawn.new_session = true;
  CAIRN_TRY(os::Process process, os::Process::spawn(spawn));
  Deadline deadline = Deadline::after(kReadyTime, system_clock(), context.cancel());
  for (;;) {
    if (context.cancel().cancelled()) return deadline.check().error();
    if (deadline.expired()) {
      return Error(Code::kServerUnavailable, "it is not ready after " + std::to_string(kReadyTime.count()) + " minutes, and goes on trying",
                   "read " + log_file + ", or end it with: cairn down --data " + dir);
    }
    CAIRN_TRY(bool ready, os::posix_file_system().exists(dir + "/ready"));
    if (ready) break;
    CAIRN_TRY(auto ended, process.try_wait());
    if (ended) {
      CAIRN_TRY(std::string text, os::posix_file_system().read_file(log_file, 64 << 20));
      text.erase(0, log_start);
      auto said = last_logged_error(text);
      if (said) return *said;
      return Error(Code::kServerUnavailable, "it did not start: " + ended->to_string(), "read " + log_file);
    }
    system_clock().sleep_for(milliseconds(30));
  }
  process.detach();
  CAIRN_TRY(std::string url, box_url(dir));
  say_ready(context, url, dir, "");
  return 0;
}

}  // namespace

void add_up(Verb root) {
  auto options = std::make_shared<Options>();
  root.add("up", "Start a whole Cairn on this box: server, agent and store")
      .text("--data", options->box.data_dir, "The folder for everything", true)
      .text("--listen", options->box.listen, "HOST:PORT (default 127.0.0.1:8470)")
      .text("--store", options->box.store, "Folder of the object store (default: in --data)")
      .text("--catalog", options->box.catalog, "File of the catalog, or postgresql://... (default: in --data)")
      .flag("--restored", options->box.restored, "The catalog was restored from a backup: once, at the first start with it")
      .flag("--detach", options->detach, "Return when it is ready, and leave it running")
      .footer("Ctrl-C or SIGTERM ends it cleanly: runs are drained and what they changed is saved.")
      .run([options](Context& context) -> Result<int> {
        CAIRN_TRY(options->box.data_dir, absolute(options->box.data_dir));
        CAIRN_TRY(options->box.store, absolute(options->box.store));
        if (options->box.catalog.find("://") == std::string::npos) {
          CAIRN_TRY(options->box.catalog, absolute(options->box.catalog));
        }
        CAIRN_CHECK_OK(check_box_folder(options->box.data_dir));
        return options->detach ? run_detached(context, options->box) : run_attached(context, options->box);
      });
}

}  // namespace cairn::cli
