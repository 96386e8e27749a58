#include "testing/storage_simulator.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/log.h"

namespace cairn::testing {
namespace {

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

// CAIRN_SIM_SEEDS, CAIRN_SIM_STEPS and CAIRN_SIM_FIRST_SEED make it longer or run one seed again.
TEST(StorageSimulator, KeepsEverythingThatIsNamed) {
  set_log_level(LogLevel::kError);
  SimulatorOptions options;
  options.steps = static_cast<int>(number_from("CAIRN_SIM_STEPS", 400));
  uint64_t first = number_from("CAIRN_SIM_FIRST_SEED", 1);
  uint64_t seeds = number_from("CAIRN_SIM_SEEDS", 12);
  SimulatorReport total;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    options.seed = seed;
    SimulatorReport report = simulate_storage(options);
    ASSERT_EQ(report.violation, "") << "steps " << options.steps;
    total.publications += report.publications;
    total.side_publications += report.side_publications;
    total.takeovers += report.takeovers;
    total.crashes += report.crashes;
    total.chunks_gone += report.chunks_gone;
    total.packs_deleted += report.packs_deleted;
    total.late_deletes += report.late_deletes;
    total.snapshots_retired += report.snapshots_retired;
    total.reads += report.reads;
  }
  std::printf("%s\n", total.to_string().c_str());
  // A simulation in which nothing happens proves nothing.
  if (seeds < 5) return;
  EXPECT_GT(total.publications, 100);
  EXPECT_GT(total.side_publications, 0);
  EXPECT_GT(total.takeovers, 10);
  EXPECT_GT(total.crashes, 10);
  EXPECT_GT(total.chunks_gone, 0);
  EXPECT_GT(total.packs_deleted, 50);
  EXPECT_GT(total.late_deletes, 20);
  EXPECT_GT(total.snapshots_retired, 50);
}

// Without the touch of F1 there must be a loss, or the simulator could not see one.
TEST(StorageSimulator, CanaryFindsALossWithoutTheTouch) {
  set_log_level(LogLevel::kError);
  SimulatorOptions options;
  options.touch = false;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    options.seed = seed;
    SimulatorReport report = simulate_storage(options);
    if (report.violation.empty()) continue;
    std::printf("found after %d seeds: %s\n", static_cast<int>(seed), report.violation.c_str());
    EXPECT_NE(report.violation.find("gone"), std::string::npos);
    return;
  }
  FAIL() << "no loss in 60 seeds";
}

}  // namespace
}  // namespace cairn::testing
