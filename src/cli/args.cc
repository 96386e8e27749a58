#include "cli/args.h"

#include <CLI/CLI.hpp>
#include <cstring>
#include <iostream>
#include <string_view>
#include <utility>

#include "cli/context.h"
#include "cli/output.h"

namespace cairn::cli {

namespace {

// Whether the failing command line asked for JSON: what could not be parsed must still answer in it.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "-ojson" || word == "-o=json" || word == "--output=json") return true;
    if ((word == "-o" || word == "--output") && i + 1 < argc && std::string_view(argv[i + 1]) == "json") return true;
  }
  return false;
}

// The verb that was typed, with the verbs above it: "cairn volumes put".
std::pair<CLI::App*, std::string> deepest(CLI::App& app) {
  CLI::App* verb = &app;
  std::string above;
  while (!verb->get_subcommands().empty()) {
    above += (above.empty() ? "" : " ") + verb->get_name();
    verb = verb->get_subcommands().front();
  }
  return {verb, above};
}

// How many words of the command line lead to a verb that hands on what follows; 0 when none does.
int words_before_handed_on(CLI::App& app, int argc, char** argv) {
  CLI::App* verb = &app;
  for (int i = 1; i < argc; ++i) {
    CLI::App* next = nullptr;
    for (CLI::App* child : verb->get_subcommands([](CLI::App*) { return true; })) {
      if (child->get_name() == argv[i]) next = child;
    }
    if (next == nullptr) return 0;
    if (next->get_prefix_command()) return i + 1;
    verb = next;
  }
  return 0;
}

std::string help_text(CLI::App& app) {
  auto [verb, above] = deepest(app);
  return verb->help(above);
}

std::string typed_words(CLI::App& app) {
  auto [verb, above] = deepest(app);
  return above + (above.empty() ? "" : " ") + verb->get_name();
}

// What was typed and no verb takes, in the order it was typed.
Error unexpected(CLI::App& app) {
  std::string words = typed_words(app);
  CLI::App* verb = deepest(app).first;
  bool takes_verb = !verb->get_subcommands([](CLI::App*) { return true; }).empty();
  bool takes_words = !verb->get_options([](const CLI::Option* option) { return option->get_positional(); }).empty();
  std::vector<std::string> extra = app.remaining(true);
  std::string hint = "type '" + words + " --help'";
  if (takes_verb && !takes_words && !extra.empty() && !extra.front().starts_with('-')) {
    return Error(Code::kUsage, "'" + words + "' has no verb '" + extra.front() + "'", hint);
  }
  std::string text;
  for (const std::string& word : extra) text += (text.empty() ? "'" : " '") + word + "'";
  return Error(Code::kUsage, "'" + words + "' does not take " + text, hint);
}

}  // namespace

struct Args::Impl {
  CLI::App app;
  Action chosen;
  std::vector<std::string> rest;
};

Args::Args(const std::string& description, const std::string& version) : impl_(std::make_unique<Impl>()) {
  impl_->app.description(description);
  impl_->app.name("cairn");
  impl_->app.set_version_flag("--version", "cairn " + version);
  impl_->app.require_subcommand(0, 1);
}

Args::~Args() = default;

Verb Args::root() { return Verb(&impl_->app, &impl_->chosen, &impl_->rest); }

Verb Verb::add(const std::string& name, const std::string& help) {
  CLI::App* child = app_->add_subcommand(name, help);
  child->fallthrough();
  child->require_subcommand(0, 1);
  child->get_formatter()->column_width(34);
  return Verb(child, chosen_, rest_);
}

Verb& Verb::text(const std::string& name, std::string& value, const std::string& help, bool required) {
  CLI::Option* option = app_->add_option(name, value, help)->required(required);
  if (name.front() != '-') option->type_name("");
  else option->check(CLI::Validator([](std::string& given) { return std::string(given.empty() ? "the value is empty" : ""); }, ""));
  return *this;
}

Verb& Verb::free_text(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option(name, value, help);
  return *this;
}

Verb& Verb::number(const std::string& name, uint64_t& value, const std::string& help) {
  app_->add_option(name, value, help);
  return *this;
}

Verb& Verb::flag(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
  return *this;
}

Verb& Verb::list(const std::string& name, std::vector<std::string>& values, const std::string& help, bool required) {
  CLI::Option* option = app_->add_option(name, values, help)->required(required);
  if (name.front() == '-') {
    option->allow_extra_args(false);
  } else {
    option->type_name("");
  }
  return *this;
}

Verb& Verb::footer(const std::string& text) {
  app_->footer(text);
  return *this;
}

Verb& Verb::hidden() {
  app_->group("");
  return *this;
}

Verb& Verb::hands_on() {
  app_->prefix_command();
  app_->set_help_flag();
  return *this;
}

void Verb::run(Action action) {
  // The deepest verb is called first; a verb above it that can run by itself must not take its place.
  app_->callback([chosen = chosen_, action = std::move(action)] {
    if (!*chosen) *chosen = action;
  });
}

int Args::parse_and_run(int argc, char** argv, Context& context) {
  int own = argc;
  if (int words = words_before_handed_on(impl_->app, argc, argv); words > 0) {
    own = words;
    impl_->rest.assign(argv + words, argv + argc);
    context.has_rest = true;
  }
  for (int i = 1; i < own; ++i) {
    if (std::strcmp(argv[i], "--") == 0) {
      own = i;
      impl_->rest.assign(argv + i + 1, argv + argc);
      context.has_rest = true;
      break;
    }
  }
  try {
    impl_->app.parse(own, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(impl_->app);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return 0;
  } catch (const CLI::ExtrasError&) {
    context.output().set_json(asks_for_json(own, argv));
    return context.output().fail(unexpected(impl_->app));
  } catch (const CLI::ParseError& error) {
    context.output().set_json(asks_for_json(own, argv));
    return context.output().fail(Error(Code::kUsage, error.what(), "type '" + typed_words(impl_->app) + " --help'"));
  }
  if (!impl_->chosen) {
    if (asks_for_json(own, argv)) {
      std::string words = typed_words(impl_->app);
      context.output().set_json(true);
      return context.output().fail(Error(Code::kUsage, "'" + words + "' needs a verb", "type '" + words + " --help'"));
    }
    std::cerr << help_text(impl_->app);
    return exit_code(Code::kUsage);
  }
  if (Status prepared = context.prepare(); !prepared) return context.output().fail(prepared.error());
  Result<int> outcome = impl_->chosen(context);
  return outcome ? *outcome : context.output().fail(outcome.error());
}

}  // namespace cairn::cli
