// cairn-trainer tokenize: texts in, shards of token ids out.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cairn_trainer/subcommands.h"
#include "dataset/shard_format.h"
#include "dataset/tokenize.h"
#include "os/file_system.h"
#include "os/terminal.h"

namespace cairn::apps {
namespace {

using dataset::TokenizeOptions;
using dataset::TokenizeProgress;
using Clock = std::chrono::steady_clock;

constexpr auto kLineInterval = std::chrono::seconds(10);  // where standard error is no terminal
constexpr const char* kUsualEos = "<|endoftext|>";

struct Arguments {
  TokenizeOptions options;
  std::string tokenizer, eos_token;
  bool no_eos = false;
};

class ProgressLine {
 public:
  void show(const TokenizeProgress& progress) {
    bool terminal = os::is_terminal(STDERR_FILENO);
    auto now = Clock::now();
    if (!terminal && now - shown_ < kLineInterval) return;
    shown_ = now;
    double share = progress.total_bytes == 0 ? 1 : static_cast<double>(progress.read_bytes) / static_cast<double>(progress.total_bytes);
    fmt::print(stderr, "{}tokenize: {:3.0f} %, {}{}", terminal ? "\r" : "", 100 * std::min(share, 1.0), summary(progress),
               terminal ? "\x1b[K" : "\n");
    std::fflush(stderr);
    open_line_ = terminal;
  }
  void end() {
    if (open_line_) std::fputc('\n', stderr);
    open_line_ = false;
  }
  std::string summary(const TokenizeProgress& progress) const {
    double seconds = std::max(std::chrono::duration<double>(Clock::now() - start_).count(), 1e-3);
    double megabytes = static_cast<double>(progress.text_bytes) / 1e6;
    return fmt::format("{} documents, {:.1f} MB of text, {} ({} tokens), {:.1f} MB/s", progress.documents, megabytes,
                       dataset::human_token_count(progress.tokens), progress.tokens, megabytes / seconds);
  }

 private:
  const Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
  bool open_line_ = false;
};

Result<std::string> read_tokenizer(const std::string& path) {
  os::FileSystem& files = os::posix_file_system();
  CAIRN_TRY(os::FileStat stat, files.stat(path));
  std::string file = stat.type == os::FileType::kFile ? path : path + "/tokenizer.json";
  return files.read_file(file, dataset::kTokenizerBytesMax);
}

Status set_eos(const dataset::Tokenizer& tokenizer, Arguments& arguments) {
  if (arguments.no_eos) return ok();
  bool usual = arguments.eos_token.empty();
  std::string token = usual ? kUsualEos : arguments.eos_token;
  arguments.options.eos_id = tokenizer.id_of(token);
  if (arguments.options.eos_id) return ok();
  return Error(Code::kDataInvalid, fmt::format("the tokenizer {} has no token {}", arguments.tokenizer, token),
               "name the token that ends a document: --eos-token TOKEN (or --no-eos)");
}

Status tokenize(Arguments& arguments) {
  CAIRN_TRY(std::string json, read_tokenizer(arguments.tokenizer));
  CAIRN_TRY(std::shared_ptr<const dataset::Tokenizer> tokenizer, dataset::Tokenizer::parse(json, arguments.tokenizer));
  json = std::string();
  CAIRN_CHECK_OK(set_eos(*tokenizer, arguments));
  arguments.options.tokenizer_name = arguments.tokenizer;
  ProgressLine line;
  auto done = dataset::tokenize(tokenizer, arguments.options, [&](const TokenizeProgress& progress) {
    line.show(progress);
    return true;
  });
  line.end();
  if (!done) return done.error();
  fmt::print("{} shards in {}: {}\n", done->shards, arguments.options.output, line.summary(*done));
  if (std::string passed_over = done->passed_over.text(); !passed_over.empty()) fmt::print(stderr, "{}\n", passed_over);
  return ok();
}

void declare(CLI::App& app, Arguments& arguments) {
  TokenizeOptions& options = arguments.options;
  options.workers = std::max(1u, std::thread::hardware_concurrency());
  app.add_option("input", options.source.inputs, "files or folders of .txt, .md, .jsonl or .parquet")->required()->type_name("INPUT");
  app.add_option("--tokenizer", arguments.tokenizer, "tokenizer.json, or the folder it lies in")->required()->type_name("PATH");
  app.add_option("--output", options.output, "folder for the shards")->required()->type_name("DIR");
  app.add_option("--eos-token", arguments.eos_token, "token written after each document")->type_name("TOKEN")->default_str(kUsualEos);
  app.add_flag("--no-eos", arguments.no_eos, "write no token after documents")->excludes("--eos-token");
  app.add_option("--text-key", options.source.text_key, "key or column of the text")->type_name("KEY")->capture_default_str();
  app.add_option("--workers", options.workers, "threads that encode")->check(CLI::Range(1, 1024))->type_name("N")->capture_default_str();
  app.add_flag("--shuffle,!--no-shuffle", options.shuffle, "shuffle the documents of each shard (the default)");
  app.add_option("--seed", options.seed, "of the shuffle")->type_name("N")->capture_default_str();
  app.add_option("--max-tokens-per-file", options.max_tokens_per_shard, "a shard is closed when it has as many")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))->type_name("N")->capture_default_str();
}

}  // namespace

int run_tokenize(int argc, char** argv) {
  CLI::App app("Turns texts into shards of token ids, as datatrove writes them. What lies in which shard does not depend on --workers.",
               "cairn-trainer tokenize");
  Arguments arguments;
  try {
    declare(app, arguments);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_code(Code::kUsage);
  }
  Status done = tokenize(arguments);
  return done ? 0 : report(done.error());
}

}  // namespace cairn::apps
