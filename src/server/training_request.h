// What the server reads from the config of a training before it queues the run: engine, volume and GPUs for every engine; for
// the built-in one the whole schema, and whether what it reads is on the volume, so that no run waits for a node and stages a
// volume only to be told that a folder is missing.
//
// Reads only: nothing is created or kept, so asking again with the same request id is harmless.
#pragma once

#include "base/ids.h"
#include "base/result.h"
#include "run/runs.h"

namespace cairn::server {

// Completes a request of kind "train": engine, the volume of the config when none was asked for, GPUs likewise, and for the
// built-in engine the variables of [env_vars].
// config_invalid, config_unsupported, data_requires_volume, data_missing_on_volume (which names path and volume), and
// checkpoint_incomplete for a resume.dir without its end mark.
Status read_training_request(run::RunContext& context, UserId owner, run::NewRun& request);

}  // namespace cairn::server
