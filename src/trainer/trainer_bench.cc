// One side of bench/trainer_bench.py: trains a Qwen3-shaped model on made-up ids and says how long each step took.
//
//   trainer_bench hidden=256 layers=6 heads=8 kv_heads=4 head_dim=64 inner=1536 vocab=8192 tokens=256 rows=8
//   dtype=float32 threads=2
//                 weights=FILE (written with the initial weights) ac=0 plain=0
// Reads lines "N" from stdin; each runs N steps and answers with a line of JSON: seconds of each, processor seconds of
// all, the last loss, resident memory.
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "os/file_system.h"
#include "trainer/cpu_kernels.h"
#include "trainer/decoder.h"
#include "trainer/model_files.h"
#include "trainer/optimizer.h"
#include "trainer/runtime.h"

namespace cairn::trainer {
namespace {

double processor_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

class Bench {
 public:
  explicit Bench(std::map<std::string, std::string> arguments) : arguments_(std::move(arguments)) {}

  Status prepare() {
    RuntimeSettings runtime;
    runtime.threads = static_cast<int>(number("threads", 2));
    RuntimeFacts facts = set_up_runtime(runtime);
    std::cerr << fmt::format("torch {} {}, kernels {}, {} threads, {}\n", facts.torch_version, facts.cpu_capability,
                             cpu_kernels().name, facts.threads, facts.blas);
    std::string config = fmt::format(
        R"({{"model_type":"qwen3","hidden_size":{},"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":{},)"
        R"("head_dim":{},"intermediate_size":{},"vocab_size":{},"rope_theta":1000000,"tie_word_embeddings":true}})",
        number("hidden", 256), number("layers", 6), number("heads", 8), number("kv_heads", 4), number("head_dim", 64),
        number("inner", 1536), number("vocab", 8192));
    CAIRN_TRY(DecoderSpec spec, parse_decoder_spec(config, "the bench's model"));
    DecoderOptions options;
    options.bfloat16 = arguments_["dtype"] == "bfloat16";
    options.activation_checkpointing_freq = number("ac", 0);
    options.plain_layers = number("plain", 0) != 0;
    CAIRN_TRY(model_, Decoder::create(spec, options));
    CAIRN_CHECK_OK(model_->init_random(1));
    if (arguments_.contains("weights")) {
      CAIRN_CHECK_OK(write_tensors(os::posix_file_system(), arguments_["weights"], model_->named_parameters()));
    }
    config::OptimizerSettings settings;
    settings.betas2 = 0.95;
    settings.weight_decay = 0.1;
    CAIRN_TRY(optimizer_, Optimizer::create(settings, model_->named_parameters()));
    const int64_t tokens = number("tokens", 256), rows = number("rows", 8);
    row_.sequence_lengths.assign(static_cast<size_t>(rows), static_cast<int32_t>(tokens));
    for (int64_t i = 0; i < rows * tokens; ++i) {
      row_.input_ids.push_back(static_cast<int32_t>(id(i)));
      row_.target_ids.push_back(static_cast<int32_t>(id(i + 1)));
      row_.loss_mask.push_back(1);
    }
    return ok();
  }

  Status step(double& loss) {
    model_->zero_gradients();
    CAIRN_TRY(LossSum sum, model_->loss_and_gradients(row_, 1.0 / static_cast<double>(row_.input_ids.size())));
    loss = sum.sum.item<double>() / static_cast<double>(sum.count);
    at::NoGradGuard no_grad;
    double norm = model_->flat_gradients().norm().item<double>();
    CAIRN_CHECK_OK(optimizer_->step(1e-3, norm > 1 ? 1 / norm : 1));
    model_->parameters_changed();
    return ok();
  }

 private:
  int64_t number(const std::string& key, int64_t fallback) const {
    auto at = arguments_.find(key);
    return at == arguments_.end() ? fallback : std::atoll(at->second.c_str());
  }
  // The same in bench/trainer_bench_torch.py.
  int64_t id(int64_t i) const { return i * i * 7919 % 1000003 % number("vocab", 8192); }

  std::map<std::string, std::string> arguments_;
  std::unique_ptr<Decoder> model_;
  std::unique_ptr<Optimizer> optimizer_;
  dataset::Row row_;
};

int run(int argc, char** argv) {
  std::map<std::string, std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    arguments[argument.substr(0, argument.find('='))] = argument.substr(argument.find('=') + 1);
  }
  Bench bench(std::move(arguments));
  if (Status status = bench.prepare(); !status) {
    std::cerr << status.error().to_string() << "\n";
    return 1;
  }
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<double> seconds;
    double loss = 0, processor = processor_seconds();
    for (int64_t i = 0, count = std::atoll(line.c_str()); i < count; ++i) {
      auto start = std::chrono::steady_clock::now();
      if (Status status = bench.step(loss); !status) {
        std::cerr << status.error().to_string() << "\n";
        return 1;
      }
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::cout << fmt::format(R"({{"seconds": [{}], "cpu_seconds": {}, "loss": {}, "rss_mib": {}}})",
                             fmt::join(seconds, ", "), processor_seconds() - processor, loss, resident_mib())
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace cairn::trainer

int main(int argc, char** argv) {
  return cairn::trainer::run(argc, argv);
}
