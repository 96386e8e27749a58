#include "api/json_fields.h"

namespace cairn::api {

template <>
struct EnumNames<RunState> {
  static constexpr std::string_view kNames[] = {"QUEUED",    "PENDING", "CREATING", "RUNNING", "SYNCING",
                                                "COMPLETED", "FAILED",  "STOPPED",  "LOST"};
};

template <>
struct EnumNames<RunKind> {
  static constexpr std::string_view kNames[] = {"command", "train"};
};

std::string_view state_name(RunState state) { return enum_name(state); }

std::optional<RunState> state_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(EnumNames<RunState>::kNames); ++i) {
    if (EnumNames<RunState>::kNames[i] == name) return static_cast<RunState>(i);
  }
  return std::nullopt;
}

bool is_final(RunState state) {
  return state == RunState::kCompleted || state == RunState::kFailed || state == RunState::kStopped;
}

template <class V>
void fields(V& v, MountRequest& b) {
  v.field("volume", b.volume);
  v.option("directory", b.directory);
  v.option("snapshot", b.snapshot);
  v.option("read_only", b.read_only);
  v.option("shared", b.shared);
  v.option("primary", b.primary);
  v.option("create", b.create);
  v.option("size_bytes", b.size_bytes);
}

template <class V>
void fields(V& v, CreateRun& b) {
  v.field("kind", b.kind);
  v.option("command", b.command, kArgumentsMax);
  v.option("config", b.config, kConfigBytesMax);
  v.option("config_name", b.config_name);
  v.option("mounts", b.mounts, kMountsPerRunMax);
  v.option("workspace", b.workspace);
  v.option("gpu", b.gpu, 128);
  v.option("node", b.node, 128);
  v.option("environment", b.environment, kEnvironmentMax);
  v.option("queue", b.queue);
  v.option("sync_final_only", b.sync_final_only);
  v.option("grace_seconds", b.grace_seconds);
}

template <class V>
void fields(V& v, SavedState& b) {
  v.option("step", b.step);
  v.field("snapshot", b.snapshot);
  v.field("at", b.at);
  v.option("age_s", b.age_seconds);
}

template <class V>
void fields(V& v, PendingState& b) {
  v.field("files", b.files);
  v.field("bytes", b.bytes);
}

template <class V>
void fields(V& v, Run& b) {
  v.field("id", b.id);
  v.field("kind", b.kind);
  v.field("state", b.state);
  v.option("user", b.user);
  v.option("volume", b.volume);
  v.option("mounts", b.mounts);
  v.option("command", b.command);
  v.option("config_name", b.config_name);
  v.option("node", b.node);
  v.option("attempt", b.attempt);
  v.option("exit_code", b.exit_code);
  v.option("reason", b.reason);
  v.option("message", b.message);
  v.option("saved", b.saved);
  v.option("pending", b.pending);
  v.option("safe_to_stop", b.safe_to_stop);
  v.option("stop_requested", b.stop_requested);
  v.field("created_at", b.created_at);
  v.option("started_at", b.started_at);
  v.option("ended_at", b.ended_at);
}

template <class V>
void fields(V& v, RunList& b) { v.field("runs", b.runs); }

template <class V>
void fields(V& v, StopRun& b) { v.option("grace_seconds", b.grace_seconds); }

template <class V>
void fields(V& v, LogLine& b) {
  v.field("sequence", b.sequence);
  v.option("component", b.component);
  v.option("at", b.at);
  v.field("text", b.text, kLogTextBytesMax);
}

template <class V>
void fields(V& v, LogPage& b) {
  v.field("lines", b.lines);
  v.field("next", b.next);
  v.option("ended", b.ended);
}

template <class V>
void fields(V& v, Checkpoint& b) {
  v.field("step", b.step);
  v.path("path", b.path);
  v.field("state", b.state, 32);
  v.field("files", b.files);
  v.field("bytes", b.bytes);
  v.option("snapshot", b.snapshot);
  v.option("at", b.at);
}

template <class V>
void fields(V& v, CheckpointList& b) { v.field("checkpoints", b.checkpoints); }

CAIRN_API_TYPE(CreateRun)
CAIRN_API_TYPE(Run)
CAIRN_API_TYPE(RunList)
CAIRN_API_TYPE(StopRun)
CAIRN_API_TYPE(LogPage)
CAIRN_API_TYPE(CheckpointList)

// What agents and the server say to each other.

template <class V>
void fields(V& v, GpuInfo& b) {
  v.field("type", b.type, 128);
  v.field("count", b.count);
}

template <class V>
void fields(V& v, RegisterNode& b) {
  v.field("name", b.name, 128);
  v.option("version", b.version, 128);
  v.option("boot_id", b.boot_id, 128);
  v.field("cpus", b.cpus);
  v.field("memory_bytes", b.memory_bytes);
  v.field("disk_total_bytes", b.disk_total_bytes);
  v.field("disk_free_bytes", b.disk_free_bytes);
  v.option("gpus", b.gpus, 64);
}

template <class V>
void fields(V& v, RegisteredNode& b) {
  v.field("node", b.node);
  v.option("poll_wait_seconds", b.poll_wait_seconds);
}

template <class V>
void fields(V& v, Node& b) {
  v.field("id", b.id);
  v.field("name", b.name);
  v.field("state", b.state);
  v.option("draining", b.draining);
  v.option("version", b.version);
  v.option("cpus", b.cpus);
  v.option("memory_bytes", b.memory_bytes);
  v.option("disk_total_bytes", b.disk_total_bytes);
  v.option("disk_free_bytes", b.disk_free_bytes);
  v.option("gpus", b.gpus);
  v.option("runs", b.runs);
  v.option("registered_at", b.registered_at);
  v.option("seen_at", b.seen_at);
}

template <class V>
void fields(V& v, NodeList& b) { v.field("nodes", b.nodes); }

template <class V>
void fields(V& v, PollNode& b) {
  v.field("attempts", b.attempts, kAttemptsPerNodeMax);
  v.field("disk_free_bytes", b.disk_free_bytes);
  v.option("wait_seconds", b.wait_seconds);
}

template <class V>
void fields(V& v, Assignment& b) {
  v.field("run", b.run);
  v.field("attempt", b.attempt);
  v.field("secret", b.secret);
}

template <class V>
void fields(V& v, StopAttempt& b) {
  v.field("attempt", b.attempt);
  v.option("grace_seconds", b.grace_seconds);
}

template <class V>
void fields(V& v, PollAnswer& b) {
  v.field("start", b.start);
  v.field("stop", b.stop);
  v.field("forget", b.forget);
}

template <class V>
void fields(V& v, StartAttempt& b) { v.field("secret", b.secret, 256); }

template <class V>
void fields(V& v, MountGrant& b) {
  v.field("volume", b.volume);
  v.field("volume_id", b.volume_id);
  v.field("directory", b.directory);
  v.option("primary", b.primary);
  v.option("read_only", b.read_only);
  v.option("shared", b.shared);
  v.field("size_bytes", b.size_bytes);
  v.field("base", b.base);
  v.option("upload", b.upload);
}

template <class V>
void fields(V& v, AttemptStart& b) {
  v.field("run", b.run);
  v.field("attempt", b.attempt);
  v.field("number", b.number);
  v.field("kind", b.kind);
  v.field("command", b.command);
  v.option("config", b.config, kConfigBytesMax);
  v.option("config_name", b.config_name);
  v.option("output_directory", b.output_directory);
  v.option("environment", b.environment);
  v.option("gpu", b.gpu);
  v.field("mounts", b.mounts);
  v.option("workspace", b.workspace);
  v.option("sync_final_only", b.sync_final_only);
  v.option("grace_seconds", b.grace_seconds);
  v.option("heartbeat_seconds", b.heartbeat_seconds);
}

template <class V>
void fields(V& v, LogRecord& b) {
  v.field("component", b.component, 64);
  v.field("at", b.at);
  v.field("text", b.text, kLogTextBytesMax);
}

template <class V>
void fields(V& v, HeartbeatAttempt& b) {
  v.field("secret", b.secret, 256);
  v.field("state", b.state);
  v.option("message", b.message);
  v.option("pending", b.pending);
  v.option("safe_to_stop", b.safe_to_stop);
  v.option("after_reboot", b.after_reboot);
  v.option("saved", b.saved);
  v.option("log_sequence", b.log_sequence);
  v.option("logs", b.logs, kLogRecordsPerHeartbeatMax);
}

template <class V>
void fields(V& v, AttemptHeartbeatAnswer& b) {
  v.option("stop", b.stop);
  v.option("grace_seconds", b.grace_seconds);
  v.option("log_sequence", b.log_sequence);
}

template <class V>
void fields(V& v, FinishAttempt& b) {
  v.field("secret", b.secret, 256);
  v.field("state", b.state);
  v.option("exit_code", b.exit_code);
  v.option("reason", b.reason);
  v.paths("lost_paths", b.lost_paths, kPathsPerRequestMax);
  v.option("lost_bytes", b.lost_bytes);
  v.option("saved", b.saved);
}

CAIRN_API_TYPE(RegisterNode)
CAIRN_API_TYPE(RegisteredNode)
CAIRN_API_TYPE(NodeList)
CAIRN_API_TYPE(PollNode)
CAIRN_API_TYPE(Assignment)
CAIRN_API_TYPE(PollAnswer)
CAIRN_API_TYPE(StartAttempt)
CAIRN_API_TYPE(AttemptStart)
CAIRN_API_TYPE(HeartbeatAttempt)
CAIRN_API_TYPE(AttemptHeartbeatAnswer)
CAIRN_API_TYPE(FinishAttempt)

}  // namespace cairn::api
