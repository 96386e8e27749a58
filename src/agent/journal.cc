#include "agent/journal.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>

#include <fmt/format.h>

#include "agent/sandbox.h"
#include "api/json.h"
#include "base/log.h"
#include "os/file_system.h"

namespace cairn::agent {
namespace {

constexpr size_t kStateBytesMax = 1 << 20;
constexpr size_t kAnswerBytesMax = 8 << 20;
constexpr size_t kErrorBytesMax = 64 << 10;

// Values are one line: what is not printable, and '%', is written %XX.
std::string escape(std::string_view text) {
  std::string out;
  for (unsigned char c : text) {
    if (c >= 0x20 && c != '%' && c != 0x7f) {
      out.push_back(static_cast<char>(c));
    } else {
      out += fmt::format("%{:02x}", c);
    }
  }
  return out;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
    if (error != std::errc() || end != text.data() + i + 3) return std::nullopt;
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string format_flags(const std::vector<bool>& flags) {
  std::string text;
  for (bool flag : flags) text.push_back(flag ? '1' : '0');
  return text;
}

std::optional<std::vector<bool>> parse_flags(std::string_view text) {
  std::vector<bool> flags;
  for (char c : text) {
    if (c != '0' && c != '1') return std::nullopt;
    flags.push_back(c == '1');
  }
  return flags;
}

std::optional<api::RunState> parse_outcome(std::string_view text) {
  for (api::RunState state : {api::RunState::kCompleted, api::RunState::kFailed, api::RunState::kStopped}) {
    if (api::state_name(state) == text) return state;
  }
  return std::nullopt;
}

// False when the line is not one of a state file.
bool read_field(JournalState& state, std::string_view key, std::string_view raw) {
  std::optional<std::string> text = unescape(raw);
  if (!text) return false;
  std::optional<int64_t> number = integer(*text);
  if (key == "boot_id") {
    state.boot_id = *text;
  } else if (key == "reason") {
    state.reason = *text;
  } else if (key == "lost_path") {
    state.lost_paths.push_back(*text);
  } else if (key == "outcome") {
    std::optional<api::RunState> outcome = parse_outcome(*text);
    if (!outcome) return false;
    state.outcome = *outcome;
  } else if (key == "plain_copy" || key == "synced") {
    std::optional<std::vector<bool>> flags = parse_flags(*text);
    if (!flags) return false;
    (key == "synced" ? state.synced : state.plain_copy) = *std::move(flags);
  } else if (!number || *number < 0) {
    // An exit code is the only number that may be negative, and bubblewrap gives none.
    return false;
  } else if (key == "phase") {
    if (*number > static_cast<int64_t>(Phase::kFinished)) return false;
    state.phase = static_cast<Phase>(*number);
  } else if (key == "sandbox_pid") {
    state.sandbox_pid = *number;
  } else if (key == "init_pid") {
    state.init_pid = *number;
  } else if (key == "sandbox_started") {
    state.sandbox_started = *number;
  } else if (key == "init_started") {
    state.init_started = *number;
  } else if (key == "has_ended") {
    state.has_ended = *number != 0;
  } else if (key == "exit_code") {
    state.exit_code = *number;
  } else if (key == "snapshot") {
    state.snapshot = static_cast<uint64_t>(*number);
  } else if (key == "saved_step") {
    state.saved_step = static_cast<uint64_t>(*number);
  } else if (key == "kept_aside") {
    state.kept_aside = *number != 0;
  } else if (key == "keep") {
    state.keep = *number != 0;
  } else if (key == "lost_bytes") {
    state.lost_bytes = static_cast<uint64_t>(*number);
  } else {
    return false;
  }
  return true;
}

constexpr std::string_view kNotePrefix = "cairn agent exec, pid ";

// Number and start time: both say which process it is.
std::string executor_note() {
  int64_t pid = ::getpid();
  return fmt::format("{}{} started {}", kNotePrefix, pid, process_start_time(pid).value_or(0));
}

os::ByteView bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::string format_state(const JournalState& state) {
  std::string text = fmt::format("phase {}\nboot_id {}\nsandbox_pid {}\ninit_pid {}\nsandbox_started {}\ninit_started {}\n",
                                 static_cast<int>(state.phase), escape(state.boot_id), state.sandbox_pid, state.init_pid,
                                 state.sandbox_started, state.init_started);
  text += fmt::format("has_ended {}\n", state.has_ended ? 1 : 0);
  if (state.exit_code) text += fmt::format("exit_code {}\n", *state.exit_code);
  if (state.saved_step) text += fmt::format("saved_step {}\n", *state.saved_step);
  text += fmt::format("outcome {}\nreason {}\nplain_copy {}\nsynced {}\nsnapshot {}\nkept_aside {}\nkeep {}\nlost_bytes {}\n",
                      api::state_name(state.outcome), escape(state.reason), format_flags(state.plain_copy),
                      format_flags(state.synced), state.snapshot, state.kept_aside ? 1 : 0, state.keep ? 1 : 0,
                      state.lost_bytes);
  for (const std::string& path : state.lost_paths) text += fmt::format("lost_path {}\n", escape(path));
  text += "end 1\n";
  return text;
}

Result<JournalState> parse_state(std::string_view text) {
  JournalState state;
  bool ended = false;
  while (!text.empty()) {
    size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    size_t blank = line.find(' ');
    if (newline == std::string_view::npos || blank == std::string_view::npos || ended) {
      return Error(Code::kDataCorrupt, "the journal's state file is damaged");
    }
    text.remove_prefix(newline + 1);
    std::string_view key = line.substr(0, blank);
    if (key == "end") {
      ended = true;
    } else if (!read_field(state, key, line.substr(blank + 1))) {
      return Error(Code::kDataCorrupt, fmt::format("the journal's state file has an unreadable line '{}'", escape(key)));
    }
  }
  if (!ended) return Error(Code::kDataCorrupt, "the journal's state file is cut short");
  return state;
}

Status Journal::create(const std::string& dir, const api::Assignment& assignment) {
  os::FileSystem& files = os::posix_file_system();
  CAIRN_TRY(bool there, files.exists(dir + "/state"));
  if (there) return ok();
  CAIRN_CHECK_OK(files.make_directories(dir, 0700));
  CAIRN_CHECK_OK(files.write_file_atomic(dir + "/assignment.json", bytes_of(api::to_json(assignment)), 0600));
  // Last: a journal without a state file was never handed to an executor.
  return files.write_file_atomic(dir + "/state", bytes_of(format_state(JournalState())), 0600);
}

Result<Journal> Journal::open(const std::string& dir) {
  os::FileSystem& files = os::posix_file_system();
  Journal journal;
  journal.dir_ = dir;
  CAIRN_TRY(journal.lock_, os::LockFile::try_lock(dir + "/lock", executor_note()));
  CAIRN_TRY(std::string assignment, files.read_file(dir + "/assignment.json", kAnswerBytesMax));
  CAIRN_TRY(journal.assignment_, api::answer_from_json<api::Assignment>(assignment));
  CAIRN_TRY(std::string state, files.read_file(dir + "/state", kStateBytesMax));
  CAIRN_TRY(journal.state_, parse_state(state));
  CAIRN_TRY(bool started, files.exists(dir + "/start.json"));
  if (started) {
    CAIRN_TRY(std::string start, files.read_file(dir + "/start.json", kAnswerBytesMax));
    CAIRN_TRY(api::AttemptStart parsed, api::answer_from_json<api::AttemptStart>(start));
    journal.start_ = std::move(parsed);
  } else if (journal.state_.phase != Phase::kAssigned && journal.state_.phase != Phase::kFinished) {
    return Error(Code::kDataCorrupt, "the journal " + dir + " says that its attempt started, but not with what");
  }
  return journal;
}

bool Journal::in_use(const std::string& dir) {
  auto lock = os::LockFile::try_lock(dir + "/lock", os::lock_note(dir + "/lock"));
  return !lock && lock.error().code() == Code::kBusy;
}

void Journal::ask_executor_to_end(const std::string& dir) {
  std::string note = os::lock_note(dir + "/lock");
  if (!note.starts_with(kNotePrefix)) return;
  std::string_view rest = std::string_view(note).substr(kNotePrefix.size());
  size_t started_at = rest.find(" started ");
  if (started_at == std::string_view::npos) return;
  std::string_view started_text = rest.substr(started_at + 9);
  while (!started_text.empty() && started_text.back() == '\n') started_text.remove_suffix(1);
  std::optional<int64_t> pid = integer(rest.substr(0, started_at));
  std::optional<int64_t> started = integer(started_text);
  if (!pid || *pid <= 1 || !started || process_start_time(*pid) != started) return;
  ::kill(static_cast<pid_t>(*pid), SIGTERM);
}

void Journal::note_error(const std::string& dir, const Error& error) {
  Status noted = os::posix_file_system().write_file_atomic(dir + "/error", bytes_of(error.to_string()), 0600);
  if (!noted) log_warning("{}", noted.error().to_string());
}

std::string Journal::noted_error(const std::string& dir) {
  auto text = os::posix_file_system().read_file(dir + "/error", kErrorBytesMax);
  return text ? *std::move(text) : std::string();
}

Result<JournalState> Journal::peek(const std::string& dir) {
  CAIRN_TRY(std::string state, os::posix_file_system().read_file(dir + "/state", kStateBytesMax));
  return parse_state(state);
}

std::string Journal::mount_path(size_t mount, std::string_view name) const {
  return fmt::format("{}/m{}/{}", dir_, mount, name);
}

Status Journal::save_start(const api::AttemptStart& start) {
  CAIRN_CHECK_OK(os::posix_file_system().write_file_atomic(path("start.json"), bytes_of(api::to_json(start)), 0600));
  start_ = start;
  return ok();
}

Status Journal::save(JournalState state) {
  CAIRN_CHECK_OK(os::posix_file_system().write_file_atomic(path("state"), bytes_of(format_state(state)), 0600));
  state_ = std::move(state);
  return ok();
}

}  // namespace cairn::agent
