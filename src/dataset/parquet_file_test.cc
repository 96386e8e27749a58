// Files written by pyarrow give the rows that pyarrow reads; what is not built is refused by name; damaged files are refused.
#include "dataset/parquet_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "dataset/parquet_fixture.h"
#include "dataset/parquet_thrift.h"
#include "os/file_system.h"
#include "testing/temporary_folder.h"

namespace cairn::dataset {
namespace {

using ::testing::HasSubstr;
using test::ParquetField;
using Json = nlohmann::json;

const std::string kGolden = CAIRN_SOURCE_DIR "/tests/golden/parquet/";

std::shared_ptr<const ParquetFile> open_golden(const std::string& name) {
  auto file = ParquetFile::open(kGolden + name + ".parquet");
  EXPECT_TRUE(file) << file.error().to_string();
  return file.value_or(nullptr);
}

Result<Json> read_all(const ParquetFile& file, const std::vector<std::string>& columns, size_t first = 0, size_t count = SIZE_MAX) {
  CAIRN_TRY(std::unique_ptr<ParquetRows> rows, file.rows(columns, first, count));
  Json all = Json::array();
  std::string line;
  while (true) {
    CAIRN_TRY(bool more, rows->next(line));
    if (!more) return all;
    all.push_back(Json::parse(line));
  }
}

Json expected_rows() {
  std::ifstream file(kGolden + "expected.json");
  return Json::parse(file);
}

TEST(ParquetFile, GivesTheRowsThatPyarrowReads) {
  Json expected = expected_rows();
  EXPECT_EQ(expected.size(), 12u);
  for (const auto& [name, rows] : expected.items()) {
    SCOPED_TRACE(name);
    auto file = open_golden(name);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(static_cast<size_t>(file->row_count()), rows.size());
    auto read = read_all(*file, file->columns());
    ASSERT_TRUE(read) << read.error().to_string();
    ASSERT_EQ(read->size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ((*read)[i], rows[i]) << "row " << i;
    // Each column alone.
    for (const std::string& column : file->columns()) {
      auto alone = read_all(*file, {column});
      ASSERT_TRUE(alone) << alone.error().to_string();
      for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ((*alone)[i], Json::object({{column, rows[i][column]}})) << column << " " << i;
    }
  }
}

TEST(ParquetFile, ReadsRowGroupsAlone) {
  Json expected = expected_rows();
  for (const char* name : {"texts_none", "texts_snappy_dictionary", "chats_snappy"}) {
    SCOPED_TRACE(name);
    auto file = open_golden(name);
    ASSERT_EQ(file->row_group_count(), 3u);
    size_t at = 0;
    for (size_t group = 0; group < 3; ++group) {
      auto rows = read_all(*file, file->columns(), group, 1);
      ASSERT_TRUE(rows);
      ASSERT_EQ(rows->size(), static_cast<size_t>(file->row_group_rows(group)));
      for (const Json& row : *rows) EXPECT_EQ(row, expected[name][at++]);
    }
    EXPECT_EQ(at, expected[name].size());
    EXPECT_EQ(read_all(*file, file->columns(), 3)->size(), 0u);
  }
}

TEST(ParquetFile, GivesStringsByteForByte) {
  Json expected = expected_rows();
  for (const char* name : {"texts_none", "texts_snappy_dictionary", "texts_zstd_v2", "texts_gzip", "texts_mixed_pages"}) {
    SCOPED_TRACE(name);
    auto strings = open_golden(name)->strings("nullable");
    ASSERT_TRUE(strings);
    std::string_view value;
    bool null = false;
    for (const Json& row : expected[name]) {
      ASSERT_TRUE(*(*strings)->next(value, null));
      EXPECT_EQ(null, row["nullable"].is_null());
      EXPECT_EQ(value, null ? std::string() : row["nullable"].get<std::string>());
    }
    EXPECT_FALSE(*(*strings)->next(value, null));
    EXPECT_FALSE(*(*strings)->next(value, null));
  }
}

TEST(ParquetFile, RefusesByName) {
  auto refused = [](const std::string& name, const std::string& column, Code code, std::initializer_list<const char*> parts) {
    auto rows = read_all(*open_golden(name), {column});
    ASSERT_FALSE(rows) << name << " " << column;
    EXPECT_EQ(rows.error().code(), code);
    for (const char* part : parts) EXPECT_THAT(rows.error().message(), HasSubstr(part));
  };
  refused("refused_types", "when", Code::kFormatUnsupported, {"refused_types.parquet", "when is a timestamp"});
  refused("refused_types", "day", Code::kFormatUnsupported, {"day is a date"});
  refused("refused_types", "price", Code::kFormatUnsupported, {"price is of type FIXED_LEN_BYTE_ARRAY"});
  refused("refused_types", "map", Code::kFormatUnsupported, {"map is a map"});
  refused("refused_types", "mixed", Code::kFormatUnsupported, {"mixed.when is a timestamp"});
  refused("refused_types", "none", Code::kDataInvalid, {"no column none", "text, when, day"});
  refused("refused_brotli", "text", Code::kFormatUnsupported, {"column text", "Brotli"});
  refused("refused_lz4", "text", Code::kFormatUnsupported, {"column text", "LZ4"});
  refused("refused_delta", "text", Code::kFormatUnsupported, {"column text", "DELTA_LENGTH_BYTE_ARRAY"});
  EXPECT_EQ(read_all(*open_golden("refused_types"), {"text"})->size(), 2u);
  auto strings = open_golden("numbers")->strings("i32");
  ASSERT_FALSE(strings);
  EXPECT_EQ(strings.error().code(), Code::kDataInvalid);
}

std::shared_ptr<const ParquetFile> open_bytes(const std::string& bytes, Error* error = nullptr,
                                              size_t reader_bytes_max = kParquetReaderBytesMax) {
  os::Fd fd(memfd_create("parquet", MFD_CLOEXEC));
  EXPECT_TRUE(os::write_all(fd.get(), codec::as_bytes(bytes), "test"));
  auto file = ParquetFile::open(std::move(fd), "test", reader_bytes_max);
  if (!file && error != nullptr) *error = file.error();
  return file.value_or(nullptr);
}

std::string golden_bytes(const std::string& name) {
  return os::posix_file_system().read_file(kGolden + name + ".parquet", 1 << 20).value_or("");
}

TEST(ParquetFile, RefusesEveryCutFile) {
  std::string whole = golden_bytes("texts_gzip");
  ASSERT_NE(open_bytes(whole), nullptr);
  for (size_t size = 0; size < whole.size(); ++size) {
    Error error(Code::kInternal, "");
    ASSERT_EQ(open_bytes(whole.substr(0, size), &error), nullptr) << size;
    EXPECT_EQ(error.code(), Code::kDataCorrupt);
  }
  Error error(Code::kInternal, "");
  std::string encrypted = whole.substr(0, whole.size() - 1) + "E";
  EXPECT_EQ(open_bytes(encrypted, &error), nullptr);
  EXPECT_EQ(error.code(), Code::kFormatUnsupported);
}

TEST(ParquetFile, SaysSoWhenAPageIsDamaged) {
  std::string bytes = golden_bytes("texts_snappy_dictionary");
  uint64_t seed = 4;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  int refused = 0;
  // Its pages have checksums: no flipped bit in a page goes unnoticed (those of page headers may change what nobody reads).
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    damaged[4 + random.below(1500)] ^= static_cast<char>(1 << random.below(8));
    auto file = open_bytes(damaged);
    ASSERT_NE(file, nullptr);
    auto rows = read_all(*file, file->columns());
    if (!rows) ++refused;
  }
  EXPECT_GT(refused, 240);
}

TEST(ParquetFile, SurvivesRandomDamage) {
  uint64_t seed = 5;
  SCOPED_TRACE(seed);
  SeededRandom random(seed);
  for (const char* name : {"chats_snappy", "nested", "numbers", "texts_zstd_v2"}) {
    std::string bytes = golden_bytes(name);
    int opened = 0;
    for (int i = 0; i < 400; ++i) {
      std::string damaged = bytes;
      for (uint64_t n = 1 + random.below(3); n > 0; --n) damaged[random.below(bytes.size())] = static_cast<char>(random.next_u64());
      auto file = open_bytes(damaged);
      if (file == nullptr) continue;
      ++opened;
      auto rows = file->rows(file->columns());
      std::string line;
      for (int k = 0; rows && k < 1000; ++k) {
        auto more = (*rows)->next(line);
        if (!more || !*more) break;
        ASSERT_TRUE(Json::accept(line)) << line;
      }
    }
    EXPECT_GT(opened, 20) << name;
  }
}

TEST(ParquetFile, SaysSoWhenTheFileShrinks) {
  testing::TemporaryFolder folder;
  std::string path = folder / "x.parquet";
  ASSERT_TRUE(os::posix_file_system().write_file_atomic(path, codec::as_bytes(golden_bytes("texts_none")), 0644));
  auto file = ParquetFile::open(path);
  ASSERT_TRUE(file);
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  auto rows = read_all(**file, {"text"});
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().code(), Code::kFileChanged);
  ASSERT_EQ(symlink("x.parquet", (folder / "link.parquet").c_str()), 0);
  EXPECT_EQ(ParquetFile::open(folder / "link.parquet").error().code(), Code::kPathTypeConflict);
  EXPECT_EQ(ParquetFile::open(folder / "none.parquet").error().code(), Code::kFileNotFound);
}

// A run of nulls is a few bytes, however many rows it gives.
TEST(ParquetFile, BoundsTheRowsOfAFile) {
  auto file_of = [](int64_t rows) { return test::parquet_file({{"text"}}, 1, test::page_of_nulls(rows), rows); };
  auto file = open_bytes(file_of(100'000));
  ASSERT_NE(file, nullptr);
  auto rows = file->strings("text");
  ASSERT_TRUE(rows);
  std::string_view value;
  bool null = false;
  int64_t count = 0;
  while (*(*rows)->next(value, null)) count += null ? 1 : 0;
  EXPECT_EQ(count, 100'000);
  Error error(Code::kInternal, "");
  EXPECT_EQ(open_bytes(file_of(int64_t{1} << 41), &error), nullptr);
  EXPECT_EQ(error.code(), Code::kLimitExceeded);
  EXPECT_THAT(error.message(), HasSubstr("more than 4000000000 rows"));
}

// The name of a group stands in the path of each leaf below it.
TEST(ParquetFile, BoundsThePathsOfAFile) {
  auto open = [](size_t name_bytes, size_t depth, size_t leaves, Error& error) {
    std::vector<ParquetField> fields;
    for (size_t i = 0; i + 1 < depth; ++i) fields.push_back({std::string(name_bytes, 'g'), 1});
    fields.push_back({std::string(name_bytes, 'g'), static_cast<int64_t>(leaves)});
    for (size_t i = 0; i < leaves; ++i) fields.push_back({"x", 0});
    return open_bytes(test::parquet_file(fields, 1, test::page_of_nulls(1), 1), &error) != nullptr;
  };
  Error error(Code::kInternal, "");
  EXPECT_TRUE(open(1'000, 20, 10, error)) << error.to_string();
  EXPECT_FALSE(open(500'000, 1, 1'000, error));
  EXPECT_EQ(error.code(), Code::kLimitExceeded);
  EXPECT_THAT(error.message(), HasSubstr("paths"));
  EXPECT_FALSE(open(10'000, 20, 1, error));
  EXPECT_EQ(error.code(), Code::kLimitExceeded);
  EXPECT_FALSE(open(60'000, 1, 2'000, error));
  EXPECT_EQ(error.code(), Code::kLimitExceeded);
}

// All columns of a reader share its memory: one dictionary may fit where a hundred do not.
TEST(ParquetFile, BoundsTheMemoryOfAReader) {
  constexpr int64_t kLeaves = 100, kValues = 1'000;
  std::vector<ParquetField> fields = {{"one"}, {"many", kLeaves}};
  for (int64_t i = 0; i < kLeaves; ++i) fields.push_back({"leaf" + std::to_string(i)});
  auto file = open_bytes(test::parquet_file(fields, 2, test::dictionary_page(kValues) + test::page_of_nulls(3), 3, true), nullptr, 1 << 20);
  ASSERT_NE(file, nullptr);
  auto one = read_all(*file, {"one"});
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_EQ(one->size(), 3u);
  auto many = read_all(*file, {"many"});
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code(), Code::kLimitExceeded);
  EXPECT_THAT(many.error().message(), HasSubstr("need more than 1 MiB"));
}

TEST(ThriftReader, StopsAtNonsense) {
  auto skips = [](std::initializer_list<uint8_t> bytes) {
    std::vector<uint8_t> data(bytes);
    ThriftReader in(data);
    ThriftReader::Field field;
    while (in.next(field)) in.skip(field);
    return in.ok();
  };
  EXPECT_TRUE(skips({0x15, 0x02, 0x00}));          // field 1, i32
  EXPECT_TRUE(skips({0x18, 0x02, 'h', 'i', 0x00}));
  EXPECT_FALSE(skips({0x18, 0x05, 'h', 'i', 0x00}));
  EXPECT_FALSE(skips({0x15, 0x02}));               // no stop
  EXPECT_FALSE(skips({0x1D, 0x00}));               // no such type
  EXPECT_FALSE(skips({0x19, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0x00}));  // a list of billions of structs
  std::vector<uint8_t> deep(100, 0x1C);            // structs in structs
  ThriftReader in(deep);
  ThriftReader::Field field;
  while (in.next(field)) in.skip(field);
  EXPECT_FALSE(in.ok());
}

}  // namespace
}  // namespace cairn::dataset
