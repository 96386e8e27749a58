#include "cli/run_text.h"

#include <utility>

#include <fmt/core.h>

#include "cli/json_text.h"
#include "cli/terminal_text.h"

namespace cairn::cli {
namespace {

constexpr int kCairnFailed = 125;
constexpr size_t kRunDigitsMin = 4;

template <class Value, class Format>
std::string or_null(const std::optional<Value>& value, Format format) {
  return value ? json_quote(format(*value)) : "null";
}

std::string saved_json(const api::Run& run) {
  if (!run.saved) return "null";
  return JsonText()
      .add("step", run.saved->step)
      .add("snapshot", run.saved->snapshot)
      .add("age_s", run.saved->age_seconds)
      .str();
}

std::string command_text(const api::Run& run) {
  if (run.kind == api::RunKind::kTrain) return run.config_name;
  std::string text;
  for (const std::string& word : run.command) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string log_line_json(const api::LogLine& line) {
  return JsonText()
      .add("sequence", line.sequence)
      .add("component", line.component)
      .add("at", to_rfc3339(line.at))
      .add("text", line.text)
      .str();
}

}  // namespace

std::string run_json(const api::Run& run) {
  JsonText json;
  json.add("id", run.id.hex()).add("state", api::state_name(run.state)).add("exit_code", run.exit_code);
  (run.volume.empty() ? json.raw("volume", "null") : json.add("volume", run.volume))
      .add("command", command_text(run))
      .add("node", run.node)
      .add("attempt", run.attempt)
      .raw("saved", saved_json(run))
      .raw("pending", JsonText().add("files", run.pending.files).add("bytes", run.pending.bytes).str())
      .add("safe_to_stop", run.safe_to_stop)
      .add("created_at", to_rfc3339(run.created_at))
      .raw("started_at", or_null(run.started_at, to_rfc3339))
      .raw("ended_at", or_null(run.ended_at, to_rfc3339))
      .add("reason", run.reason);
  return json.str();
}

std::string run_text(const api::Run& run) {
  std::string text = fmt::format("Run         {}\nState       {}\nCommand     {}\nVolume      {}\nNode        {}\nCreated     {}",
                                 run.id.hex(), api::state_name(run.state), command_text(run),
                                 run.volume.empty() ? "-" : run.volume, run.node.empty() ? "-" : run.node,
                                 human_time(run.created_at));
  if (run.started_at) text += "\nStarted     " + human_time(*run.started_at);
  if (run.ended_at) text += "\nEnded       " + human_time(*run.ended_at);
  if (run.exit_code) text += fmt::format("\nExit code   {}", *run.exit_code);
  if (!run.reason.empty()) text += "\nReason      " + run.reason;
  std::string saved = "nothing saved yet";
  if (run.saved) {
    std::string what = run.saved->step ? fmt::format("step {}", *run.saved->step) : "everything written";
    saved = fmt::format("{} saved {} ago in snapshot {}", what, human_duration(seconds(run.saved->age_seconds)),
                        run.saved->snapshot);
  }
  if (run.volume.empty()) saved = "no volume";
  text += "\nSaved       " + saved;
  if (!api::is_final(run.state)) {
    text += fmt::format("; {} in {} waiting; safe to stop: {}", human_bytes(run.pending.bytes),
                        plural(run.pending.files, "file"), run.safe_to_stop ? "yes" : "no");
  }
  return text;
}

std::string checkpoint_json(const api::Checkpoint& checkpoint) {
  return JsonText()
      .add("step", checkpoint.step)
      .add("path", shown_path(checkpoint.path))
      .add("state", checkpoint.state)
      .add("files", checkpoint.files)
      .add("bytes", checkpoint.bytes)
      .add("snapshot", checkpoint.snapshot)
      .add("at", to_rfc3339(checkpoint.at))
      .str();
}

std::string run_digits(std::string_view typed) {
  constexpr std::string_view kHolder = "run-";
  if (typed.starts_with(kHolder)) {
    typed.remove_prefix(kHolder.size());
    typed = typed.substr(0, typed.find('.'));
  }
  return std::string(typed);
}

Result<RunId> find_run(Context& context, client::ApiClient& client, const std::string& typed) {
  const std::string text = run_digits(typed);
  if (auto id = RunId::from_hex(text)) return *id;
  constexpr const char* kList = "list them with: cairn train list";
  if (text.size() < kRunDigitsMin) {
    return Error(Code::kUsage, fmt::format("'{}' is too short for a run: give at least the first {} digits of its id", shown_path(typed), kRunDigitsMin),
                 kList);
  }
  Error unknown(Code::kRunNotFound, "there is no run '" + shown_path(typed) + "'", kList);
  CAIRN_TRY(api::RunList list, client.list_runs({RunId(), 1000}, context.call()));
  std::optional<RunId> found;
  for (const api::Run& run : list.runs) {
    if (!run.id.hex().starts_with(text)) continue;
    if (found) return Error(Code::kRunNotFound, "'" + text + "' begins the ids of several runs", "type more of the id");
    found = run.id;
  }
  if (!found) return unknown;
  return *found;
}

namespace {

// Says why a run that was submitted has not started, once for each reason.
Status note_waiting(Context& context, client::ApiClient& client, RunId id, std::string& told) {
  CAIRN_TRY(api::Run run, client.get_run(id, context.call()));
  if (run.state != api::RunState::kQueued || run.reason.empty() || run.reason == told) return ok();
  told = run.reason;
  context.output().note("run " + id.hex() + " " + told);
  return ok();
}

}  // namespace

Status print_log(Context& context, client::ApiClient& client, RunId run, const std::string& component, bool follow) {
  api::LogsQuery query;
  query.component = component;
  std::string told;
  bool started = false, first_wait = true;
  for (;;) {
    auto page = client.run_logs(run, query, Deadline::after(minutes(2), system_clock(), context.cancel()));
    if (!page) return page.error();
    std::string text;
    for (const api::LogLine& line : page->lines) text += line.text + "\n";
    CAIRN_CHECK_OK(context.output().write_bytes(text));
    query.after = page->next;
    if (page->ended && page->lines.empty()) return ok();
    if (page->lines.empty() && !follow) return ok();
    started = started || !page->lines.empty();
    if (follow && !started && !first_wait) CAIRN_CHECK_OK(note_waiting(context, client, run, told));
    query.wait_seconds = !follow ? 0 : std::exchange(first_wait, false) ? 2 : 20;
  }
}

Status print_log_json(Context& context, client::ApiClient& client, RunId run, const std::string& component, bool follow) {
  Output& output = context.output();
  api::LogsQuery query;
  query.component = component;
  bool begun = false;
  for (;;) {
    auto page = client.run_logs(run, query, context.call());
    if (!page) {
      if (begun) {
        CAIRN_CHECK_OK(output.write_bytes("\n]\n"));
        output.set_json(false);
      }
      return page.error();
    }
    std::string text;
    for (const api::LogLine& line : page->lines) {
      text += (begun ? ",\n" : "[\n") + log_line_json(line);
      begun = true;
    }
    bool over = page->lines.empty() && (page->ended || !follow);
    if (over) text += begun ? "\n]\n" : "[]\n";
    CAIRN_CHECK_OK(output.write_bytes(text));
    if (over) return ok();
    query.after = page->next;
    query.wait_seconds = follow ? 20 : 0;
  }
}

Result<api::Run> wait_for_end(Context& context, client::ApiClient& client, RunId run) {
  for (;;) {
    CAIRN_TRY(api::Run now, client.get_run(run, Deadline::after(minutes(2), system_clock(), context.cancel())));
    if (api::is_final(now.state) || now.state == api::RunState::kLost) return now;
    for (int i = 0; i < 5; ++i) {
      if (context.cancel().cancelled()) return left_running(run);
      system_clock().sleep_for(milliseconds(100));
    }
  }
}

int exit_code_of(Context& context, const api::Run& run) {
  if (run.exit_code) {
    if (*run.exit_code != 0 || run.state != api::RunState::kFailed) return static_cast<int>(*run.exit_code);
  } else if (run.state == api::RunState::kCompleted) {
    return 0;
  }
  context.output().note(fmt::format("cairn: run {} {}: {}", run.id.hex(), api::state_name(run.state),
                                    run.reason.empty() ? "no reason was given" : run.reason));
  return kCairnFailed;
}

Error left_running(RunId run) {
  return Error(Code::kCancelled, "run " + run.hex() + " goes on",
               "stop it with: cairn train stop " + run.hex() + "; follow it with: cairn train logs -f " + run.hex());
}

}  // namespace cairn::cli
