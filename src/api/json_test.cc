#include "api/json.h"

#include <gtest/gtest.h>

#include "api/display.h"
#include "api/types.h"
#include "base/random.h"

namespace cairn::api {
namespace {

template <class IdType>
IdType an_id(uint64_t seed) {
  SeededRandom random(seed);
  return IdType::random(random);
}

// Text → struct → text: what is written is read back as the same.
template <class T>
void expect_round_trip(const T& value) {
  std::string text = to_json(value);
  auto strict = request_from_json<T>(text);
  ASSERT_TRUE(strict) << strict.error().to_string() << "\n" << text;
  EXPECT_EQ(to_json(*strict), text);
  auto lenient = answer_from_json<T>(text);
  ASSERT_TRUE(lenient) << lenient.error().to_string();
  EXPECT_EQ(to_json(*lenient), text);
}

template <class T>
std::string refusal(std::string_view text) {
  auto value = request_from_json<T>(text);
  if (value) return "accepted";
  EXPECT_EQ(value.error().code(), Code::kRequestInvalid);
  return value.error().message();
}

Pin a_pin() { return Pin{an_id<PinId>(1), 7, std::string(64, 'a'), 10, 8, 1234, Time{1'700'000'000'123'456}}; }

Upload an_upload() {
  Upload upload;
  upload.upload = an_id<UploadId>(2);
  upload.volume = an_id<VolumeId>(3);
  upload.lease = an_id<LeaseId>(4);
  upload.secret = "5ec4e7";
  upload.fence = 9;
  upload.base = a_pin();
  upload.expires_at = Time{1'700'000'100'000'000};
  return upload;
}

TEST(Json, VolumesRoundTrip) {
  expect_round_trip(CreateVolume{"research", 5'000'000, "30d"});
  expect_round_trip(CreateVolume{"research", std::nullopt, std::nullopt});
  Volume volume;
  volume.id = an_id<VolumeId>(1);
  volume.name = "research";
  volume.size_bytes = uint64_t{20} << 40;
  volume.status = "CREATED";
  volume.created_at = Time{1'700'000'000'000'001};
  volume.purge_at = Time{1'700'000'000'000'002};
  Snapshot side;
  side.number = 3;
  side.kind = "final";
  side.side = "recovered/run 12";
  side.expires_at = Time{1'800'000'000'000'000};
  volume.side_snapshots = {side};
  volume.stored_bytes = 17;
  expect_round_trip(volume);
  expect_round_trip(VolumeList{{volume, volume}});
  expect_round_trip(SnapshotList{{side}});
  expect_round_trip(DeletePreview{5, 6, 2, {"runs/a/checkpoints/step_1", "b\xff"}});
  expect_round_trip(a_pin());
}

TEST(Json, PathsThatAreNotTextSurvive) {
  EntryPage page;
  Entry entry;
  entry.path = std::string("a\xff\\b\n\xc3\xa9", 7);
  entry.kind = "symlink";
  entry.mtime_ns = -1;
  entry.target = "../\x80";
  page.entries = {entry};
  page.next = entry.path;
  expect_round_trip(page);
  auto back = answer_from_json<EntryPage>(to_json(page));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->entries[0].path, entry.path);
  EXPECT_EQ(back->entries[0].mtime_ns, -1);
  EXPECT_EQ(back->next, entry.path);
  EXPECT_NE(to_json(page).find(R"("path":"a\\xff\\\\b\\x0aé")"), std::string::npos) << to_json(page);
}

TEST(Json, WritingRoundTrips) {
  expect_round_trip(OpenUpload{"laptop:/data", "abc", false, "def"});
  expect_round_trip(an_upload());
  RequestPacks request{"s", {an_id<PackId>(1)}, {{33'554'432, 0xdeadbeef, PackKind::kData}, {100, 0, PackKind::kChangeset}}};
  expect_round_trip(request);
  expect_round_trip(PackGrant{{an_id<PackId>(1)}, {{an_id<PackId>(2), "/store/s/x?sig=1", 5}}, Time{1}});
  expect_round_trip(ResumablePacks{{{an_id<PackId>(2), "/store/x", 5, std::string(64, '0')}}, true, Time{1}});
  expect_round_trip(Publish{"s", an_id<PackId>(3), PublishKind::kCheckpoint, "step 100", true});
  expect_round_trip(Published{4, 3, 2, 1, std::string(64, 'b'), "recovered/x", "lease_lost"});
  expect_round_trip(RemovePaths{{"runs/1", "x"}, ""});
}

TEST(Json, RunsRoundTrip) {
  CreateRun create;
  create.kind = RunKind::kTrain;
  create.command = {"sh", "-c", "echo \"hello\""};
  create.config = "mode = \"sft\"\n";
  create.mounts = {MountRequest{"research", "/volume", 3, true, false, true, false, 10}};
  create.environment = {{"A", "1"}, {"B", ""}};
  create.grace_seconds = 5;
  expect_round_trip(create);
  api::Run run;
  run.id = an_id<RunId>(5);
  run.state = RunState::kSyncing;
  run.exit_code = -9;
  run.saved = SavedState{1200, 17, Time{1'700'000'000'000'000}, 14};
  run.started_at = Time{5};
  run.mounts = create.mounts;
  expect_round_trip(run);
  EXPECT_NE(to_json(run).find("\"age_s\":14"), std::string::npos);
  expect_round_trip(LogPage{{{1, "run", Time{0}, "line"}}, 1, true});
  expect_round_trip(CheckpointList{{{100, "runs/x/checkpoints/step_100", "COMPLETE", 3, 10, 17, Time{1}}}});
}

TEST(Json, NodesRoundTrip) {
  expect_round_trip(RegisterNode{"gpu-1", "0.1.0", "b", 16, 1, 2, 3, {{"H200", 8}}});
  AttemptStart start;
  start.run = an_id<RunId>(1);
  start.attempt = an_id<AttemptId>(2);
  start.number = 1;
  start.mounts = {MountGrant{"research", an_id<VolumeId>(1), "/mnt/research", true, false, false, 1000, a_pin(), an_upload()}};
  start.workspace = start.mounts[0];
  expect_round_trip(start);
  expect_round_trip(PollAnswer{{{an_id<RunId>(1), an_id<AttemptId>(2), "s"}}, {{an_id<AttemptId>(3), 60}}, {}});
  HeartbeatAttempt beat;
  beat.secret = "s";
  beat.state = RunState::kRunning;
  beat.log_sequence = 5;
  beat.logs = {{"run", Time{1}, "a"}};
  expect_round_trip(beat);
  expect_round_trip(FinishAttempt{"s", RunState::kFailed, 137, "killed", {"workspace/x"}, 10, std::nullopt});
}

TEST(Json, RequestsAreStrict) {
  EXPECT_EQ(refusal<CreateVolume>(R"({"name":"a","sise_bytes":1})"), "field 'sise_bytes' is not known here");
  EXPECT_EQ(refusal<CreateVolume>(R"({"size_bytes":1})"), "field 'name' is missing");
  EXPECT_EQ(refusal<CreateVolume>(R"({"name":5})"), "field 'name' is not a text");
  EXPECT_EQ(refusal<CreateVolume>(R"({"name":"a","size_bytes":-1})"), "field 'size_bytes' is not a whole number from 0");
  EXPECT_EQ(refusal<CreateVolume>(R"({"name":"a","size_bytes":1.5})"), "field 'size_bytes' is not a whole number from 0");
  EXPECT_EQ(refusal<CreateVolume>(R"({"name":"a","size_bytes":18446744073709551615})"),
            "field 'size_bytes' is larger than 2^63 - 1");
  EXPECT_EQ(refusal<CreateVolume>(R"([])"), "the body is not an object");
  EXPECT_EQ(refusal<CreateVolume>(R"({"name":"a")"), "the body is not a JSON document");
  EXPECT_EQ(refusal<CreateVolume>("{\"name\":\"a\\u0000b\"}"), "field 'name' holds a NUL character");
  EXPECT_EQ(refusal<RequestPacks>(R"({"secret":"s","promise":[{"size_bytes":1,"crc32c":4294967296}]})"),
            "field 'promise[0].crc32c' is larger than 2^32 - 1");
  EXPECT_EQ(refusal<RequestPacks>(R"({"secret":"s","promise":[{"size_bytes":1,"crc32c":1,"kind":"node"}]})"),
            "field 'promise[0].kind' is none of data, changeset");
  EXPECT_EQ(refusal<RequestPacks>(R"({"secret":"s","register":["ABC"]})"), "field 'register[0]' is not an id of 32 hex digits");
  EXPECT_EQ(refusal<RemovePaths>(R"({"paths_hex":["4"]})"),
            "field 'paths_hex[0]' is not an even number of lower-case hex digits");
  EXPECT_EQ(refusal<RemovePaths>(R"({"paths":["a"]})"), "field 'paths_hex' is missing");
  EXPECT_EQ(refusal<CreateRun>(R"({"kind":"command","mounts":[{"volume":"a","x":1}]})"),
            "field 'mounts[0].x' is not known here");
  EXPECT_EQ(refusal<CreateRun>(R"({"kind":"command","environment":{"":"1"}})"),
            "field 'environment' has a name that is empty or longer than 256 bytes");
}

TEST(Json, AnswersTolerateWhatTheyDoNotKnow) {
  auto answer = answer_from_json<HeartbeatAnswer>(R"({"expires_at":"2026-11-29T19:05:50Z","later":{"deep":[1]}})");
  ASSERT_TRUE(answer) << answer.error().to_string();
  EXPECT_EQ(to_rfc3339(answer->expires_at), "2026-11-29T19:05:50.000000Z");
}

TEST(Json, SizeAndDepthAreBounded) {
  std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(refusal<CreateVolume>(deep), "the JSON document is nested deeper than 16");
  std::string many = R"({"secret":"s","register":[)";
  for (int i = 0; i < 300; ++i) many += (i == 0 ? "\"" : ",\"") + std::string(32, 'a') + "\"";
  EXPECT_EQ(refusal<RequestPacks>(many + "]}"), "field 'register' has 300 items; at most 256");
  auto large = request_from_json<CreateVolume>(std::string(kRequestBytesMax + 1, ' '));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), Code::kRequestTooLarge);
}

TEST(Json, ErrorsRoundTrip) {
  Error error = Error(Code::kWriterLeaseHeld, "volume 'a' is held", "wait").with_holder("upload by alice");
  auto back = error_from_json(error_to_json(error), 409);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->code(), Code::kWriterLeaseHeld);
  EXPECT_EQ(back->message(), error.message());
  EXPECT_EQ(back->hint(), "wait");
  EXPECT_EQ(back->holder(), "upload by alice");
  auto newer = error_from_json(R"({"error":{"code":"moon_in_the_way","message":"m"}})", 503);
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->code(), Code::kServerUnavailable);
  EXPECT_EQ(newer->message(), "moon_in_the_way: m");
  EXPECT_FALSE(error_from_json("<html>502</html>", 502));
  EXPECT_FALSE(error_from_json(R"({"error":"text"})", 500));
}

TEST(Json, TimesAreRfc3339) {
  for (int64_t us : {int64_t{0}, int64_t{1'700'000'000'123'456}, int64_t{4'102'444'799'999'999}}) {
    auto time = time_from_rfc3339(to_rfc3339(Time{us}));
    ASSERT_TRUE(time);
    EXPECT_EQ(time->us, us);
  }
  for (const char* bad : {"", "2026-11-29", "2026-02-30T00:00:00Z", "2026-11-29T24:00:00Z", "2026-11-29T19:05:50+01:00",
                          "2026-11-29T19:05:50.Z", "2026-11-29T19:05:5aZ", "1969-12-31T23:59:59Z"}) {
    EXPECT_FALSE(time_from_rfc3339(bad)) << bad;
  }
}

TEST(Display, ShowsWhatIsPrintable) {
  EXPECT_EQ(display_path("a/b c.txt"), "a/b c.txt");
  EXPECT_EQ(display_path("é\xc3"), "é\\xc3");
  EXPECT_EQ(display_path("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80"), "\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(display_path("\x1b[31m\x7f\xc2\x85"), "\\x1b[31m\\x7f\\xc2\\x85");
}

}  // namespace
}  // namespace cairn::api
