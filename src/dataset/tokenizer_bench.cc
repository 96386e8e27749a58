// tokenizer_bench TOKENIZER_JSON TEXT THREADS: encodes TEXT as documents of some 64 KiB, three times, each thread with an Encoder of
// its own. Prints JSON: seconds of the fastest round, ids, a checksum of them. bench/tokenizer_bench.py runs it beside Hugging Face's.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "dataset/tokenizer.h"
#include "dataset/worker_team.h"

namespace {

using namespace cairn::dataset;

constexpr size_t kDocumentBytes = 64 * 1024;

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.good()) {
    std::fprintf(stderr, "tokenizer_bench: cannot read %s\n", path);
    std::exit(1);
  }
  return text.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: tokenizer_bench TOKENIZER_JSON TEXT THREADS\n");
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  auto seconds_since = [](Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const std::string json = read_file(argv[1]), text = read_file(argv[2]);
  const Clock::time_point loading = Clock::now();
  auto tokenizer = Tokenizer::parse(json, argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", tokenizer.error().to_string().c_str());
    return 1;
  }
  const double load = seconds_since(loading);
  std::vector<std::string_view> documents;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t line = rest.size() > kDocumentBytes ? rest.find('\n', kDocumentBytes) : std::string_view::npos;
    const size_t size = line == std::string_view::npos ? rest.size() : line + 1;
    documents.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }

  WorkerTeam team(std::max(1, std::atoi(argv[3])));
  double fastest = 0;
  std::vector<std::vector<uint32_t>> ids(documents.size());
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Encoder>> encoders(team.size());
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    const Clock::time_point begin = Clock::now();
    team.run([&](size_t worker) {
      encoders[worker] = Encoder::create(*tokenizer);
      for (size_t i = next++; i < documents.size(); i = next++) {
        ids[i].clear();
        if (!encoders[worker]->encode(documents[i], ids[i])) failed = true;
      }
    });
    const double seconds = seconds_since(begin);
    if (failed) return 1;
    if (round == 0 || seconds < fastest) fastest = seconds;
  }
  uint64_t count = 0, sum = 0;
  for (const std::vector<uint32_t>& document : ids) {
    count += document.size();
    for (uint32_t id : document) sum += id;
  }
  std::printf("{\"load_seconds\": %.3f, \"seconds\": %.4f, \"documents\": %zu, \"ids\": %llu, \"sum\": %llu}\n", load, fastest, documents.size(), static_cast<unsigned long long>(count), static_cast<unsigned long long>(sum));
  return 0;
}
