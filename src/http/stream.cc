#include "http/stream.h"

#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cairn::http {

namespace asio = boost::asio;
using asio::awaitable;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

class TlsContext {
 public:
  asio::ssl::context ssl{asio::ssl::context::tls_server};
};

namespace {

constexpr size_t kSendFileBytes = 1024 * 1024;
constexpr size_t kLingerBytesMax = 64 * 1024 * 1024;

using TlsSocket = asio::ssl::stream<tcp::socket>;

// Cancels a socket's operations when the deadline passes. It covers every kind of wait, sendfile's too. Moving a
// deadline into the future costs nothing: the timer looks again when it fires.
class Watchdog {
 public:
  explicit Watchdog(tcp::socket& socket) : state_(std::make_shared<State>(socket)) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    state_->socket = nullptr;
    state_->timer.cancel();
  }

  void set(Stream::Instant deadline) {
    state_->deadline = deadline;
    state_->fired = false;
    if (deadline < state_->armed) arm(state_);
  }
  bool fired() const { return state_->fired; }

 private:
  struct State {
    explicit State(tcp::socket& watched) : timer(watched.get_executor()), socket(&watched) {}
    asio::steady_timer timer;
    tcp::socket* socket;  // null once the stream is gone
    Stream::Instant deadline = Stream::Instant::max();
    Stream::Instant armed = Stream::Instant::max();
    bool fired = false;
  };

  static void arm(const std::shared_ptr<State>& state) {
    state->armed = state->deadline;
    state->timer.expires_at(state->deadline);
    state->timer.async_wait([state](error_code failure) {
      if (failure || state->socket == nullptr) return;
      if (std::chrono::steady_clock::now() < state->deadline) return arm(state);
      state->armed = Stream::Instant::max();
      state->fired = true;
      error_code ignored;
      state->socket->cancel(ignored);
    });
  }

  std::shared_ptr<State> state_;
};

tcp::socket& tcp_of(tcp::socket& socket) {
  return socket;
}
tcp::socket& tcp_of(TlsSocket& stream) {
  return stream.next_layer();
}

// The only template here: Socket is tcp::socket or TlsSocket.
template <class Socket>
class SocketStream final : public Stream {
 public:
  static constexpr bool kTls = std::is_same_v<Socket, TlsSocket>;

  explicit SocketStream(tcp::socket socket) requires(!kTls) : socket_(std::move(socket)), watchdog_(tcp_of(socket_)) {
    prepare();
  }
  SocketStream(tcp::socket socket, std::shared_ptr<TlsContext> context) requires(kTls)
      : context_(std::move(context)), socket_(std::move(socket), context_->ssl), watchdog_(tcp_of(socket_)) {
    prepare();
  }

  awaitable<IoResult> handshake() override {
    IoResult result;
    if constexpr (kTls) {
      if (stopped(result)) co_return result;
      auto token = asio::redirect_error(use_awaitable, result.ec);
      co_await socket_.async_handshake(asio::ssl::stream_base::server, token);
      explain(result);
    }
    co_return result;
  }

  awaitable<IoResult> read_some(char* data, size_t size) override {
    IoResult result;
    if (stopped(result)) co_return result;
    auto token = asio::redirect_error(use_awaitable, result.ec);
    auto buffer = asio::buffer(data, size);
    result.n = co_await socket_.async_read_some(buffer, token);
    explain(result);
    co_return result;
  }

  awaitable<IoResult> write_all(const char* data, size_t size, Duration patience) override {
    IoResult result;
    auto token = asio::redirect_error(use_awaitable, result.ec);
    size_t next_deadline = 0;
    while (result.n < size) {
      if (result.n >= next_deadline) {
        expires_at(std::chrono::steady_clock::now() + patience);
        next_deadline = result.n + kPieceBytes;
      }
      if (stopped(result)) break;
      auto buffer = asio::buffer(data + result.n, std::min(size - result.n, kPieceBytes));
      size_t written = co_await socket_.async_write_some(buffer, token);
      result.n += written;
      if (result.ec) break;
    }
    explain(result);
    co_return result;
  }

  awaitable<IoResult> send_file(int fd, uint64_t offset, uint64_t length, Duration patience) override {
    IoResult result;
    if constexpr (kTls) {
      result = co_await send_file_copying(fd, offset, length, patience);
    } else {
      result = co_await send_file_directly(fd, offset, length, patience);
    }
    co_return result;
  }

  awaitable<void> shutdown(bool linger) override {
    error_code ignored;
    auto token = asio::redirect_error(use_awaitable, ignored);
    tcp::socket& socket = tcp_of(socket_);
    if (cancelled_) co_return;
    if constexpr (kTls) {
      // Ends with the peer's answer, its next data, its closing, or the deadline.
      co_await socket_.async_shutdown(token);
    }
    if (cancelled_ || watchdog_.fired()) co_return;
    socket.shutdown(tcp::socket::shutdown_send, ignored);
    if (!linger) co_return;
    char scrap[16 * 1024];
    auto buffer = asio::buffer(scrap, sizeof scrap);
    for (size_t total = 0; total < kLingerBytesMax;) {
      ignored.clear();
      size_t got = co_await socket.async_read_some(buffer, token);
      if (ignored || cancelled_ || watchdog_.fired()) co_return;
      total += got;
    }
  }

  void expires_at(Instant deadline) override { watchdog_.set(deadline); }

  void cancel() override {
    cancelled_ = true;
    error_code ignored;
    tcp_of(socket_).cancel(ignored);
  }

 private:
  void prepare() {
    error_code ignored;
    tcp_of(socket_).set_option(tcp::no_delay(true), ignored);
    tcp_of(socket_).native_non_blocking(true, ignored);
  }

  // True when no operation may begin.
  bool stopped(IoResult& result) const {
    if (cancelled_) result.ec = asio::error::operation_aborted;
    if (watchdog_.fired()) result.ec = asio::error::timed_out;
    return static_cast<bool>(result.ec);
  }

  // A cancelled wait says so, whatever the layers above made of it.
  void explain(IoResult& result) const {
    if (!result.ec) return;
    if (watchdog_.fired()) result.ec = asio::error::timed_out;
    if (result.ec == asio::ssl::error::stream_truncated) result.ec = asio::error::eof;
  }

  awaitable<IoResult> send_file_directly(int fd, uint64_t offset, uint64_t length, Duration patience) {
    IoResult result;
    auto token = asio::redirect_error(use_awaitable, result.ec);
    tcp::socket& socket = tcp_of(socket_);
    auto executor = socket.get_executor();
    off_t position = static_cast<off_t>(offset);
    size_t next_deadline = 0;
    while (result.n < length) {
      if (result.n >= next_deadline) {
        expires_at(std::chrono::steady_clock::now() + patience);
        next_deadline = result.n + kPieceBytes;
      }
      if (stopped(result)) break;
      size_t wanted = std::min<uint64_t>(length - result.n, kSendFileBytes);
      ssize_t sent = ::sendfile(socket.native_handle(), fd, &position, wanted);
      if (sent > 0) {
        result.n += static_cast<size_t>(sent);
        // A fast reader must not keep the loop from its other connections.
        if (static_cast<size_t>(sent) == wanted && result.n < length) co_await asio::post(executor, token);
      } else if (sent < 0 && errno == EAGAIN) {
        co_await socket.async_wait(tcp::socket::wait_write, token);
      } else if (sent == 0) {
        result.ec = asio::error::broken_pipe;  // the file is shorter than was promised
      } else if (errno != EINTR) {
        result.ec = error_code(errno, boost::system::system_category());
      }
      if (result.ec) break;
    }
    explain(result);
    co_return result;
  }

  awaitable<IoResult> send_file_copying(int fd, uint64_t offset, uint64_t length, Duration patience) {
    IoResult result;
    auto buffer = std::make_unique<char[]>(kPieceBytes);
    while (result.n < length) {
      size_t wanted = std::min<uint64_t>(length - result.n, kPieceBytes);
      ssize_t got = ::pread(fd, buffer.get(), wanted, static_cast<off_t>(offset + result.n));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        result.ec = asio::error::broken_pipe;
        break;
      }
      IoResult written = co_await write_all(buffer.get(), static_cast<size_t>(got), patience);
      result.n += written.n;
      result.ec = written.ec;
      if (result.ec) break;
    }
    co_return result;
  }

  std::shared_ptr<TlsContext> context_;
  Socket socket_;
  Watchdog watchdog_;
  bool cancelled_ = false;
};

}  // namespace

Result<std::shared_ptr<TlsContext>> load_tls_context(const std::string& certificate_file, const std::string& key_file) {
  auto context = std::make_shared<TlsContext>();
  error_code failure;
  ::SSL_CTX_set_min_proto_version(context->ssl.native_handle(), TLS1_2_VERSION);
  context->ssl.set_options(asio::ssl::context::default_workarounds | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION,
                           failure);
  context->ssl.use_certificate_chain_file(certificate_file, failure);
  if (failure) {
    return Error(Code::kConfigInvalid,
                 "the TLS certificate '" + certificate_file + "' cannot be used: " + failure.message(),
                 "name a PEM file that holds the server's certificate and then its chain");
  }
  context->ssl.use_private_key_file(key_file, asio::ssl::context::pem, failure);
  if (failure) {
    return Error(Code::kConfigInvalid, "the TLS key '" + key_file + "' cannot be used: " + failure.message(),
                 "name the PEM file of the certificate's private key, without a pass phrase");
  }
  return context;
}

std::unique_ptr<Stream> make_plain_stream(tcp::socket socket) {
  return std::make_unique<SocketStream<tcp::socket>>(std::move(socket));
}

std::unique_ptr<Stream> make_tls_stream(tcp::socket socket, std::shared_ptr<TlsContext> context) {
  return std::make_unique<SocketStream<TlsSocket>>(std::move(socket), std::move(context));
}

}  // namespace cairn::http
