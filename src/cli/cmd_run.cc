#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/run_request.h"
#include "cli/run_text.h"

namespace cairn::cli {
namespace {

constexpr int kCairnFailed = 125;

struct Options {
  MountOptions mounts;
  std::string gpu, node;
  std::vector<std::string> environment;
  bool no_upload = false, detach = false, queue = false;
};

Result<api::Run> start(Context& context, client::ApiClient& client, const Options& options,
                       const std::vector<std::string>& command) {
  api::CreateRun request;
  request.command = command;
  CAIRN_TRY(request.mounts, mount_requests(options.mounts));
  request.gpu = options.gpu;
  request.node = options.node;
  request.queue = options.queue;
  for (const std::string& pair : options.environment) {
    size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error(Code::kUsage, "--env '" + pair + "' is not NAME=VALUE");
    }
    request.environment[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  if (!options.no_upload) {
    CAIRN_TRY(request.workspace, upload_working_directory(context, client));
  }
  auto run = submit_run(context, client, request);
  if (!run && !request.workspace.empty() && run.error().code() != Code::kOutcomeUnknown) {
    static_cast<void>(client.delete_volume(request.workspace, true, Deadline::after(seconds(10))));
  }
  return run;
}

Result<int> run_command(Context& context, const Options& options, const std::vector<std::string>& command) {
  if (command.empty()) {
    return Error(Code::kUsage, "a command is needed after '--'", "for example: cairn run --volume research -- python3 train.py");
  }
  CAIRN_TRY(client::ApiClient * client, context.connect());
  CAIRN_TRY(api::Run run, start(context, *client, options, command));
  Output& output = context.output();
  if (options.detach) {
    if (output.json()) {
      output.document(JsonText().add("id", run.id.hex()).str());
    } else {
      output.line(run.id.hex());
    }
    return 0;
  }
  output.note("run " + run.id.hex() + (run.volume.empty() ? "" : " on volume " + run.volume));
  if (!output.json()) {
    Status followed = print_log(context, *client, run.id, "", true);
    if (!followed) return followed.error().code() == Code::kCancelled ? left_running(run.id) : followed.error();
  }
  CAIRN_TRY(api::Run ended, wait_for_end(context, *client, run.id));
  if (output.json()) output.document(run_json(ended));
  return exit_code_of(context, ended);
}

}  // namespace

void add_run(Verb root) {
  auto options = std::make_shared<Options>();
  Verb run = root.add("run", "Run a command on a node with volumes mounted, and follow its log");
  add_mount_options(run, options->mounts);
  run.text("--gpu-type,--gpu", options->gpu, "cpu, N, TYPE or TYPE:N")
      .text("--node", options->node, "Run on this node only")
      .list("--env,-e", options->environment, "NAME=VALUE for the command; may be repeated")
      .flag("--no-upload", options->no_upload, "Start in an empty /workspace instead of a copy of this folder")
      .flag("--detach,-d", options->detach, "Print the run's id and leave it running")
      .flag("--queue", options->queue, "Wait when somebody else writes to the volume")
      .footer("Example: cairn run --volume research -- python3 train.py /volume/text\n"
              "Ends with the command's exit code; 125 when Cairn itself failed.")
      .run([options, run](Context& context) -> Result<int> {
        Result<int> code = run_command(context, *options, run.rest());
        bool typed_wrong = !code && exit_code(code.error().code()) == exit_code(Code::kUsage);
        if (code || typed_wrong || code.error().code() == Code::kCancelled) return code;
        context.output().fail(code.error());
        return kCairnFailed;
      });
}

}  // namespace cairn::cli
