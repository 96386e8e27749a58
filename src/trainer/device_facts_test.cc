#include "trainer/device_facts.h"

#include <gtest/gtest.h>

namespace cairn::trainer {
namespace {

GpuSight sight(int usable, std::optional<std::string> given, std::string wished = {}, bool built = true) {
  GpuSight gpus;
  gpus.built = built;
  gpus.usable = usable;
  gpus.given_devices = std::move(given);
  gpus.wished_type = std::move(wished);
  return gpus;
}

TEST(TrainingDevice, IsAGpuOfItsOwnWhereThereAreGpus) {
  for (int rank : {0, 1}) {
    auto device = training_device(sight(2, "4,7"), rank, 2);
    ASSERT_TRUE(device) << device.error().to_string();
    EXPECT_TRUE(device->is_cuda());
    EXPECT_EQ(device->index(), rank);
  }
  EXPECT_TRUE(training_device(sight(2, std::nullopt), 0, 1)->is_cuda());  // by hand
}

TEST(TrainingDevice, IsTheCpuWhereNobodyAskedForMore) {
  std::vector<GpuSight> sights{sight(0, std::nullopt), sight(0, std::nullopt, "cpu"), sight(0, std::nullopt, "H200:0"),
                               sight(0, "-1"),         sight(0, "NoDevFiles"),
                               sight(0, "", "H200:2")};  // the config's wish, and --gpu-type cpu over it
  for (const GpuSight& gpus : sights) {
    auto device = training_device(gpus, 1, 4);
    ASSERT_TRUE(device) << device.error().to_string();
    EXPECT_TRUE(device->is_cpu());
  }
}

TEST(TrainingDevice, GivenGpusThatCannotBeUsedAreNoReasonForTheCpu) {
  for (const GpuSight& gpus : {sight(0, "0"), sight(0, "0,1", "", false), sight(0, std::nullopt, "H200"), sight(0, std::nullopt, "2")}) {
    auto device = training_device(gpus, 0, 1);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code(), Code::kGpuTypeUnavailable);
    EXPECT_NE(device.error().hint().find("--gpu-type cpu"), std::string::npos);
    EXPECT_EQ(device.error().message().find("built without CUDA") == std::string::npos, gpus.built) << device.error().message();
  }
}

TEST(TrainingDevice, IsNeverSharedByTwoProcesses) {
  for (int rank : {0, 2}) {
    auto device = training_device(sight(2, std::nullopt), rank, 3);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code(), Code::kGpuTypeUnavailable);
    EXPECT_NE(device.error().message().find("3 processes"), std::string::npos);
  }
}

}  // namespace
}  // namespace cairn::trainer
