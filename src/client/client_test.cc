#include "client/api_client.h"

#include <gtest/gtest.h>

#include <deque>

#include "api/json.h"
#include "net/transport.h"

namespace cairn::client {
namespace {

// Answers what it was told to, in order; the last answer repeats.
class FakeTransport final : public net::Transport {
 public:
  struct Seen {
    std::string method, url, body, request_id;
    net::HeaderList headers;
    bool mutation;
  };

  Result<net::HttpResponse> round_trip(const net::HttpRequest& request, const Deadline& deadline) override {
    CAIRN_CHECK_OK(deadline.check());
    Seen seen{request.method, request.url, {}, {}, request.headers, request.mutation};
    if (request.source != nullptr) {
      uint8_t buffer[7];
      for (;;) {
        CAIRN_TRY(size_t count, request.source->read(buffer));
        if (count == 0) break;
        seen.body.append(reinterpret_cast<char*>(buffer), count);
      }
    } else {
      seen.body.assign(request.body.begin(), request.body.end());
    }
    for (const auto& [name, value] : request.headers) {
      if (name == api::kRequestIdHeader) seen.request_id = value;
    }
    requests.push_back(std::move(seen));
    auto answer = answers.front();
    if (answers.size() > 1) answers.pop_front();
    if (answer && answer->status < 300 && request.sink) {
      CAIRN_CHECK_OK(request.sink({reinterpret_cast<const uint8_t*>(answer->body.data()), answer->body.size()}));
    }
    return answer;
  }

  void answer(int status, std::string body, net::HeaderList headers = {}) {
    net::HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    response.headers = std::move(headers);
    answers.emplace_back(std::move(response));
  }
  void fail(Code code) { answers.emplace_back(Error(code, "host:1: as told")); }

  std::deque<Result<net::HttpResponse>> answers;
  std::vector<Seen> requests;
};

class ClientTest : public testing::Test {
 protected:
  ClientTest() : random_(1), client_(transport_, clock_, random_, {"http://server:8470/", "t0ken"}) {}
  Deadline deadline() { return Deadline::after(seconds(30), clock_); }
  std::string volume_json() {
    api::Volume volume;
    volume.name = "research";
    volume.status = "CREATED";
    return to_json(volume);
  }

  ManualClock clock_;
  SeededRandom random_;
  FakeTransport transport_;
  ApiClient client_;
};

TEST_F(ClientTest, SendsTokenBodyAndRequestId) {
  transport_.answer(200, volume_json());
  auto volume = client_.create_volume({"research", 5, std::nullopt}, deadline());
  ASSERT_TRUE(volume) << volume.error().to_string();
  EXPECT_EQ(volume->name, "research");
  ASSERT_EQ(transport_.requests.size(), 1u);
  const auto& seen = transport_.requests[0];
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.url, "http://server:8470/v1/volumes");
  EXPECT_TRUE(seen.mutation);
  EXPECT_EQ(seen.request_id.size(), 32u);
  EXPECT_NE(std::find(seen.headers.begin(), seen.headers.end(), std::pair<std::string, std::string>("Authorization", "Bearer t0ken")),
            seen.headers.end());
}

TEST_F(ClientTest, RepeatsAMutationUnderTheSameId) {
  transport_.fail(Code::kOutcomeUnknown);
  transport_.fail(Code::kServerUnavailable);
  transport_.answer(503, api::error_to_json(Error(Code::kBusy, "busy")));
  transport_.answer(502, "<html>bad gateway</html>");
  transport_.answer(200, volume_json());
  ASSERT_TRUE(client_.create_volume({"research", {}, {}}, deadline()));
  ASSERT_EQ(transport_.requests.size(), 5u);
  for (const auto& seen : transport_.requests) EXPECT_EQ(seen.request_id, transport_.requests[0].request_id);
}

TEST_F(ClientTest, OutcomeIsUnknownOnlyAtTheEnd) {
  transport_.fail(Code::kOutcomeUnknown);
  transport_.fail(Code::kServerUnavailable);
  auto volume = client_.create_volume({"research", {}, {}}, deadline());
  ASSERT_FALSE(volume);
  EXPECT_EQ(volume.error().code(), Code::kOutcomeUnknown);
  EXPECT_GT(transport_.requests.size(), 3u);
  EXPECT_GE(clock_.monotonic(), Duration(seconds(30)));
}

TEST_F(ClientTest, NotConnectedIsNotUnknown) {
  transport_.fail(Code::kServerUnavailable);
  auto volume = client_.create_volume({"research", {}, {}}, deadline());
  ASSERT_FALSE(volume);
  EXPECT_EQ(volume.error().code(), Code::kServerUnavailable);
}

TEST_F(ClientTest, AnAnswerAfterAnUnknownOutcomeSettlesIt) {
  transport_.fail(Code::kOutcomeUnknown);
  transport_.answer(409, api::error_to_json(Error(Code::kWriterLeaseHeld, "held", "wait").with_holder("upload by bob")));
  auto upload = client_.open_upload("research", {"here:/data", "", false, {}}, deadline());
  ASSERT_FALSE(upload);
  EXPECT_EQ(upload.error().code(), Code::kWriterLeaseHeld);
  EXPECT_EQ(upload.error().holder(), "upload by bob");
  EXPECT_EQ(upload.error().hint(), "wait");
  EXPECT_EQ(transport_.requests.size(), 2u);
}

TEST_F(ClientTest, PublishMayBeAskedAgainUnderItsId) {
  transport_.answer(200, to_json(api::Published{4, 3, 2, 1, {}, {}, {}}));
  RequestId request = client_.new_request_id();
  ASSERT_TRUE(client_.publish(UploadId(), {}, deadline(), request));
  EXPECT_EQ(transport_.requests[0].request_id, request.hex());
}

TEST_F(ClientTest, RefusalsAreNotRepeated) {
  transport_.answer(404, api::error_to_json(Error(Code::kVolumeNotFound, "no volume 'x'")));
  EXPECT_EQ(client_.get_volume("x", deadline()).error().code(), Code::kVolumeNotFound);
  EXPECT_EQ(transport_.requests.size(), 1u);
  EXPECT_TRUE(transport_.requests[0].request_id.empty());
}

TEST_F(ClientTest, AProxysPageNamesTheUrl) {
  transport_.answer(404, "<html>nginx</html>");
  auto volume = client_.get_volume("x", deadline());
  ASSERT_FALSE(volume);
  EXPECT_EQ(volume.error().code(), Code::kServerUnavailable);
  EXPECT_NE(volume.error().message().find("http://server:8470/v1/volumes/x answered HTTP 404"), std::string::npos);
  EXPECT_EQ(transport_.requests.size(), 1u);
  transport_.answers.clear();
  transport_.answer(200, "<html>welcome</html>");
  EXPECT_EQ(client_.get_volume("x", deadline()).error().code(), Code::kServerUnavailable);
}

TEST_F(ClientTest, WaitsAsLongAsTheServerAsks) {
  net::HttpResponse busy;
  busy.status = 429;
  busy.body = api::error_to_json(Error(Code::kRateLimited, "slow down"));
  busy.retry_after = std::chrono::seconds(7);
  transport_.answers.emplace_back(busy);
  transport_.answer(200, volume_json());
  ASSERT_TRUE(client_.get_volume("research", deadline()));
  EXPECT_GE(clock_.monotonic(), Duration(seconds(7)));
}

TEST_F(ClientTest, CancelledAtOnce) {
  transport_.fail(Code::kServerUnavailable);
  CancelToken token;
  token.cancel();
  auto volume = client_.get_volume("x", Deadline::after(seconds(30), clock_, token));
  EXPECT_EQ(volume.error().code(), Code::kCancelled);
  EXPECT_TRUE(transport_.requests.empty());
}

TEST_F(ClientTest, ListingCarriesBytesAndCursor) {
  transport_.answer(200, std::string("CTC1\0\xff", 6), {{"cairn-next", "612f62:64"}});
  api::ListingQuery query;
  query.path = "a";
  query.after = api::ListingCursor{"a/a", 0};
  auto page = client_.listing("research", query, deadline());
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_EQ(page->changeset.size(), 6u);
  ASSERT_TRUE(page->next);
  EXPECT_EQ(page->next->path, "a/b");
  EXPECT_EQ(page->next->chunks, 64u);
  EXPECT_NE(transport_.requests[0].url.find("/v1/volumes/research/listing?pin="), std::string::npos);
  EXPECT_NE(transport_.requests[0].url.find("&after=612f61"), std::string::npos);
}

TEST_F(ClientTest, GetObjectFillsTheBuffer) {
  transport_.answer(206, "hello");
  std::vector<uint8_t> out(5);
  ASSERT_TRUE(client_.get_object("/store/s/1/p/2?sig=secret", 3, out, deadline()));
  EXPECT_EQ(std::string(out.begin(), out.end()), "hello");
  EXPECT_EQ(transport_.requests[0].url, "http://server:8470/store/s/1/p/2?sig=secret");
  for (const auto& [name, value] : transport_.requests[0].headers) EXPECT_NE(name, "Authorization");
  out.resize(6);
  auto status = client_.get_object("/store/s/1/p/2?sig=secret", 3, out, deadline());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kDataCorrupt);
  EXPECT_EQ(status.error().message().find("secret"), std::string::npos);
}

TEST_F(ClientTest, PutObjectReportsAndMapsRefusals) {
  transport_.answer(200, "");
  std::string text = "some bytes to send";
  std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  uint64_t sent = 0;
  ASSERT_TRUE(client_.put_object("http://s3/x?X-Amz-Signature=1", bytes, deadline(), [&](uint64_t n) { sent += n; }));
  EXPECT_EQ(sent, text.size());
  EXPECT_EQ(transport_.requests[0].body, text);
  transport_.answers.clear();
  transport_.answer(412, "<Error/>");
  transport_.answer(403, "<Error/>");
  transport_.answer(503, api::error_to_json(Error(Code::kStoreUnavailable, "no")));
  EXPECT_EQ(client_.put_object("/store/x", bytes, deadline()).error().code(), Code::kObjectExists);
  EXPECT_EQ(client_.put_object("/store/x", bytes, deadline()).error().code(), Code::kUrlInvalid);
  EXPECT_EQ(client_.put_object("/store/x", bytes, deadline()).error().code(), Code::kStoreUnavailable);
}

TEST_F(ClientTest, AnOutageEndsACallWithoutADeadline) {
  transport_.fail(Code::kServerUnavailable);
  Duration started = clock_.monotonic();
  auto volume = client_.create_volume({"research", 5, std::nullopt}, Deadline::never());
  ASSERT_FALSE(volume);
  EXPECT_EQ(volume.error().code(), Code::kServerUnavailable);
  EXPECT_NE(volume.error().hint().find("run the same command again"), std::string::npos);
  EXPECT_GE(clock_.monotonic() - started, Duration(minutes(10)));
  EXPECT_LT(clock_.monotonic() - started, Duration(minutes(11)));
}

TEST_F(ClientTest, AServerThatAnswersIsNoOutage) {
  for (int i = 0; i < 1000; ++i) transport_.answer(503, api::error_to_json(Error(Code::kBusy, "later")));
  transport_.answer(200, volume_json());
  EXPECT_TRUE(client_.create_volume({"research", 5, std::nullopt}, Deadline::never()));
}

TEST_F(ClientTest, AServerThatTakesRequestsAndSaysNothingEndsACall) {
  transport_.fail(Code::kOutcomeUnknown);
  auto volume = client_.create_volume({"research", 5, std::nullopt}, Deadline::never());
  ASSERT_FALSE(volume);
  EXPECT_EQ(volume.error().code(), Code::kOutcomeUnknown);
  EXPECT_NE(volume.error().message().find("host:1"), std::string::npos);
  EXPECT_GE(clock_.monotonic(), Duration(hours(1)));
  EXPECT_LT(clock_.monotonic(), Duration(hours(2)));
}

TEST_F(ClientTest, AnswersOfACatalogThatIsAwayAreAnOutage) {
  transport_.answer(503, api::error_to_json(Error(Code::kCatalogUnavailable, "PostgreSQL at db:5432 is away")));
  auto volume = client_.create_volume({"research", 5, std::nullopt}, Deadline::never());
  ASSERT_FALSE(volume);
  EXPECT_EQ(volume.error().code(), Code::kCatalogUnavailable);
  EXPECT_GE(clock_.monotonic(), Duration(minutes(10)));
}

TEST_F(ClientTest, AnObjectIsTriedForAsLongAsAServer) {
  std::vector<uint8_t> out(5);
  auto get = [&] { return client_.get_object("http://s3/x?sig=1", 0, out, Deadline::never()); };
  // Away for five minutes.
  Duration back = clock_.monotonic() + minutes(5);
  ASSERT_TRUE(client_.persist(
      [&]() -> Status {
        transport_.answers.clear();
        if (clock_.monotonic() < back) transport_.fail(Code::kServerUnavailable);
        else transport_.answer(206, "hello");
        return get();
      },
      Deadline::never()));
  // Away for ever.
  transport_.answers.clear();
  transport_.answer(500, "<Error/>");
  Duration started = clock_.monotonic();
  Status gone = client_.persist(get, Deadline::never());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), Code::kStoreUnavailable);
  EXPECT_NE(gone.error().hint().find("run the same command again"), std::string::npos);
  EXPECT_GE(clock_.monotonic() - started, Duration(minutes(10)));
  EXPECT_LT(clock_.monotonic() - started, Duration(minutes(11)));
  // The caller's own deadline holds.
  started = clock_.monotonic();
  EXPECT_FALSE(client_.persist(get, deadline()));
  EXPECT_LT(clock_.monotonic() - started, Duration(minutes(1)));
}

TEST_F(ClientTest, WhatNoWaitingCuresIsToldAtOnce) {
  std::vector<uint8_t> out(5);
  auto get = [&] { return client_.get_object("http://s3/x?sig=1", 0, out, Deadline::never()); };
  for (int status : {301, 400, 405}) {
    transport_.answers.clear();
    transport_.answer(status, "<html>not here</html>");
    size_t before = transport_.requests.size();
    Status refused = client_.persist(get, Deadline::never());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kRequestInvalid) << status;
    EXPECT_EQ(transport_.requests.size(), before + 1);
  }
  transport_.answers.clear();
  transport_.answer(400, "<Error><Code>RequestTimeout</Code></Error>");
  transport_.answer(206, "hello");
  EXPECT_TRUE(client_.persist(get, Deadline::never()));
}

}  // namespace
}  // namespace cairn::client
