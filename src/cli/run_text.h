// Runs as people and programs see them, and following a run's log; shared by `train` and `run`.
#pragma once

#include <string>

#include "api/types.h"
#include "cli/context.h"

namespace cairn::cli {

std::string run_json(const api::Run& run);
std::string run_text(const api::Run& run);
std::string checkpoint_json(const api::Checkpoint& checkpoint);

// The digits of a run's id as people type it: "<id>", "run-<id>", or "run-<id>.<attempt>" as a lease names its holder.
std::string run_digits(std::string_view typed);

// run_not_found unless it is 32 hex digits, or the first four or more digits of exactly one run; usage for fewer.
Result<RunId> find_run(Context& context, client::ApiClient& client, const std::string& text);

// Prints the log as it grows until the run has ended (or, with `follow` false, what there is). Lines go to stdout as they are.
// `tail`: at most so many of the newest lines to begin with; 0: from the start.
Status print_log(Context& context, client::ApiClient& client, RunId run, const std::string& component, bool follow);

// The same as one JSON array of `sequence, component, at, text`. An error after its begin ends the array and is said on stderr.
Status print_log_json(Context& context, client::ApiClient& client, RunId run, const std::string& component, bool follow);

// Waits for the end. Interrupted: cancelled, the run goes on.
Result<api::Run> wait_for_end(Context& context, client::ApiClient& client, RunId run);

// The command's exit code; 125 when Cairn itself failed or the run was lost or stopped before it had one (said on stderr).
int exit_code_of(Context& context, const api::Run& run);

// What an interrupted follower reads.
Error left_running(RunId run);

}  // namespace cairn::cli
