#include "http/server.h"

#include <algorithm>
#include <csignal>
#include <list>
#include <thread>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "http/session.h"

namespace cairn::http {

namespace asio = boost::asio;
using asio::awaitable;
using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(50);
constexpr int kBacklog = 4096;
constexpr char kFull[] =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

// One thread, its acceptor and the sessions that live on it. All members but `thread` belong to that thread once it
// runs.
struct Loop {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  tcp::acceptor acceptor{io};
  asio::steady_timer accept_pause{io};
  std::list<Session*> sessions;
  std::thread thread;
};

Result<tcp::endpoint> resolve(const std::string& host, uint16_t port) {
  error_code failure;
  auto address = asio::ip::make_address(host, failure);
  if (!failure) return tcp::endpoint(address, port);
  asio::io_context io;
  tcp::resolver resolver(io);
  auto found =
      resolver.resolve(host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, failure);
  if (failure || found.empty()) {
    return Error(Code::kConfigInvalid, "the address '" + host + "' to listen on is unknown: " + failure.message());
  }
  return found.begin()->endpoint();
}

std::string to_text(const tcp::endpoint& endpoint) {
  std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(endpoint.port());
}

error_code open_acceptor(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, bool shared) {
  error_code failure;
  acceptor.open(endpoint.protocol(), failure);
  if (failure) return failure;
  acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (failure) return failure;
  int one = 1;
  if (shared && ::setsockopt(acceptor.native_handle(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) != 0) {
    return error_code(errno, boost::system::system_category());
  }
  acceptor.bind(endpoint, failure);
  if (failure) return failure;
  acceptor.listen(kBacklog, failure);
  return failure;
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerSettings& settings, Handler& handler, AccessLog access_log)
      : settings_(settings),
        access_log_(std::move(access_log)),
        pool_(settings_.pool_threads, settings_.pool_queue_max),
        heavy_pool_(settings_.heavy_threads, settings_.heavy_queue_max),
        long_poll_pool_(settings_.long_poll_threads, settings_.long_poll_queue_max),
        context_{settings_, handler,     pool_,     heavy_pool_,   long_poll_pool_,
                 metrics_,  access_log_, stopping_, CancelToken(), CancelToken()} {}

  Status start() {
    if (settings_.certificate_file.empty() != settings_.private_key_file.empty()) {
      return Error(Code::kConfigInvalid, "TLS needs both a certificate file and a key file");
    }
    if (!settings_.certificate_file.empty()) {
      CAIRN_TRY(tls_, load_tls_context(settings_.certificate_file, settings_.private_key_file));
    }
    CAIRN_CHECK_OK(listen());
    std::signal(SIGPIPE, SIG_IGN);
    for (auto& loop : loops_) {
      asio::co_spawn(loop->io, accept_connections(*loop), [](std::exception_ptr failure) {
        if (failure) log_error("an accept loop ended by an exception");
      });
      loop->thread = std::thread([&io = loop->io] { io.run(); });
    }
    return ok();
  }

  uint16_t local_port() const { return port_; }
  ServerCounters counters() const;
  void stop(Duration drain);

 private:
  Status listen();
  awaitable<void> accept_connections(Loop& loop);
  void take_connection(Loop& loop, tcp::socket socket);
  awaitable<void> run_session(Loop& loop, std::unique_ptr<Session> session);
  void session_ended();
  bool wait_until_empty(Duration time_limit);
  void cancel_sessions(bool idle_only);

  const ServerSettings settings_;
  const AccessLog access_log_;
  Metrics metrics_;
  std::atomic<bool> stopping_{false};
  BlockingPool pool_;
  BlockingPool heavy_pool_;
  BlockingPool long_poll_pool_;
  SessionContext context_;
  std::shared_ptr<TlsContext> tls_;
  std::vector<std::unique_ptr<Loop>> loops_;
  uint16_t port_ = 0;

  std::mutex empty_mutex_;
  std::condition_variable empty_;
  std::mutex stop_mutex_;
  bool stopped_ = false;
};

Status Server::Impl::listen() {
  CAIRN_TRY(tcp::endpoint endpoint, resolve(settings_.host, settings_.port));
  auto refused = [&](const error_code& failure) {
    return Error(Code::kConfigInvalid, "cannot listen on " + to_text(endpoint) + ": " + failure.message(),
                 failure == asio::error::address_in_use ? "another program has this port; choose another one" : "");
  };
  if (endpoint.port() != 0) {
    // Shared ports would let a second server of the same user start unnoticed: try without sharing first.
    asio::io_context io;
    tcp::acceptor probe(io);
    if (error_code failure = open_acceptor(probe, endpoint, false)) return refused(failure);
  }
  uint32_t count = settings_.loops > 0 ? settings_.loops : std::clamp(std::thread::hardware_concurrency(), 1u, 4u);
  for (uint32_t i = 0; i < count; ++i) {
    auto loop = std::make_unique<Loop>();
    if (error_code failure = open_acceptor(loop->acceptor, endpoint, true)) return refused(failure);
    error_code ignored;
    endpoint.port(loop->acceptor.local_endpoint(ignored).port());  // the one the system chose, for the others
    loops_.push_back(std::move(loop));
  }
  port_ = endpoint.port();
  return ok();
}

awaitable<void> Server::Impl::accept_connections(Loop& loop) {
  while (!stopping_) {
    error_code failure;
    auto token = asio::redirect_error(use_awaitable, failure);
    tcp::socket socket = co_await loop.acceptor.async_accept(token);
    if (!failure) {
      take_connection(loop, std::move(socket));
      continue;
    }
    if (stopping_ || !loop.acceptor.is_open()) co_return;
    // Mostly out of descriptors: the connection waits in the backlog, and asking again at once would spin.
    ++metrics_.accept_failures;
    error_code ignored;
    auto pause_token = asio::redirect_error(use_awaitable, ignored);
    loop.accept_pause.expires_after(kAcceptPause);
    co_await loop.accept_pause.async_wait(pause_token);
  }
}

void Server::Impl::take_connection(Loop& loop, tcp::socket socket) {
  error_code failure;
  auto peer = socket.remote_endpoint(failure);
  if (failure) return;  // gone already
  if (++metrics_.connections_active > settings_.connections_max) {
    ++metrics_.connections_refused;
    if (tls_ == nullptr) {
      socket.non_blocking(true, failure);
      socket.write_some(asio::buffer(kFull, sizeof kFull - 1), failure);
      socket.shutdown(tcp::socket::shutdown_send, failure);
    }
    session_ended();
    return;
  }
  ++metrics_.connections_accepted;
  auto stream = tls_ ? make_tls_stream(std::move(socket), tls_) : make_plain_stream(std::move(socket));
  auto session = std::make_unique<Session>(std::move(stream), to_text(peer), context_);
  asio::co_spawn(loop.io, run_session(loop, std::move(session)), [this](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      log_error("a connection ended by an exception: {}", error.what());
    }
    session_ended();
  });
}

awaitable<void> Server::Impl::run_session(Loop& loop, std::unique_ptr<Session> session) {
  struct Registration {
    Registration(Loop& owner, Session* entry)
        : loop(owner), place(owner.sessions.insert(owner.sessions.end(), entry)) {}
    ~Registration() { loop.sessions.erase(place); }
    Loop& loop;
    std::list<Session*>::iterator place;
  };
  Registration registration(loop, session.get());
  if (stopping_) co_return;
  co_await session->run();
}

void Server::Impl::session_ended() {
  if (--metrics_.connections_active > 0) return;
  std::lock_guard lock(empty_mutex_);
  empty_.notify_all();
}

bool Server::Impl::wait_until_empty(Duration time_limit) {
  std::unique_lock lock(empty_mutex_);
  return empty_.wait_for(lock, time_limit, [this] { return metrics_.connections_active == 0; });
}

void Server::Impl::cancel_sessions(bool idle_only) {
  for (auto& loop : loops_) {
    asio::post(loop->io, [&loop = *loop, idle_only] {
      error_code ignored;
      loop.acceptor.close(ignored);
      loop.accept_pause.cancel();
      for (Session* session : loop.sessions) {
        if (!idle_only || session->idle()) session->cancel();
      }
    });
  }
}

void Server::Impl::stop(Duration drain) {
  std::lock_guard lock(stop_mutex_);
  if (stopped_) return;
  stopped_ = true;
  stopping_ = true;
  context_.long_polls.cancel();
  cancel_sessions(true);
  if (!wait_until_empty(drain)) {
    context_.requests.cancel();
    cancel_sessions(false);
    while (!wait_until_empty(seconds(10))) {
      log_warning("stopping: {} connections wait for calls that do not end", metrics_.connections_active.load());
      cancel_sessions(false);
    }
  }
  for (auto& loop : loops_) loop->work.reset();
  for (auto& loop : loops_) {
    if (loop->thread.joinable()) loop->thread.join();
  }
  pool_.stop();
  heavy_pool_.stop();
  long_poll_pool_.stop();
}

ServerCounters Server::Impl::counters() const {
  ServerCounters out;
  for (int status = 0; status < Metrics::kStatusEnd; ++status) {
    uint64_t count = metrics_.requests_by_status[static_cast<size_t>(status)];
    if (count > 0) out.requests_by_status[status] = count;
  }
  out.bytes_received = metrics_.bytes_received;
  out.bytes_sent = metrics_.bytes_sent;
  out.connections_accepted = metrics_.connections_accepted;
  out.connections_refused = metrics_.connections_refused;
  out.accept_failures = metrics_.accept_failures;
  out.handshake_failures = metrics_.handshake_failures;
  out.timeouts = metrics_.timeouts;
  out.queue_refusals = metrics_.queue_refusals;
  out.connections_active = metrics_.connections_active;
  out.requests_active = metrics_.requests_active;
  out.body_memory_bytes = metrics_.body_memory_bytes;
  return out;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  stop(Duration(0));
}

Result<std::unique_ptr<Server>> Server::start(const ServerSettings& settings, Handler& handler, AccessLog access_log) {
  auto impl = std::make_unique<Impl>(settings, handler, std::move(access_log));
  CAIRN_CHECK_OK(impl->start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

uint16_t Server::local_port() const {
  return impl_->local_port();
}

ServerCounters Server::counters() const {
  return impl_->counters();
}

void Server::stop(Duration drain) {
  impl_->stop(drain);
}

}  // namespace cairn::http
