// Writes entries of a listing below a folder. Files get their bytes from the store (or from an equal file that is there), appear
// whole, with mode (without setuid and setgid) and time; symlinks and then folders' times come in passes of their own, so that
// nothing is ever written through a link and no later write changes a folder's time.
//
// Every path goes through os::Directory: nothing outside the root is touched, whatever the listing or the folder says.
// One thread; the fetching threads write.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "os/tree.h"
#include "transfer/entry_spool.h"
#include "transfer/fetcher.h"
#include "transfer/folder_cache.h"
#include "transfer/stat_cache.h"

namespace cairn::transfer {

struct RestoreOptions {
  bool in_place = false;  // stage: the folder is new and private, files get their final names at once
  bool checksum = false;
  StatCache* cache = nullptr;
};

struct RestoreCounts {
  uint64_t files_written = 0;
  uint64_t chunks_reused = 0;
};

class RestoredFile;

class Restorer {
 public:
  Restorer(Fetcher& fetcher, const os::Directory& root, const RestoreOptions& options, Progress& progress);
  ~Restorer();

  // The entry, as `relative` below the root ("" for the root itself: nothing is done for it here). Its chunks are read from
  // `chunks`.
  Status add(const SpoolEntry& entry, const std::string& relative, EntrySource& chunks);
  // After Fetcher::drain, for the same sequence of entries: links, and when all of them stand, modes and times of folders.
  Status finish_link(const SpoolEntry& entry, const std::string& relative);
  Status finish_folder(const SpoolEntry& entry, const std::string& relative);
  // At the end: folders that their owner may not enter.
  Status finish();
  const RestoreCounts& counts() const { return counts_; }

 private:
  Status add_folder(const std::string& relative);
  Status add_file(const SpoolEntry& entry, const std::string& relative, EntrySource& chunks);
  Result<bool> reuse(const SpoolEntry& entry, const std::string& relative, const std::vector<store::ChunkRef>& chunks,
                     const os::EntryStat& there, std::shared_ptr<RestoredFile> file, std::vector<bool>& have);
  Status make_parents(const std::string& relative);

  Fetcher& fetcher_;
  const os::Directory& root_;
  const RestoreOptions options_;
  Progress& progress_;
  FolderCache folders_;
  std::string last_parent_;
  RestoreCounts counts_;
  std::vector<std::pair<std::string, uint32_t>> closed_folders_;
};

}  // namespace cairn::transfer
