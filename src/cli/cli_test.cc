// What the command line makes of what a person types, and what it prints: sizes, paths, mounts, numbers, JSON.
#include <gtest/gtest.h>

#include "cli/context.h"
#include "cli/json_text.h"
#include "cli/output.h"
#include "cli/run_request.h"
#include "cli/run_text.h"
#include "cli/volume_text.h"
#include "base/quantity.h"

namespace cairn::cli {
namespace {

TEST(Size, PrintsWhatWasGiven) {
  EXPECT_EQ(size_text(20ull << 30), "20 GiB");
  EXPECT_EQ(size_text(5ull << 40), "5 TiB");
  EXPECT_EQ(size_text(1000), "1000 B");
}

TEST(VolumePath, IsCleanedAndChecked) {
  EXPECT_EQ(*parse_volume_path(""), "");
  EXPECT_EQ(*parse_volume_path("/"), "");
  EXPECT_EQ(*parse_volume_path("/data//train/./x/"), "data/train/x");
  EXPECT_EQ(*parse_volume_path("..."), "...");
  for (const char* wrong : {"..", "../x", "a/../b", "a/.."}) {
    EXPECT_EQ(parse_volume_path(wrong).error().code(), Code::kPathInvalid) << wrong;
  }
  EXPECT_FALSE(parse_volume_path(std::string(5000, 'a')));
  EXPECT_FALSE(parse_volume_path(std::string(256, 'a')));
}

TEST(VolumeAtSnapshot, ReadsNameAndNumber) {
  EXPECT_EQ(parse_volume_at("research")->snapshot, std::nullopt);
  EXPECT_EQ(parse_volume_at("research@12")->snapshot, 12u);
  EXPECT_EQ(parse_volume_at("research@12")->volume, "research");
  EXPECT_FALSE(parse_volume_at("research@"));
  EXPECT_FALSE(parse_volume_at("research@x"));
  EXPECT_FALSE(parse_volume_at("research@-1"));
  EXPECT_FALSE(parse_volume_at("research@0"));
}

TEST(Mounts, FirstVolumeIsPrimaryAndFurtherMountsAreReadOnly) {
  MountOptions options;
  options.volumes = {"research", "scratch"};
  options.mounts = {"data@7", "models:rw", "base:ro:/models/base"};
  auto requests = mount_requests(options);
  ASSERT_TRUE(requests);
  ASSERT_EQ(requests->size(), 5u);
  EXPECT_TRUE((*requests)[0].primary);
  EXPECT_TRUE((*requests)[0].create);
  EXPECT_FALSE((*requests)[1].primary);
  EXPECT_EQ((*requests)[2].snapshot, 7u);
  EXPECT_TRUE((*requests)[2].read_only);
  EXPECT_FALSE((*requests)[3].read_only);
  EXPECT_EQ((*requests)[4].directory, "/models/base");
  for (const char* wrong : {"data@7:rw", "data:writable", "data:relative/dir"}) {
    options.mounts = {wrong};
    EXPECT_FALSE(mount_requests(options)) << wrong;
  }
}

TEST(Numbers, ReadWell) {
  EXPECT_EQ(human_bytes(812), "812 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(8ull << 30), "8.00 GiB");
  EXPECT_EQ(human_bytes((1ull << 20) - 1), "1.00 MiB");
  EXPECT_EQ(human_count(1234567), "1,234,567");
  EXPECT_EQ(human_count(12), "12");
  EXPECT_EQ(human_duration(milliseconds(1500)), "1.5 s");
  EXPECT_EQ(human_duration(seconds(7384)), "2 h 03 min");
  EXPECT_EQ(plural(1, "file"), "1 file");
  EXPECT_EQ(plural(2000, "file"), "2,000 files");
}

TEST(Json, QuotesEverything) {
  EXPECT_EQ(JsonText().add("a", "x\"y\n").add("n", uint64_t{3}).add("b", true).str(), R"({"a": "x\"y\n", "n": 3, "b": true})");
  EXPECT_EQ(JsonText().add("none", std::optional<uint64_t>()).str(), R"({"none": null})");
  EXPECT_EQ(json_array({"1", "2"}), "[1, 2]");
  EXPECT_NE(json_quote("\xff\xfe").find("\xef\xbf\xbd"), std::string::npos);
}

TEST(Run, ExitCodeIsTheCommandsOrOurs) {
  Context context({}, CancelToken());
  api::Run run;
  run.state = api::RunState::kCompleted;
  run.exit_code = 0;
  EXPECT_EQ(exit_code_of(context, run), 0);
  run.state = api::RunState::kFailed;
  run.exit_code = 7;
  EXPECT_EQ(exit_code_of(context, run), 7);
  run.exit_code.reset();
  EXPECT_EQ(exit_code_of(context, run), 125);
  run.exit_code = 0;  // the command was fine, saving its work was not
  EXPECT_EQ(exit_code_of(context, run), 125);
  run.state = api::RunState::kLost;
  run.exit_code.reset();
  EXPECT_EQ(exit_code_of(context, run), 125);
}

}  // namespace
}  // namespace cairn::cli
