// The half of a session that moves bytes: bodies in, answers out.
#include <algorithm>
#include <cstring>

#include <boost/asio/error.hpp>

#include "base/log.h"
#include "http/offload.h"
#include "http/response_head.h"
#include "http/session.h"
#include "http/session_state.h"

// g++ 12 miscompiles temporaries in co_await: inside one stand only named variables, moves of them, scalars and
// strings.

namespace cairn::http {

using boost::asio::awaitable;

namespace {

constexpr size_t kBodyGrowth = 64 * 1024;
constexpr size_t kJoinedBodyMax = 64 * 1024;  // head and body go out in one write up to this size

}  // namespace

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
  size_t size = static_cast<size_t>(std::min<uint64_t>(kUploadPieceMax, current.body_left));
  auto piece = std::make_unique_for_overwrite<char[]>(size);
  while (current.body_left > 0) {
    IoResult got = co_await read_body(piece.get(), kUploadPieceWanted, size);
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
  Error late(Code::kRequestInvalid, "the request's body came too slowly: " + std::to_string(current_->body_got) +
                                        " of " + std::to_string(current_->request.content_length) + " bytes");
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
  std::string text =
      head ? *std::move(head) : std::string("HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n");
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
