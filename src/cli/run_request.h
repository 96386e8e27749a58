// The options that say which volumes a run mounts, shared by `train` and `run`, and the working directory that `run` uploads.
#pragma once

#include <string>
#include <vector>

#include "api/types.h"
#include "cli/args.h"
#include "cli/context.h"

namespace cairn::cli {

struct MountOptions {
  std::vector<std::string> volumes;  // the first is at /volume, each at /mnt/<name>
  std::vector<std::string> mounts;   // NAME[@SNAPSHOT][:ro|:rw][:DIR]
  std::string size;                  // of volumes that are created
};

void add_mount_options(Verb verb, MountOptions& options);

// usage for a mount that cannot be read.
Result<std::vector<api::MountRequest>> mount_requests(const MountOptions& options);

// Uploads the current folder into a hidden volume that goes when the run ends, and gives its name.
// request_too_large above 2 GiB, naming the size and `--no-upload`.
Result<std::string> upload_working_directory(Context& context, client::ApiClient& client);

// Submits a run. As Context::change on the volumes it writes.
Result<api::Run> submit_run(Context& context, client::ApiClient& client, const api::CreateRun& request);

}  // namespace cairn::cli
