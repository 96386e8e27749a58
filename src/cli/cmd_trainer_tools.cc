#include "cli/commands.h"
#include "os/host.h"
#include "os/process.h"

namespace cairn::cli {
namespace {

// The arguments are the trainer program's own, so it becomes the process: its output, its exit code.
Result<int> become_trainer(Context& context, std::vector<std::string> words, const std::vector<std::string>& arguments) {
  if (!context.has_rest) {
    return Error(Code::kUsage, "options before '" + words.front() + "' are not passed on", "write them after it");
  }
  CAIRN_TRY(std::string program, os::program_beside("cairn-trainer"));
  std::vector<std::string> argv{program};
  argv.insert(argv.end(), words.begin(), words.end());
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return os::replace_process(argv);
}

}  // namespace

void add_tokenize(Verb root) {
  Verb tokenize = root.add("tokenize", "Turn text, JSONL or Parquet into shards of token ids for pretraining");
  tokenize.hands_on().run([tokenize](Context& context) { return become_trainer(context, {"tokenize"}, tokenize.rest()); });
  Verb train = root.add("tokenizer", "Make tokenizers").add("train", "Learn a byte-level BPE tokenizer from text");
  train.hands_on().run([train](Context& context) { return become_trainer(context, {"tokenizer", "train"}, train.rest()); });
}

}  // namespace cairn::cli
