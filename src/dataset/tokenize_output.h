// The shards of `tokenize`, filled document by document; private to tokenize.cc. They are written to the folder <output>.partial,
// which takes the output's name when all is done and goes when it fails; only a kill leaves it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataset/shard_writer.h"
#include "dataset/tokenize.h"
#include "os/fd.h"

namespace cairn::dataset {

class TokenizeOutput {
 public:
  TokenizeOutput(const TokenizeOptions& options, uint32_t token_size) : options_(options), token_size_(token_size) {}
  ~TokenizeOutput();
  TokenizeOutput(const TokenizeOutput&) = delete;
  TokenizeOutput& operator=(const TokenizeOutput&) = delete;

  // file_exists when the output is there and not an empty folder, or when there is a <output>.partial.
  Status prepare();
  Status append(std::span<const uint32_t> ids);
  // Completes the last shard; then the output is there, durably.
  Status finish();
  uint64_t tokens() const { return tokens_; }
  uint64_t shards() const { return rank_; }

 private:
  // Ids in the order they came, until their shard is full; no name leads to it.
  struct Spool {
    os::Fd fd;
    std::vector<uint32_t> buffer;
    std::vector<uint64_t> ends;
    uint64_t flushed = 0;  // ids in the file
  };
  Status open_shard();
  Status close_shard();
  Status open_spool();
  Status flush_spool();
  Status write_shuffled();

  const TokenizeOptions& options_;
  uint32_t token_size_;
  std::string output_, partial_;  // partial_ is empty before prepare and after finish
  uint64_t rank_ = 0, tokens_ = 0;
  uint64_t shard_tokens_ = 0, shard_documents_ = 0;
  bool open_ = false;
  std::unique_ptr<ShardWriter> writer_;
  Spool spool_;
};

}  // namespace cairn::dataset
