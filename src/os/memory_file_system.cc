#include "os/memory_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace cairn::os {

using Bytes = std::vector<uint8_t>;

struct MemoryFileSystem::Node {
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  // What one operation did to this folder's names; a null node takes the name away. Kept whole or lost whole.
  using Change = std::vector<std::pair<std::string, std::shared_ptr<Node>>>;

  bool directory = false;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  // A file.
  Bytes data;
  size_t synced_size = 0;  // files only grow, so what is not synced is the end
  uint32_t links = 0;
  // A folder.
  Entries entries;
  Entries durable;
  std::vector<Change> pending;

  static void apply(Entries& entries, const Change& change) {
    for (const auto& [name, node] : change) {
      if (node) {
        entries[name] = node;
      } else {
        entries.erase(name);
      }
    }
  }
  void change(Change made) {
    apply(entries, made);
    pending.push_back(std::move(made));
  }
};

struct MemoryFileSystem::Place {
  std::shared_ptr<Node> folder;
  std::string name;            // empty: the root
  std::shared_ptr<Node> node;  // null: nothing there
};

struct MemoryFileSystem::State {
  mutable std::mutex mutex;
  std::shared_ptr<Node> root = std::make_shared<Node>();
  uint64_t generation = 0;  // handles of an earlier one are dead
  uint64_t operations = 0;
  uint64_t power_off_at = UINT64_MAX;
  std::map<uint64_t, Error> failures;
  uint64_t capacity = UINT64_MAX;
  uint64_t used = 0;
  int64_t ticks = 0;

  bool off() const { return operations > power_off_at; }
  // Counts one operation and says whether it may go on.
  Status step() {
    uint64_t number = operations++;
    if (number >= power_off_at) return Error(Code::kIoError, "the power is off");
    auto failure = failures.find(number);
    if (failure == failures.end()) return ok();
    Error error = failure->second;
    failures.erase(failure);
    return error;
  }

  Result<Place> find(const std::string& path) const {
    Place place;
    place.node = root;
    size_t at = 0;
    while (at < path.size()) {
      size_t end = std::min(path.find('/', at), path.size());
      std::string name = path.substr(at, end - at);
      at = end + 1;
      if (name.empty() || name == ".") continue;
      if (name == "..") return Error(Code::kPathInvalid, path + ": '..' is not supported here");
      if (!place.node) return Error::from_errno(ENOENT, path);
      if (!place.node->directory) return Error::from_errno(ENOTDIR, path);
      place.folder = place.node;
      place.name = name;
      auto found = place.folder->entries.find(name);
      place.node = found == place.folder->entries.end() ? nullptr : found->second;
    }
    return place;
  }
  Result<std::shared_ptr<Node>> find_existing(const std::string& path) const {
    CAIRN_TRY(Place place, find(path));
    if (!place.node) return Error::from_errno(ENOENT, path);
    return place.node;
  }

  void add_link(Node& node) {
    if (!node.directory && node.links++ == 0) used += node.data.size();
  }
  void drop_link(Node& node) {
    if (!node.directory && --node.links == 0) used -= node.data.size();
  }

  // What is left of a folder and all below it after a power loss. Link counts and used bytes are taken anew.
  void settle(Node& node, Random* random) {
    if (!node.directory) {
      if (node.links++ > 0) return;
      settle_file(node, random);
      used += node.data.size();
      return;
    }
    size_t kept = random ? random->below(node.pending.size() + 1) : 0;
    for (size_t i = 0; i < kept; ++i) Node::apply(node.durable, node.pending[i]);
    node.pending.clear();
    node.entries = node.durable;
    for (auto& [name, child] : node.entries) settle(*child, random);
  }
  static void settle_file(Node& node, Random* random) {
    size_t size = node.data.size();
    size_t kept = node.synced_size;
    if (random) kept += random->below(size - node.synced_size + 1);
    node.data.resize(kept);
    // A journal that orders names and sizes but not bytes leaves zeros.
    if (random && random->below(3) == 0) node.data.resize(size);
    node.synced_size = node.data.size();
  }
  static void forget_links(Node& node) {
    node.links = 0;
    for (auto& [name, child] : node.entries) forget_links(*child);
    for (auto& [name, child] : node.durable) forget_links(*child);
    for (auto& change : node.pending) {
      for (auto& [name, child] : change) {
        if (child && !child->directory) child->links = 0;
      }
    }
  }
};

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(MemoryFileSystem::State& state, std::shared_ptr<MemoryFileSystem::Node> node, std::string path)
      : state_(state), node_(std::move(node)), path_(std::move(path)), generation_(state.generation) {}

  Status write(ByteView data) override {
    return once([&]() -> Status {
      bool torn = state_.operations == state_.power_off_at;
      Status allowed = state_.step();
      if (!allowed && !torn) return allowed;
      if (torn) data = data.first(data.size() / 2);
      if (state_.used + data.size() > state_.capacity) return Error::from_errno(ENOSPC, "write " + path_);
      node_->data.insert(node_->data.end(), data.begin(), data.end());
      node_->mtime_ns = ++state_.ticks;
      if (node_->links > 0) state_.used += data.size();
      return allowed;
    });
  }
  Status sync() override {
    return once([&]() -> Status {
      CAIRN_CHECK_OK(state_.step());
      node_->synced_size = node_->data.size();
      return ok();
    });
  }
  Status close() override {
    return once([&] { return state_.step(); });
  }

 private:
  template <class Call>
  Status once(Call call) {
    std::lock_guard lock(state_.mutex);
    if (first_error_) return *first_error_;
    Status status =
        generation_ == state_.generation ? call() : Error(Code::kIoError, path_ + " was open before the crash");
    if (!status) first_error_ = std::make_unique<Error>(status.error());
    return status;
  }

  MemoryFileSystem::State& state_;
  std::shared_ptr<MemoryFileSystem::Node> node_;
  std::string path_;
  uint64_t generation_;
  std::unique_ptr<Error> first_error_;
};

class MemoryReadableFile final : public ReadableFile {
 public:
  MemoryReadableFile(MemoryFileSystem::State& state, std::shared_ptr<MemoryFileSystem::Node> node)
      : state_(state), node_(std::move(node)), generation_(state.generation) {}

  Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) override {
    std::lock_guard lock(state_.mutex);
    CAIRN_CHECK_OK(alive());
    const Bytes& data = node_->data;
    if (offset >= data.size() || out.empty()) return size_t{0};
    size_t count = std::min<size_t>(out.size(), data.size() - offset);
    std::memcpy(out.data(), data.data() + offset, count);
    return count;
  }
  Result<uint64_t> size() override {
    std::lock_guard lock(state_.mutex);
    CAIRN_CHECK_OK(alive());
    return uint64_t{node_->data.size()};
  }

 private:
  Status alive() {
    if (generation_ != state_.generation) return Error(Code::kIoError, "the file was open before the crash");
    return state_.step();
  }
  MemoryFileSystem::State& state_;
  std::shared_ptr<MemoryFileSystem::Node> node_;
  uint64_t generation_;
};

MemoryFileSystem::MemoryFileSystem() : state_(std::make_unique<State>()) {
  state_->root->directory = true;
}
MemoryFileSystem::~MemoryFileSystem() = default;

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::create_exclusive(const std::string& path, uint32_t mode) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(Place place, state_->find(path));
  if (place.node) return Error::from_errno(EEXIST, "create " + path);
  auto node = std::make_shared<Node>();
  node->mode = mode;
  node->mtime_ns = ++state_->ticks;
  state_->add_link(*node);
  place.folder->change({{place.name, node}});
  return std::unique_ptr<WritableFile>(std::make_unique<MemoryWritableFile>(*state_, node, path));
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::open_append(const std::string& path, uint32_t mode) {
  {
    std::lock_guard lock(state_->mutex);
    CAIRN_TRY(Place place, state_->find(path));
    if (place.node) {
      CAIRN_CHECK_OK(state_->step());
      if (place.node->directory) return Error::from_errno(EISDIR, "open " + path);
      return std::unique_ptr<WritableFile>(std::make_unique<MemoryWritableFile>(*state_, place.node, path));
    }
  }
  return create_exclusive(path, mode);
}

Result<std::unique_ptr<ReadableFile>> MemoryFileSystem::open_read(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(std::shared_ptr<Node> node, state_->find_existing(path));
  if (node->directory) return Error(Code::kPathTypeConflict, path + " is not a regular file");
  return std::unique_ptr<ReadableFile>(std::make_unique<MemoryReadableFile>(*state_, node));
}

Status MemoryFileSystem::link_no_replace(const std::string& from, const std::string& to) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(std::shared_ptr<Node> node, state_->find_existing(from));
  if (node->directory) return Error::from_errno(EPERM, "link " + from);
  CAIRN_TRY(Place place, state_->find(to));
  if (place.node) return Error::from_errno(EEXIST, "link " + from + " to " + to);
  state_->add_link(*node);
  place.folder->change({{place.name, node}});
  return ok();
}

Status MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(Place source, state_->find(from));
  CAIRN_TRY(Place target, state_->find(to));
  std::string what = "rename " + from + " to " + to;
  if (!source.node) return Error::from_errno(ENOENT, what);
  if (!source.folder || !target.folder) return Error::from_errno(EBUSY, what);
  if (source.node == target.node) return ok();
  if (target.node && target.node->directory != source.node->directory) {
    return Error::from_errno(target.node->directory ? EISDIR : ENOTDIR, what);
  }
  if (target.node && target.node->directory && !target.node->entries.empty()) return Error::from_errno(ENOTEMPTY, what);
  if (target.node) state_->drop_link(*target.node);
  if (source.folder == target.folder) {
    source.folder->change({{source.name, nullptr}, {target.name, source.node}});
  } else {
    // Two folders, two journals: neither is durable before its own sync.
    target.folder->change({{target.name, source.node}});
    source.folder->change({{source.name, nullptr}});
  }
  return ok();
}

Status MemoryFileSystem::remove(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(Place place, state_->find(path));
  if (!place.node) return Error::from_errno(ENOENT, "remove " + path);
  if (place.node->directory) return Error::from_errno(EISDIR, "remove " + path);
  state_->drop_link(*place.node);
  place.folder->change({{place.name, nullptr}});
  return ok();
}

Status MemoryFileSystem::remove_directory(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(Place place, state_->find(path));
  std::string what = "remove folder " + path;
  if (!place.node) return Error::from_errno(ENOENT, what);
  if (!place.node->directory) return Error::from_errno(ENOTDIR, what);
  if (!place.folder) return Error::from_errno(EBUSY, what);
  if (!place.node->entries.empty()) return Error::from_errno(ENOTEMPTY, what);
  place.folder->change({{place.name, nullptr}});
  return ok();
}

Status MemoryFileSystem::make_directory(const std::string& path, uint32_t mode) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(Place place, state_->find(path));
  if (place.node) return Error::from_errno(EEXIST, "make folder " + path);
  auto node = std::make_shared<Node>();
  node->directory = true;
  node->mode = mode;
  node->mtime_ns = ++state_->ticks;
  place.folder->change({{place.name, node}});
  return ok();
}

Status MemoryFileSystem::sync_directory(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(std::shared_ptr<Node> node, state_->find_existing(path));
  if (!node->directory) return Error::from_errno(ENOTDIR, "sync folder " + path);
  node->durable = node->entries;
  node->pending.clear();
  return ok();
}

Result<FileStat> MemoryFileSystem::stat(const std::string& path) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(std::shared_ptr<Node> node, state_->find_existing(path));
  FileStat result;
  result.type = node->directory ? FileType::kDirectory : FileType::kFile;
  result.size = node->data.size();
  result.mode = node->mode;
  result.mtime_ns = node->mtime_ns;
  return result;
}

Result<std::vector<DirectoryEntry>> MemoryFileSystem::list(const std::string& path, const std::string& after,
                                                           size_t limit) {
  std::lock_guard lock(state_->mutex);
  CAIRN_CHECK_OK(state_->step());
  CAIRN_TRY(std::shared_ptr<Node> node, state_->find_existing(path));
  if (!node->directory) return Error::from_errno(ENOTDIR, "list " + path);
  std::map<std::string, DirectoryEntry> sorted;
  for (const auto& [name, child] : node->entries) {
    DirectoryEntry entry;
    entry.name = name;
    entry.type = child->directory ? FileType::kDirectory : FileType::kFile;
    sorted.emplace(child->directory ? name + "/" : name, std::move(entry));
  }
  std::vector<DirectoryEntry> page;
  for (auto at = sorted.upper_bound(after); at != sorted.end() && page.size() < limit; ++at) {
    page.push_back(std::move(at->second));
  }
  return page;
}

void MemoryFileSystem::crash(Random* random) {
  std::lock_guard lock(state_->mutex);
  State::forget_links(*state_->root);
  state_->used = 0;
  state_->settle(*state_->root, random);
  state_->generation++;
  state_->power_off_at = UINT64_MAX;
  state_->failures.clear();
}

void MemoryFileSystem::fail_operation(uint64_t n, Error error) {
  std::lock_guard lock(state_->mutex);
  state_->failures.insert_or_assign(state_->operations + n, std::move(error));
}

void MemoryFileSystem::power_off_at(uint64_t n) {
  std::lock_guard lock(state_->mutex);
  state_->power_off_at = state_->operations + n;
}

bool MemoryFileSystem::power_is_off() const {
  std::lock_guard lock(state_->mutex);
  return state_->off();
}

uint64_t MemoryFileSystem::operations() const {
  std::lock_guard lock(state_->mutex);
  return state_->operations;
}

void MemoryFileSystem::set_capacity(uint64_t bytes) {
  std::lock_guard lock(state_->mutex);
  state_->capacity = bytes;
}

uint64_t MemoryFileSystem::used_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->used;
}

}  // namespace cairn::os
