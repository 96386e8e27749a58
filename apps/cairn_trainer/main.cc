// cairn-trainer: trains from a config, and the subcommands around it.
#include <csignal>
#include <cstdio>
#include <string_view>

#include "cairn_trainer/subcommands.h"
#include "trainer/stop_request.h"

namespace cairn::apps {

int report(const Error& error) {
  std::fprintf(stderr, "cairn-trainer: %s\n", error.message().c_str());
  if (!error.hint().empty()) std::fprintf(stderr, "hint: %s\n", error.hint().c_str());
  return exit_code(error.code());
}

namespace {

struct Subcommand {
  std::string_view name;
  int (*run)(int argc, char** argv);
  const char* usage;
};

// A subcommand is one line here; a build without it refuses its name.
const Subcommand kSubcommands[] = {
    {"train", run_train, "CONFIG.toml [--volume-root DIR] [--output-dir DIR] [--processes N] [--threads N]"},
    {"export", run_export, "export CHECKPOINT_DIR OUT_DIR [--dtype bf16|f32]"},
    {"import", run_import, "import HF_DIR STEP_DIR"},
    {"tokenizer", run_tokenizer, "tokenizer train --vocab-size N --output DIR INPUT..."},
    {"tokenize", run_tokenize, "tokenize --tokenizer PATH --output DIR INPUT..."},
    {"render", run_render, "render CONFIG.toml [--volume-root DIR] [-n SAMPLES]"},
    {"version", [](int, char**) { return std::puts("cairn-trainer " CAIRN_VERSION) < 0 ? 1 : 0; }, "version"},
};

void print_usage(std::FILE* out) {
  std::fputs("usage:\n", out);
  for (const Subcommand& subcommand : kSubcommands) std::fprintf(out, "  cairn-trainer %s\n", subcommand.usage);
}

// Called before libtorch begins, which takes a second or two: a request to end that comes meanwhile waits for its handler.
void hold_signals_from_the_start(int, char**, char**) { trainer::hold_stop_signals(); }
[[gnu::section(".preinit_array"), gnu::used]] void (*const at_start)(int, char**, char**) = hold_signals_from_the_start;

int run(int argc, char** argv) {
  std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--version") first = "version";
  if (first == "--help" || first == "-h" || first == "help") {
    print_usage(stdout);
    return 0;
  }
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.name != first) continue;
    if (subcommand.run != run_train) trainer::let_stop_signals_in();
    return subcommand.run(argc - 1, argv + 1);
  }
  // A config file, or options before it; its subcommand's name may be left out.
  if (first.ends_with(".toml") || first.starts_with("--") || first.find('/') != std::string_view::npos) return run_train(argc, argv);
  print_usage(stderr);
  return exit_code(Code::kUsage);
}

}  // namespace
}  // namespace cairn::apps

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return cairn::apps::run(argc, argv);
}
