#include "os/file_system.h"

namespace cairn::os {

std::string parent_path(const std::string& path) {
  size_t end = path.find_last_not_of('/');
  size_t slash = path.rfind('/', end == std::string::npos ? 0 : end);
  if (slash == std::string::npos) return ".";
  size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

Result<std::string> FileSystem::read_file(const std::string& path, size_t max_bytes) {
  CAIRN_TRY(std::unique_ptr<ReadableFile> file, open_read(path));
  CAIRN_TRY(uint64_t size, file->size());
  if (size > max_bytes) {
    return Error(Code::kLimitExceeded, path + " is " + std::to_string(size) + " bytes; at most " +
                                           std::to_string(max_bytes) + " are expected");
  }
  std::string text(size, '\0');
  CAIRN_TRY(size_t got, file->read_at(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  text.resize(got);
  return text;
}

Status FileSystem::write_file_atomic(const std::string& path, ByteView data, uint32_t mode) {
  std::string temporary = path + ".tmp";
  if (Status removed = remove(temporary); !removed && removed.error().code() != Code::kFileNotFound) return removed;
  auto write = [&]() -> Status {
    CAIRN_TRY(std::unique_ptr<WritableFile> file, create_exclusive(temporary, mode));
    CAIRN_CHECK_OK(file->write(data));
    CAIRN_CHECK_OK(file->sync());
    CAIRN_CHECK_OK(file->close());
    return rename(temporary, path);
  };
  Status written = write();
  if (!written) {
    static_cast<void>(remove(temporary).has_value());
    return written;
  }
  return sync_directory(parent_path(path));
}

Status FileSystem::make_directories(const std::string& path, uint32_t mode) {
  Result<FileStat> found = stat(path);
  // A link to a directory is as good as one; the kernel says so when something is made below it.
  if (found && found->type != FileType::kFile && found->type != FileType::kOther) return ok();
  if (found) return Error(Code::kPathTypeConflict, path + " is in the way: it is not a folder");
  if (found.error().code() != Code::kFileNotFound) return found.error();
  std::string parent = parent_path(path);
  if (parent != path) CAIRN_CHECK_OK(make_directories(parent, mode));
  Status made = make_directory(path, mode);
  if (!made && made.error().code() != Code::kFileExists) return made;
  return sync_directory(parent);
}

Result<bool> FileSystem::exists(const std::string& path) {
  Result<FileStat> found = stat(path);
  if (found) return true;
  if (found.error().code() == Code::kFileNotFound) return false;
  return found.error();
}

}  // namespace cairn::os
