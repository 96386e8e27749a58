#include "testing/storage_simulator.h"

#include <filesystem>
#include <memory>

#include <fmt/core.h>

#include "testing/storage_world.h"

namespace cairn::testing {

std::string SimulatorReport::to_string() const {
  return fmt::format(
      "publications {}, aside {}, takeovers {}, crashes {}, chunks_gone {}, packs deleted {}, late deletes {}, "
      "snapshots retired {}, "
      "reads {}{}{}",
      publications, side_publications, takeovers, crashes, chunks_gone, packs_deleted, late_deletes, snapshots_retired,
      reads, violation.empty() ? "" : "; VIOLATED: ", violation);
}

namespace {

struct Choice {
  int weight;
  Status (StorageWorld::*act)();
};

constexpr Choice kChoices[] = {
    {14, &StorageWorld::open_upload},  {30, &StorageWorld::change},     {6, &StorageWorld::send_late},
    {22, &StorageWorld::publish},      {4, &StorageWorld::resume},      {4, &StorageWorld::remove},
    {14, &StorageWorld::heartbeat},    {4, &StorageWorld::close},       {6, &StorageWorld::pin_or_unpin},
    {8, &StorageWorld::retain},        {7, &StorageWorld::mark},        {8, &StorageWorld::condemn},
    {8, &StorageWorld::sweep},         {5, &StorageWorld::delete_late}, {3, &StorageWorld::restart},
    {14, &StorageWorld::pass_minutes}, {1, &StorageWorld::outage},
};

Status one_step(StorageWorld& world) {
  int total = 0;
  for (const Choice& choice : kChoices) total += choice.weight;
  auto left = static_cast<int>(world.below(static_cast<uint64_t>(total)));
  for (const Choice& choice : kChoices) {
    left -= choice.weight;
    if (left >= 0) continue;
    CAIRN_CHECK_OK((world.*choice.act)());
    break;
  }
  CAIRN_CHECK_OK(world.pass_seconds());
  return world.check();
}

}  // namespace

SimulatorReport simulate_storage(const SimulatorOptions& options) {
  // Memory where there is some: thousands of small synced transactions.
  std::filesystem::path base =
      std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
  std::filesystem::path folder = base / ("cairn-simulator-" + Id<struct SimulatorTag>::random(system_random()).hex());
  std::filesystem::create_directories(folder);
  SimulatorReport report;
  {
    StorageWorld world(options, report, (folder / "catalog.db").string());
    Status status = world.start();
    int step = 0;
    while (status && step < options.steps) {
      ++step;
      status = one_step(world);
    }
    if (status) status = world.finish();
    if (!status) report.violation = fmt::format("seed {} step {}: {}", options.seed, step, status.error().to_string());
  }
  std::filesystem::remove_all(folder);
  return report;
}

}  // namespace cairn::testing
