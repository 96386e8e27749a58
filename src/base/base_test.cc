// The vocabulary types: the error table is consistent, ids round-trip, random numbers and times are the documented ones.
#include <cerrno>
#include <set>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/error.h"
#include "base/gpu_wish.h"
#include "base/ids.h"
#include "base/quantity.h"
#include "base/random.h"
#include "base/result.h"
#include "base/whole_number.h"

namespace cairn {
namespace {

constexpr Code kAllCodes[] = {
#define CAIRN_ERROR(name, wire, http, err, exit_code, retry) Code::name,
#include "base/error_codes.def"
#undef CAIRN_ERROR
};

TEST(WholeNumber, DigitsOnlyAndWithinTheType) {
  EXPECT_EQ(whole_number<int>("0"), 0);
  EXPECT_EQ(whole_number<int>("0042"), 42);
  EXPECT_EQ(whole_number<uint64_t>("18446744073709551615"), UINT64_MAX);
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "-0", "1.0", "1e3", "0x1", "18446744073709551616", "12a"}) {
    EXPECT_EQ(whole_number<uint64_t>(text), std::nullopt) << text;
    EXPECT_EQ(whole_number<int64_t>(text), std::nullopt) << text;
  }
  EXPECT_EQ(whole_number<uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(whole_number<int>(std::string_view("1\0", 2)), std::nullopt);
}

TEST(ErrorTable, WireNamesAreUniqueAndRoundTrip) {
  std::set<std::string_view> seen;
  for (Code code : kAllCodes) {
    EXPECT_TRUE(seen.insert(wire_name(code)).second) << wire_name(code);
    EXPECT_EQ(code_from_wire(wire_name(code)), code);
  }
  EXPECT_EQ(code_from_wire("no_such_code"), std::nullopt);
}

TEST(ErrorTable, EveryRowMapsToADocumentedExitCode) {
  const std::set<int> documented = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 130};
  for (Code code : kAllCodes) {
    EXPECT_TRUE(documented.count(exit_code(code))) << wire_name(code);
    EXPECT_GE(http_status(code), 400) << wire_name(code);
    EXPECT_GT(errno_of(code), 0) << wire_name(code);
  }
}

TEST(Error, AddsContextOnTheWayUp) {
  Error error = Error::from_errno(ENOSPC, "write /x").while_doing("saving the journal");
  EXPECT_EQ(error.code(), Code::kNoSpaceLeft);
  EXPECT_EQ(error.message(), "while saving the journal: write /x: No space left on device");
}

TEST(Error, OfTheSystemSaysWhatStandsInTheWay) {
  for (int err : {ENOTDIR, EISDIR, ELOOP}) EXPECT_EQ(Error::from_errno(err, "x").code(), Code::kPathTypeConflict) << err;
  EXPECT_EQ(Error::from_errno(ENOENT, "x").code(), Code::kFileNotFound);
  EXPECT_EQ(Error::from_errno(EIO, "x").code(), Code::kIoError);
}

Result<int> half(int n) {
  if (n % 2) return Error(Code::kUsage, "odd");
  return n / 2;
}
Result<int> quarter(int n) {
  CAIRN_TRY(int h, half(n));
  CAIRN_TRY(int q, half(h));
  return q;
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().code(), Code::kUsage);
}

TEST(Ids, HexRoundTripAndRefusal) {
  SeededRandom random(1);
  PackId id = PackId::random(random);
  EXPECT_EQ(PackId::from_hex(id.hex()), id);
  EXPECT_FALSE(PackId::from_hex("ABCDEF00000000000000000000000000"));
  EXPECT_FALSE(PackId::from_hex(id.hex() + "0"));
  EXPECT_TRUE(PackId().is_none());
}

TEST(SeededRandom, SequenceIsFixed) {
  SeededRandom random(0);
  EXPECT_EQ(random.next_u64(), 0x99ec5f36cb75f2b4u);
  EXPECT_EQ(random.next_u64(), 0xbf6e1f784956452au);
  SeededRandom other(7);
  for (int i = 0; i < 1000; ++i) EXPECT_LT(other.below(10), 10u);
}

TEST(Clock, PrintsRfc3339) {
  EXPECT_EQ(to_rfc3339(Time{0}), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(to_rfc3339(Time{1'700'000'000'123'456}), "2023-11-14T22:13:20.123456Z");
}

TEST(Deadline, ExpiresAndCancels) {
  ManualClock clock;
  CancelToken token;
  Deadline deadline = Deadline::after(seconds(10), clock, token);
  Deadline child = deadline.child(seconds(20));
  EXPECT_TRUE(child.check());
  EXPECT_EQ(child.remaining(), seconds(10));
  clock.advance(seconds(11));
  EXPECT_EQ(deadline.check().error().code(), Code::kDeadlineExceeded);
  token.cancel();
  EXPECT_EQ(child.check().error().code(), Code::kCancelled);
}

}  // namespace
TEST(Quantity, Sizes) {
  EXPECT_EQ(*parse_size("500Gi"), uint64_t{500} << 30);
  EXPECT_EQ(*parse_size("1.5Ti"), uint64_t{3} << 39);
  EXPECT_EQ(*parse_size("100G"), 100'000'000'000u);
  EXPECT_EQ(*parse_size("1e12"), 1'000'000'000'000u);
  EXPECT_EQ(*parse_size("1.5e3"), 1500u);
  EXPECT_EQ(*parse_size("0.3"), 1u);
  EXPECT_EQ(*parse_size("17"), 17u);
  EXPECT_EQ(*parse_size("0.1Ki"), 103u);  // rounded up
  for (const char* bad : {"", "Gi", "-1", "1.2.3", "5 Gi", "5gi", "1e", "1e99", "99999Pi", "0x10", "1.", ".5", "12345678901234567890123"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
  EXPECT_EQ(format_size(uint64_t{5} << 40), "5Ti");
  EXPECT_EQ(format_size(uint64_t{3} << 39), "1536Gi");
  EXPECT_EQ(format_size(100'000'000'000), "100G");
  EXPECT_EQ(format_size(1'234'567), "1234567");
  for (uint64_t size : {uint64_t{1}, uint64_t{1024}, uint64_t{1} << 62, uint64_t{999'999}}) EXPECT_EQ(*parse_size(format_size(size)), size);
  SeededRandom random(7);
  for (int i = 0; i < 2'000; ++i) {
    uint64_t bytes = 1 + random.below(uint64_t{1} << (1 + random.below(61)));
    EXPECT_EQ(*parse_size(format_size(bytes)), bytes);
  }
  EXPECT_EQ(human_bytes(812), "812 B");
  EXPECT_EQ(human_bytes(uint64_t{3} << 39), "1.50 TiB");
  EXPECT_EQ(human_bytes((uint64_t{1} << 20) - 1), "1.00 MiB");
}

TEST(Quantity, Durations) {
  EXPECT_EQ(*parse_duration("90s"), Duration(seconds(90)));
  EXPECT_EQ(*parse_duration("7d"), Duration(hours(168)));
  for (const char* bad : {"", "7", "d", "-1d", "1.5h", "99999999999d"}) EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Gpus, WishesAreRead) {
  EXPECT_EQ(parse_gpu("")->count, 0);
  EXPECT_EQ(parse_gpu("cpu")->count, 0);
  EXPECT_EQ(parse_gpu("4")->count, 4);
  EXPECT_EQ(parse_gpu("nvidia-h200")->type, "nvidia-h200");
  EXPECT_EQ(parse_gpu("nvidia-h200")->count, 1);
  EXPECT_EQ(parse_gpu("a100:8")->count, 8);
  for (const char* wrong : {"-1", "a100:", "a100:x", "99999", "a b", "a100:2:3", "a100:-2", "cpu:2", "cpu:0", "CPU", "2:cpu"}) EXPECT_FALSE(parse_gpu(wrong)) << wrong;
}

}  // namespace cairn
