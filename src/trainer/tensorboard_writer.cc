#include "trainer/tensorboard_writer.h"

#include <unistd.h>

#include <bit>

#include <fmt/format.h>

#include "codec/crc32c.h"
#include "os/host.h"

namespace cairn::trainer {
namespace {

using codec::Bytes;
using codec::ByteView;
using codec::ByteWriter;

// Protocol buffers: a field's tag is its number and the kind of what follows.
enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void tag(ByteWriter& writer, uint32_t field, Wire wire) { writer.varint(field << 3 | static_cast<uint32_t>(wire)); }

uint32_t masked_crc(ByteView bytes) {
  uint32_t crc = codec::crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

void event_head(ByteWriter& writer, Time now) {
  tag(writer, 1, Wire::kFixed64);  // wall_time
  writer.u64(std::bit_cast<uint64_t>(static_cast<double>(now.us) / 1e6));
}

Bytes scalar_value(const std::string& name, double value) {
  Bytes out;
  ByteWriter writer(out);
  tag(writer, 1, Wire::kBytes);
  writer.prefixed(name);
  tag(writer, 2, Wire::kFixed32);  // simple_value
  writer.u32(std::bit_cast<uint32_t>(static_cast<float>(value)));
  return out;
}

}  // namespace

void append_tfrecord(Bytes& out, ByteView payload) {
  Bytes length;
  ByteWriter(length).u64(payload.size());
  ByteWriter writer(out);
  writer.bytes(length);
  writer.u32(masked_crc(length));
  writer.bytes(payload);
  writer.u32(masked_crc(payload));
}

Result<TensorboardWriter> TensorboardWriter::create(const std::string& folder, Time now) {
  std::string path = fmt::format("{}/events.out.tfevents.{}.{}.{}", folder, now.us / 1'000'000, os::host_name(), getpid());
  CAIRN_TRY(os::Fd file, os::open_append_fd(path, 0644));
  Bytes event;
  ByteWriter writer(event);
  event_head(writer, now);
  tag(writer, 3, Wire::kBytes);  // file_version
  writer.prefixed("brain.Event:2");
  Bytes frame;
  append_tfrecord(frame, event);
  CAIRN_CHECK_OK(os::write_all(file.get(), frame, path));
  return TensorboardWriter(std::move(file), std::move(path));
}

Status TensorboardWriter::scalars(int64_t step, Time now, const std::vector<std::pair<std::string, double>>& values) {
  Bytes summary;
  ByteWriter summary_writer(summary);
  for (const auto& [name, value] : values) {
    tag(summary_writer, 1, Wire::kBytes);
    summary_writer.prefixed(scalar_value(name, value));
  }
  Bytes event;
  ByteWriter writer(event);
  event_head(writer, now);
  tag(writer, 2, Wire::kVarint);
  writer.varint(static_cast<uint64_t>(step));
  tag(writer, 5, Wire::kBytes);
  writer.prefixed(summary);
  Bytes frame;
  append_tfrecord(frame, event);
  return os::append_whole(file_.get(), frame, path_);
}

}  // namespace cairn::trainer
