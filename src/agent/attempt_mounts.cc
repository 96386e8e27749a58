#include "agent/attempt_mounts.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"
#include "os/file_system.h"
#include "os/mount.h"
#include "os/tree.h"

namespace cairn::agent {
namespace {

constexpr size_t kCopyBuffer = 1 << 20;

Status make_empty(const std::string& parent, const std::string& name) {
  CAIRN_TRY(os::Directory dir, os::Directory::open(parent));
  CAIRN_CHECK_OK(dir.remove_tree(name));
  return dir.make_directory(name, 0755);
}

}  // namespace

Status copy_file(const std::string& from, const std::string& to) {
  os::FileSystem& files = os::posix_file_system();
  CAIRN_TRY(std::unique_ptr<os::ReadableFile> source, files.open_read(from));
  std::string temporary = to + ".new";
  Status removed = files.remove(temporary);
  if (!removed && removed.error().code() != Code::kFileNotFound) return removed;
  CAIRN_TRY(std::unique_ptr<os::WritableFile> target, files.create_exclusive(temporary, 0600));
  std::vector<uint8_t> buffer(kCopyBuffer);
  uint64_t offset = 0;
  while (true) {
    CAIRN_TRY(size_t count, source->read_at(offset, buffer));
    if (count == 0) break;
    CAIRN_CHECK_OK(target->write({buffer.data(), count}));
    offset += count;
  }
  CAIRN_CHECK_OK(target->sync());
  CAIRN_CHECK_OK(target->close());
  CAIRN_CHECK_OK(files.rename(temporary, to));
  return files.sync_directory(os::parent_path(to));
}

AttemptMounts::~AttemptMounts() { take_down(); }

const AttemptMount* AttemptMounts::primary() const {
  for (const AttemptMount& mount : mounts_) {
    if (mount.grant.primary) return &mount;
  }
  return nullptr;
}

const AttemptMount* AttemptMounts::workspace() const {
  for (const AttemptMount& mount : mounts_) {
    if (mount.workspace) return &mount;
  }
  return nullptr;
}

Status AttemptMounts::bring_up(bool recovering, const std::function<void(const std::string&)>& say,
                               const Deadline& deadline) {
  CAIRN_CHECK(journal_.start().has_value());
  const api::AttemptStart& start = *journal_.start();
  JournalState state = journal_.state();
  state.plain_copy.resize(start.mounts.size() + 1);
  state.synced.resize(start.mounts.size());
  CAIRN_CHECK_OK(journal_.save(std::move(state)));
  for (size_t i = 0; i < start.mounts.size(); ++i) {
    AttemptMount mount;
    mount.grant = start.mounts[i];
    mount.index = i;
    if (recovering && (!mount.writable() || journal_.state().synced[i])) continue;
    say(fmt::format("staging {} ({} files, {} bytes)", mount.grant.volume, mount.grant.base.files, mount.grant.base.bytes));
    Status status = bring_up_one(std::move(mount), recovering, deadline);
    if (!status) return std::move(status).error().while_doing("staging '" + start.mounts[i].volume + "'");
  }
  if (start.workspace && !recovering) {
    AttemptMount mount;
    mount.grant = *start.workspace;
    mount.index = start.mounts.size();
    mount.workspace = true;
    say("staging the workspace");
    Status status = bring_up_one(std::move(mount), recovering, deadline);
    if (!status) return std::move(status).error().while_doing("staging the workspace");
  }
  return ok();
}

Status AttemptMounts::bring_up_one(AttemptMount mount, bool recovering, const Deadline& deadline) {
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(fmt::format("{}/m{}", journal_.dir(), mount.index), 0700));
  bool plain = journal_.state().plain_copy[mount.index];
  if (recovering && plain) {
    // The copy holds everything; the lower is not needed again.
    mount.plain_copy = true;
    mount.merged = journal_.mount_path(mount.index, "copy");
    mount.manifest = journal_.mount_path(mount.index, "manifest");
    mounts_.push_back(std::move(mount));
    return ok();
  }
  transfer::Progress progress;
  // An upper needs its lower to be read: it stays until the upper was synced, also when this process dies.
  std::string holder = mount.writable() ? journal_.assignment().attempt.hex() : std::string();
  CAIRN_TRY(mount.staged, volumes_.stage(mount.grant, holder, progress, deadline));
  mount.lower = mount.staged.tree_dir;
  mount.staged_bytes = mount.staged.bytes;
  mount.merged = mount.lower;
  if (mount.writable() || mount.workspace) CAIRN_CHECK_OK(mount_writable(mount, recovering, deadline));
  mounts_.push_back(std::move(mount));
  return ok();
}

Status AttemptMounts::mount_writable(AttemptMount& mount, bool recovering, const Deadline& deadline) {
  os::FileSystem& files = os::posix_file_system();
  std::string folder = fmt::format("{}/m{}", journal_.dir(), mount.index);
  mount.manifest = folder + "/manifest";
  mount.upper = folder + "/upper";
  CAIRN_CHECK_OK(files.make_directories(mount.upper, 0755));
  CAIRN_TRY(bool have_manifest, files.exists(mount.manifest));
  if (!have_manifest && !mount.workspace) {
    if (recovering) return Error(Code::kDataCorrupt, "the journal's manifest of '" + mount.grant.volume + "' is gone");
    CAIRN_CHECK_OK(copy_file(mount.staged.manifest_file, mount.manifest));
  }
  // The kernel leaves its own things in work; it wants it empty.
  CAIRN_CHECK_OK(make_empty(folder, "work"));
  CAIRN_CHECK_OK(files.make_directories(folder + "/merged", 0755));
  os::OverlaySpec spec;
  spec.lowers = {mount.lower};
  spec.upper = mount.upper;
  spec.work = folder + "/work";
  spec.target = folder + "/merged";
  Status mounted = may_mount_ ? os::mount_overlay(spec) : Error(Code::kSandboxUnavailable, "this process may not mount");
  if (mounted) {
    mount.merged = spec.target;
    return ok();
  }
  if (mounted.error().code() != Code::kSandboxUnavailable || recovering) return mounted;
  log_warning("no overlay here ({}); the volume is copied instead", mounted.error().message());
  mount.upper.clear();
  mount.plain_copy = true;
  mount.merged = folder + "/copy";
  CAIRN_CHECK_OK(make_empty(folder, "copy"));
  transfer::Progress progress;
  CAIRN_CHECK_OK(volumes_.copy(mount.staged, mount.merged, mount.manifest, progress, deadline));
  JournalState state = journal_.state();
  state.plain_copy[mount.index] = true;
  return journal_.save(std::move(state));
}

void AttemptMounts::take_down() {
  for (const AttemptMount& mount : mounts_) {
    if (mount.upper.empty()) continue;
    Status status = os::unmount(mount.merged);
    if (!status) status = os::unmount_lazily(mount.merged);
    if (!status) log_warning("{}", status.error().to_string());
  }
  mounts_.clear();
}

}  // namespace cairn::agent
