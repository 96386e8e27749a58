// cairn-trainer render: the first samples of a config's fine-tuning data as the model will read them, with the trained parts marked.
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "base/whole_number.h"
#include "cairn_trainer/subcommands.h"
#include "os/file_system.h"
#include "trainer/model_files.h"
#include "trainer/sft_data.h"
#include "trainer/volume_paths.h"

namespace cairn::apps {
namespace {

constexpr size_t kConfigBytesMax = 1024 * 1024;
constexpr uint64_t kSamplesMax = 10'000;

struct RenderRequest {
  std::string config_file, volume_root = ".";
  uint64_t count = 3;
};

Result<RenderRequest> read_request(int argc, char** argv) {
  RenderRequest request;
  const option options[] = {{"volume-root", required_argument, nullptr, 'v'}, {nullptr, 0, nullptr, 0}};
  opterr = 0;
  for (int found; (found = getopt_long(argc, argv, "n:", options, nullptr)) != -1;) {
    switch (found) {
      case 'v': request.volume_root = optarg; break;
      case 'n': {
        request.count = whole_number<decltype(request.count)>(optarg).value_or(0);
        if (request.count < 1 || request.count > kSamplesMax) {
          return Error(Code::kUsage, fmt::format("'{}' is no number of samples from 1 to {}", optarg, kSamplesMax));
        }
        break;
      }
      default: return Error(Code::kUsage, std::string("option ") + argv[optind - 1] + " is not known or lacks its value");
    }
  }
  if (optind + 1 != argc) {
    return Error(Code::kUsage, "one config file is wanted", "cairn-trainer render CONFIG.toml [--volume-root DIR] [-n 3]");
  }
  request.config_file = argv[optind];
  while (request.volume_root.size() > 1 && request.volume_root.back() == '/') request.volume_root.pop_back();
  return request;
}

// On a terminal control characters of the data must not reach it; tabs and line ends may.
std::string shown(std::string_view text, bool terminal) {
  if (!terminal) return std::string(text);
  std::string out;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

// The first `count` tokens, trained ones in green or between [[ and ]].
std::string marked(const dataset::TokenizedText& tokens, size_t count, const dataset::Tokenizer& tokenizer, bool terminal) {
  std::string out;
  for (size_t begin = 0; begin < count;) {
    size_t end = begin + 1;
    while (end < count && tokens.trainable[end] == tokens.trainable[begin]) ++end;
    std::string text = shown(tokenizer.decode({tokens.ids.data() + begin, end - begin}), terminal);
    if (tokens.trainable[begin] == 0) {
      out += text;
    } else {
      out += terminal ? "\x1b[1;32m" + text + "\x1b[0m" : "[[" + text + "]]";
    }
    begin = end;
  }
  return out;
}

void print_sample(uint64_t place, const dataset::SftRows& rows, const dataset::SftSample& sample, const config::DataSettings& data,
                  const dataset::Tokenizer& tokenizer, bool terminal) {
  size_t tokens = sample.tokens.ids.size(), trained = 0;
  size_t seen = sample.ids_used;
  for (size_t i = 1; i < seen; ++i) trained += sample.tokens.trainable[i];
  std::string line = fmt::format("--- sample {} of {}: {}, {} tokens, {} trained", place + 1, rows.samples_per_epoch(), sample.where,
                                 tokens, sample.skipped ? 0 : trained);
  if (seen < tokens) line += fmt::format(", cut to {}", seen);
  if (sample.skipped) line += fmt::format(", skipped: nothing to train on among the first {}", data.seq_len);
  std::fprintf(stdout, "%s\n%s\n", shown(line, terminal).c_str(), marked(sample.tokens, seen, tokenizer, terminal).c_str());
}

// 0 where the model itself does not lie beside its tokenizer yet.
Result<int64_t> positions_of(const config::TrainingConfig& config, const std::string& volume_root) {
  if (config.model.name.empty()) return int64_t{0};
  CAIRN_TRY(std::string folder, trainer::path_on_volume(volume_root, config.model.name));
  auto spec = trainer::load_decoder_spec(os::posix_file_system(), folder);
  return spec ? spec->max_position_embeddings : int64_t{0};
}

Status render(const RenderRequest& request) {
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(request.config_file, kConfigBytesMax));
  CAIRN_TRY(config::TrainingConfig config, config::parse_training_config(text, request.config_file));
  if (config.data.kind != config::DataKind::kSft) {
    return Error(Code::kConfigInvalid, fmt::format("{} holds no fine-tuning data to render", request.config_file),
                 "render wants mode = \"sft\" with data.name");
  }
  CAIRN_TRY(auto tokenizer, trainer::open_tokenizer(config, request.volume_root));
  CAIRN_TRY(int64_t positions_max, positions_of(config, request.volume_root));
  CAIRN_TRY(auto rows, trainer::open_sft_rows({config, config.data, false, 0, positions_max, request.volume_root, {}}, tokenizer));
  for (const std::string& file : rows->left_aside()) std::fprintf(stderr, "left aside, of another split: %s\n", file.c_str());
  bool terminal = ::isatty(STDOUT_FILENO) != 0;
  for (uint64_t place = 0; place < std::min(request.count, rows->samples_per_epoch()); ++place) {
    CAIRN_TRY(dataset::SftSample sample, rows->look(place));
    print_sample(place, *rows, sample, config.data, *tokenizer, terminal);
  }
  return std::fflush(stdout) == 0 ? ok() : Status(Error(Code::kIoError, "the output could not be written"));
}

}  // namespace

int run_render(int argc, char** argv) {
  auto request = read_request(argc, argv);
  if (!request) return report(request.error());
  auto status = render(*request);
  return status ? 0 : report(status.error());
}

}  // namespace cairn::apps
