#include "transfer/scan.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "base/limits.h"
#include "os/file_system.h"
#include "os/timestamp.h"
#include "os/tree.h"
#include "store/paths.h"

namespace cairn::transfer {
namespace {

constexpr size_t kHeldFoldersMax = 64;
constexpr size_t kIgnoreFileBytesMax = 1 << 20;

FileIdentity identity_of(const os::EntryStat& stat) {
  return FileIdentity{stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns};
}

// Where a link at `path` points to, by its text alone: false when that is outside the tree.
bool stays_inside(std::string_view path, std::string_view target) {
  if (target.empty() || target.front() == '/') return false;
  long depth = std::count(path.begin(), path.end(), '/');
  while (!target.empty()) {
    size_t slash = target.find('/');
    std::string_view segment = target.substr(0, slash);
    if (segment == "..") {
      if (--depth < 0) return false;
    } else if (!segment.empty() && segment != ".") {
      ++depth;
    }
    if (slash == std::string_view::npos) break;
    target.remove_prefix(slash + 1);
  }
  return true;
}

Result<os::EntryStat> stat_following(const std::string& path) {
  struct stat st;
  if (::stat(path.c_str(), &st) != 0) return Error::from_errno(errno, path);
  os::EntryStat out;
  out.type = S_ISREG(st.st_mode) ? os::FileType::kFile : S_ISDIR(st.st_mode) ? os::FileType::kDirectory : os::FileType::kOther;
  out.mode = st.st_mode & 07777;
  out.device = st.st_dev;
  out.inode = st.st_ino;
  out.size = static_cast<uint64_t>(st.st_size);
  out.mtime_ns = os::nanoseconds_of(st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
  out.ctime_ns = os::nanoseconds_of(st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
  return out;
}

class TreeScanner final : public Scanner {
 public:
  TreeScanner(std::string root_path, os::Directory root, ScanOptions options, Progress& progress)
      : root_path_(std::move(root_path)), root_(std::move(root)), options_(std::move(options)), progress_(progress) {}

  Status prepare() {
    for (const std::string& file : options_.ignore_files) {
      CAIRN_TRY(std::string text, os::posix_file_system().read_file(file, kIgnoreFileBytesMax));
      ignore_.add_file(text);
    }
    for (const std::string& pattern : options_.exclude) exclude_.add_line(pattern);
    for (const std::string& pattern : options_.include) include_.add_line(pattern);
    select_ = !include_.empty() && exclude_.empty() && ignore_.empty() && options_.ignore_file_names.empty();
    return ok();
  }

  Result<std::optional<ScanEntry>> next(const Deadline& deadline) override {
    if (!started_) {
      started_ = true;
      CAIRN_TRY(os::EntryStat stat, root_.stat_self());
      CAIRN_CHECK_OK(enter(std::string(), identity_of(stat), false, true));
      return std::optional<ScanEntry>(ScanEntry{std::string(), EntryKind::kDirectory, stat.mode, identity_of(stat), {}});
    }
    while (true) {
      if (!ready_.empty()) {
        ScanEntry entry = std::move(ready_.front());
        ready_.erase(ready_.begin());
        return std::optional<ScanEntry>(std::move(entry));
      }
      if (levels_.empty()) return std::optional<ScanEntry>();
      CAIRN_CHECK_OK(deadline.check());
      Level& level = levels_.back();
      if (level.at == level.entries.size()) {
        leave();
        continue;
      }
      CAIRN_CHECK_OK(visit(level, level.entries[level.at++]));
    }
  }

  bool excluded(const std::string& path, bool is_directory) override {
    for (const std::string& unreadable : unreadable_) {
      if (store::is_at_or_under(path, unreadable)) return true;
    }
    std::string_view rest = path;
    for (size_t slash = 0; (slash = rest.find('/', slash)) != std::string_view::npos; ++slash) {
      if (verdict(path.substr(0, slash), true) == Verdict::kOut) return true;
    }
    Verdict last = verdict(path, is_directory);
    return last == Verdict::kOut || (last == Verdict::kEnter && !is_directory);
  }

  const ScanCounts& counts() const override { return counts_; }
  const std::vector<std::string>& unreadable() const override { return unreadable_; }

 private:
  enum class Verdict { kIn, kOut, kEnter };  // kEnter: a folder that is kept only when something in it is

  struct Level {
    std::string path;
    os::Directory folder;  // not held below kHeldFoldersMax
    std::vector<os::TreeEntry> entries;
    size_t at = 0;
    FileIdentity identity;
    bool followed = false;  // reached through a link (follow_links)
    bool selected = false;  // a pattern named the folder or one above it (select mode)
    std::optional<ScanEntry> pending;  // the folder's own entry, until something in it is kept
  };

  Verdict verdict(const std::string& path, bool is_directory) const {
    if (select_) {
      if (include_.match(path, is_directory) == true) return Verdict::kIn;
      for (const Level& level : levels_) {
        if (level.selected && store::is_under(path, level.path)) return Verdict::kIn;
      }
      return is_directory ? Verdict::kEnter : Verdict::kOut;
    }
    std::optional<bool> named = ignore_.match(path, is_directory);
    for (const auto& [folder, list] : nested_) {
      if (!store::is_under(path, folder)) continue;
      std::string_view below = std::string_view(path).substr(folder.empty() ? 0 : folder.size() + 1);
      if (auto inner = list.match(below, is_directory)) named = inner;
    }
    if (auto flag = exclude_.match(path, is_directory)) named = flag;
    if (include_.match(path, is_directory) == true) named = false;
    return named == true ? Verdict::kOut : Verdict::kIn;
  }

  Status enter(const std::string& path, const FileIdentity& identity, bool followed, bool selected_root) {
    Level level;
    level.path = path;
    level.identity = identity;
    level.followed = followed;
    level.selected = !selected_root && select_ && include_.match(path, true) == true;
    auto listed = list(level);
    if (!listed) {
      if (path.empty()) return listed;
      return leave_out(path, listed.error());
    }
    levels_.push_back(std::move(level));
    if (levels_.size() > kHeldFoldersMax) levels_[levels_.size() - kHeldFoldersMax].folder = os::Directory();
    return ok();
  }

  Status leave_out(const std::string& path, const Error& error) {
    constexpr size_t kUnreadableMax = 10'000;
    if (unreadable_.size() == kUnreadableMax) return Error(error).while_doing("too many unreadable entries");
    ++counts_.unreadable;
    unreadable_.push_back(path);
    progress_.notice(Notice::Kind::kUnreadable, path, error.message());
    return ok();
  }

  Status list(Level& level) {
    if (level.path.empty()) {
      CAIRN_TRY(level.folder, os::Directory::open(root_path_));
    } else {
      CAIRN_TRY(level.folder, open_folder(level.path, level.followed));
    }
    CAIRN_TRY(level.entries, level.folder.list());
    for (const std::string& name : options_.ignore_file_names) {
      auto file = level.folder.open_file(name);
      if (!file) continue;
      auto text = os::read_to_end(file->fd.get(), kIgnoreFileBytesMax, name);
      if (text) nested_[level.path].add_file(*text);
    }
    return ok();
  }

  Result<os::Directory> open_folder(const std::string& path, bool followed) const {
    if (followed) return os::Directory::open(root_path_ + "/" + path);
    if (!levels_.empty() && levels_.back().folder.valid() && store::parent_path(path) == levels_.back().path) {
      return levels_.back().folder.open_directory(store::base_name(path));
    }
    return root_.open_directory(path);
  }

  void leave() { levels_.pop_back(); }

  // Something below the pending folders is kept: they are, too.
  void emit(ScanEntry entry) {
    for (Level& level : levels_) {
      if (!level.pending) continue;
      ready_.push_back(std::move(*level.pending));
      level.pending.reset();
    }
    ready_.push_back(std::move(entry));
  }

  Status visit(Level& level, const os::TreeEntry& found) {
    std::string path = store::join_path(level.path, found.name);
    if (!store::is_valid_path(path)) {
      ++counts_.skipped_names;
      progress_.notice(Notice::Kind::kSkippedName, path, "a name that a volume cannot hold");
      return ok();
    }
    os::EntryStat stat = found.stat;
    bool followed = level.followed;
    ScanEntry entry;
    entry.path = path;
    if (stat.type == os::FileType::kSymlink) {
      CAIRN_TRY(bool keep, visit_link(level, found.name, entry, stat, followed));
      if (!keep) return ok();
    } else if (stat.type == os::FileType::kOther) {
      if (verdict(path, false) == Verdict::kOut) return ok();
      ++counts_.skipped_special;
      progress_.notice(Notice::Kind::kSkippedSpecial, path, "a device, socket or pipe");
      return ok();
    }
    bool is_directory = stat.type == os::FileType::kDirectory;
    Verdict wanted = verdict(path, is_directory);
    if (wanted == Verdict::kOut) {
      ++counts_.excluded;
      return ok();
    }
    entry.mode = stat.mode;
    entry.identity = identity_of(stat);
    if (stat.type == os::FileType::kSymlink) entry.kind = EntryKind::kSymlink;
    else entry.kind = is_directory ? EntryKind::kDirectory : EntryKind::kFile;
    if (!is_directory) {
      emit(std::move(entry));
      return ok();
    }
    size_t depth = levels_.size();
    CAIRN_CHECK_OK(enter(path, entry.identity, followed, false));
    // `level` may have moved: it is not used from here on.
    if (wanted == Verdict::kEnter) {
      if (levels_.size() > depth) levels_.back().pending = std::move(entry);
    } else if (levels_.size() > depth) {
      emit(std::move(entry));
    }
    return ok();
  }

  // False when the link is left out. With follow_links, `stat` becomes that of what it leads to.
  Result<bool> visit_link(Level& level, const std::string& name, ScanEntry& entry, os::EntryStat& stat, bool& followed) {
    if (verdict(entry.path, false) == Verdict::kOut) {
      ++counts_.excluded;
      return false;
    }
    if (options_.follow_links) {
      auto target = stat_following(root_path_ + "/" + entry.path);
      bool usable = target && target->type != os::FileType::kOther;
      bool loop = false;
      if (usable && target->type == os::FileType::kDirectory) {
        for (const Level& above : levels_) {
          loop = loop || (above.identity.device == target->device && above.identity.inode == target->inode);
        }
      }
      if (!usable || loop) {
        ++counts_.skipped_links;
        progress_.notice(Notice::Kind::kSkippedLink, entry.path, loop ? "a link to a folder it lies in" : "a link to nothing");
        return false;
      }
      stat = *target;
      followed = true;
      return true;
    }
    auto target = level.folder.valid() ? level.folder.read_link(name) : root_.read_link(entry.path);
    if (!target) {
      CAIRN_CHECK_OK(leave_out(entry.path, target.error()));
      return false;
    }
    if (!store::validate_symlink_target(*target) || (!options_.keep_all_links && !stays_inside(entry.path, *target))) {
      ++counts_.skipped_links;
      progress_.notice(Notice::Kind::kSkippedLink, entry.path, "a link that leaves the folder");
      return false;
    }
    entry.target = std::move(*target);
    return true;
  }

  const std::string root_path_;
  const os::Directory root_;
  const ScanOptions options_;
  Progress& progress_;
  PatternList ignore_, exclude_, include_;
  // Of the ignore files found, by folder: outer ones come first. Kept, since `excluded` may ask about a folder left before.
  std::map<std::string, PatternList, store::PathLess> nested_;
  std::vector<std::string> unreadable_;
  bool select_ = false;
  bool started_ = false;
  std::vector<Level> levels_;
  std::vector<ScanEntry> ready_;
  ScanCounts counts_;
};

}  // namespace

Result<std::unique_ptr<Scanner>> Scanner::open(const std::string& root, ScanOptions options, Progress& progress) {
  CAIRN_TRY(os::Directory folder, os::Directory::open(root));
  auto scanner = std::make_unique<TreeScanner>(root, std::move(folder), std::move(options), progress);
  CAIRN_CHECK_OK(scanner->prepare());
  return std::unique_ptr<Scanner>(std::move(scanner));
}

}  // namespace cairn::transfer
