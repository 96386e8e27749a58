// Scalars in a TensorBoard event file: TFRecord frames (length, masked CRC32C of it, payload, masked CRC32C of that) around the
// protocol buffers Event and Summary, written by hand. Each call appends whole frames, so that a reader beside a live run and a
// crash see complete frames but for the last. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "os/fd.h"

namespace cairn::trainer {

// One frame around `payload`.
void append_tfrecord(codec::Bytes& out, codec::ByteView payload);

class TensorboardWriter {
 public:
  // Makes "events.out.tfevents.<seconds>.<host>.<pid>" in an existing folder.
  static Result<TensorboardWriter> create(const std::string& folder, Time now);
  Status scalars(int64_t step, Time now, const std::vector<std::pair<std::string, double>>& values);
  const std::string& path() const { return path_; }

 private:
  TensorboardWriter(os::Fd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  os::Fd file_;
  std::string path_;
};

}  // namespace cairn::trainer
