// One shard of token ids (docs/formats/datatrove-shards.md), read piece by piece. Opening it checks width, metadata, index and
// sizes against each other; nothing is kept in memory but these numbers.
//
// A descriptor is opened at the first read and dropped by `close`, so that a set of many thousand shards does not need as many;
// a file that is not the one checked at first is file_changed. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/tree.h"

namespace cairn::dataset {

class ShardReader {
 public:
  // `relative` names the .ds file in `folder`; links are refused. data_invalid, data_corrupt or format_unsupported as the format
  // document says.
  static Result<ShardReader> open(std::shared_ptr<const os::Directory> folder, std::string relative);
  // The same by path.
  static Result<ShardReader> open(const std::string& path);

  const std::string& relative() const { return relative_; }
  // For messages.
  const std::string& name() const { return name_; }
  uint64_t tokens() const { return tokens_; }
  uint32_t token_size() const { return token_size_; }
  // Nothing when there is no index.
  std::optional<uint64_t> documents() const { return documents_; }
  // As the metadata say; empty when unknown.
  const std::string& tokenizer() const { return tokenizer_; }
  bool has_loss() const { return loss_.has_value(); }
  // Device and inode: equal for two names of one file.
  std::pair<uint64_t, uint64_t> file_key() const { return {ids_.stat.device, ids_.stat.inode}; }

  // The ids from position `first` on. REQUIRES: first + ids.size() <= tokens().
  Status read(uint64_t first, std::span<uint32_t> ids);
  // 1 for a token that is learnt as a target, 0 otherwise; all 1 without a loss file. REQUIRES: as above.
  Status read_loss(uint64_t first, std::span<uint8_t> learnt);
  // Where the documents from number `first` on end, each checked against the one before. REQUIRES: an index with that many.
  Status read_document_ends(uint64_t first, std::span<uint64_t> ends);
  void close();

 private:
  // A file of the shard as it was when the shard was opened.
  struct Part {
    std::string relative;
    os::EntryStat stat;
    os::Fd fd;
  };
  ShardReader() = default;
  static Result<std::optional<Part>> open_part(const os::Directory& folder, const std::string& relative);
  Result<std::optional<std::string>> read_metadata() const;
  Status set_width(const std::optional<std::string>& metadata_text, std::optional<uint64_t> last_end);
  Status check_sizes(std::optional<uint64_t> metadata_tokens, std::optional<uint64_t> last_end) const;
  Status read_part(Part& part, uint64_t offset, std::span<uint8_t> out) const;

  std::shared_ptr<const os::Directory> folder_;
  std::string relative_, name_, tokenizer_;
  Part ids_;
  std::optional<Part> index_, loss_;
  uint64_t tokens_ = 0;
  uint32_t token_size_ = 2;
  std::optional<uint64_t> documents_;
  std::optional<uint64_t> metadata_tokens_;
  std::vector<uint8_t> scratch_;
};

}  // namespace cairn::dataset
