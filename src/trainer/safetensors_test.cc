#include "trainer/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "os/memory_file_system.h"

namespace cairn::trainer {
namespace {

const std::string kGolden = std::string(CAIRN_SOURCE_DIR) + "/tests/golden/decoder/";

std::span<const uint8_t> view(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string file_bytes(std::string_view header, size_t data_size) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes + std::string(header) + std::string(data_size, '\1');
}

// The file is read through `files` as long as it lives.
Result<SafetensorsFile> open_in(os::MemoryFileSystem& files, const std::string& bytes) {
  CAIRN_TRY(auto file, files.create_exclusive("/x", 0644));
  CAIRN_CHECK_OK(file->write(view(bytes)));
  return SafetensorsFile::open(files, "/x");
}

// For what comes with the header alone.
Result<SafetensorsHeader> open_bytes(const std::string& bytes) {
  os::MemoryFileSystem files;
  CAIRN_TRY(SafetensorsFile file, open_in(files, bytes));
  return file.header();
}

void expect_refused(std::string_view header, size_t data_size, std::string_view part, Code code = Code::kDataInvalid) {
  auto file = open_bytes(file_bytes(header, data_size));
  ASSERT_FALSE(file) << header;
  EXPECT_EQ(file.error().code(), code) << header;
  EXPECT_NE(file.error().message().find(part), std::string::npos) << file.error().message();
  EXPECT_NE(file.error().message().find("/x"), std::string::npos) << file.error().message();
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  os::MemoryFileSystem files;
  auto file = open_in(files, 
      file_bytes(R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},"__metadata__":{"format":"pt"},)"
                 R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                 R"("empty":{"dtype":"I64","shape":[0,7],"data_offsets":[28,28]},)"
                 R"("scalar":{"dtype":"U8","shape":[],"data_offsets":[28,29]}}   )",
                 29));
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->header().metadata.at("format"), "pt");
  ASSERT_EQ(file->header().tensors.size(), 4u);
  EXPECT_EQ(file->header().tensors[0].name, "a");
  EXPECT_EQ(file->find("b")->size(), 6u);
  EXPECT_EQ(file->find("empty")->size(), 0u);
  EXPECT_EQ(file->find("scalar")->size(), 1u);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_TRUE(open_bytes(file_bytes("{}", 0)));
}

TEST(Safetensors, RefusesWhatTheFormatForbids) {
  constexpr std::string_view kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_TRUE(open_bytes(file_bytes(kGood, 8)));
  expect_refused(kGood, 7, "truncated");
  expect_refused(kGood, 9, "too long");
  expect_refused("", 0, "not a JSON object");
  expect_refused("[]", 0, "not a JSON object");
  expect_refused(" {}", 0, "not a JSON object");
  expect_refused("{} x", 0, "not JSON");
  expect_refused("{\"a\xff\":1}", 0, "not JSON");
  expect_refused(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[9,10]}})",
      10, "hole");
  expect_refused(
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1],"data_offsets":[7,8]}})",
      8, "overlap");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "hole");
  expect_refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "not its size");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "not its size");
  expect_refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "not its size");
  expect_refused(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1, "wrong 'shape'");
  expect_refused(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1, "negative");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1, "whole");
  expect_refused(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1, "wrong 'shape'");
  expect_refused(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1, "list");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", 1, "wrong 'data_offsets'");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1, "lacks");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "lacks");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1, "unknown key");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "twice");
  expect_refused(
      R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0,
      "twice");
  expect_refused(R"({"__metadata__":{"a":"1","a":"2"}})", 0, "twice");
  expect_refused(R"({"__metadata__":{"a":1}})", 0, "number");
  expect_refused(R"({"__metadata__":{"a":{}}})", 0, "object");
  expect_refused(R"({"a":null})", 0, "null");
  expect_refused(R"({"a":"F32"})", 0, "string");
  expect_refused(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1, "unknown dtype 'F4'",
                 Code::kFormatUnsupported);
}

TEST(Safetensors, BoundsTheHeader) {
  for (uint64_t size : {uint64_t{100'000'001}, uint64_t{1} << 30, UINT64_MAX}) {
    std::string bytes(64, '{');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(size >> (8 * i) & 0xff);
    auto file = open_bytes(bytes);
    ASSERT_FALSE(file);
    EXPECT_NE(file.error().message().find(std::to_string(size)), std::string::npos) << file.error().message();
  }
  EXPECT_NE(open_bytes(file_bytes("{}", 0).substr(0, 9)).error().message().find("truncated"), std::string::npos);
  EXPECT_FALSE(open_bytes("1234567"));
  EXPECT_FALSE(open_bytes(""));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  std::string good = file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(open_bytes(good.substr(0, size))) << size;
}

// What transformers wrote is written again byte for byte.
TEST(Safetensors, WritesTheBytesOfTheReference) {
  for (const char* name : {"qwen3_tied/model.safetensors", "llama/model.safetensors",
                           "sharded_bf16/model-00002-of-00004.safetensors", "qwen3_untied/expected.safetensors"}) {
    std::ifstream stream(kGolden + name, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    os::MemoryFileSystem files;
    auto file = open_in(files, bytes);
    ASSERT_TRUE(file) << name;
    auto tensors = file->header().tensors;
    std::reverse(tensors.begin(), tensors.end());
    auto writer = SafetensorsWriter::create(files, "/out", tensors, file->header().metadata);
    ASSERT_TRUE(writer);
    for (const TensorLayout& tensor : writer->tensors()) {
      std::vector<uint8_t> block(tensor.end - tensor.begin);
      ASSERT_TRUE(file->read(*file->find(tensor.name), 0, block));
      ASSERT_TRUE(writer->write(block));
    }
    ASSERT_TRUE(writer->finish());
    EXPECT_EQ(writer->file_size(), bytes.size());
    auto written = files.read_file("/out", bytes.size() + 1);
    ASSERT_TRUE(written);
    EXPECT_TRUE(*written == bytes) << name;
  }
}

TEST(Safetensors, RandomFilesReadBackAsWritten) {
  const uint64_t seed = 7;
  SeededRandom random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorLayout> tensors;
    std::map<std::string, std::string> content;
    for (uint64_t i = 0, count = random.below(8); i < count; ++i) {
      TensorLayout tensor;
      tensor.name = fmt::format("t{}\"\\\n\u00e9", i);
      tensor.type = static_cast<TensorType>(random.below(15));
      for (uint64_t d = 0, dimensions = random.below(4); d < dimensions; ++d) {
        tensor.shape.push_back(static_cast<int64_t>(random.below(5)));
      }
      uint64_t bytes = bytes_of(tensor.type);
      for (int64_t dimension : tensor.shape) bytes *= static_cast<uint64_t>(dimension);
      std::string& data = content[tensor.name];
      for (uint64_t b = 0; b < bytes; ++b) data += static_cast<char>(random.below(256));
      tensors.push_back(tensor);
    }
    os::MemoryFileSystem files;
    auto writer = SafetensorsWriter::create(files, "/x", tensors, {{"k", "v\u00fc"}});
    ASSERT_TRUE(writer) << seed;
    for (const TensorLayout& tensor : writer->tensors()) ASSERT_TRUE(writer->write(view(content[tensor.name])));
    ASSERT_TRUE(writer->finish());
    auto file = SafetensorsFile::open(files, "/x");
    ASSERT_TRUE(file) << file.error().to_string() << " seed " << seed << " round " << round;
    EXPECT_EQ(file->header().metadata.at("k"), "v\u00fc");
    ASSERT_EQ(file->header().tensors.size(), tensors.size());
    for (const TensorLayout& tensor : tensors) {
      const TensorLayout* found = file->find(tensor.name);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->type, tensor.type);
      EXPECT_EQ(found->shape, tensor.shape);
      std::string data(found->end - found->begin, '\0');
      ASSERT_TRUE(file->read(*found, 0, {reinterpret_cast<uint8_t*>(data.data()), data.size()}));
      EXPECT_TRUE(data == content[tensor.name]);
    }
  }
}

TEST(Safetensors, RefusesToLayOutDoubleNamesAndOverflow) {
  EXPECT_FALSE(lay_out_tensors({{"a", TensorType::kU8, {1}, 0, 0}, {"a", TensorType::kF32, {1}, 0, 0}}, {}));
  EXPECT_FALSE(lay_out_tensors({{"a", TensorType::kU8, {INT64_MAX}, 0, 0},
                                {"b", TensorType::kU8, {INT64_MAX}, 0, 0},
                                {"c", TensorType::kU8, {INT64_MAX}, 0, 0}},
                               {}));
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(bfloat16_of(1.0f), 0x3f80);
  EXPECT_EQ(bfloat16_of(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // halfway, to even
  EXPECT_EQ(bfloat16_of(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(bfloat16_of(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(bfloat16_of(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);  // overflows to infinity
  EXPECT_EQ(bfloat16_of(-INFINITY), 0xff80);
  EXPECT_TRUE(std::isnan(float_of_bfloat16(bfloat16_of(std::bit_cast<float>(0x7f800001u)))));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = float_of_bfloat16(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      EXPECT_EQ(bfloat16_of(value), bits);
    }
  }
}

TEST(Float16, IsTheValueItEncodes) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = float_of_float16(static_cast<uint16_t>(bits));
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) {
      EXPECT_TRUE(fraction == 0 ? std::isinf(value) : std::isnan(value));
      continue;
    }
    double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, static_cast<int>(exponent) - 25);
    EXPECT_EQ(value, static_cast<float>(bits & 0x8000 ? -expected : expected)) << bits;
  }
}

}  // namespace
}  // namespace cairn::trainer
