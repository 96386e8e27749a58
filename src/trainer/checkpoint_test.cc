#include "trainer/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "codec/bytes.h"
#include "os/memory_file_system.h"
#include "testing/temporary_folder.h"

namespace cairn::trainer {
namespace {

constexpr const char* kFolder = "/run/checkpoints";

// A model of two tensors with its optimizer.
struct Small {
  explicit Small(float value = 1) {
    parameters = {{"a.weight", at::full({3, 4}, value)}, {"b.weight", at::full({5}, -value)}};
    optimizer = std::move(*Optimizer::create({}, parameters));
    for (const NamedParameter& state : optimizer->state()) {
      at::Tensor tensor = state.tensor;
      tensor.fill_(value * 2);
    }
  }

  CheckpointContents contents(int64_t step) const {
    CheckpointContents contents;
    contents.state.mode = "pretrain";
    contents.state.step = step;
    contents.state.total_tokens = step * 1000;
    contents.state.schedule_index = step;
    contents.state.optimizer_kind = "adamw";
    contents.state.optimizer_steps = step;
    contents.state.cursor = "{\"at\":" + std::to_string(step) + "}";
    contents.state.torch_generator = {1, 2, 255};
    contents.state.config_sha256 = "ab";
    contents.state.config = "{\"seed\": 1}";
    contents.state.model_config = "{}";
    contents.metrics = {{"loss/mean", 2.5}, {"val/loss", std::nan("")}};
    contents.parameters = &parameters;
    contents.optimizer_state = &optimizer->state();
    return contents;
  }

  std::vector<NamedParameter> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

std::vector<int64_t> steps_of(const Checkpoints& checkpoints) {
  auto places = checkpoints.complete();
  EXPECT_TRUE(places);
  std::vector<int64_t> steps;
  for (const CheckpointPlace& place : *places) steps.push_back(place.step);
  return steps;
}

// Every complete checkpoint is whole: hashes agree and its tensors have the value its step was saved with.
void expect_all_sound(os::FileSystem& files, const Checkpoints& checkpoints) {
  auto places = checkpoints.complete();
  ASSERT_TRUE(places);
  for (const CheckpointPlace& place : *places) {
    EXPECT_TRUE(verify_checkpoint(files, place)) << place.folder;
    Small loaded(0);
    ASSERT_TRUE(load_parameters(files, place, loaded.parameters));
    auto state = load_state(files, place);
    ASSERT_TRUE(state);
    ASSERT_TRUE(load_optimizer(files, place, *state, *loaded.optimizer, config::OptimizerKind::kAdamW));
    EXPECT_EQ(state->step, place.step);
    EXPECT_EQ(loaded.parameters[0].tensor[0][0].item<float>(), static_cast<float>(place.step));
    EXPECT_EQ(loaded.optimizer->state()[0].tensor[0][0].item<float>(), static_cast<float>(place.step) * 2);
  }
}

Status save(Checkpoints& checkpoints, int64_t step) { return checkpoints.save(Small(static_cast<float>(step)).contents(step)); }

TEST(Checkpoint, ComesBackAsItWas) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  EXPECT_TRUE(steps_of(checkpoints).empty());
  ASSERT_TRUE(save(checkpoints, 7));
  auto places = *checkpoints.complete();
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].marker.metrics, (std::map<std::string, double>{{"loss/mean", 2.5}}));
  auto state = *load_state(files, places[0]);
  CheckpointState wanted = Small(7).contents(7).state;
  EXPECT_EQ(state.cursor, wanted.cursor);
  EXPECT_EQ(state.torch_generator, wanted.torch_generator);
  EXPECT_EQ(state.config, wanted.config);
  EXPECT_EQ(state.total_tokens, 7000);
  EXPECT_EQ(state.optimizer_steps, 7);
  expect_all_sound(files, checkpoints);
}

TEST(Checkpoint, PowerLossAtAnyMomentLeavesWhatWasComplete) {
  // The number of operations of one save, then a power loss at each of them, with and without luck.
  uint64_t operations = 0;
  {
    os::MemoryFileSystem files;
    Checkpoints checkpoints(files, kFolder);
    ASSERT_TRUE(save(checkpoints, 1));
    uint64_t before = files.operations();
    ASSERT_TRUE(save(checkpoints, 2));
    operations = files.operations() - before;
  }
  ASSERT_GT(operations, 20u);
  SeededRandom random(11);
  for (uint64_t at = 0; at < operations; ++at) {
    for (bool lucky : {false, true}) {
      SCOPED_TRACE(at);
      os::MemoryFileSystem files;
      Checkpoints checkpoints(files, kFolder);
      ASSERT_TRUE(save(checkpoints, 1));
      files.power_off_at(at);
      EXPECT_FALSE(save(checkpoints, 2));
      files.crash(lucky ? &random : nullptr);
      std::vector<int64_t> steps = steps_of(checkpoints);
      ASSERT_FALSE(steps.empty());
      EXPECT_EQ(steps[0], 1);
      expect_all_sound(files, checkpoints);
      // The next run starts clean and saves the same step.
      ASSERT_TRUE(checkpoints.remove_torn());
      EXPECT_TRUE(checkpoints.torn()->empty());
      ASSERT_TRUE(save(checkpoints, 2));
      EXPECT_EQ(steps_of(checkpoints), (std::vector<int64_t>{1, 2}));
      expect_all_sound(files, checkpoints);
    }
  }
}

TEST(Checkpoint, SavedDurably) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  ASSERT_TRUE(save(checkpoints, 3));
  files.crash();
  EXPECT_EQ(steps_of(checkpoints), std::vector<int64_t>{3});
  expect_all_sound(files, checkpoints);
}

TEST(Checkpoint, AFullDiskIsSaidAndLeavesTheLastGoodOne) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  ASSERT_TRUE(save(checkpoints, 1));
  uint64_t one = files.used_bytes();
  for (uint64_t room : {uint64_t{0}, uint64_t{1}, one / 2, one - 1}) {
    files.set_capacity(one + room);
    Status saved = save(checkpoints, 2);
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().code(), Code::kNoSpaceLeft);
    EXPECT_NE(saved.error().hint().find("step_1"), std::string::npos) << saved.error().hint();
    EXPECT_FALSE(*files.exists(checkpoints.step_folder(2)));
    EXPECT_EQ(files.used_bytes(), one);
    EXPECT_EQ(steps_of(checkpoints), std::vector<int64_t>{1});
  }
  files.set_capacity(3 * one);
  EXPECT_TRUE(save(checkpoints, 2));
  expect_all_sound(files, checkpoints);
}

TEST(Checkpoint, TornOnesAreNotTaken) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  ASSERT_TRUE(save(checkpoints, 1));
  ASSERT_TRUE(save(checkpoints, 2));
  ASSERT_TRUE(save(checkpoints, 3));
  ASSERT_TRUE(files.remove(checkpoints.step_folder(3) + "/trainer/.metadata"));
  auto state_file = files.open_append(checkpoints.step_folder(2) + "/trainer/state.json", 0644);
  ASSERT_TRUE((*state_file)->write(codec::as_bytes(" ")));
  state_file->reset();
  ASSERT_TRUE(files.make_directories(std::string(kFolder) + "/step_04", 0755));
  ASSERT_TRUE(files.make_directories(std::string(kFolder) + "/step_x", 0755));

  EXPECT_EQ(steps_of(checkpoints), std::vector<int64_t>{1});
  EXPECT_EQ(checkpoints.torn()->size(), 2u);
  auto latest = find_checkpoint(files, {}, checkpoints);
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->step, 1);
  config::ResumeSettings resume;
  resume.step = 3;
  auto torn = find_checkpoint(files, resume, checkpoints);
  ASSERT_FALSE(torn);
  EXPECT_EQ(torn.error().code(), Code::kCheckpointIncomplete);
  EXPECT_NE(torn.error().message().find(".metadata"), std::string::npos);
  resume.step = 2;
  torn = find_checkpoint(files, resume, checkpoints);
  ASSERT_FALSE(torn);
  EXPECT_NE(torn.error().message().find("state.json has"), std::string::npos) << torn.error().message();
  resume.step = 9;
  EXPECT_EQ(find_checkpoint(files, resume, checkpoints).error().code(), Code::kFileNotFound);
}

// Neither complete nor torn: everything stays, and nobody goes on as if it were not there.
void expect_undecided(os::FileSystem& files, Checkpoints& checkpoints, int64_t step, Code code) {
  config::ResumeSettings resume;
  resume.step = step;
  for (const Error& error : {checkpoints.complete().error(), checkpoints.torn().error(), checkpoints.remove_torn().error(),
                             find_checkpoint(files, {}, checkpoints).error(), find_checkpoint(files, resume, checkpoints).error()}) {
    EXPECT_EQ(error.code(), code) << error.to_string();
    EXPECT_NE(error.message().find(checkpoints.step_folder(step)), std::string::npos) << error.to_string();
    EXPECT_FALSE(error.hint().empty());
  }
  EXPECT_TRUE(*files.exists(checkpoints.step_folder(step) + "/trainer/model.safetensors"));
}

TEST(Checkpoint, WhatCannotBeToldIsNeitherTakenNorDeleted) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  ASSERT_TRUE(save(checkpoints, 1));
  ASSERT_TRUE(save(checkpoints, 2));
  std::string marker = checkpoints.step_folder(2) + "/trainer/.metadata";
  std::string text = *files.read_file(marker, kMarkerBytesMax);
  auto replace_marker = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    size_t at = other.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    ASSERT_TRUE(files.write_file_atomic(marker, codec::as_bytes(other.replace(at, from.size(), to)), 0644));
  };
  replace_marker("\"version\": 1", "\"version\": 2");
  expect_undecided(files, checkpoints, 2, Code::kFormatUnsupported);
  replace_marker("cairn-training-checkpoint", "another-trainer");
  expect_undecided(files, checkpoints, 2, Code::kFormatUnsupported);
  replace_marker("\"step\": 2", "\"step\": 3");
  expect_undecided(files, checkpoints, 2, Code::kDataInvalid);
  replace_marker("", std::string(kMarkerBytesMax, ' '));
  expect_undecided(files, checkpoints, 2, Code::kLimitExceeded);
  // A damaged marker of this version is what a torn checkpoint has.
  replace_marker("\"files\"", "\"flies\"");
  EXPECT_EQ(steps_of(checkpoints), std::vector<int64_t>{1});
  ASSERT_TRUE(checkpoints.remove_torn());
  EXPECT_FALSE(*files.exists(checkpoints.step_folder(2)));
}

TEST(Checkpoint, AnErrorOfTheDiskWhileLookingDeletesNothing) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  for (int64_t step : {1, 2, 3}) ASSERT_TRUE(save(checkpoints, step));
  ASSERT_TRUE(files.remove(checkpoints.step_folder(3) + "/trainer/.metadata"));
  uint64_t before = files.operations();
  ASSERT_EQ(checkpoints.torn()->size(), 1u);
  uint64_t looks = files.operations() - before;
  ASSERT_GT(looks, 8u);
  for (Code code : {Code::kIoError, Code::kFileUnreadable}) {
    for (uint64_t at = 0; at < looks; ++at) {
      SCOPED_TRACE(at);
      files.fail_operation(at, Error(code, "the disk does not answer"));
      auto removed = checkpoints.remove_torn();
      ASSERT_FALSE(removed);
      EXPECT_EQ(removed.error().code(), code);
      EXPECT_TRUE(*files.exists(checkpoints.step_folder(3)));
      files.fail_operation(at, Error(code, "the disk does not answer"));
      auto places = checkpoints.complete();
      ASSERT_FALSE(places);
      EXPECT_EQ(places.error().code(), code);
      EXPECT_EQ(steps_of(checkpoints), (std::vector<int64_t>{1, 2}));
    }
  }
  ASSERT_TRUE(checkpoints.remove_torn());
  EXPECT_FALSE(*files.exists(checkpoints.step_folder(3)));
}

TEST(Checkpoint, AFileBehindALinkIsNotTakenForTorn) {
  testing::TemporaryFolder folder;
  os::FileSystem& files = os::posix_file_system();
  Checkpoints checkpoints(files, folder / "checkpoints");
  ASSERT_TRUE(save(checkpoints, 1));
  std::string path = checkpoints.step_folder(1) + "/trainer/optimizer.safetensors";
  std::filesystem::rename(path, folder / "moved");
  std::filesystem::create_symlink(folder / "moved", path);
  expect_undecided(files, checkpoints, 1, Code::kDataInvalid);
  std::filesystem::remove(path);
  EXPECT_EQ(checkpoints.torn()->size(), 1u);
}

TEST(Checkpoint, IsNotSavedBehindALink) {
  testing::TemporaryFolder folder;
  Checkpoints checkpoints(os::posix_file_system(), folder / "checkpoints");
  std::filesystem::create_directories(folder / "checkpoints");
  std::filesystem::create_directories(folder / "elsewhere");
  std::filesystem::create_directory_symlink(folder / "elsewhere", folder / "checkpoints/step_5");
  Status saved = save(checkpoints, 5);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code(), Code::kFileExists);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "elsewhere"));
}

TEST(Checkpoint, OfAnotherRun) {
  os::MemoryFileSystem files;
  Checkpoints own(files, kFolder), other(files, "/other/checkpoints");
  ASSERT_TRUE(save(other, 40));
  config::ResumeSettings resume;
  resume.dir = "/other/checkpoints/step_40/";
  auto place = find_checkpoint(files, resume, own);
  ASSERT_TRUE(place) << place.error().to_string();
  EXPECT_EQ(place->step, 40);
  EXPECT_TRUE(steps_of(own).empty());
  resume.dir = "/other/checkpoints";
  EXPECT_EQ(find_checkpoint(files, resume, own).error().code(), Code::kConfigInvalid);
}

TEST(Checkpoint, DamageIsFoundWhenLoaded) {
  testing::TemporaryFolder folder;
  os::FileSystem& files = os::posix_file_system();
  Checkpoints checkpoints(files, folder / "checkpoints");
  ASSERT_TRUE(save(checkpoints, 1));
  CheckpointPlace place = checkpoints.complete()->front();
  std::string path = place.folder + "/trainer/model.safetensors";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('x');
  file.close();
  // The size is right, so it is complete; its bytes are not.
  EXPECT_EQ(steps_of(checkpoints), std::vector<int64_t>{1});
  Status verified = verify_checkpoint(files, place);
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code(), Code::kDataCorrupt);
  EXPECT_NE(verified.error().message().find("model.safetensors"), std::string::npos);
  std::filesystem::resize_file(path, 100);
  EXPECT_TRUE(steps_of(checkpoints).empty());
}

TEST(Checkpoint, MustFitModelAndOptimizer) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  ASSERT_TRUE(save(checkpoints, 1));
  CheckpointPlace place = checkpoints.complete()->front();
  CheckpointState state = *load_state(files, place);
  std::vector<std::vector<NamedParameter>> others{
      {{"a.weight", at::zeros({3, 4})}},                                                                          // fewer
      {{"a.weight", at::zeros({3, 4})}, {"c.weight", at::zeros({5})}},                                            // another name
      {{"a.weight", at::zeros({4, 3})}, {"b.weight", at::zeros({5})}},                                            // another shape
      {{"a.weight", at::zeros({3, 4})}, {"b.weight", at::zeros({5})}, {"c.weight", at::zeros({5})}},              // more
  };
  for (const auto& parameters : others) {
    Status loaded = load_parameters(files, place, parameters);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code(), Code::kCheckpointMismatch) << loaded.error().to_string();
  }
  config::OptimizerSettings muon;
  muon.kind = config::OptimizerKind::kMuon;
  auto optimizer = *Optimizer::create(muon, Small().parameters);
  Status loaded = load_optimizer(files, place, state, *optimizer, muon.kind);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), Code::kCheckpointMismatch);
  EXPECT_NE(loaded.error().hint().find("skip_optimizer"), std::string::npos);
}

TEST(Checkpoint, EarlierOnesLackTheConfig) {
  std::string text = write_state(Small().contents(4).state);
  size_t begin = text.find("  \"config\":");
  ASSERT_NE(begin, std::string::npos);
  text.erase(begin, text.find('\n', begin) + 1 - begin);
  auto state = parse_state(text, "s");
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->config, "");
}

TEST(Checkpoint, CountersThatNoRunReachesAreDamage) {
  CheckpointState state = Small().contents(4).state;
  std::string text = write_state(state);
  ASSERT_TRUE(parse_state(text, "s"));
  for (const char* count : {"\"step\": 4", "\"total_tokens\": 4000", "\"total_samples\": 0", "\"index\": 4", "\"steps\": 4"}) {
    std::string_view name = std::string_view(count).substr(0, std::string_view(count).find(':') + 1);
    auto with = [&](const std::string& value) {
      std::string other = text;
      size_t at = other.find(count);
      EXPECT_NE(at, std::string::npos) << count;
      return parse_state(other.replace(at, std::string_view(count).size(), std::string(name) + " " + value), "s");
    };
    EXPECT_TRUE(with("1152921504606846976")) << count;
    for (const char* bad : {"1152921504606846977", "9223372036854775807", "18446744073709551615", "1e30", "-1", "4.5"}) {
      auto read = with(bad);
      ASSERT_FALSE(read) << count << " " << bad;
      EXPECT_EQ(read.error().code(), Code::kDataCorrupt);
    }
  }
}

TEST(Checkpoint, AStateOfAnotherStepIsDamage) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  ASSERT_TRUE(save(checkpoints, 1));
  CheckpointPlace place = checkpoints.complete()->front();
  ASSERT_TRUE(load_state(files, place));
  std::string other = write_state(Small().contents(2).state);
  ASSERT_TRUE(files.write_file_atomic(place.folder + "/trainer/state.json", codec::as_bytes(other), 0644));
  auto state = load_state(files, place);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code(), Code::kDataCorrupt);
}

TEST(Retention, KeepsWhatItIsToldTo) {
  os::MemoryFileSystem files;
  Checkpoints checkpoints(files, kFolder);
  for (int64_t step = 1; step <= 10; ++step) ASSERT_TRUE(save(checkpoints, step));
  config::CheckpointSettings settings;
  EXPECT_TRUE(checkpoints.clean(settings)->empty());  // nothing said, nothing deleted
  settings.keep_interval = 4;
  settings.keep_last = 3;
  EXPECT_EQ(*checkpoints.clean(settings), (std::vector<int64_t>{1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(steps_of(checkpoints), (std::vector<int64_t>{4, 8, 9, 10}));
  settings.keep_last.reset();
  settings.keep_interval = 100;
  EXPECT_TRUE(checkpoints.clean(settings));
  EXPECT_EQ(steps_of(checkpoints), std::vector<int64_t>{10});  // the newest stays whatever is said
  EXPECT_FALSE(*files.exists(checkpoints.step_folder(9)));
}

TEST(Retention, KeepsTheBest) {
  for (bool lowest : {true, false}) {
    os::MemoryFileSystem files;
    Checkpoints checkpoints(files, kFolder);
    const double losses[] = {3, 1, 2, 1, std::nan(""), 9, 4};
    for (int64_t step = 1; step <= 7; ++step) {
      Small small(static_cast<float>(step));
      CheckpointContents contents = small.contents(step);
      contents.metrics = {{"val/loss", losses[step - 1]}};
      ASSERT_TRUE(checkpoints.save(contents));
    }
    config::CheckpointSettings settings;
    settings.keep_best = config::KeepBest{"val/loss", 2, lowest};
    ASSERT_TRUE(checkpoints.clean(settings));
    // Of equals the newer; the newest of all stays.
    EXPECT_EQ(steps_of(checkpoints), lowest ? (std::vector<int64_t>{2, 4, 7}) : (std::vector<int64_t>{6, 7}));
  }
}

TEST(Retention, RandomSettingsAgreeWithAModel) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  SeededRandom random(kSeed);
  for (int round = 0; round < 40; ++round) {
    os::MemoryFileSystem files;
    Checkpoints checkpoints(files, kFolder);
    config::CheckpointSettings settings;
    if (random.below(2)) settings.keep_last = 1 + static_cast<int64_t>(random.below(4));
    if (random.below(2)) settings.keep_interval = 1 + static_cast<int64_t>(random.below(5));
    std::set<int64_t> model;
    for (int64_t step = 1, saved = 0; saved < 8; step += 1 + static_cast<int64_t>(random.below(3)), ++saved) {
      ASSERT_TRUE(save(checkpoints, step));
      ASSERT_TRUE(checkpoints.clean(settings));
      model.insert(step);
      if (settings.keep_last || settings.keep_interval) {
        std::set<int64_t> kept;
        int64_t newer = 0;
        for (auto at = model.rbegin(); at != model.rend(); ++at, ++newer) {
          if (newer < settings.keep_last.value_or(1) || (settings.keep_interval && *at % *settings.keep_interval == 0)) kept.insert(*at);
        }
        model = kept;
      }
      EXPECT_EQ(steps_of(checkpoints), std::vector<int64_t>(model.begin(), model.end()));
    }
  }
}

TEST(Retention, PowerLossWhileDeletingLeavesValidOnes) {
  auto filled = [](os::MemoryFileSystem& files) {
    Checkpoints checkpoints(files, kFolder);
    for (int64_t step = 1; step <= 3; ++step) EXPECT_TRUE(save(checkpoints, step));
  };
  config::CheckpointSettings settings;
  settings.keep_last = 1;
  for (uint64_t at = 0;; ++at) {
    SCOPED_TRACE(at);
    os::MemoryFileSystem files;
    filled(files);
    Checkpoints checkpoints(files, kFolder);
    files.power_off_at(at);
    bool cleaned = checkpoints.clean(settings).has_value();
    bool ended = !files.power_is_off();
    files.crash();
    std::vector<int64_t> steps = steps_of(checkpoints);
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps.back(), 3);
    expect_all_sound(files, checkpoints);
    if (ended) {
      EXPECT_TRUE(cleaned);
      EXPECT_EQ(steps, std::vector<int64_t>{3});
      break;
    }
  }
}

TEST(CheckpointFormat, RefusesWhatItDoesNotKnow) {
  CheckpointMarker marker;
  marker.step = 4;
  marker.metrics = {{"val/loss", 1.5}};
  marker.files = {{"model.safetensors", 10, std::string(64, 'a')}, {"tokenizer/tokenizer.json", 0, std::string(64, '0')}};
  std::string text = write_marker(marker);
  auto back = parse_marker(text, "m");
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(write_marker(*back), text);

  auto replaced = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return parse_marker(other.replace(at, from.size(), to), "m");
  };
  EXPECT_EQ(replaced("\"version\": 1", "\"version\": 2").error().code(), Code::kFormatUnsupported);
  EXPECT_EQ(replaced("cairn-training-checkpoint", "other").error().code(), Code::kFormatUnsupported);
  EXPECT_EQ(replaced("model.safetensors", "../../etc/passwd").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(replaced("tokenizer/tokenizer.json", "/etc/passwd").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(replaced("\"size\": 10", "\"size\": -1").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(replaced(std::string(64, 'a'), "abc").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(replaced("1.5", "\"x\"").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(replaced("\"step\"", "\"stop\"").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(parse_marker("", "m").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(parse_marker(std::string(100'000, '['), "m").error().code(), Code::kDataCorrupt);
  EXPECT_EQ(parse_marker(std::string(100, '\0'), "m").error().code(), Code::kDataCorrupt);
}

}  // namespace
}  // namespace cairn::trainer
