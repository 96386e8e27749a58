// Answers: a wire type as JSON, an Error as the one error document with the status of the error table.
#pragma once

#include <string>

#include "api/json.h"
#include "base/error.h"
#include "http/message.h"

namespace cairn::server {

inline http::Response refusal(const Error& error) {
  http::Response response = http::Response::json(http_status(error.code()), api::error_to_json(error));
  if (retry_class(error.code()) == RetryClass::kBackoff) response.headers.add("Retry-After", "1");
  return response;
}

template <class T>
http::Response json_response(const T& value) {
  return http::Response::json(200, api::to_json(value));
}

}  // namespace cairn::server
