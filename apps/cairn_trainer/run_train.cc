#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cairn_trainer/subcommands.h"
#include "os/host.h"
#include "trainer/train.h"

namespace cairn::apps {
namespace {

constexpr int kCountMax = 1024;

std::optional<int> count(const char* text) {
  int value = 0;
  const char* end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 1 || value > kCountMax) return std::nullopt;
  return value;
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

}  // namespace

int run_train(int argc, char** argv) {
  auto request = read_request(argc, argv);
  if (!request) return report(request.error());
  auto code = trainer::train(*request);
  return code ? *code : report(code.error());
}

}  // namespace cairn::apps
