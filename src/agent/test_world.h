// A server and volumes made of folders, shared by processes: what the executor tests run against. The executor lives in a process
// of its own (this test program, started again), so that it can be killed; what it did to the "server" is read back from files.
//
//   <dir>/start.json        what start_attempt answers
//   <dir>/stop              exists: heartbeats say stop; grace: for how many seconds (1)
//   <dir>/heartbeats_fail   exists: heartbeats find no server; heartbeats_failed: how many
//   <dir>/log               the lines the server has; their number is the sequence, so that a kill cannot part the two
//   <dir>/states            every state a heartbeat told, one a line
//   <dir>/finish            state, exit code, lost bytes, reason
//   <dir>/volumes/<name>/   the head of each volume; <name>.count: how many publications
//   <dir>/lowers/           staged copies
//   <dir>/unreadable        a path that no sync can read: the first publishes the rest
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "agent/executor.h"
#include "api/json.h"
#include "os/file_system.h"

namespace cairn::agent::testing {

namespace fs = std::filesystem;

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void spit(const std::string& path, const std::string& text) {
  std::ofstream(path + ".tmp", std::ios::binary) << text;
  fs::rename(path + ".tmp", path);
}

inline int64_t read_number(const std::string& path) {
  std::string text = slurp(path);
  return text.empty() ? 0 : std::stoll(text);
}

class FolderServer : public ServerLink {
 public:
  explicit FolderServer(std::string dir) : dir_(std::move(dir)) {}

  Result<api::RegisteredNode> register_node(const api::RegisterNode& body, const Deadline&) override {
    spit(dir_ + "/registered", body.name);
    api::RegisteredNode node;
    node.node = *NodeId::from_hex(std::string(32, 'e'));
    return node;
  }
  Result<api::PollAnswer> poll(NodeId, const api::PollNode& body, const Deadline&) override {
    api::PollAnswer answer;
    std::string waiting = slurp(dir_ + "/assignment.json");
    if (!waiting.empty()) {
      CAIRN_TRY(api::Assignment assignment, api::answer_from_json<api::Assignment>(waiting));
      bool known = std::find(body.attempts.begin(), body.attempts.end(), assignment.attempt) != body.attempts.end();
      if (!known && !fs::exists(dir_ + "/finish")) answer.start.push_back(assignment);
    }
    if (answer.start.empty()) system_clock().sleep_for(milliseconds(50));
    return answer;
  }
  Result<api::AttemptStart> start_attempt(AttemptId, const api::StartAttempt&, const Deadline&) override {
    if (fs::exists(dir_ + "/refuse")) return Error(Code::kRunStateConflict, "the run was stopped");
    spit(dir_ + "/starts", std::to_string(read_number(dir_ + "/starts") + 1));
    return api::answer_from_json<api::AttemptStart>(slurp(dir_ + "/start.json"));
  }
  Result<api::AttemptHeartbeatAnswer> heartbeat(AttemptId, const api::HeartbeatAttempt& body, const Deadline&) override {
    if (fs::exists(dir_ + "/heartbeats_fail")) {
      spit(dir_ + "/heartbeats_failed", std::to_string(read_number(dir_ + "/heartbeats_failed") + 1));
      return Error(Code::kServerUnavailable, "the server is away");
    }
    std::string log = slurp(dir_ + "/log");
    auto have = static_cast<uint64_t>(std::count(log.begin(), log.end(), '\n'));
    std::string last = slurp(dir_ + "/last_state");
    std::string state(api::state_name(body.state));
    if (last != state) {
      spit(dir_ + "/last_state", state);
      std::ofstream(dir_ + "/states", std::ios::app) << state << "\n";
    }
    if (body.log_sequence <= have + 1) {
      for (size_t i = 0; i < body.logs.size(); ++i) {
        if (body.log_sequence + i <= have) continue;
        log += body.logs[i].component + ": " + body.logs[i].text + "\n";
        ++have;
      }
      if (!body.logs.empty()) spit(dir_ + "/log", log);
    }
    if (body.after_reboot) spit(dir_ + "/rebooted", "");
    api::AttemptHeartbeatAnswer answer;
    answer.stop = fs::exists(dir_ + "/stop");
    answer.grace_seconds = fs::exists(dir_ + "/grace") ? static_cast<uint64_t>(read_number(dir_ + "/grace")) : 1;
    answer.log_sequence = have;
    return answer;
  }
  Status finish(AttemptId, const api::FinishAttempt& body, const Deadline&) override {
    std::string text = std::string(api::state_name(body.state)) + "\n" +
                       (body.exit_code ? std::to_string(*body.exit_code) : "-") + "\n" + std::to_string(body.lost_bytes) + "\n" +
                       body.reason + "\n";
    for (const std::string& path : body.lost_paths) text += path + "\n";
    spit(dir_ + "/finish", text);
    return ok();
  }
  Status heartbeat_upload(const api::Upload&, const Deadline&) override { return ok(); }

 private:
  std::string dir_;
};

class FolderVolumes final : public VolumeIo {
 public:
  explicit FolderVolumes(std::string dir) : dir_(std::move(dir)) {}

  Result<transfer::StagedLower> stage(const api::MountGrant& mount, const std::string& holder, transfer::Progress&,
                                      const Deadline&) override {
    if (!holder.empty()) spit(dir_ + "/kept", holder);
    if (fs::exists(dir_ + "/stage_fails")) return Error(Code::kVolumeSyncIncomplete, "2 of 3 files arrived");
    std::string lower = dir_ + "/lowers/" + mount.volume;
    if (!fs::exists(lower)) {
      fs::create_directories(dir_ + "/lowers");
      fs::remove_all(lower + ".new");
      fs::copy(dir_ + "/volumes/" + mount.volume, lower + ".new", fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      fs::rename(lower + ".new", lower);
    }
    spit(dir_ + "/lowers/" + mount.volume + ".manifest", "manifest");
    transfer::StagedLower staged;
    staged.tree_dir = lower;
    staged.manifest_file = dir_ + "/lowers/" + mount.volume + ".manifest";
    for (const auto& entry : fs::recursive_directory_iterator(lower)) {
      if (entry.is_regular_file() && !entry.is_symlink()) staged.bytes += entry.file_size();
    }
    return staged;
  }
  Status release(const api::MountGrant&, const std::string&) override {
    fs::remove(dir_ + "/kept");
    return ok();
  }
  Status copy(const transfer::StagedLower& lower, const std::string& destination, const std::string& manifest,
              transfer::Progress&, const Deadline&) override {
    fs::copy(lower.tree_dir, destination, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    spit(manifest, "manifest");
    return ok();
  }
  Result<transfer::SyncSummary> sync(const api::MountGrant& mount, const transfer::SyncOptions& options, transfer::Progress&,
                                     const Deadline&) override {
    if (fs::exists(dir_ + "/sync_fails_once")) {
      fs::remove(dir_ + "/sync_fails_once");
      return Error(Code::kServerUnavailable, "the server is away");
    }
    std::string head = dir_ + "/volumes/" + mount.volume;
    transfer::SyncSummary summary;
    if (fs::exists(dir_ + "/unreadable")) {
      summary.failed = 1;
      summary.failed_paths = {slurp(dir_ + "/unreadable")};
      if (read_number(head + ".count") > 0) return summary;
    }
    fs::remove_all(head + ".new");
    fs::create_directories(head + ".new");
    for (const auto& entry : fs::directory_iterator(options.mounted_dir)) {
      fs::copy(entry.path(), fs::path(head + ".new") / entry.path().filename(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    }
    fs::remove_all(head + ".old");
    if (fs::exists(head)) fs::rename(head, head + ".old");
    fs::rename(head + ".new", head);
    spit(head + ".count", std::to_string(read_number(head + ".count") + 1));
    summary.published = true;
    summary.snapshot = static_cast<uint64_t>(read_number(head + ".count"));
    return summary;
  }

 private:
  std::string dir_;
};

inline ExecutorSettings world_settings(const std::string& dir) {
  ExecutorSettings settings;
  settings.outputs_dir = dir + "/outputs";
  settings.locks_dir = dir + "/locks";
  settings.hidden = {dir};
  if (fs::exists(dir + "/cairn-trainer")) settings.trainer_program = dir + "/cairn-trainer";
  settings.reserve_bytes = 0;
  settings.usage_interval = milliseconds(100);
  settings.retry_pause_max = seconds(1);
  return settings;
}

}  // namespace cairn::agent::testing
