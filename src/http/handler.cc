#include "http/handler.h"

#include <algorithm>

#include <fmt/format.h>

namespace cairn::http {
namespace {

// Text as a JSON string. Bytes outside ASCII pass: messages are UTF-8.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

RoutePlan plan_of(RoutePlan::Kind kind, std::string name, uint64_t body_bytes_max) {
  RoutePlan plan;
  plan.kind = kind;
  plan.name = std::move(name);
  plan.body_bytes_max = body_bytes_max;
  return plan;
}

}  // namespace

RoutePlan RoutePlan::answer(std::string name, Response response) {
  RoutePlan plan = plan_of(Kind::kAnswer, std::move(name), 0);
  plan.response = std::move(response);
  return plan;
}

RoutePlan RoutePlan::buffered(std::string name, Call call, uint64_t body_bytes_max) {
  RoutePlan plan = plan_of(Kind::kBuffered, std::move(name), std::min(body_bytes_max, kBufferedBodyBytesMax));
  plan.call = std::move(call);
  return plan;
}

RoutePlan RoutePlan::heavy(std::string name, Call call, Duration time_limit, uint64_t body_bytes_max) {
  RoutePlan plan = plan_of(Kind::kHeavy, std::move(name), std::min(body_bytes_max, kBufferedBodyBytesMax));
  plan.call = std::move(call);
  plan.time_limit = time_limit;
  return plan;
}

RoutePlan RoutePlan::long_poll(std::string name, Call call, Duration time_limit) {
  RoutePlan plan = plan_of(Kind::kLongPoll, std::move(name), kSmallBodyBytes);
  plan.call = std::move(call);
  plan.time_limit = time_limit;
  return plan;
}

RoutePlan RoutePlan::upload(std::string name, Open open, uint64_t body_bytes_max) {
  RoutePlan plan = plan_of(Kind::kUpload, std::move(name), body_bytes_max);
  plan.open = std::move(open);
  return plan;
}

Response Handler::error_response(int status, const Error& error) {
  std::string body =
      R"({"error":{"code":)" + quoted(wire_name(error.code())) + R"(,"message":)" + quoted(error.message());
  if (!error.hint().empty()) body += R"(,"hint":)" + quoted(error.hint());
  if (!error.holder().empty()) body += R"(,"holder":)" + quoted(error.holder());
  return Response::json(status, body + "}}\n");
}

}  // namespace cairn::http
