#include "http/session.h"

#include <algorithm>
#include <cstring>

#include <boost/asio/error.hpp>

#include "base/log.h"
#include "http/offload.h"
#include "http/response_head.h"

// g++ 12 miscompiles temporaries in co_await: inside one stand only named variables, moves of them, scalars and strings.

namespace cairn::http {

using boost::asio::awaitable;

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kPieceWanted = 256 * 1024;  // a TLS read gives at most 16 KiB: gather before writing
constexpr size_t kPieceMax = 512 * 1024;
constexpr size_t kBodyGrowth = 64 * 1024;
constexpr size_t kJoinedBodyMax = 64 * 1024;  // head and body go out in one write up to this size

}  // namespace

struct Session::Current {
  explicit Current(Metrics& metrics) : memory(metrics), started(SteadyClock::now()) {}

  Request request;
  bool keep_alive = false;
  bool expects_continue = false;
  bool has_length = false;
  bool refused = false;
  std::string route;
  uint64_t body_left = 0;
  uint64_t body_got = 0;
  uint64_t bytes_sent = 0;
  int status = 0;  // once the whole answer is out
  BodyMemory memory;
  const Stream::Instant started;
  Stream::Instant body_started;
};

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
    case RoutePlan::Kind::kLongPoll:
    case RoutePlan::Kind::kUpload: break;
  }
  uint64_t length = current_->request.content_length;
  if (length > plan.body_bytes_max) {
    Error large(Code::kRequestTooLarge, "the request's body of " + std::to_string(length) + " bytes is larger than the " +
                                            std::to_string(plan.body_bytes_max) + " allowed here");
    co_return co_await refuse(413, std::move(large));
  }
  bool upload = plan.kind == RoutePlan::Kind::kUpload;
  if (upload && !current_->has_length) {
    Error missing(Code::kRequestInvalid, "an upload must say its Content-Length");
    co_return co_await refuse(411, std::move(missing));
  }
  uint64_t memory = upload ? std::min<uint64_t>(length, kPieceMax) : length;
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

  JobRunner& runner = plan.kind == RoutePlan::Kind::kLongPoll ? context_.long_poll_pool : context_.pool;
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

// ---- The body

awaitable<bool> Session::send_continue() {
  current_->body_started = SteadyClock::now();
  if (!current_->expects_continue || current_->body_left == 0 || buffered_ > 0) co_return true;
  const char* interim = "HTTP/1.1 100 Continue\r\n\r\n";
  size_t size = std::strlen(interim);
  Duration patience = context_.settings.timeouts.write;
  IoResult sent = co_await stream_->write_all(interim, size, patience);
  count_failure(sent.ec);
  co_return !sent.ec;
}

awaitable<IoResult> Session::read_body(char* data, size_t wanted, size_t size) {
  const Timeouts& timeouts = context_.settings.timeouts;
  Current& current = *current_;
  IoResult result;
  size = static_cast<size_t>(std::min<uint64_t>(size, current.body_left));
  wanted = std::min(wanted, size);
  size_t ready = std::min(buffered_, size);
  std::memcpy(data, buffer_.get(), ready);
  std::memmove(buffer_.get(), buffer_.get() + ready, buffered_ - ready);
  buffered_ -= ready;
  result.n = ready;
  current.body_left -= ready;
  current.body_got += ready;
  while (result.n < wanted) {
    auto earned = seconds(current.body_got / std::max<uint64_t>(1, timeouts.body_bytes_per_second_min));
    auto now = SteadyClock::now();
    stream_->expires_at(std::min(now + timeouts.body_stall, current.body_started + timeouts.body_start + earned));
    IoResult got = co_await stream_->read_some(data + result.n, size - result.n);
    if (!got.ec && got.n == 0) got.ec = boost::asio::error::eof;
    result.ec = got.ec;
    if (result.ec) break;
    result.n += got.n;
    current.body_left -= got.n;
    current.body_got += got.n;
  }
  count_failure(result.ec);
  co_return result;
}

awaitable<Session::Body> Session::read_body_text() {
  Current& current = *current_;
  std::string& text = current.request.body;
  while (current.body_left > 0) {
    // Grows with what has come: a length alone costs the server nothing.
    size_t have = text.size();
    size_t step = static_cast<size_t>(std::min<uint64_t>(current.body_left, std::max(kBodyGrowth, have)));
    text.resize(have + step);
    IoResult got = co_await read_body(text.data() + have, step, step);
    text.resize(have + got.n);
    if (got.ec == boost::asio::error::timed_out) co_return Body::kTimedOut;
    if (got.ec) co_return Body::kLost;
  }
  co_return Body::kComplete;
}

awaitable<Session::Body> Session::stream_body(BodySink& sink, std::optional<Error>& sink_error) {
  Current& current = *current_;
  size_t size = static_cast<size_t>(std::min<uint64_t>(kPieceMax, current.body_left));
  auto piece = std::make_unique_for_overwrite<char[]>(size);
  while (current.body_left > 0) {
    IoResult got = co_await read_body(piece.get(), kPieceWanted, size);
    if (got.ec == boost::asio::error::timed_out) co_return Body::kTimedOut;
    if (got.ec) co_return Body::kLost;
    std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(piece.get()), got.n);
    auto begun = SteadyClock::now();
    Status written;
    if (sink.writes_are_quick()) {
      written = sink.write(bytes);
    } else {
      std::function<Status()> work = [&sink, bytes] { return sink.write(bytes); };
      bool accepted = false;
      std::optional<Status> done = co_await offload<Status>(context_.pool, true, std::move(work), accepted);
      written = done ? *std::move(done) : Status(Error(Code::kInternal, "an upload's write failed"));
    }
    if (!written) {
      sink_error = std::move(written).error();
      co_return Body::kLost;
    }
    // The client is not to blame for a slow disk.
    current.body_started += SteadyClock::now() - begun;
  }
  co_return Body::kComplete;
}

// ---- The answer

Response Session::internal_error() {
  Error error(Code::kInternal, "the server failed on this request; its log says why");
  return context_.handler.error_response(500, error);
}

awaitable<Session::Next> Session::refuse(int status, Error error) {
  current_->refused = true;
  current_->keep_alive = false;
  Response response = context_.handler.error_response(status, error);
  co_return co_await send(std::move(response));
}

awaitable<Session::Next> Session::refuse_busy() {
  ++context_.metrics.queue_refusals;
  Error busy(Code::kBusy, "the server has more requests than it can take at the moment", "try again in a second");
  Response response = context_.handler.error_response(503, busy);
  response.headers.set("Retry-After", "1");
  co_return co_await send(std::move(response));
}

awaitable<Session::Next> Session::refuse_body(Body state) {
  if (state != Body::kTimedOut) co_return Next::kAbandon;
  Error late(Code::kRequestInvalid, "the request's body came too slowly: " + std::to_string(current_->body_got) + " of " +
                                        std::to_string(current_->request.content_length) + " bytes");
  co_return co_await refuse(408, std::move(late));
}

awaitable<Session::Next> Session::send(Response response) {
  Current& current = *current_;
  apply_range(current.request, response);
  // What is left of an unread body cannot be told from the next request.
  bool keep_alive = current.keep_alive && current.body_left == 0 && !context_.stopping;
  if (response.status < 200 || response.status >= Metrics::kStatusEnd) response = internal_error();
  std::optional<std::string> head = format_head(response, keep_alive);
  if (!head) {
    log_error("route '{}' answered with a header that holds a line end", current.route);
    response = internal_error();
    head = format_head(response, keep_alive);
  }
  std::string text = head ? *std::move(head) : std::string("HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n");
  bool sent = co_await send_bytes(response, std::move(text));
  if (!sent) co_return Next::kAbandon;
  current.status = response.status;
  if (keep_alive) co_return Next::kContinue;
  co_return current.refused || current.body_left > 0 ? Next::kLinger : Next::kClose;
}

awaitable<bool> Session::send_bytes(const Response& response, std::string head) {
  Current& current = *current_;
  Duration patience = context_.settings.timeouts.write;
  bool bodiless = current.request.method == "HEAD" || response.status == 204 || response.status == 304;
  std::string_view body = bodiless || response.file ? std::string_view() : std::string_view(response.body);
  if (body.size() <= kJoinedBodyMax) {
    head += body;
    current.bytes_sent += body.size();
    body = {};
  }
  IoResult sent = co_await stream_->write_all(head.data(), head.size(), patience);
  count_failure(sent.ec);
  if (sent.ec) co_return false;
  if (!body.empty()) {
    IoResult rest = co_await stream_->write_all(body.data(), body.size(), patience);
    current.bytes_sent += rest.n;
    count_failure(rest.ec);
    if (rest.ec) co_return false;
  }
  if (response.file && !bodiless && response.file->length() > 0) {
    const FileBody& file = *response.file;
    IoResult rest = co_await stream_->send_file(file.fd(), file.offset(), file.length(), patience);
    current.bytes_sent += rest.n;
    count_failure(rest.ec);
    if (rest.ec) co_return false;
  }
  co_return true;
}

}  // namespace cairn::http
