// cairn-trainer tokenizer train: learns a tokenizer from text and writes its two files.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/quantity.h"
#include "cairn_trainer/subcommands.h"
#include "codec/bytes.h"
#include "dataset/tokenizer_training.h"
#include "os/file_system.h"
#include "os/terminal.h"

namespace cairn::apps {
namespace {

using dataset::TokenizerTrainingOptions;
using dataset::TokenizerTrainingProgress;
using dataset::TrainedTokenizer;

constexpr size_t kThreadsMax = 256;

struct Arguments {
  TokenizerTrainingOptions options;
  std::vector<std::string> more_tokens;
  std::string output;
  bool overwrite = false;
};

// A line on standard error: rewritten twice a second on a terminal, else a new one every ten seconds.
class ProgressLine {
 public:
  void show(const TokenizerTrainingProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (progress.learning && !learning_) {
      learning_ = true;
      shown_ = {};
    }
    if (now - shown_ < (terminal_ ? std::chrono::milliseconds(500) : std::chrono::milliseconds(10'000))) return;
    shown_ = now;
    const double seconds = std::max(1e-9, std::chrono::duration<double>(now - begin_).count());
    const std::string line = progress.learning
                                 ? fmt::format("learning merges: {} of {} tokens", progress.done, progress.total)
                                 : fmt::format("counting words: {} of {}, {:.1f} MB/s", human_bytes(progress.done), human_bytes(progress.total), static_cast<double>(progress.done) / 1e6 / seconds);
    std::fprintf(stderr, terminal_ ? "\r%s\x1b[K" : "%s\n", line.c_str());
    std::fflush(stderr);
    open_ = terminal_;
  }
  void end() const {
    if (open_) std::fputs("\r\x1b[K", stderr);
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  const bool terminal_ = os::is_terminal(2);
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_{};
  bool learning_ = false, open_ = false;
};

Status write_files(const std::string& folder, const TrainedTokenizer& trained) {
  os::FileSystem& files = os::posix_file_system();
  CAIRN_CHECK_OK(files.make_directories(folder, 0755));
  CAIRN_CHECK_OK(files.write_file_atomic(folder + "/tokenizer_config.json", codec::as_bytes(trained.tokenizer_config_json), 0644));
  return files.write_file_atomic(folder + "/tokenizer.json", codec::as_bytes(trained.tokenizer_json), 0644);
}

Status train(const Arguments& arguments) {
  const std::string path = arguments.output + "/tokenizer.json";
  if (!arguments.overwrite && os::posix_file_system().stat(path)) {
    return Error(Code::kFileExists, fmt::format("'{}' is already there", path), "give another --output, or --overwrite");
  }
  ProgressLine line;
  TokenizerTrainingOptions options = arguments.options;
  options.progress = [&](const TokenizerTrainingProgress& progress) { line.show(progress); };
  Result<TrainedTokenizer> trained = dataset::train_tokenizer(options);
  line.end();
  if (!trained) return std::move(trained).error();
  CAIRN_CHECK_OK(write_files(arguments.output, *trained));

  const double seconds = line.seconds();
  std::fprintf(stderr, "%s", fmt::format("{} documents, {} of text, {} words ({} different) in {:.1f} s, {:.1f} MB/s\n", trained->documents, human_bytes(trained->text_bytes), trained->total_words, trained->words, seconds,
                                         static_cast<double>(trained->text_bytes) / 1e6 / std::max(seconds, 1e-9)).c_str());
  if (trained->rare_dropped > 0) std::fprintf(stderr, "%s", fmt::format("{} rare words were dropped on the way, to bound memory\n", trained->rare_dropped).c_str());
  if (trained->long_left_out > 0) std::fprintf(stderr, "%s", fmt::format("{} words of more than {} bytes were left out\n", trained->long_left_out, options.limits.word_bytes_max).c_str());
  if (std::string passed_over = trained->passed_over.text(); !passed_over.empty()) std::fprintf(stderr, "%s\n", passed_over.c_str());
  if (trained->vocab_size < options.vocab_size) {
    std::fprintf(stderr, "%s", fmt::format("warning: the text has pairs for {} entries only, {} were asked for\n", trained->vocab_size, options.vocab_size).c_str());
  }
  std::printf("%s", fmt::format("{}: {} entries, {} merges\n", path, trained->vocab_size, trained->merges).c_str());
  return ok();
}

}  // namespace

int run_tokenizer(int argc, char** argv) {
  CLI::App app("Tokenizers: learn one from text.", "cairn-trainer tokenizer");
  app.require_subcommand(1);
  CLI::App* command = app.add_subcommand("train", "Learns a byte-level BPE and writes tokenizer.json and tokenizer_config.json, which Hugging Face's tokenizers read with the same ids.");
  Arguments arguments;
  TokenizerTrainingOptions& options = arguments.options;
  options.threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax);
  command->add_option("--vocab-size", options.vocab_size, "Entries of the vocabulary, with bytes and added tokens")->required();
  command->add_option("--output", arguments.output, "Folder to write to")->required();
  command->add_option("--text-key", options.source.text_key, "Key of the text in JSONL objects and Parquet rows")->capture_default_str();
  command->add_option("--min-frequency", options.min_frequency, "Pairs that occur less often are not merged")->capture_default_str();
  command->add_option("--add-token", arguments.more_tokens, "One more special token behind those of Qwen; may be repeated");
  command->add_option("--eos-token", options.eos_token, "The end-of-text token")->capture_default_str();
  command->add_option("--threads", options.threads, "Threads")->check(CLI::Range(size_t{1}, kThreadsMax))->capture_default_str();
  command->add_flag("--overwrite", arguments.overwrite, "Replace a tokenizer that is there");
  command->add_option("INPUT", options.source.inputs, "Files and folders of text, JSONL and Parquet")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_code(Code::kUsage);
  }
  for (const std::string& token : arguments.more_tokens) options.added_tokens.push_back({token, true});
  Status done = train(arguments);
  return done ? 0 : report(done.error());
}

}  // namespace cairn::apps
