// The grammar of the command line: verbs with options and a function each. A thin face over CLI11, so that its header stays
// in one file. Everything after the first `--` (and after a
// verb that hands its arguments on) is handed over as it is and never looked at. Global options may stand before
// or after the verb.
//
// Used by one thread. Values that options write to must outlive `parse_and_run`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace cairn::cli {

class Context;

// What a command does: the exit code, or an error that is printed and becomes one.
using Action = std::function<Result<int>(Context&)>;

class Verb {
 public:
  explicit Verb(CLI::App* app, Action* chosen, std::vector<std::string>* rest) : app_(app), chosen_(chosen), rest_(rest) {}

  // A verb below this one.
  Verb add(const std::string& name, const std::string& help);
  // "NAME" is a positional argument, "--name,-n" an option.
  Verb& text(const std::string& name, std::string& value, const std::string& help, bool required = false);
  // A value that may be empty; an empty one of the others' options is refused.
  Verb& free_text(const std::string& name, std::string& value, const std::string& help);
  Verb& number(const std::string& name, uint64_t& value, const std::string& help);
  Verb& flag(const std::string& name, bool& value, const std::string& help);
  Verb& list(const std::string& name, std::vector<std::string>& values, const std::string& help, bool required = false);
  // Printed below the options of `--help`.
  Verb& footer(const std::string& text);
  // Not shown in help; for what Cairn starts itself.
  Verb& hidden();
  // Everything after this verb belongs to another program, `--help` too: it is not looked at, and `rest()` holds it. Only when
  // the verb's words come first on the command line; else `Context::has_rest` is false.
  Verb& hands_on();
  void run(Action action);

  // The arguments after `--`, or after a verb that hands them on. REQUIRES: called by an action.
  const std::vector<std::string>& rest() const { return *rest_; }

 private:
  CLI::App* app_;
  Action* chosen_;
  std::vector<std::string>* rest_;
};

class Args {
 public:
  Args(const std::string& description, const std::string& version);
  ~Args();

  Verb root();
  // Parses and runs the chosen verb. A usage error prints one line and the next command to type, and is 2; help is 0.
  int parse_and_run(int argc, char** argv, Context& context);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::cli
