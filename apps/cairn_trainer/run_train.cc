#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/whole_number.h"
#include "cairn_trainer/subcommands.h"
#include "os/host.h"
#include "trainer/stop_request.h"
#include "trainer/train.h"

namespace cairn::apps {
namespace {

constexpr int kCountMax = 1024;

std::optional<int> count(const char* text) {
  std::optional<int> value = whole_number<int>(text);
  return value && *value >= 1 && *value <= kCountMax ? value : std::nullopt;
}

Result<trainer::TrainRequest> read_request(int argc, char** argv) {
  trainer::TrainRequest request;
  request.volume_root = ".";
  const char* output = std::getenv("CAIRN_OUTPUT_DIR");
  request.output_dir = output != nullptr && *output != 0 ? output : "outputs";
  const option options[] = {{"volume-root", required_argument, nullptr, 'v'},
                            {"output-dir", required_argument, nullptr, 'o'},
                            {"processes", required_argument, nullptr, 'p'},
                            {"threads", required_argument, nullptr, 't'},
                            {nullptr, 0, nullptr, 0}};
  opterr = 0;
  for (int found; (found = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    switch (found) {
      case 'v': request.volume_root = optarg; break;
      case 'o': request.output_dir = optarg; break;
      case 'p': request.processes = count(optarg); break;
      case 't': request.threads = count(optarg); break;
      default: return Error(Code::kUsage, std::string("option ") + argv[optind - 1] + " is not known or lacks its value");
    }
    bool bad = (found == 'p' && !request.processes) || (found == 't' && !request.threads);
    if (bad) return Error(Code::kUsage, std::string("'") + optarg + "' is no count from 1 to 1024");
  }
  if (optind + 1 != argc) return Error(Code::kUsage, "one config file is wanted", "cairn-trainer CONFIG.toml");
  request.config_file = argv[optind];
  while (request.volume_root.size() > 1 && request.volume_root.back() == '/') request.volume_root.pop_back();
  while (request.output_dir.size() > 1 && request.output_dir.back() == '/') request.output_dir.pop_back();
  CAIRN_TRY(std::string self, os::executable_path());
  request.command = {self, "train"};
  for (int i = 1; i < argc; ++i) request.command.emplace_back(argv[i]);
  return request;
}

// Threads that wait for each other sleep instead of spinning: beside one other busy program, training is three times as fast so.
// libgomp reads the wish when it is loaded, hence once more from the start. When that fails, training is only slower.
void start_again_with_sleeping_threads(const std::vector<std::string>& command) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  trainer::hold_stop_signals();
  if (!trainer::signal_stop().requested()) ::execv(argv[0], argv.data());
  trainer::let_stop_signals_in();
}

}  // namespace

int run_train(int argc, char** argv) {
  static_cast<void>(trainer::signal_stop());  // before anything that takes time
  auto request = read_request(argc, argv);
  if (!request) return report(request.error());
  start_again_with_sleeping_threads(request->command);
  auto code = trainer::train(*request);
  return code ? *code : report(code.error());
}

}  // namespace cairn::apps
