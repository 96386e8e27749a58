// Bodies that do not fit a handler's memory: uploads in pieces, files by sendfile, ranges; clients that go away
// meanwhile.
#include <sys/stat.h>

#include <atomic>
#include <mutex>

#include <gtest/gtest.h>

#include "http/test_server.h"

namespace cairn::http {
namespace {

// Bytes that differ from place to place, so that a shifted or repeated piece shows.
char byte_at(uint64_t offset) {
  return static_cast<char>((offset * 2654435761u) >> 13);
}

std::string pattern(uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = byte_at(offset + i);
  return bytes;
}

// What a sink has seen; outlives it.
struct SinkRecord {
  std::atomic<uint64_t> bytes{0};
  std::atomic<size_t> largest_piece{0};
  std::atomic<bool> intact{true};
  std::atomic<int> finished{0};
  std::atomic<int> destroyed{0};
  std::atomic<uint64_t> fail_after{UINT64_MAX};
  bool quick = true;
};

class RecordingSink final : public BodySink {
 public:
  explicit RecordingSink(SinkRecord& record) : record_(record) {}
  ~RecordingSink() override { ++record_.destroyed; }
  Status write(std::span<const uint8_t> piece) override {
    uint64_t at = record_.bytes;
    if (at >= record_.fail_after) return Error(Code::kNoSpaceLeft, "the disk is full");
    for (size_t i = 0; i < piece.size(); ++i) {
      if (static_cast<char>(piece[i]) != byte_at(at + i)) record_.intact = false;
    }
    record_.bytes += piece.size();
    record_.largest_piece = std::max(record_.largest_piece.load(), piece.size());
    return ok();
  }
  Response finish() override {
    ++record_.finished;
    return Response::text(201, std::to_string(record_.bytes));
  }
  bool writes_are_quick() const override { return record_.quick; }

 private:
  SinkRecord& record_;
};

auto upload_route(SinkRecord& record) {
  return [&record](const RequestHead&) {
    auto open = [&record](const Request&) -> Result<std::unique_ptr<BodySink>> {
      return std::make_unique<RecordingSink>(record);
    };
    return RoutePlan::upload("upload", open, 64 << 20);
  };
}

// Sanitizers keep freed memory for a while, so that resident memory says nothing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kResidentMeansHeld = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kResidentMeansHeld = false;
#else
constexpr bool kResidentMeansHeld = true;
#endif
#else
constexpr bool kResidentMeansHeld = true;
#endif

size_t resident_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  size_t total = 0;
  size_t resident = 0;
  EXPECT_EQ(std::fscanf(file, "%zu %zu", &total, &resident), 2);
  std::fclose(file);
  return resident * 4096;
}

TEST(Upload, StreamsLargeBodiesInBoundedMemory) {
  for (bool quick : {true, false}) {
    SinkRecord record;
    record.quick = quick;
    TestServer server(upload_route(record));
    RawClient client(server.port());
    constexpr uint64_t kSize = 64 << 20;
    client.send(put("/p", kSize));
    uint64_t memory_max = 0;
    size_t resident_before = resident_bytes();
    size_t resident_max = 0;
    for (uint64_t at = 0; at < kSize; at += 1 << 20) {
      ASSERT_TRUE(client.send(pattern(at, 1 << 20)));
      memory_max = std::max(memory_max, server->counters().body_memory_bytes);
      resident_max = std::max(resident_max, resident_bytes());
    }
    auto answer = client.read_answer();
    EXPECT_EQ(answer.status, 201);
    EXPECT_EQ(answer.body, std::to_string(kSize));
    EXPECT_TRUE(record.intact);
    EXPECT_EQ(record.finished, 1);
    EXPECT_EQ(record.destroyed, 1);
    EXPECT_LE(record.largest_piece, 512u * 1024);
    EXPECT_LE(memory_max, 512u * 1024);
    if (kResidentMeansHeld) {
      EXPECT_LE(resident_max, resident_before + (32 << 20));
    }
    // The connection is good for the next one.
    record.bytes = 0;
    client.send(put("/p", 3) + pattern(0, 3));
    EXPECT_EQ(client.read_answer().body, "3");
  }
}

TEST(Upload, EmptyBodiesAreFinishedToo) {
  SinkRecord record;
  TestServer server(upload_route(record));
  RawClient client(server.port());
  client.send(put("/p", 0));
  EXPECT_EQ(client.read_answer().status, 201);
  client.send("PUT /p HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 411);
}

TEST(Upload, AnAbortDestroysTheSink) {
  SinkRecord record;
  TestServer server(upload_route(record));
  {
    RawClient client(server.port());
    client.send(put("/p", 10 << 20) + pattern(0, 1 << 20));
    ASSERT_TRUE(eventually([&] { return record.bytes > 0; }));
  }
  EXPECT_TRUE(eventually([&] { return record.destroyed == 1; }));
  EXPECT_EQ(record.finished, 0);
  EXPECT_TRUE(eventually([&] { return server->counters().connections_active == 0; }));
}

TEST(Upload, ASinksErrorIsTheAnswer) {
  SinkRecord record;
  record.fail_after = 1;
  TestServer server(upload_route(record));
  RawClient client(server.port());
  client.send(put("/p", 4 << 20));
  client.send(pattern(0, 4 << 20));
  auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 507);
  EXPECT_NE(answer.body.find("no_space_left"), std::string::npos);
  EXPECT_EQ(record.finished, 0);
  EXPECT_EQ(record.destroyed, 1);
}

class FileServer {
 public:
  static constexpr uint64_t kSize = (5 << 20) + 17;

  FileServer() {
    FILE* file = std::tmpfile();
    fd_ = ::dup(::fileno(file));
    std::fclose(file);
    std::string bytes = pattern(0, kSize);
    EXPECT_EQ(::write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(kSize));
  }
  ~FileServer() { ::close(fd_); }

  RoutePlan route(const RequestHead&) {
    return RoutePlan::buffered("file", [this](const Request& request) {
      Response response;
      uint64_t promised = request.raw_path == "/short" ? kSize + 1000 : kSize;
      response.file = FileBody::owning(::dup(fd_), 0, promised);
      return response;
    });
  }

 private:
  int fd_;
};

TEST(Files, AreSentWholeAndInRanges) {
  FileServer files;
  TestServer server([&](const RequestHead& head) { return files.route(head); });
  RawClient client(server.port());
  client.send(get("/f"));
  auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.head.find("Accept-Ranges: bytes"), std::string::npos);
  EXPECT_EQ(answer.body, pattern(0, FileServer::kSize));

  client.send(get("/f", "Range: bytes=1000000-2999999\r\n"));
  answer = client.read_answer();
  EXPECT_EQ(answer.status, 206);
  EXPECT_NE(answer.head.find("Content-Range: bytes 1000000-2999999/" + std::to_string(FileServer::kSize) + "\r\n"),
            std::string::npos);
  EXPECT_EQ(answer.body, pattern(1'000'000, 2'000'000));

  client.send(get("/f", "Range: bytes=-17\r\n"));
  EXPECT_EQ(client.read_answer().body, pattern(5 << 20, 17));

  client.send(get("/f", "Range: bytes=99999999-\r\n"));
  answer = client.read_answer();
  EXPECT_EQ(answer.status, 416);
  EXPECT_NE(answer.head.find("Content-Range: bytes */" + std::to_string(FileServer::kSize) + "\r\n"),
            std::string::npos);

  client.send("HEAD /f HTTP/1.1\r\nHost: h\r\n\r\n");
  answer = client.read_answer(true);
  EXPECT_NE(answer.head.find("Content-Length: " + std::to_string(FileServer::kSize) + "\r\n"), std::string::npos);
  client.send(get("/f", "Range: bytes=0-3\r\n"));
  EXPECT_EQ(client.read_answer().body, pattern(0, 4));
}

TEST(Files, AFileThatShrankEndsTheConnection) {
  FileServer files;
  TestServer server([&](const RequestHead& head) { return files.route(head); });
  RawClient client(server.port());
  client.send(get("/short"));
  std::string all = client.read_to_end();
  EXPECT_EQ(all.size() - all.find("\r\n\r\n") - 4, FileServer::kSize);
}

TEST(Files, SlowReadersDoNotHoldUpOthers) {
  FileServer files;
  ServerSettings settings = patient_settings();
  settings.loops = 1;
  TestServer server([&](const RequestHead& head) { return files.route(head); }, settings);
  RawClient slow(server.port(), 4096);
  slow.send(get("/f"));
  for (int i = 0; i < 20; ++i) {
    RawClient quick(server.port());
    quick.send(get("/f", "Range: bytes=0-99\r\n"));
    ASSERT_EQ(quick.read_answer().body.size(), 100u);
  }
  EXPECT_EQ(slow.read_answer().body.size(), FileServer::kSize);
}

TEST(Clients, MayLeaveWhileTheirCallRuns) {
  std::atomic<int> ended{0};
  TestServer server([&](const RequestHead&) {
    return RoutePlan::buffered("slow", [&](const Request&) {
      ::usleep(100'000);
      ++ended;
      return Response::text(200, std::string(1 << 20, 'x'));
    });
  });
  for (int i = 0; i < 8; ++i) {
    RawClient client(server.port());
    client.send(get("/"));
    ::usleep(10'000);
  }
  EXPECT_TRUE(eventually([&] { return ended == 8; }));
  EXPECT_TRUE(eventually([&] { return server->counters().connections_active == 0; }));
}

TEST(AccessLogs, NameWhatWasServedWithoutTheQuery) {
  std::mutex mutex;
  std::vector<AccessRecord> records;
  TestServer server(echo, patient_settings(), [&](const AccessRecord& record) {
    std::lock_guard lock(mutex);
    records.push_back(record);
  });
  RawClient client(server.port());
  client.send("PUT /a?signature=secret HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_EQ(client.read_answer().status, 200);
  client.send("garbage\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 400);
  ASSERT_TRUE(eventually([&] {
    std::lock_guard lock(mutex);
    return records.size() == 2;
  }));
  EXPECT_EQ(records[0].path, "/a");
  EXPECT_EQ(records[0].route, "echo");
  EXPECT_EQ(records[0].status, 200);
  EXPECT_EQ(records[0].bytes_received, 5u);
  EXPECT_EQ(records[0].bytes_sent, 5u);
  EXPECT_EQ(records[0].peer.rfind("127.0.0.1:", 0), 0u);
  EXPECT_EQ(records[1].status, 400);
  EXPECT_EQ(records[1].route, "");
  EXPECT_EQ(server->counters().bytes_received, 5u);
}

}  // namespace
}  // namespace cairn::http
