// Reads a TOML text against a schema written as code: each setting is asked for by name, type and bounds, and `finish` then
// complains about what nobody asked for. Every complaint is config_invalid and names file, line and key; for an unknown key
// also the nearest known one. The first complaint wins; after it, settings keep their defaults.
//
//   CAIRN_TRY(TomlReader reader, TomlReader::parse(text, "server.toml"));
//   TomlSection top = reader.top();
//   top.text("listen", settings.listen);
//   top.section("tls").text("certificate", settings.certificate);
//   CAIRN_CHECK_OK(reader.finish());
//
// Not thread-safe. Sections live as long as their reader.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace cairn::config {

inline constexpr size_t kTomlBytesMax = 1024 * 1024;

class TomlSection;

class TomlReader {
 public:
  // config_invalid with the line when it is not TOML. `file` is for messages.
  static Result<TomlReader> parse(std::string_view text, std::string file);
  ~TomlReader();
  TomlReader(TomlReader&&) noexcept;
  TomlReader& operator=(TomlReader&&) noexcept;

  TomlSection top();
  Status finish();

 private:
  friend class TomlSection;
  struct State;
  explicit TomlReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class TomlSection {
 public:
  // All leave `value` as it is when the key is absent. True when it was there and right.
  bool text(const std::string& key, std::string& value);
  bool boolean(const std::string& key, bool& value);
  bool number(const std::string& key, int64_t& value, int64_t min, int64_t max);
  // "500Gi", or whole bytes.
  bool size(const std::string& key, uint64_t& value);
  // "7d".
  bool duration(const std::string& key, Duration& value);
  bool texts(const std::string& key, std::vector<std::string>& value);
  // A command line: a list of words, or one text that is split at blanks (quotes keep words together).
  bool command(const std::string& key, std::vector<std::string>& value);

  bool has(const std::string& key) const;
  // Without the key: an empty section.
  TomlSection section(const std::string& key);
  // The names of the tables in this section, all thereby known: for [engines.NAME]. Sorted.
  std::vector<std::string> section_names();
  // Every key of this section; asking makes none known.
  std::vector<std::string> keys() const;
  // Whether the key holds a text.
  bool is_text(const std::string& key) const;
  // Makes every key of this section known, and those below it: for the part of a file that somebody else checks.
  void ignore_rest();

  // A complaint of the caller's own about this key, with its line.
  void complain(const std::string& key, const std::string& what, const std::string& hint = {});

 private:
  friend class TomlReader;
  TomlSection(TomlReader::State& state, size_t index) : state_(&state), index_(index) {}
  TomlReader::State* state_;
  size_t index_;
};

// Splits a command line at blanks; '…' and "…" keep words together, a backslash outside '…' takes the next character as it is.
Result<std::vector<std::string>> split_command(std::string_view text);
// A TOML basic string, quotes included.
std::string quote_toml(std::string_view text);

}  // namespace cairn::config
