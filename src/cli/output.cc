#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/core.h>

#include "api/json.h"
#include "cli/terminal_text.h"

namespace cairn::cli {
namespace {

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Error::from_errno(errno, "writing to the terminal or pipe");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return ok();
}

// Characters, not bytes, so that names in UTF-8 line up.
size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The next step where an error says none of its own. Never empty.
std::string_view usual_hint(Code code) {
  constexpr std::string_view kServerLog = "the server's log may say more: logs/server.log in its data folder";
  constexpr std::pair<Code, std::string_view> kHints[] = {
      {Code::kPathInvalid, "a path on a volume has no '.' or '..', names of 1 to 255 bytes, and at most 4,096 bytes in all"},
      {Code::kPathNotFound, "see what is there: cairn volumes ls NAME"},
      {Code::kFileNotFound, "check the path; it is relative to the current folder"},
      {Code::kFileUnreadable, "check the file's owner and mode"},
      {Code::kFileExists, "name another path, or move what is in the way"},
      {Code::kPathTypeConflict, "name another path, or move what is in the way"},
      {Code::kConfigInvalid, "correct the file and type the command again"},
      {Code::kNoSpaceLeft, "free some space and type the command again: what was done is kept"},
      {Code::kOutcomeUnknown, "type the command again: it is safe to repeat"},
      {Code::kCancelled, "type the command again to go on: what was done is kept"},
      {Code::kInternal, kServerLog},
      {Code::kIoError, kServerLog},
      {Code::kDataCorrupt, kServerLog},
  };
  for (const auto& [known, hint] : kHints) {
    if (known == code) return hint;
  }
  switch (retry_class(code)) {
    case RetryClass::kBackoff: return "type the command again in a moment; what was done is kept";
    case RetryClass::kAfterHolder: return "try again when it has ended";
    case RetryClass::kReadBack: return "type the command again: it is safe to repeat";
    case RetryClass::kNever: break;
  }
  return "correct what the message names and type the command again";
}

}  // namespace

void Output::line(std::string_view text) { static_cast<void>(write_bytes(shown_text(text) + "\n")); }

void Output::document(std::string_view json) { static_cast<void>(write_bytes(std::string(json) + "\n")); }

void Output::note(std::string_view text) {
  std::lock_guard lock(mutex_);
  static_cast<void>(write_all(2, shown_text(text) + "\n"));
}

Status Output::write_bytes(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  return write_all(1, bytes);
}

void Output::table(const std::vector<std::string>& header, std::vector<std::vector<std::string>> rows) {
  for (auto& row : rows) {
    for (std::string& cell : row) cell = shown_words(cell);
  }
  std::vector<size_t> widths(header.size());
  auto measure = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  };
  measure(header);
  for (const auto& row : rows) measure(row);
  std::string text;
  auto append = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < widths.size(); ++i) {
      text += row[i];
      if (i + 1 < widths.size()) text.append(widths[i] - display_width(row[i]) + 2, ' ');
    }
    text += '\n';
  };
  append(header);
  for (const auto& row : rows) append(row);
  static_cast<void>(write_bytes(text));
}

int Output::fail(const Error& given) {
  std::string hint = given.hint().empty() ? std::string(usual_hint(given.code())) : given.hint();
  Error error = Error(given.code(), shown_text(given.message()), shown_text(hint)).with_holder(given.holder());
  if (json_) {
    document(api::error_to_json(error));
  } else {
    std::string text = fmt::format("cairn: {} ({})", error.message(), wire_name(error.code()));
    if (!error.hint().empty()) text += "\n  hint: " + error.hint();
    note(text);
  }
  return exit_code(error.code());
}

std::string human_duration(Duration duration) {
  int64_t ms = duration.count() / 1000;
  if (ms < 10'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  int64_t s = ms / 1000;
  if (s < 120) return fmt::format("{} s", s);
  if (s < 7200) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

std::string human_count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string human_time(Time time) {
  std::string text = to_rfc3339(time).substr(0, 19);
  text[10] = ' ';
  return text;
}

std::string plural(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", human_count(count), noun, count == 1 ? "" : "s");
}

std::string files_and_links(uint64_t files, uint64_t links) {
  return plural(files, "file") + (links == 0 ? "" : ", " + plural(links, "link"));
}

}  // namespace cairn::cli
