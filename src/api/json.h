// JSON of the wire types. `to_json` never fails (bytes that are not UTF-8 are shown by a replacement character; paths travel
// as hex). `request_from_json` is strict: an unknown or missing field, a wrong type or a value out of bounds is
// request_invalid and names the field. `answer_from_json` ignores unknown fields, so that an older client understands a newer
// server. Depth and size are bounded; nothing throws.
//
// Both templates are instantiated for every struct of api/types.h in api/*.cc; for another type they do not link.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"

namespace cairn::api {

inline constexpr size_t kRequestBytesMax = 4 * 1024 * 1024;
inline constexpr size_t kAnswerBytesMax = 64 * 1024 * 1024;
inline constexpr int kJsonDepthMax = 16;

template <class T>
std::string to_json(const T& value);

template <class T>
Result<T> request_from_json(std::string_view text);

template <class T>
Result<T> answer_from_json(std::string_view text);

// {"error": {"code", "message", "hint", "holder"?}}
std::string error_to_json(const Error& error);
// Nothing when the text is not such a document; a code this build does not know becomes the nearest one of `http_status`.
std::optional<Error> error_from_json(std::string_view text, int http_status);

// "2026-11-29T19:05:50.123456Z" (fraction optional, UTC only) back to a Time.
std::optional<Time> time_from_rfc3339(std::string_view text);

}  // namespace cairn::api
