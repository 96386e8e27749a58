// What the command line makes of what a person types, and what it prints: sizes, paths, mounts, numbers, JSON.
#include <gtest/gtest.h>

#include "cli/context.h"
#include "cli/json_text.h"
#include "cli/logged_error.h"
#include "cli/output.h"
#include "cli/run_request.h"
#include "cli/run_text.h"
#include "cli/terminal_text.h"
#include "cli/training_text.h"
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

TEST(Training, DryRunSaysWhatAConfigComesTo) {
  auto config = config::parse_training_config(
      "mode = \"pretrain\"\nmax_steps = 300\nseed = 4\n[model]\nname = \"models/m\"\n[data]\npaths = [\"a\", \"b\"]\nseq_len = 1024\n"
      "batch_size = 64\n[val.data]\npaths = [\"v\"]\n[ckpt]\ninterval = 50\nkeep_last = 2\n", "t.toml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(training_text(*config),
            "mode        pretrain\n"
            "model       models/m, random weights of seed 4, bfloat16 where the node has it\n"
            "data        a, b, shuffled with seed 0\n"
            "batch       64 rows of 1,024 tokens a step (65,536 tokens), 1 a pass, 1 process\n"
            "steps       300\n"
            "optimizer   adamw, lr 0.001, weight decay 0.01, gradient norm at most 1\n"
            "schedule    linear, 10 steps up, then level\n"
            "validation  every 50 steps on v, in order\n"
            "checkpoints every 50 steps and at the end, keeping the last 2\n"
            "reads       /volume/models/m, /volume/a, /volume/b, /volume/v");
  config->val->num_samples = 64;
  EXPECT_NE(training_text(*config).find("every 50 steps on the first 64 rows of v, in order\n"), std::string::npos);
}

// What another program reads is not looked at, `--help` and `-o` neither.
TEST(Args, AVerbMayHandOnWhatFollows) {
  auto run = [](std::vector<std::string> words, std::vector<std::string>& seen, bool& handed) {
    Context context({}, CancelToken());
    Args args("test", "0");
    context.add_global_options(args.root());
    Verb top = args.root().add("tool", "x");
    Verb inner = top.add("sub", "y");
    inner.hands_on().run([&](Context& c) -> Result<int> {
      seen = inner.rest();
      handed = c.has_rest;
      return 5;
    });
    words.insert(words.begin(), "cairn");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    return args.parse_and_run(static_cast<int>(argv.size()), argv.data(), context);
  };
  std::vector<std::string> seen;
  bool handed = false;
  EXPECT_EQ(run({"tool", "sub", "--help", "-o", "x", "--", "--y"}, seen, handed), 5);
  EXPECT_EQ(seen, (std::vector<std::string>{"--help", "-o", "x", "--", "--y"}));
  EXPECT_TRUE(handed);
  EXPECT_EQ(run({"tool", "sub"}, seen, handed), 5);
  EXPECT_TRUE(seen.empty());
  EXPECT_TRUE(handed);
  // Options of ours before it: nothing is handed on, and the verb can tell.
  EXPECT_EQ(run({"-o", "json", "tool", "sub"}, seen, handed), 5);
  EXPECT_FALSE(handed);
  EXPECT_EQ(run({"-o", "json", "tool", "sub", "x"}, seen, handed), 2);
}

TEST(TerminalText, HoldsNoControlCharacters) {
  EXPECT_EQ(shown_path("a\\b\n\xff\u00e9"), "a\\\\b\\x0a\\xff\u00e9");
  EXPECT_EQ(shown_words("a\\b\n\x1b[2J"), "a\\b\\x0a\\x1b[2J");
  EXPECT_EQ(shown_text("one\n\ttwo\r\\\xc2\x9b"), "one\n\ttwo\\x0d\\\\xc2\\x9b");
  EXPECT_EQ(shown_text(""), "");
}

TEST(LoggedError, IsReadBackAsItWasPrinted) {
  std::string log = "cairn: old (io_error)\n  hint: none\ninfo: cairn: not one (busy)\ncairn: it has\ntwo (2) lines (config_invalid)\n"
                    "  hint: correct the file\nmore";
  auto error = last_logged_error(log);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Code::kConfigInvalid);
  EXPECT_EQ(error->message(), "it has\ntwo (2) lines");
  EXPECT_EQ(error->hint(), "correct the file");
  EXPECT_EQ(last_logged_error("cairn: short (busy)")->hint(), "");
  EXPECT_FALSE(last_logged_error("killed by signal 9"));
  EXPECT_FALSE(last_logged_error("cairn: no code (of ours)\n"));
}

TEST(RunId, IsTypedAsItIsShown) {
  const std::string id(32, 'a');
  for (const std::string& typed : {id, "run-" + id, "run-" + id + ".1", "run-" + id + ".12"}) EXPECT_EQ(run_digits(typed), id) << typed;
  EXPECT_EQ(run_digits("run-abcd.1"), "abcd");
  EXPECT_EQ(run_digits("ab.1"), "ab.1");
  EXPECT_EQ(run_digits(""), "");
}

TEST(BreakLease, NamesTheLostRunsThatWroteToTheVolume) {
  api::Run lost, reads, lives, elsewhere;
  lost.id = *RunId::from_hex(std::string(32, 'a'));
  lost.state = reads.state = elsewhere.state = api::RunState::kLost;
  lives.state = api::RunState::kRunning;
  lost.volume = lives.volume = "v";
  reads.mounts.emplace_back();
  reads.mounts[0].volume = "v";
  reads.mounts[0].read_only = true;
  elsewhere.volume = "w";
  EXPECT_EQ(lost_writers({lost, reads, lives, elsewhere}, "v"), std::vector<std::string>{lost.id.hex()});
  reads.mounts[0].read_only = false;
  EXPECT_EQ(lost_writers({reads}, "v").size(), 1u);
}

TEST(Args, SayWhatIsNotTaken) {
  auto said = [](std::vector<std::string> words) {
    Context context({}, CancelToken());
    Args args("test", "0");
    context.add_global_options(args.root());
    Verb top = args.root().add("things", "x");
    std::string name, size, note;
    auto run = [](Context&) -> Result<int> { return 0; };
    top.add("make", "y").text("NAME", name, "n").text("--size", size, "s").free_text("--note", note, "n").run(run);
    words.insert(words.begin(), {"cairn", "-o", "json"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    ::testing::internal::CaptureStdout();
    int code = args.parse_and_run(static_cast<int>(argv.size()), argv.data(), context);
    return std::to_string(code) + " " + ::testing::internal::GetCapturedStdout();
  };
  EXPECT_NE(said({"things", "foo", "bar"}).find("2 {\"error\":{\"code\":\"usage\",\"message\":\"'cairn things' has no verb 'foo'\""), std::string::npos);
  EXPECT_NE(said({"things", "make", "a", "b", "c"}).find("'cairn things make' does not take 'b' 'c'"), std::string::npos);
  EXPECT_NE(said({"things", "make", "a", "--size", ""}).find("--size: the value is empty"), std::string::npos);
  EXPECT_EQ(said({"things", "make", "a", "--note", "", "--size", "1"}), "0 ");
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
  EXPECT_EQ(files_and_links(2, 0), "2 files");
  EXPECT_EQ(files_and_links(0, 1), "0 files, 1 link");
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
