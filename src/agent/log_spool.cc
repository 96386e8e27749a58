#include "agent/log_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/whole_number.h"

namespace cairn::agent {
namespace {

// A record: magic, length of the component's name, flags, length of the line, time; then name and line.
constexpr uint8_t kMagic = 0xA7;
constexpr uint8_t kCut = 1;  // the line goes on in the next record of its component
constexpr uint8_t kGap = 2;  // no line; its text is how many lines are missing here
constexpr size_t kHeaderBytes = 16;
constexpr size_t kBatchBytesMax = 1 << 20;    // as the server gets it
constexpr size_t kRecordBytesAround = 96;      // of a record in JSON, besides its text and component
constexpr size_t kComponentBytesMax = 64;

struct Header {
  uint8_t name_bytes = 0;
  uint8_t flags = 0;
  uint32_t line_bytes = 0;
  int64_t at_us = 0;
};

void encode(const Header& header, std::string& out) {
  uint8_t bytes[kHeaderBytes] = {kMagic, header.name_bytes, header.flags, 0};
  std::memcpy(bytes + 4, &header.line_bytes, 4);
  std::memcpy(bytes + 8, &header.at_us, 8);
  out.append(reinterpret_cast<const char*>(bytes), kHeaderBytes);
}

std::optional<Header> decode(const uint8_t* bytes) {
  Header header;
  header.name_bytes = bytes[1];
  header.flags = bytes[2];
  std::memcpy(&header.line_bytes, bytes + 4, 4);
  std::memcpy(&header.at_us, bytes + 8, 8);
  if (bytes[0] != kMagic || header.name_bytes == 0 || header.name_bytes > kComponentBytesMax ||
      header.line_bytes > api::kLogTextBytesMax) {
    return std::nullopt;
  }
  return header;
}

// How many lines the record at `offset` stands for.
Result<uint64_t> lines_in(int fd, uint64_t offset, const Header& header) {
  if (!(header.flags & kGap)) return 1;
  std::string text(header.line_bytes, '\0');
  CAIRN_TRY(size_t got, os::read_full_at(fd, offset + kHeaderBytes + header.name_bytes,
                                         {reinterpret_cast<uint8_t*>(text.data()), text.size()}, "log spool"));
  std::optional<uint64_t> count = got == text.size() ? whole_number<uint64_t>(text) : std::nullopt;
  if (!count || *count == 0) return Error(Code::kDataCorrupt, "the log spool is damaged");
  return *count;
}

// Length of the valid UTF-8 sequence at `at`, or 0. NUL is none: no log and no catalog holds it as text.
size_t utf8_length(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  unsigned first = byte(0);
  if (first == 0) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    bool overlong = first == 0xE0 && byte(1) < 0xA0;
    bool surrogate = first == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    bool out = (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
    return continues(1) && continues(2) && continues(3) && !out ? 4 : 0;
  }
  return 0;
}

std::string shown(std::string_view raw) {
  std::string text;
  for (size_t at = 0; at < raw.size();) {
    size_t length = utf8_length(raw, at);
    if (length == 0) {
      text += "\xEF\xBF\xBD";
      ++at;
    } else {
      text.append(raw.substr(at, length));
      at += length;
    }
  }
  return text;
}

// What a record takes in a heartbeat. Control characters take six bytes there, so the bytes of its text say little.
size_t encoded_bytes(const api::LogRecord& record) {
  size_t bytes = kRecordBytesAround + record.component.size();
  for (char c : record.text) {
    auto byte = static_cast<unsigned char>(c);
    bytes += byte < 0x20 ? 6 : byte == '"' || byte == '\\' ? 2 : 1;
  }
  return bytes;
}

// As much of `text` as fits into `limit` without cutting a character.
size_t fitting(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end == 0 ? limit : end;
}

}  // namespace

Result<std::unique_ptr<LogSpool>> LogSpool::open(const std::string& path, Clock& clock, uint64_t bytes_max) {
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Error::from_errno(errno, path);
  std::unique_ptr<LogSpool> spool(new LogSpool(std::move(fd), clock, bytes_max));
  CAIRN_CHECK_OK(spool->recover());
  return spool;
}

Status LogSpool::recover() {
  struct stat stat;
  if (::fstat(fd_.get(), &stat) != 0) return Error::from_errno(errno, "log spool");
  auto size = static_cast<uint64_t>(stat.st_size);
  uint8_t bytes[kHeaderBytes];
  while (end_ + kHeaderBytes <= size) {
    CAIRN_TRY(size_t got, os::read_full_at(fd_.get(), end_, bytes, "log spool"));
    std::optional<Header> header = got == kHeaderBytes ? decode(bytes) : std::nullopt;
    if (!header || end_ + kHeaderBytes + header->name_bytes + header->line_bytes > size) break;
    std::string component(header->name_bytes, '\0');
    CAIRN_TRY(size_t named, os::read_full_at(fd_.get(), end_ + kHeaderBytes,
                                             {reinterpret_cast<uint8_t*>(component.data()), component.size()}, "log spool"));
    if (named != component.size() || component.find('\0') != std::string::npos) break;
    auto lines = lines_in(fd_.get(), end_, *header);
    if (!lines) break;
    if (!(header->flags & kGap)) bytes_[component] += header->line_bytes + (header->flags & kCut ? 0 : 1);
    end_ += kHeaderBytes + header->name_bytes + header->line_bytes;
    sequence_ += *lines;
  }
  if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) return Error::from_errno(errno, "log spool");
  full_ = end_ >= bytes_max_;
  return ok();
}

void LogSpool::tee(const std::string& component, os::Fd file) {
  std::lock_guard lock(mutex_);
  tees_[component] = std::move(file);
}

void LogSpool::untee() {
  std::lock_guard lock(mutex_);
  tees_.clear();
}

void LogSpool::append_line(const std::string& component, std::string_view line, bool cut) {
  if (broken_ || full_ || component.empty() || component.size() > kComponentBytesMax) return;
  std::string text = shown(line);
  std::string_view rest = text;
  do {
    size_t length = fitting(rest, api::kLogTextBytesMax);
    Status status = append(component, rest.substr(0, length), cut || length < rest.size() ? kCut : 0);
    if (!status) {
      // The plain files on the volume still get everything.
      log_error("the log is no longer captured: {}", status.error().to_string());
      broken_ = true;
      return;
    }
    ++sequence_;
    rest.remove_prefix(length);
  } while (!rest.empty());
  if (end_ >= bytes_max_) {
    full_ = true;
    if (append("cairn", "the log is longer than Cairn keeps; the rest is not captured", 0)) ++sequence_;
  }
}

Status LogSpool::append(const std::string& component, std::string_view line, uint8_t flags) {
  Header header;
  header.name_bytes = static_cast<uint8_t>(component.size());
  header.line_bytes = static_cast<uint32_t>(line.size());
  header.flags = flags;
  header.at_us = clock_->now().us;
  std::string record;
  encode(header, record);
  record += component;
  record += line;
  CAIRN_CHECK_OK(
      os::write_all_at(fd_.get(), end_, {reinterpret_cast<const uint8_t*>(record.data()), record.size()}, "log spool"));
  end_ += record.size();
  return ok();
}

void LogSpool::go_on_after(uint64_t sequence) {
  std::lock_guard lock(mutex_);
  if (sequence <= sequence_ || broken_ || full_) return;
  Status status = append("cairn", std::to_string(sequence - sequence_), kGap);
  if (!status) {
    log_error("the log cannot go on after line {}: {}", sequence, status.error().to_string());
    return;
  }
  sequence_ = sequence;
}

void LogSpool::write(const std::string& component, std::string_view bytes) {
  std::lock_guard lock(mutex_);
  auto tee = tees_.find(component);
  if (tee != tees_.end() && tee->second.valid()) {
    Status status =
        os::write_all(tee->second.get(), {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, component);
    if (!status) tee->second.reset();
  }
  bytes_[component] += bytes.size();
  std::string& partial = partial_[component];
  while (!bytes.empty()) {
    size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) {
      partial.append(bytes);
      break;
    }
    if (partial.empty()) {
      append_line(component, bytes.substr(0, newline), false);
    } else {
      partial.append(bytes.substr(0, newline));
      append_line(component, partial, false);
      partial.clear();
    }
    bytes.remove_prefix(newline + 1);
  }
  // A line without an end (a progress bar) must not grow for ever.
  while (partial.size() > api::kLogTextBytesMax) {
    size_t length = fitting(partial, api::kLogTextBytesMax);
    append_line(component, std::string_view(partial).substr(0, length), true);
    partial.erase(0, length);
  }
}

void LogSpool::close_component(const std::string& component) {
  std::lock_guard lock(mutex_);
  auto found = partial_.find(component);
  if (found == partial_.end()) return;
  if (!found->second.empty()) append_line(component, found->second, true);
  partial_.erase(found);
}

void LogSpool::note(std::string_view line) {
  write("cairn", std::string(line) + "\n");
}

Result<LogBatch> LogSpool::batch_after(uint64_t acknowledged) {
  std::lock_guard lock(mutex_);
  if (acknowledged < read_sequence_) {
    read_offset_ = 0;
    read_sequence_ = 0;
  }
  LogBatch batch;
  uint64_t offset = read_offset_;
  uint64_t sequence = read_sequence_;
  size_t total = 0;
  while (sequence < sequence_ && batch.records.size() < api::kLogRecordsPerHeartbeatMax && total < kBatchBytesMax) {
    uint8_t bytes[kHeaderBytes];
    CAIRN_TRY(size_t got, os::read_full_at(fd_.get(), offset, bytes, "log spool"));
    std::optional<Header> header = got == kHeaderBytes ? decode(bytes) : std::nullopt;
    if (!header) return Error(Code::kDataCorrupt, "the log spool is damaged");
    size_t length = size_t{header->name_bytes} + header->line_bytes;
    CAIRN_TRY(uint64_t lines, lines_in(fd_.get(), offset, *header));
    if (header->flags & kGap) {
      uint64_t unsent = sequence + lines - std::min(std::max(sequence, acknowledged), sequence + lines);
      for (; unsent > 0 && batch.records.size() < api::kLogRecordsPerHeartbeatMax; --unsent) {
        batch.records.push_back({"cairn", Time{header->at_us}, "this line was lost when the node was restarted"});
      }
      if (unsent > 0) break;
    } else if (sequence >= acknowledged) {
      std::string text(length, '\0');
      CAIRN_TRY(size_t body, os::read_full_at(fd_.get(), offset + kHeaderBytes,
                                              {reinterpret_cast<uint8_t*>(text.data()), text.size()}, "log spool"));
      if (body != length) return Error(Code::kDataCorrupt, "the log spool is damaged");
      api::LogRecord record;
      record.component = text.substr(0, header->name_bytes);
      record.at = Time{header->at_us};
      // Shown again: a power loss may have left other bytes than were written.
      record.text = shown(std::string_view(text).substr(header->name_bytes));
      total += encoded_bytes(record);
      batch.records.push_back(std::move(record));
    }
    offset += kHeaderBytes + length;
    sequence += lines;
    if (sequence <= acknowledged) {
      read_offset_ = offset;
      read_sequence_ = sequence;
    }
  }
  batch.first_sequence = acknowledged + 1;
  return batch;
}

uint64_t LogSpool::last_sequence() const {
  std::lock_guard lock(mutex_);
  return sequence_;
}

uint64_t LogSpool::component_bytes(const std::string& component) const {
  std::lock_guard lock(mutex_);
  auto found = bytes_.find(component);
  return found == bytes_.end() ? 0 : found->second;
}

std::vector<std::string> LogSpool::components() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : bytes_) names.push_back(name);
  return names;
}

Status LogSpool::rewrite(const std::string& component, int fd) const {
  std::lock_guard lock(mutex_);
  if (::ftruncate(fd, 0) != 0) return Error::from_errno(errno, component);
  uint64_t offset = 0;
  uint64_t out = 0;
  uint8_t bytes[kHeaderBytes];
  while (offset < end_) {
    CAIRN_TRY(size_t got, os::read_full_at(fd_.get(), offset, bytes, "log spool"));
    std::optional<Header> header = got == kHeaderBytes ? decode(bytes) : std::nullopt;
    if (!header) return Error(Code::kDataCorrupt, "the log spool is damaged");
    std::string text(size_t{header->name_bytes} + header->line_bytes, '\0');
    CAIRN_TRY([[maybe_unused]] size_t body,
              os::read_full_at(fd_.get(), offset + kHeaderBytes, {reinterpret_cast<uint8_t*>(text.data()), text.size()},
                               "log spool"));
    offset += kHeaderBytes + text.size();
    if (header->flags & kGap) continue;
    if (text.compare(0, header->name_bytes, component) != 0 || component.size() != header->name_bytes) continue;
    std::string line = text.substr(header->name_bytes);
    if (!(header->flags & kCut)) line += '\n';
    CAIRN_CHECK_OK(
        os::write_all_at(fd, out, {reinterpret_cast<const uint8_t*>(line.data()), line.size()}, component));
    out += line.size();
  }
  return ok();
}

}  // namespace cairn::agent
