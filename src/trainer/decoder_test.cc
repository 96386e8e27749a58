// The decoder against goldens that transformers made (tests/golden/decoder), and against itself: packed rows against
// single sequences, bf16 against fp32, recomputed layers against kept ones.
#include "trainer/decoder.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "trainer/model_files.h"
#include "trainer/safetensors.h"

namespace cairn::trainer {
namespace {

const std::string kGolden = std::string(CAIRN_SOURCE_DIR) + "/tests/golden/decoder/";
const std::vector<std::string> kCases = {"qwen3_tied", "qwen3_untied", "llama", "llama_biased"};

struct Golden {
  std::unique_ptr<Decoder> model;
  dataset::Row row;
  std::map<std::string, at::Tensor> expected;
};

template <class T>
std::vector<T> vector_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), tensor.data_ptr<T>() + tensor.numel()};
}

at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name) {
  const TensorLayout* layout = file.find(name);
  EXPECT_NE(layout, nullptr) << name;
  auto type = layout->type == TensorType::kI32 ? at::kInt : layout->type == TensorType::kU8 ? at::kByte : at::kFloat;
  at::Tensor tensor = at::empty(layout->shape, type);
  EXPECT_TRUE(file.read(*layout, 0, {static_cast<uint8_t*>(tensor.data_ptr()), layout->end - layout->begin}));
  return tensor;
}

Golden load(const std::string& name, const DecoderOptions& options = {}) {
  Golden golden;
  auto spec = load_decoder_spec(os::posix_file_system(), kGolden + name);
  EXPECT_TRUE(spec) << spec.error().to_string();
  auto model = Decoder::create(*spec, options);
  EXPECT_TRUE(model);
  golden.model = std::move(*model);
  auto loaded = load_weights(os::posix_file_system(), kGolden + name, *golden.model);
  EXPECT_TRUE(loaded) << loaded.error().to_string();
  auto file = SafetensorsFile::open(os::posix_file_system(), kGolden + name + "/expected.safetensors");
  EXPECT_TRUE(file);
  for (const TensorLayout& tensor : file->header().tensors)
    golden.expected[tensor.name] = read_tensor(*file, tensor.name);
  golden.row.input_ids = vector_of<int32_t>(golden.expected["input_ids"]);
  golden.row.target_ids = vector_of<int32_t>(golden.expected["target_ids"]);
  golden.row.loss_mask = vector_of<uint8_t>(golden.expected["loss_mask"]);
  golden.row.sequence_lengths = {static_cast<int32_t>(golden.row.input_ids.size())};
  return golden;
}

double largest_difference(const at::Tensor& left, const at::Tensor& right) {
  return (left.detach() - right.detach()).abs().max().item<double>();
}

// |left - right| over the largest of |right|.
double relative_difference(const at::Tensor& left, const at::Tensor& right) {
  return largest_difference(left, right) / (right.detach().abs().max().item<double>() + 1e-30);
}

void expect_gradients(const Golden& golden, double tolerance) {
  for (const NamedParameter& parameter : golden.model->named_parameters()) {
    const at::Tensor& expected = golden.expected.at("grad." + parameter.name);
    EXPECT_LT(relative_difference(parameter.tensor.grad(), expected), tolerance) << parameter.name;
  }
}

dataset::Row random_row(const DecoderSpec& spec, std::vector<int32_t> lengths, uint64_t seed, int mask_percent = 70) {
  SeededRandom random(seed);
  dataset::Row row;
  row.sequence_lengths = std::move(lengths);
  for (int32_t length : row.sequence_lengths) {
    for (int32_t i = 0; i < length; ++i) {
      row.input_ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(spec.vocab_size))));
      row.target_ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(spec.vocab_size))));
      row.loss_mask.push_back(random.below(100) < static_cast<uint64_t>(mask_percent) ? 1 : 0);
    }
  }
  return row;
}

// With the kernels and with ATen's own operations.
class BothEngines : public ::testing::TestWithParam<bool> {
 protected:
  DecoderOptions options() const {
    DecoderOptions options;
    options.plain_layers = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, BothEngines, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Plain" : "Kernels"; });

TEST_P(BothEngines, LogitsLossAndGradientsAreThoseOfTransformers) {
  for (const std::string& name : kCases) {
    SCOPED_TRACE(name);
    Golden golden = load(name, options());
    auto logits = golden.model->logits(golden.row);
    ASSERT_TRUE(logits) << logits.error().to_string();
    EXPECT_LT(largest_difference(*logits, golden.expected["logits"]), 1e-5);
    auto loss = golden.model->loss_and_gradients(golden.row);
    ASSERT_TRUE(loss) << loss.error().to_string();
    EXPECT_EQ(loss->count, golden.expected["loss_mask"].sum().item<int64_t>());
    EXPECT_LT(relative_difference(loss->sum, golden.expected["loss"]), 1e-5);
    expect_gradients(golden, 1e-5);
  }
}

TEST_P(BothEngines, BackwardOfTheLossGivesTheSameGradients) {
  for (const std::string& name : kCases) {
    SCOPED_TRACE(name);
    Golden golden = load(name, options());
    auto loss = golden.model->loss_sum(golden.row);
    ASSERT_TRUE(loss) << loss.error().to_string();
    (loss->sum * 0.5).backward();
    loss = golden.model->loss_sum(golden.row);
    (loss->sum * 0.5).backward();  // they add up
    expect_gradients(golden, 1e-5);
    golden.model->zero_gradients();
    EXPECT_EQ(golden.model->named_parameters()[1].tensor.grad().abs().sum().item<double>(), 0);
  }
}

TEST_P(BothEngines, RecomputedLayersGiveTheSameGradients) {
  for (const std::string& name : kCases) {
    for (int64_t every : {1, 2}) {
      SCOPED_TRACE(name);
      DecoderOptions recomputing = options();
      recomputing.activation_checkpointing_freq = every;
      Golden golden = load(name, recomputing);
      ASSERT_TRUE(golden.model->loss_and_gradients(golden.row));
      expect_gradients(golden, 1e-5);
    }
  }
}

TEST(DecoderGolden, ChunksOfTheHeadDoNotShow) {
  for (int64_t chunk : {0, 1, 3, 100}) {
    DecoderOptions options;
    options.head_token_chunk_size = chunk;
    Golden golden = load("qwen3_tied", options);
    auto loss = golden.model->loss_and_gradients(golden.row);
    ASSERT_TRUE(loss);
    EXPECT_LT(relative_difference(loss->sum, golden.expected["loss"]), 1e-5);
    expect_gradients(golden, 1e-5);
  }
}

// Products in bf16, which has 8 bits of precision: the loss to 2 %, gradients to 8 % of their norm.
TEST_P(BothEngines, Bfloat16IsNear) {
  DecoderOptions narrow = options();
  narrow.bfloat16 = true;
  for (const std::string& name : kCases) {
    SCOPED_TRACE(name);
    Golden golden = load(name, narrow);
    auto loss = golden.model->loss_and_gradients(golden.row);
    ASSERT_TRUE(loss) << loss.error().to_string();
    EXPECT_LT(relative_difference(loss->sum, golden.expected["loss"]), 0.02);
    for (const NamedParameter& parameter : golden.model->named_parameters()) {
      at::Tensor expected = golden.expected.at("grad." + parameter.name), found = parameter.tensor.grad();
      // A bias of k shifts all scores of a query alike: its gradient is zero but for rounding.
      if (parameter.name.ends_with("k_proj.bias")) continue;
      double error = ((found - expected).norm() / expected.norm()).item<double>();
      EXPECT_LT(error, 0.08) << parameter.name;
    }
  }
}

// A row of several sequences is the sum of its sequences.
TEST_P(BothEngines, PackedRowsEqualSeparateSequences) {
  for (const std::string& name : kCases) {
    for (const std::vector<int32_t>& lengths : {std::vector<int32_t>{7, 7, 7}, {1, 12, 5}, {3, 1, 1, 9}}) {
      SCOPED_TRACE(fmt::format("{} {}", name, lengths.size()));
      Golden packed = load(name, options()), separate = load(name, options());
      dataset::Row row = random_row(packed.model->spec(), lengths, 11);
      auto whole = packed.model->loss_and_gradients(row, 0.25);
      ASSERT_TRUE(whole) << whole.error().to_string();
      auto whole_logits = packed.model->logits(row);
      double sum = 0;
      int64_t count = 0, begin = 0;
      for (int32_t length : lengths) {
        dataset::Row part;
        auto cut = [&](const auto& all, auto& out) { out.assign(all.begin() + begin, all.begin() + begin + length); };
        cut(row.input_ids, part.input_ids);
        cut(row.target_ids, part.target_ids);
        cut(row.loss_mask, part.loss_mask);
        part.sequence_lengths = {length};
        auto loss = separate.model->loss_and_gradients(part, 0.25);
        ASSERT_TRUE(loss);
        sum += loss->sum.item<double>();
        count += loss->count;
        auto logits = separate.model->logits(part);
        EXPECT_LT(largest_difference(whole_logits->narrow(0, begin, length), *logits), 1e-5);
        begin += length;
      }
      EXPECT_EQ(count, whole->count);
      EXPECT_NEAR(whole->sum.item<double>(), sum, 1e-5 * sum);
      EXPECT_LT(relative_difference(packed.model->flat_gradients(), separate.model->flat_gradients()), 1e-5);
    }
  }
}

TEST(Decoder, PaddingChangesNothing) {
  Golden golden = load("qwen3_tied"), padded = load("qwen3_tied");
  for (int i = 0; i < 40; ++i) {
    padded.row.input_ids.push_back(0);
    padded.row.target_ids.push_back(-1);  // meaningless where the mask is 0
    padded.row.loss_mask.push_back(0);
  }
  padded.row.sequence_lengths = {56};
  auto loss = golden.model->loss_and_gradients(golden.row), with_padding = padded.model->loss_and_gradients(padded.row);
  ASSERT_TRUE(loss && with_padding);
  EXPECT_EQ(loss->sum.item<float>(), with_padding->sum.item<float>());
  EXPECT_TRUE(golden.model->flat_gradients().equal(padded.model->flat_gradients()));
}

TEST(Decoder, ARowWithoutTargetsIsZero) {
  Golden golden = load("llama");
  std::fill(golden.row.loss_mask.begin(), golden.row.loss_mask.end(), 0);
  auto loss = golden.model->loss_and_gradients(golden.row);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->count, 0);
  EXPECT_EQ(loss->sum.item<float>(), 0);
  auto differentiable = golden.model->loss_sum(golden.row);
  ASSERT_TRUE(differentiable);
  differentiable->sum.backward();
  EXPECT_EQ(golden.model->flat_gradients().abs().sum().item<float>(), 0);
}

TEST(Decoder, NoGraphUnderNoGrad) {
  Golden golden = load("llama");
  at::NoGradGuard no_grad;
  auto loss = golden.model->loss_sum(golden.row);
  ASSERT_TRUE(loss);
  EXPECT_FALSE(loss->sum.requires_grad());
  EXPECT_LT(relative_difference(loss->sum, golden.expected["loss"]), 1e-5);
}

TEST(Decoder, RefusesRowsThatDoNotFit) {
  Golden golden = load("llama");
  auto expect_refused = [&](auto change, std::string_view part) {
    dataset::Row row = golden.row;
    change(row);
    auto loss = golden.model->loss_and_gradients(row);
    ASSERT_FALSE(loss);
    EXPECT_EQ(loss.error().code(), Code::kDataInvalid);
    EXPECT_NE(loss.error().message().find(part), std::string::npos) << loss.error().message();
  };
  expect_refused([](dataset::Row& row) { row.input_ids[3] = 51; }, "51");
  expect_refused([](dataset::Row& row) { row.input_ids[3] = -1; }, "-1");
  expect_refused([](dataset::Row& row) { row.target_ids[0] = 99; }, "99");
  expect_refused([](dataset::Row& row) { row.target_ids.pop_back(); }, "targets");
  expect_refused([](dataset::Row& row) { row.sequence_lengths = {15}; }, "15");
  expect_refused([](dataset::Row& row) { row.sequence_lengths = {17, -1}; }, "-1");
  expect_refused([](dataset::Row& row) { row = {}; }, "0 ids");
}

// A model of more than one block of queries and of odd sizes, where the goldens are small: kernels against ATen.
TEST(Decoder, KernelsAgreeWithPlainLayersOnLongRows) {
  const char* config =
      R"({"model_type":"qwen3","vocab_size":211,"hidden_size":44,"intermediate_size":70,"num_hidden_layers":2,
    "num_attention_heads":6,"num_key_value_heads":2,"head_dim":18,"max_position_embeddings":512,"tie_word_embeddings":true,
    "initializer_range":0.2,"rope_theta":10000})";
  auto spec = parse_decoder_spec(config, "config.json");
  ASSERT_TRUE(spec);
  for (int threads : {1, 3}) {
    at::set_num_threads(threads);
    for (const std::vector<int32_t>& lengths : {std::vector<int32_t>{300}, {65, 64, 63}, {128, 128}, {1, 200, 33, 2}}) {
      std::unique_ptr<Decoder> models[2];
      for (bool plain : {false, true}) {
        DecoderOptions options;
        options.plain_layers = plain;
        models[plain] = std::move(*Decoder::create(*spec, options));
        ASSERT_TRUE(models[plain]->init_random(5));
      }
      dataset::Row row = random_row(*spec, lengths, 31, 90);
      auto kernels = models[0]->loss_and_gradients(row, 0.5), plain = models[1]->loss_and_gradients(row, 0.5);
      ASSERT_TRUE(kernels && plain);
      EXPECT_LT(relative_difference(kernels->sum, plain->sum), 1e-5);
      for (size_t i = 0; i < models[0]->named_parameters().size(); ++i) {
        const NamedParameter &left = models[0]->named_parameters()[i], &right = models[1]->named_parameters()[i];
        EXPECT_LT(relative_difference(left.tensor.grad(), right.tensor.grad()), 2e-5) << left.name;
      }
      // The same again, to the last bit.
      at::Tensor before = models[0]->flat_gradients().clone();
      models[0]->zero_gradients();
      auto again = models[0]->loss_and_gradients(row, 0.5);
      EXPECT_EQ(again->sum.item<float>(), kernels->sum.item<float>());
      EXPECT_TRUE(models[0]->flat_gradients().equal(before));
    }
  }
  at::set_num_threads(1);
}

// The directional derivative of the loss, taken with two losses, is the gradient along that direction.
TEST(Decoder, GradientsAreThoseOfDifferences) {
  for (const std::string& name : kCases) {
    SCOPED_TRACE(name);
    Golden golden = load(name);
    Decoder& model = *golden.model;
    ASSERT_TRUE(model.loss_and_gradients(golden.row));
    at::Tensor gradient = model.flat_gradients().clone(), at_start = model.flat_parameters().clone();
    at::Tensor direction = gradient / gradient.norm();
    auto loss_at = [&](double step) {
      at::NoGradGuard no_grad;
      model.flat_parameters().copy_(at_start + step * direction);
      model.parameters_changed();
      return model.loss_sum(golden.row)->sum.item<double>();
    };
    const double step = 1e-2, slope = (loss_at(step) - loss_at(-step)) / (2 * step),
                 expected = gradient.norm().item<double>();
    EXPECT_NEAR(slope, expected, 5e-3 * expected);
  }
}

TEST(Decoder, InitialWeightsAreFixedBySeed) {
  Golden golden = load("qwen3_untied");
  Decoder& model = *golden.model;
  ASSERT_TRUE(model.init_random(17));
  at::Tensor first = model.flat_parameters().clone();
  for (const NamedParameter& parameter : model.named_parameters()) {
    at::Tensor value = parameter.tensor.detach();
    if (parameter.name.find("norm") != std::string::npos) {
      EXPECT_TRUE(value.eq(1).all().item<bool>()) << parameter.name;
    } else if (parameter.name.ends_with("bias")) {
      EXPECT_TRUE(value.eq(0).all().item<bool>()) << parameter.name;
    } else {
      EXPECT_NEAR(value.std().item<double>(), 0.02, 0.003) << parameter.name;
    }
  }
  ASSERT_TRUE(model.init_random(17));
  EXPECT_TRUE(model.flat_parameters().equal(first));
  ASSERT_TRUE(model.init_random(18));
  EXPECT_FALSE(model.flat_parameters().equal(first));
}

// The named tensors and gradients are views of the flat ones, and copies in bf16 follow when told.
TEST_P(BothEngines, ChangesOfParametersShow) {
  for (const char* name : {"qwen3_tied", "qwen3_untied", "qwen3_tied bf16", "qwen3_untied bf16"}) {
    SCOPED_TRACE(name);
    std::string_view words(name);
    DecoderOptions engine = options();
    engine.bfloat16 = words.ends_with(" bf16");
    Golden golden = load(std::string(words.substr(0, words.find(' '))), engine);
    auto before = golden.model->logits(golden.row);
    {
      at::NoGradGuard no_grad;
      golden.model->flat_parameters().mul_(0.5);
    }
    golden.model->parameters_changed();
    auto after = golden.model->logits(golden.row);
    ASSERT_TRUE(before && after);
    EXPECT_GT(largest_difference(*before, *after), 0.1);
    at::Tensor weight = golden.model->named_parameters()[0].tensor;
    EXPECT_EQ(weight.data_ptr(), golden.model->flat_parameters().data_ptr());
    EXPECT_EQ(weight.grad().data_ptr(), golden.model->flat_gradients().data_ptr());
  }
}

}  // namespace
}  // namespace cairn::trainer
