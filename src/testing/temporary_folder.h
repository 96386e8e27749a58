// A folder of its own for a test, removed with all that is in it when the object goes.
#pragma once

#include <cstdlib>
#include <string>

#include "base/check.h"
#include "os/tree.h"

namespace cairn::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base ? base : "/tmp") + "/cairn-test-XXXXXX";
    CAIRN_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() {
    std::string parent = os::parent_path(path_);
    if (auto directory = os::Directory::open(parent)) {
      static_cast<void>(directory->remove_tree(path_.substr(parent.size() + 1)).has_value());
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace cairn::testing
