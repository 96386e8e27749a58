#include "trainer/metrics.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "codec/hex.h"
#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(StepLine, LooksAsDocumented) {
  StepLine line{7, 1.25, 2.12344, 0.5, 1e-3, 5120.4, 12.34, 1.2, 7.8};
  EXPECT_EQ(step_line(line),
            "Step 7 |   1.25s | Loss 2.1234 | Grad. Norm 0.5000 | LR 1.00e-03 | Throughput 5120 tokens/s | MFU 12.3% | "
            "Peak Mem. 1.2/7.8 GiB (15.4%)");
  line.mfu_percent = std::nan("");  // no peak of this device is known
  EXPECT_NE(step_line(line).find("| MFU - |"), std::string::npos);
  EXPECT_EQ(validation_line(50, 3.5), "Validation | Step 50 | Loss 3.5000");
  EXPECT_EQ(short_time(0.25), "250.00ms");
  EXPECT_EQ(short_time(150), "2.50m");
  EXPECT_EQ(short_time(5400), "1.50h");
}

TEST(Metrics, RowsAreOneObjectALineWithoutWhatIsNotFinite) {
  testing::TemporaryFolder folder;
  ManualClock clock;
  RunLog log(clock);
  auto metrics = Metrics::open(folder.path(), {}, clock, log);
  ASSERT_TRUE(metrics);
  metrics->write(3, {{"loss/mean", 2.5}, {"loss/perplexity", std::nan("")}, {"x", std::numeric_limits<double>::infinity()}});
  metrics->write(3, {{"optim/lr", 0.001}});
  EXPECT_EQ(read(folder / "file/metrics.jsonl"),
            "{\"step\":3,\"time\":1700000000.0,\"loss/mean\":2.5}\n{\"step\":3,\"time\":1700000000.0,\"optim/lr\":0.001}\n");
}

TEST(Metrics, ATornLastRowIsEnded) {
  testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "file");
  std::ofstream(folder / "file/metrics.jsonl") << "{\"step\":1,\"ti";
  ManualClock clock;
  RunLog log(clock);
  auto metrics = Metrics::open(folder.path(), {}, clock, log);
  ASSERT_TRUE(metrics);
  metrics->write(2, {});
  EXPECT_EQ(read(folder / "file/metrics.jsonl"), "{\"step\":1,\"ti\n{\"step\":2,\"time\":1700000000.0}\n");
}

TEST(Tensorboard, BytesAreThoseOfItsOwnWriter) {
  testing::TemporaryFolder folder;
  auto writer = TensorboardWriter::create(folder.path(), Time{1'700'000'000'000'000});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->scalars(300, Time{1'700'000'001'500'000}, {{"loss/mean", 2.5}, {"optim/lr", 0.001}}));
  std::string golden = read(std::string(CAIRN_SOURCE_DIR) + "/tests/golden/tensorboard/events.hex");
  EXPECT_EQ(codec::hex_encode(read(writer->path())) + "\n", golden);
}

TEST(RunLog, PlainAndJson) {
  testing::TemporaryFolder folder;
  ManualClock clock;
  RunLog::Settings settings;
  settings.to_stdout = false;
  settings.file = folder / "plain.log";
  auto plain = RunLog::open(settings, clock);
  ASSERT_TRUE(plain);
  plain->debug("not this");
  plain->success("Step 1");
  std::string text = read(settings.file);
  EXPECT_EQ(text.substr(8), " SUCCESS Step 1\n") << text;
  EXPECT_EQ(text[2], ':');

  settings.file = folder / "json.log";
  settings.json = true;
  settings.least = LineLevel::kDebug;
  auto json = RunLog::open(settings, clock);
  ASSERT_TRUE(json);
  json->progress("half \"way\" \xff");
  EXPECT_EQ(read(settings.file), "{\"timestamp\":\"2023-11-14T22:13:20.000000Z\",\"level\":\"INFO\",\"message\":\"half \\\"way\\\" \xef\xbf\xbd\","
                                 "\"module\":\"trainer\",\"type\":\"progress\"}\n");
}

}  // namespace
}  // namespace cairn::trainer
