// Chunker, hashing, pack building, building and merging trees. Run: build/release/bin/store_bench
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "store/chunker.h"
#include "store/pack.h"
#include "store/store_test_support.h"

namespace cairn::store {
namespace {

using namespace test;

Bytes random_bytes(size_t size) {
  Bytes data(size);
  SeededRandom(1).fill(data);
  return data;
}

void count_bytes(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
}

void BM_Chunker(benchmark::State& state) {
  Bytes data = random_bytes(256 << 20);
  for (auto _ : state) {
    ByteView rest(data);
    size_t chunks = 0;
    while (!rest.empty()) {
      rest = rest.subspan(Chunker().next_cut(rest, true));
      ++chunks;
    }
    benchmark::DoNotOptimize(chunks);
  }
  count_bytes(state, data.size());
}
BENCHMARK(BM_Chunker)->Unit(benchmark::kMillisecond);

void BM_Sha256(benchmark::State& state) {
  Bytes data = random_bytes(static_cast<size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(codec::sha256(data));
  count_bytes(state, data.size());
}
BENCHMARK(BM_Sha256)->Arg(4096)->Arg(1 << 20);

// Incompressible chunks; hashes are given.
void BM_PackBuildRaw(benchmark::State& state) {
  size_t chunk = static_cast<size_t>(state.range(0));
  Bytes data = random_bytes(32 << 20);
  PackBuilder builder({});
  for (auto _ : state) {
    builder.reset();
    for (size_t at = 0; at + chunk <= data.size() && builder.fits(chunk); at += chunk) {
      benchmark::DoNotOptimize(builder.add({}, ByteView(data).subspan(at, chunk)));
    }
    benchmark::DoNotOptimize(builder.finish());
  }
  count_bytes(state, data.size());
}
BENCHMARK(BM_PackBuildRaw)->Arg(4096)->Arg(1 << 20)->Unit(benchmark::kMillisecond);

void BM_PackBuildText(benchmark::State& state) {
  Bytes data;
  for (size_t i = 0; data.size() < (32 << 20); ++i) {
    std::string line = "{\"id\": " + std::to_string(i * 7919) + ", \"text\": \"some words of a corpus\"}\n";
    data.insert(data.end(), line.begin(), line.end());
  }
  data.resize(32 << 20);
  PackBuilder builder({});
  for (auto _ : state) {
    builder.reset();
    for (size_t at = 0; at < data.size(); at += 1 << 20) {
      benchmark::DoNotOptimize(builder.add({}, ByteView(data).subspan(at, 1 << 20)));
    }
    benchmark::DoNotOptimize(builder.finish());
  }
  count_bytes(state, data.size());
}
BENCHMARK(BM_PackBuildText)->Unit(benchmark::kMillisecond);

Reference corpus(size_t count) {
  SeededRandom random(3);
  Reference entries;
  for (size_t i = 0; i < count; ++i) {
    char name[96];
    std::snprintf(name, sizeof name, "datasets/corpus/part-%03d/sample-%07d.jsonl", static_cast<int>(i / 5000),
                  static_cast<int>(i));
    entries.emplace_hint(entries.end(), name, file(name, random, 1));
  }
  return entries;
}

void BM_BulkBuild(benchmark::State& state) {
  Reference entries = corpus(100'000);
  ChangeList changes;
  for (const auto& [path, entry] : entries) changes.put(entry);
  for (auto _ : state) {
    MemoryPacks packs;
    CachedNodeSource source(packs, 0);
    changes.rewind();
    benchmark::DoNotOptimize(merge(source, packs, empty_root(), changes));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 100'000);
}
BENCHMARK(BM_BulkBuild)->Unit(benchmark::kMillisecond);

struct Volume {
  explicit Volume(size_t count) : entries(corpus(count)), root(bulk_build(source, packs, entries)) {}
  MemoryPacks packs;
  CachedNodeSource source{packs, 0};
  Reference entries;
  RootRef root;
};

// Takes packs and forgets them.
class NullPacks final : public NodePackAllocator {
 public:
  Result<PackId> next() override { return PackId::random(random_); }
  Status store(const PackId&, const BuiltPack&) override { return ok(); }

 private:
  SeededRandom random_{5};
};

Volume& million() {
  static Volume volume(1'000'000);
  return volume;
}

void BM_MergeOneChange(benchmark::State& state) {
  Volume& volume = million();
  SeededRandom random(4);
  ChangeList changes;
  changes.put(file("datasets/corpus/part-100/sample-0500000.jsonl", random, 1));
  for (auto _ : state) {
    NullPacks sink;
    changes.rewind();
    NodePackWriter writer(sink, 1 << 20);
    benchmark::DoNotOptimize(
        merge_changes(volume.source, volume.root, changes, writer, nullptr, Deadline::never()));
  }
}
BENCHMARK(BM_MergeOneChange)->Unit(benchmark::kMicrosecond);

void BM_DuOfAFolder(benchmark::State& state) {
  Volume& volume = million();
  TreeReader reader(volume.source, volume.root, Deadline::never());
  for (auto _ : state) benchmark::DoNotOptimize(reader.counts("datasets/corpus/part-077"));
}
BENCHMARK(BM_DuOfAFolder)->Unit(benchmark::kMicrosecond);

void BM_LsOneThousandNames(benchmark::State& state) {
  Volume& volume = million();
  TreeReader reader(volume.source, volume.root, Deadline::never());
  for (auto _ : state) benchmark::DoNotOptimize(reader.ls("datasets/corpus/part-077", "", 1000));
}
BENCHMARK(BM_LsOneThousandNames)->Unit(benchmark::kMicrosecond);

void BM_LsOfFolders(benchmark::State& state) {
  Volume& volume = million();
  TreeReader reader(volume.source, volume.root, Deadline::never());
  for (auto _ : state) benchmark::DoNotOptimize(reader.ls("datasets/corpus", "", 1000));
}
BENCHMARK(BM_LsOfFolders)->Unit(benchmark::kMicrosecond);

void BM_Listing(benchmark::State& state) {
  Volume& volume = million();
  for (auto _ : state) {
    BytesSink sink;
    benchmark::DoNotOptimize(
        write_listing(volume.source, volume.root, "datasets", std::nullopt, 16 << 20, sink, Deadline::never()));
    state.counters["bytes"] = static_cast<double>(sink.bytes().size());
  }
}
BENCHMARK(BM_Listing)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace cairn::store

BENCHMARK_MAIN();
