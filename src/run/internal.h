// What the classes of this module share. Not for other modules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog_clock.h"
#include "run/runs.h"

namespace cairn::run::internal {

std::string secret_hash(std::string_view secret);
bool secret_matches(std::string_view stored_hash, std::string_view secret);

// What the holder of an attempt presents for the lease of one of its mounts. It follows from the attempt's own secret, so that
// a start that is repeated is answered as it was without keeping a secret.
std::string lease_secret(std::string_view attempt_secret, size_t position);

// What the lease of an attempt shows to people: "run-<id>.<attempt>".
std::string holder_name(RunId run, int64_t attempt);

// The run, or run_not_found.
Result<catalog::RunRow> require_run(catalog::Tx& tx, RunId id);
Result<RunView> view_of(catalog::Tx& tx, catalog::RunRow run);
RunState state_of(const catalog::RunRow& run);

// One step of the table, as one conditional statement; run_state_conflict when the table or another server says no. `run` is
// brought up to date.
Status move(catalog::Tx& tx, catalog::RunRow& run, RunState to, catalog::RunMove details = {});
Status move(catalog::Tx& tx, catalog::AttemptRow& attempt, AttemptState to, std::optional<Time> started_at = {},
            std::optional<Time> ended_at = {});

// Ends what an attempt holds: uploads (with their leases), leases without an upload, and answers the pins to drop.
Result<std::vector<PinId>> release_grants(catalog::Tx& tx, RunContext& context, AttemptId attempt);
// After the transaction, best effort: pins, and the run's workspace.
void drop_pins(RunContext& context, const std::vector<PinId>& pins);
void drop_workspace(RunContext& context, const std::vector<catalog::RunMountRow>& mounts);

Status add_event(catalog::Tx& tx, Time now, const catalog::RunRow& run, std::string_view actor, std::string_view action,
                 std::string_view detail);

}  // namespace cairn::run::internal
