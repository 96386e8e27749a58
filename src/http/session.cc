#include "http/session.h"

#include <algorithm>
#include <cstring>

#include <boost/asio/error.hpp>

#include "base/log.h"
#include "http/offload.h"
#include "http/session_state.h"

// g++ 12 miscompiles temporaries in co_await: inside one stand only named variables, moves of them, scalars and
// strings.

namespace cairn::http {

using boost::asio::awaitable;

Session::Session(std::unique_ptr<Stream> stream, std::string peer, SessionContext& context)
    : stream_(std::move(stream)),
      peer_(std::move(peer)),
      context_(context),
      buffer_size_(context.settings.header_bytes_max + 1024),
      buffer_(std::make_unique_for_overwrite<char[]>(buffer_size_)) {}

Session::~Session() {
  if (current_ != nullptr) --context_.metrics.requests_active;
}

awaitable<void> Session::run() {
  const Timeouts& timeouts = context_.settings.timeouts;
  stream_->expires_at(SteadyClock::now() + timeouts.handshake);
  IoResult shaken = co_await stream_->handshake();
  if (shaken.ec) {
    ++context_.metrics.handshake_failures;
    count_failure(shaken.ec);
    co_return;
  }
  Next next = Next::kContinue;
  while (next == Next::kContinue) {
    next = co_await serve_one();
    if (current_ != nullptr) finish_request();
    if (context_.stopping && next == Next::kContinue) next = Next::kClose;
  }
  if (next == Next::kAbandon) co_return;
  idle_ = true;
  stream_->expires_at(SteadyClock::now() + timeouts.linger);
  bool linger = next == Next::kLinger;
  co_await stream_->shutdown(linger);
}

void Session::count_failure(const boost::system::error_code& failure) {
  if (failure == boost::asio::error::timed_out) ++context_.metrics.timeouts;
}

void Session::finish_request() {
  const Current& current = *current_;
  auto took = std::chrono::duration_cast<Duration>(SteadyClock::now() - current.started);
  if (current.status > 0 && current.status < Metrics::kStatusEnd) ++context_.metrics.requests_by_status[current.status];
  context_.metrics.bytes_received += current.body_got;
  context_.metrics.bytes_sent += current.bytes_sent;
  if (context_.access_log) {
    AccessRecord record;
    record.peer = peer_;
    record.method = current.request.method;
    record.path = current.request.raw_path;
    record.route = current.route;
    record.status = current.status;
    record.bytes_received = current.body_got;
    record.bytes_sent = current.bytes_sent;
    record.duration = took;
    context_.access_log(record);
  }
  current_.reset();
  --context_.metrics.requests_active;
}

// ---- The head

awaitable<Session::Head> Session::read_head(HeadParser& parser) {
  const Timeouts& timeouts = context_.settings.timeouts;
  idle_ = buffered_ == 0;
  if (idle_ && context_.stopping) co_return Head::kClosed;
  if (idle_) stream_->expires_at(SteadyClock::now() + timeouts.idle);
  for (;;) {
    if (buffered_ > 0) {
      if (current_ == nullptr) {
        idle_ = false;
        current_ = std::make_unique<Current>(context_.metrics);
        ++context_.metrics.requests_active;
        // Once for the whole head: a client that drips bytes gains nothing.
        stream_->expires_at(current_->started + timeouts.header);
      }
      size_t used = parser.feed(std::string_view(buffer_.get(), buffered_));
      std::memmove(buffer_.get(), buffer_.get() + used, buffered_ - used);
      buffered_ -= used;
      if (parser.refusal()) co_return Head::kRefused;
      if (parser.complete()) co_return Head::kComplete;
      if (buffered_ == buffer_size_) co_return Head::kTooLarge;
    }
    IoResult got = co_await stream_->read_some(buffer_.get() + buffered_, buffer_size_ - buffered_);
    count_failure(got.ec);
    if (got.ec == boost::asio::error::timed_out) co_return Head::kTimedOut;
    if (got.ec || got.n == 0) co_return Head::kClosed;
    buffered_ += got.n;
  }
}

RoutePlan Session::plan_request() {
  try {
    return context_.handler.route(current_->request);
  } catch (const std::exception& error) {
    log_error("routing a request failed: {}", error.what());
    return RoutePlan::answer("", internal_error());
  }
}

awaitable<Session::Next> Session::serve_one() {
  HeadParser parser(context_.settings.header_bytes_max);
  Head state = co_await read_head(parser);
  switch (state) {
    case Head::kClosed: co_return current_ == nullptr ? Next::kClose : Next::kAbandon;
    case Head::kTimedOut: {
      if (current_ == nullptr) co_return Next::kClose;
      Error late(Code::kRequestInvalid, "the request's header did not come in time");
      co_return co_await refuse(408, std::move(late));
    }
    case Head::kTooLarge: {
      Error large(Code::kLimitExceeded, "the request's header is larger than this server reads");
      co_return co_await refuse(431, std::move(large));
    }
    case Head::kRefused: break;
    case Head::kComplete: {
      ParsedHead parsed = parser.take();
      static_cast<RequestHead&>(current_->request) = std::move(parsed.head);
      current_->request.peer = peer_;
      current_->keep_alive = parsed.keep_alive;
      current_->expects_continue = parsed.expects_continue;
      current_->has_length = parsed.has_length;
      current_->body_left = current_->request.content_length;
      break;
    }
  }
  if (parser.refusal()) {
    Error why = parser.refusal()->error;
    int status = parser.refusal()->status;
    co_return co_await refuse(status, std::move(why));
  }
  RoutePlan plan = plan_request();
  current_->route = plan.name;
  co_return co_await serve(std::move(plan));
}

// ---- The three ways to serve

awaitable<Session::Next> Session::serve(RoutePlan plan) {
  switch (plan.kind) {
    case RoutePlan::Kind::kAnswer: {
      Response response = *std::move(plan.response);
      co_return co_await send(std::move(response));
    }
    case RoutePlan::Kind::kBuffered:
    case RoutePlan::Kind::kHeavy:
    case RoutePlan::Kind::kLongPoll:
    case RoutePlan::Kind::kUpload: break;
  }
  uint64_t length = current_->request.content_length;
  if (length > plan.body_bytes_max) {
    Error large(Code::kRequestTooLarge, "the request's body of " + std::to_string(length) +
                                            " bytes is larger than the " + std::to_string(plan.body_bytes_max) +
                                            " allowed here");
    co_return co_await refuse(413, std::move(large));
  }
  bool upload = plan.kind == RoutePlan::Kind::kUpload;
  if (upload && !current_->has_length) {
    Error missing(Code::kRequestInvalid, "an upload must say its Content-Length");
    co_return co_await refuse(411, std::move(missing));
  }
  uint64_t memory = upload ? std::min<uint64_t>(length, kUploadPieceMax) : length;
  if (!current_->memory.take(memory, context_.settings.body_memory_bytes_max)) co_return co_await refuse_busy();
  bool long_poll = plan.kind == RoutePlan::Kind::kLongPoll;
  current_->request.deadline =
      Deadline::after(plan.time_limit, system_clock(), long_poll ? context_.long_polls : context_.requests);
  if (upload) co_return co_await serve_upload(std::move(plan));
  co_return co_await serve_call(std::move(plan));
}

awaitable<Session::Next> Session::serve_call(RoutePlan plan) {
  bool going_on = co_await send_continue();
  if (!going_on) co_return Next::kAbandon;
  Body body = co_await read_body_text();
  if (body != Body::kComplete) co_return co_await refuse_body(body);

  JobRunner& runner = plan.kind == RoutePlan::Kind::kLongPoll ? context_.long_poll_pool
                      : plan.kind == RoutePlan::Kind::kHeavy  ? context_.heavy_pool
                                                              : context_.pool;
  const Request& request = current_->request;
  std::function<Response()> work = [call = std::move(plan.call), &request] { return call(request); };
  bool accepted = false;
  std::optional<Response> answered = co_await offload<Response>(runner, false, std::move(work), accepted);
  if (!accepted) co_return co_await refuse_busy();
  Response response = answered ? *std::move(answered) : internal_error();
  co_return co_await send(std::move(response));
}

awaitable<Session::Next> Session::serve_upload(RoutePlan plan) {
  using Opened = Result<std::unique_ptr<BodySink>>;
  const Request& request = current_->request;
  std::function<Opened()> open = [open_call = std::move(plan.open), &request] { return open_call(request); };
  bool accepted = false;
  std::optional<Opened> opened = co_await offload<Opened>(context_.pool, false, std::move(open), accepted);
  if (!accepted) co_return co_await refuse_busy();
  if (!opened || (opened->has_value() && **opened == nullptr)) {
    Response failed = internal_error();
    co_return co_await send(std::move(failed));
  }
  if (!opened->has_value()) {
    Error why = std::move(*opened).error();
    int status = http_status(why.code());
    co_return co_await refuse(status, std::move(why));
  }
  std::unique_ptr<BodySink> sink = std::move(**opened);
  bool going_on = co_await send_continue();
  if (!going_on) co_return Next::kAbandon;
  std::optional<Error> sink_error;
  Body body = co_await stream_body(*sink, sink_error);
  // What was begun is undone before the client hears of it and tries again.
  if (sink_error || body != Body::kComplete) sink.reset();
  if (sink_error) {
    Error why = *std::move(sink_error);
    int status = http_status(why.code());
    co_return co_await refuse(status, std::move(why));
  }
  if (body != Body::kComplete) co_return co_await refuse_body(body);

  std::function<Response()> finish = [&sink] { return sink->finish(); };
  std::optional<Response> finished = co_await offload<Response>(context_.pool, true, std::move(finish), accepted);
  sink.reset();
  Response response = finished ? *std::move(finished) : internal_error();
  co_return co_await send(std::move(response));
}

}  // namespace cairn::http
