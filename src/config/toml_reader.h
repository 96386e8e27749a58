// Reads a TOML text against a schema written as code: each setting is asked for by name, type and bounds, and `finish` then
// complains about what nobody asked for. Every complaint is config_invalid (config_unsupported for what `refuse` refuses) and
// names file, line and key; for an unknown key also the nearest known one. The first complaint wins; after it, settings keep
// their defaults. `finish` may be called more than once: checks that compare settings come after a first one, so that a
// mistyped key is named before what follows from it.
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
  // A finite number, whole or not.
  bool real(const std::string& key, double& value, double min, double max);
  // One of these texts.
  bool choice(const std::string& key, std::string& value, const std::vector<std::string>& words);
  // "500Gi", or whole bytes.
  bool size(const std::string& key, uint64_t& value);
  // "7d".
  bool duration(const std::string& key, Duration& value);
  bool texts(const std::string& key, std::vector<std::string>& value);
  bool numbers(const std::string& key, std::vector<int64_t>& value, int64_t min, int64_t max);
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
  // Whether the key holds a table.
  bool is_table(const std::string& key) const;
  // The value of a key as a message shows it: "auto" with its quotes, 3, 0.5, true, a list, a table. Cut after 60 bytes.
  std::string shown(const std::string& key) const;
  // Makes the key known without reading it.
  void know(const std::string& key);
  // Makes every key of this section known, and those below it: for the part of a file that somebody else checks.
  void ignore_rest();

  // A complaint of the caller's own about this key, with its line (that of the section when the key is not there).
  void complain(const std::string& key, const std::string& what, const std::string& hint = {});
  // The same for a known setting that this program does not have: config_unsupported. Makes the key known.
  void refuse(const std::string& key, const std::string& what, const std::string& hint = {});

 private:
  friend class TomlReader;
  TomlSection(TomlReader::State& state, size_t index) : state_(&state), index_(index) {}
  uint32_t line_of(const std::string& key) const;
  TomlReader::State* state_;
  size_t index_;
};

// Splits a command line at blanks; '…' and "…" keep words together, a backslash outside '…' takes the next character as it is.
Result<std::vector<std::string>> split_command(std::string_view text);
// A TOML basic string, quotes included.
std::string quote_toml(std::string_view text);

}  // namespace cairn::config
