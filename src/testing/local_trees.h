// Folders on disk for transfer tests: made at random from a seed, and read back whole for comparison.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "os/tree.h"
#include "store/paths.h"

namespace cairn::testing {

struct LocalEntry {
  os::FileType type = os::FileType::kFile;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  std::string data;  // contents or link target
  bool operator==(const LocalEntry&) const = default;
};
using LocalTree = std::map<std::string, LocalEntry, store::PathLess>;

inline std::string random_bytes(SeededRandom& random, size_t size) {
  std::string bytes(size, '\0');
  random.fill({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

inline void write_local(const std::string& path, std::string_view data, uint32_t mode = 0644, int64_t mtime_ns = 0) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  CAIRN_CHECK(fd >= 0);
  CAIRN_CHECK(os::write_all(fd, {reinterpret_cast<const uint8_t*>(data.data()), data.size()}, path).has_value());
  CAIRN_CHECK(::fchmod(fd, mode) == 0);
  if (mtime_ns != 0) {
    timespec times[2] = {{0, UTIME_OMIT}, {mtime_ns / 1'000'000'000, mtime_ns % 1'000'000'000}};
    CAIRN_CHECK(::futimens(fd, times) == 0);
  }
  ::close(fd);
}

inline void set_local_times(const std::string& path, int64_t mtime_ns) {
  timespec times[2] = {{0, UTIME_OMIT}, {mtime_ns / 1'000'000'000, mtime_ns % 1'000'000'000}};
  CAIRN_CHECK(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

inline void read_local(const os::Directory& root, const std::string& below, LocalTree& tree) {
  os::Directory opened;
  const os::Directory* folder = &root;
  if (!below.empty()) {
    auto sub = root.open_directory(below);
    CAIRN_CHECK(sub.has_value());
    opened = std::move(*sub);
    folder = &opened;
  }
  auto entries = folder->list();
  CAIRN_CHECK(entries.has_value());
  for (const os::TreeEntry& found : *entries) {
    std::string path = store::join_path(below, found.name);
    LocalEntry entry{found.stat.type, found.stat.mode, found.stat.mtime_ns, {}};
    if (entry.type == os::FileType::kFile) {
      auto file = folder->open_file(found.name);
      CAIRN_CHECK(file.has_value());
      auto text = os::read_to_end(file->fd.get(), 1 << 30, path);
      CAIRN_CHECK(text.has_value());
      entry.data = *text;
    } else if (entry.type == os::FileType::kSymlink) {
      auto target = folder->read_link(found.name);
      CAIRN_CHECK(target.has_value());
      entry.data = *target;
    }
    tree[path] = entry;
    if (entry.type == os::FileType::kDirectory) read_local(root, path, tree);
  }
}

inline LocalTree read_local(const std::string& root) {
  LocalTree tree;
  auto folder = os::Directory::open(root);
  CAIRN_CHECK(folder.has_value());
  read_local(*folder, std::string(), tree);
  return tree;
}

// A random tree below the existing folder `root`: nested and empty folders, files of all interesting sizes, links that stay
// inside, names that are no UTF-8, odd modes and nanosecond times.
inline void make_random_tree(const std::string& root, SeededRandom& random, int entries, bool big_files) {
  std::vector<std::string> folders{std::string()};
  std::vector<std::string> all;
  for (int i = 0; i < entries; ++i) {
    std::string parent = folders[random.below(folders.size())];
    std::string name = "n" + std::to_string(random.below(1000));
    if (random.below(8) == 0) name += "\xff\xfe.bin";
    if (random.below(8) == 0) name += " a-b.txt";
    if (random.below(8) == 0) name = "." + name;
    std::string path = store::join_path(parent, name);
    std::string full = root + "/" + path;
    struct stat st;
    if (::lstat(full.c_str(), &st) == 0) continue;
    int64_t mtime = 1'600'000'000'000'000'000 + static_cast<int64_t>(random.below(100'000'000'000'000'000));
    uint64_t kind = random.below(10);
    if (kind < 3) {
      CAIRN_CHECK(::mkdir(full.c_str(), 0755) == 0);
      folders.push_back(path);
    } else if (kind < 9) {
      size_t size = random.below(3000);
      uint64_t shape = random.below(12);
      if (shape == 0) size = 0;
      if (shape == 1) size = 256 * 1024 + random.below(3);
      if (shape == 2 && big_files) size = (4 << 20) + random.below(6 << 20);
      std::string data = shape == 3 ? std::string(size * 10, 'x') : random_bytes(random, size);
      write_local(full, data, shape == 4 ? 0755 : shape == 5 ? 0400 : 0644, mtime);
      continue;
    } else {
      CAIRN_CHECK(::symlink("n1", full.c_str()) == 0);
      set_local_times(full, mtime);
      continue;
    }
    all.push_back(path);
  }
  // Folders get their times last: making things in them changes them.
  for (auto path = all.rbegin(); path != all.rend(); ++path) {
    std::string full = root + "/" + *path;
    if (random.below(4) == 0) CAIRN_CHECK(::chmod(full.c_str(), 0700) == 0);
    set_local_times(full, 1'500'000'000'123'456'789 + static_cast<int64_t>(random.below(1'000'000'000'000)));
  }
}

}  // namespace cairn::testing
