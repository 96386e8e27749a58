#include "cli/commands.h"

#include <fmt/core.h>

#include "cli/json_text.h"
#include "cli/terminal_text.h"
#include "cli/run_request.h"
#include "cli/run_text.h"
#include "cli/training_text.h"
#include "config/training_config.h"
#include "config/training_head.h"
#include "config/training_paths.h"
#include "os/file_system.h"

namespace cairn::cli {
namespace {

constexpr size_t kConfigBytesMax = api::kConfigBytesMax;

struct TrainOptions {
  std::string config;
  MountOptions mounts;
  std::string gpu, node;
  bool wait = false, queue = false, dry_run = false;
};

std::string base_name(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// The built-in engine's schema is the one that the server and the trainer read. A config that names no engine is taken for it:
// only the server knows whether its operator chose another default.
Result<int> check_only(Context& context, const TrainOptions& options, const std::string& text, const config::TrainingHead& head) {
  Output& output = context.output();
  if (!head.engine.empty() && head.engine != "cairn") {
    if (output.json()) {
      output.document(JsonText().add("engine", head.engine).str());
    } else {
      output.line(options.config + ": the file can be read; engine '" + head.engine + "' checks its own keys when the run starts");
    }
    return 0;
  }
  CAIRN_TRY(config::TrainingConfig config, config::parse_training_config(text, options.config));
  CAIRN_CHECK_OK(config::check_begins_anew(config));
  CAIRN_CHECK_OK(config::check_volume_given(config, !options.mounts.volumes.empty() || !head.volume.empty()));
  if (output.json()) {
    std::string resolved = config::resolved_training_config(config);
    resolved.pop_back();  // its line end
    output.document(resolved);
  } else {
    output.line(training_text(config));
  }
  return 0;
}

Result<int> start(Context& context, const TrainOptions& options) {
  if (options.config.empty()) {
    return Error(Code::kUsage, "a training config is needed", "type 'cairn train CONFIG.toml --volume NAME', or 'cairn train --help'");
  }
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(options.config, kConfigBytesMax));
  CAIRN_TRY(config::TrainingHead head, config::read_training_head(text, options.config));
  api::CreateRun request;
  request.kind = api::RunKind::kTrain;
  request.config = text;
  request.config_name = base_name(options.config);
  MountOptions mounts = options.mounts;
  if (mounts.volumes.empty() && !head.volume.empty()) mounts.volumes.push_back(head.volume);
  CAIRN_TRY(request.mounts, mount_requests(mounts));
  request.gpu = options.gpu;
  request.node = options.node;
  request.queue = options.queue;
  if (options.dry_run) return check_only(context, options, text, head);
  CAIRN_TRY(client::ApiClient * client, context.connect());
  CAIRN_TRY(api::Run run, submit_run(context, *client, request));
  Output& output = context.output();
  if (output.json()) {
    output.document(JsonText().add("id", run.id.hex()).str());
  } else {
    output.line(run.id.hex());
  }
  if (!options.wait) return 0;
  if (Status followed = print_log(context, *client, run.id, "", true); !followed) {
    return followed.error().code() == Code::kCancelled ? left_running(run.id) : followed.error();
  }
  CAIRN_TRY(api::Run ended, wait_for_end(context, *client, run.id));
  return exit_code_of(context, ended);
}

// A verb with one RUN argument.
void add_run_verb(Verb train, const std::string& name, const std::string& help,
                  std::function<Result<int>(Context&, client::ApiClient&, RunId)> action) {
  auto text = std::make_shared<std::string>();
  train.add(name, help).text("RUN", *text, "The run's id, or its first 4 digits or more", true).run([text, action](Context& context) -> Result<int> {
    CAIRN_TRY(client::ApiClient * client, context.connect());
    CAIRN_TRY(RunId run, find_run(context, *client, *text));
    return action(context, *client, run);
  });
}

void show(Output& output, const api::Run& run) {
  if (output.json()) {
    output.document(run_json(run));
  } else {
    output.line(run_text(run));
  }
}

void add_list(Verb train) {
  train.add("list", "List your runs, the newest first").run([](Context& context) -> Result<int> {
    CAIRN_TRY(client::ApiClient * client, context.connect());
    CAIRN_TRY(api::RunList list, client->list_runs({RunId(), 1000}, context.call()));
    Output& output = context.output();
    if (output.json()) {
      std::vector<std::string> documents;
      for (const api::Run& run : list.runs) documents.push_back(run_json(run));
      output.document(json_array(documents));
      return 0;
    }
    std::vector<std::vector<std::string>> rows;
    for (const api::Run& run : list.runs) {
      std::string saved = run.saved && run.saved->step ? fmt::format("step {}", *run.saved->step) : "-";
      rows.push_back({run.id.hex(), std::string(api::state_name(run.state)), run.volume.empty() ? "-" : run.volume, saved,
                      run.node.empty() ? "-" : run.node, human_time(run.created_at)});
    }
    output.table({"RUN", "STATE", "VOLUME", "SAVED", "NODE", "CREATED"}, rows);
    return 0;
  });
}

Status check_component(const std::string& name) {
  if (name.empty() || name == "stdout" || name == "stderr" || name == "cairn") return ok();
  return Error(Code::kUsage, "--component '" + name + "' is not known", "give stdout, stderr or cairn, or leave it out for all");
}

void add_logs(Verb train) {
  struct Options {
    std::string run, component;
    bool follow = false;
  };
  auto options = std::make_shared<Options>();
  train.add("logs", "Print a run's log")
      .text("RUN", options->run, "The run's id, or its first 4 digits or more", true)
      .flag("--follow,-f", options->follow, "Go on until the run has ended")
      .text("--component", options->component, "stdout, stderr or cairn only (default: all)")
      .run([options](Context& context) -> Result<int> {
        CAIRN_CHECK_OK(check_component(options->component));
        CAIRN_TRY(client::ApiClient * client, context.connect());
        CAIRN_TRY(RunId run, find_run(context, *client, options->run));
        auto print = context.output().json() ? print_log_json : print_log;
        Status printed = print(context, *client, run, options->component, options->follow);
        if (!printed) return printed.error().code() == Code::kCancelled ? left_running(run) : printed.error();
        return 0;
      });
}

Result<int> list_checkpoints(Context& context, client::ApiClient& client, RunId run) {
  CAIRN_TRY(api::CheckpointList list, client.run_checkpoints(run, context.call()));
  Output& output = context.output();
  if (output.json()) {
    std::vector<std::string> documents;
    for (const api::Checkpoint& checkpoint : list.checkpoints) documents.push_back(checkpoint_json(checkpoint));
    output.document(json_array(documents));
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const api::Checkpoint& checkpoint : list.checkpoints) {
    rows.push_back({std::to_string(checkpoint.step), checkpoint.state, human_bytes(checkpoint.bytes),
                    human_count(checkpoint.files), human_time(checkpoint.at), shown_path(checkpoint.path)});
  }
  output.table({"STEP", "STATE", "SIZE", "FILES", "TIME", "PATH"}, rows);
  return 0;
}

}  // namespace

void add_train(Verb root) {
  auto options = std::make_shared<TrainOptions>();
  Verb train = root.add("train", "Start a training run from a config, and look after runs");
  train.text("CONFIG", options->config, "The TOML file of the training");
  add_mount_options(train, options->mounts);
  train.text("--gpu-type", options->gpu, "cpu, N, TYPE or TYPE:N")
      .text("--node", options->node, "Run on this node only")
      .flag("--wait", options->wait, "Follow the log to the end; exit code of the training")
      .flag("--queue", options->queue, "Wait when somebody else writes to the volume")
      .flag("--dry-run", options->dry_run, "Check the config and show what it comes to (-o json: all settings); start nothing")
      .footer("The built-in engine 'cairn' trains with mode = \"sft\" or \"pretrain\": docs/training.md has every key.\n"
              "Example: cairn train sft.toml --volume research --wait")
      .run([options](Context& context) { return start(context, *options); });
  add_list(train);
  add_run_verb(train, "get", "Show a run, what is saved and what is not", [](Context& context, client::ApiClient& client, RunId id) -> Result<int> {
    CAIRN_TRY(api::Run run, client.get_run(id, context.call()));
    show(context.output(), run);
    return 0;
  });
  add_logs(train);
  add_run_verb(train, "checkpoints", "List a run's checkpoints", list_checkpoints);
  add_run_verb(train, "wait", "Wait for the end of a run; exit code of its command", [](Context& context, client::ApiClient& client, RunId id) -> Result<int> {
    CAIRN_TRY(api::Run run, wait_for_end(context, client, id));
    if (context.output().json()) context.output().document(run_json(run));
    return exit_code_of(context, run);
  });
  add_run_verb(train, "stop", "End a run: SIGTERM, its grace time, then its last changes are saved", [](Context& context, client::ApiClient& client, RunId id) -> Result<int> {
    CAIRN_TRY(api::Run run, client.stop_run(id, {}, context.call()));
    if (context.output().json()) {
      context.output().document(run_json(run));
    } else {
      context.output().line("run " + id.hex() + " is being stopped; see it end with: cairn train wait " + id.hex());
    }
    return 0;
  });
}

}  // namespace cairn::cli
