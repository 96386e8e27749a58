#include <algorithm>
#include <optional>

#include "object/directory_store.h"

namespace cairn::object {
namespace {

constexpr size_t kEntriesPerRead = 1'000;
constexpr size_t kDepthMax = ObjectKey::kBytesMax / 2 + 1;

// Walks the folders in key order, holding one page of names a level.
class Walker {
 public:
  Walker(os::FileSystem& files, const std::string& root, const std::string& prefix, const std::string& after,
         size_t limit, const Deadline& deadline)
      : files_(files), root_(root), prefix_(prefix), after_(after), limit_(limit), deadline_(deadline) {}

  Result<ListPage> run() {
    CAIRN_CHECK_OK(walk("", 0));
    return std::move(page_);
  }

 private:
  // `folder` is empty or ends with '/'.
  Status walk(const std::string& folder, size_t depth) {
    if (depth > kDepthMax) return ok();  // no key is as deep
    std::string position = first_name(folder);
    while (!page_.more) {
      CAIRN_CHECK_OK(deadline_.check());
      Result<std::vector<os::DirectoryEntry>> entries = files_.list(root_ + "/" + folder, position, kEntriesPerRead);
      if (!entries && entries.error().code() == Code::kFileNotFound) return ok();  // removed meanwhile
      if (!entries) return entries.error();
      if (entries->empty()) return ok();
      for (const os::DirectoryEntry& entry : *entries) {
        bool is_folder = entry.type == os::FileType::kDirectory;
        position = entry.name + (is_folder ? "/" : "");
        CAIRN_CHECK_OK(visit(folder, entry.name, is_folder, depth));
        if (page_.more) return ok();
      }
    }
    return ok();
  }

  Status visit(const std::string& folder, const std::string& name, bool is_folder, size_t depth) {
    std::string key = folder + name;
    if (is_folder) {
      std::string below = key + "/";
      if (key == "tmp") return ok();
      bool may_match = below.starts_with(prefix_) || prefix_.starts_with(below);
      bool may_follow = below > after_ || after_.starts_with(below);
      return may_match && may_follow ? walk(below, depth + 1) : ok();
    }
    if (!key.starts_with(prefix_) || key <= after_ || !ObjectKey::is_valid(key)) return ok();
    if (page_.objects.size() == limit_) {
      page_.more = true;
      return ok();
    }
    Result<os::FileStat> stat = files_.stat(root_ + "/" + key);
    if (!stat && stat.error().code() == Code::kFileNotFound) return ok();
    if (!stat) return stat.error();
    page_.objects.push_back({ObjectKey::of(key), stat->size});
    return ok();
  }

  // Names before it cannot matter: where `after` leads into this folder, the one before the child it leads to.
  std::string first_name(const std::string& folder) const {
    if (after_.size() <= folder.size() || !after_.starts_with(folder)) return {};
    std::string rest = after_.substr(folder.size());
    size_t slash = rest.find('/');
    // "x" sorts before "x/", so the folder itself is still listed.
    return slash == std::string::npos ? rest : rest.substr(0, slash);
  }

  os::FileSystem& files_;
  const std::string& root_;
  const std::string& prefix_;
  const std::string& after_;
  size_t limit_;
  const Deadline& deadline_;
  ListPage page_;
};

}  // namespace

Result<ListPage> DirectoryStore::list(const std::string& prefix, const std::string& after, size_t limit,
                                      const Deadline& deadline) {
  CAIRN_CHECK_OK(deadline.check());
  Result<ListPage> page = Walker(files_, root_, prefix, after, std::min(limit, kListLimitMax), deadline).run();
  if (!page) return std::move(page).error().while_doing("listing the object store " + root_);
  return page;
}

}  // namespace cairn::object
