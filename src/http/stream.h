// One connection as a session sees it: plain TCP, TLS, or memory in tests. Errors are values; a passed deadline is
// asio::error::timed_out. The session, the parser and the tests know only this.
//
// One coroutine at a time uses a stream, on the stream's loop thread; cancel() too is called there. Internal to http.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include "base/clock.h"
#include "base/result.h"

namespace cairn::http {

struct IoResult {
  boost::system::error_code ec;
  size_t n = 0;  // bytes moved, also when ec is set
};

class Stream {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  virtual ~Stream() = default;
  virtual boost::asio::awaitable<IoResult> handshake() = 0;
  virtual boost::asio::awaitable<IoResult> read_some(char* data, size_t size) = 0;
  // These two set the deadline themselves: `patience` for each kPieceBytes.
  virtual boost::asio::awaitable<IoResult> write_all(const char* data, size_t size, Duration patience) = 0;
  virtual boost::asio::awaitable<IoResult> send_file(int fd, uint64_t offset, uint64_t length, Duration patience) = 0;
  // Says that nothing more comes. With `linger`, then throws away what the peer still sends until it closes or the
  // deadline passes: closing a socket with unread bytes would destroy the answer on its way.
  virtual boost::asio::awaitable<void> shutdown(bool linger) = 0;

  // Holds for every operation until it is set again; also makes a stream usable again that had timed out.
  virtual void expires_at(Instant deadline) = 0;
  // Ends the running operation and every later one.
  virtual void cancel() = 0;

  static constexpr size_t kPieceBytes = 256 * 1024;
};

// Certificate, key and settings of the TLS side; shared by all connections.
class TlsContext;
Result<std::shared_ptr<TlsContext>> load_tls_context(const std::string& certificate_file, const std::string& key_file);

std::unique_ptr<Stream> make_plain_stream(boost::asio::ip::tcp::socket socket);
std::unique_ptr<Stream> make_tls_stream(boost::asio::ip::tcp::socket socket, std::shared_ptr<TlsContext> context);

}  // namespace cairn::http
