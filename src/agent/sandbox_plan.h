// What a run's sandbox looks like: which folders stand where, its environment, its home with a virtual environment, the GPUs it
// was granted. Makes the folders it needs in the attempt's journal.
#pragma once

#include <string>
#include <vector>

#include "agent/attempt_mounts.h"
#include "agent/executor.h"
#include "agent/sandbox.h"
#include "base/result.h"
#include "os/lock_file.h"
#include "os/tree.h"

namespace cairn::agent {

inline constexpr char kHome[] = "/home/cairn";

// In every sandbox, where the node has it; the built-in engine's runs need it.
inline constexpr char kTrainerName[] = "cairn-trainer";
// file_not_found when the run's command is the trainer and this node has none. Asked before anything is staged.
Status check_trainer(const api::AttemptStart& start, const ExecutorSettings& settings);

struct GrantedGpus {
  std::vector<int64_t> indexes;
  std::vector<os::LockFile> locks;  // held as long as the run has them
};
// Free GPUs of this node as `wish` ("", "cpu", "N", "TYPE", "TYPE:N") asks. gpu_type_unavailable with the numbers.
Result<GrantedGpus> take_gpus(const std::string& wish, const std::string& locks_dir);

struct OutputPlace {
  std::string host_dir;   // runs/<id> on the mounted volume, or the kept folder
  std::string inside;     // CAIRN_OUTPUT_DIR
};
// Makes the run's output folder with logs/ and configs/, and writes the resolved config (or command) there.
Result<OutputPlace> make_outputs(const Journal& journal, const AttemptMounts& mounts, const std::string& outputs_dir);
OutputPlace output_place(const Journal& journal, const AttemptMounts& mounts, const std::string& outputs_dir);
// The output folder, made where it is missing, for writing from outside the sandbox. The run owns everything above it on its
// volume: no link it put in the way is followed (path_type_conflict).
Result<os::Directory> open_outputs(const Journal& journal, const AttemptMounts& mounts, const std::string& outputs_dir);

Result<SandboxSpec> plan_sandbox(const Journal& journal, const AttemptMounts& mounts, const OutputPlace& outputs,
                                 const GrantedGpus& gpus, const ExecutorSettings& settings);

}  // namespace cairn::agent
