// Errors and times in JSON, and what is shown of a path.
#include <array>
#include <cstdio>
#include <ctime>

#include "api/json_fields.h"

namespace cairn::api {
namespace {

// The length of the well-formed UTF-8 sequence at `at`, 0 when there is none.
size_t utf8_length(std::string_view bytes, size_t at) {
  auto byte = [&](size_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0; };
  uint8_t lead = byte(at);
  size_t length = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3
                  : lead >= 0xF0 && lead < 0xF5                 ? 4
                                                                : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  uint8_t second = byte(at + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
      (lead == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

Code code_for_status(int status) {
  switch (status) {
    case 401: return Code::kTokenInvalid;
    case 403: return Code::kNotAllowed;
    case 404: return Code::kRouteNotFound;
    case 405: return Code::kMethodNotAllowed;
    case 409: return Code::kVolumeStateConflict;
    case 413: return Code::kRequestTooLarge;
    case 429: return Code::kRateLimited;
    case 507: return Code::kNoSpaceLeft;
    default: break;
  }
  if (status == 502 || status == 503 || status == 504) return Code::kServerUnavailable;
  return status >= 400 && status < 500 ? Code::kRequestInvalid : Code::kInternal;
}

// What a server may say about itself is bounded before it is shown.
std::string text_of(const Json& object, const char* name) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return {};
  return found->get_ref<const std::string&>().substr(0, kTextBytesMax);
}

}  // namespace

std::string display_path(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string shown;
  shown.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    size_t length = utf8_length(bytes, at);
    auto byte = static_cast<uint8_t>(bytes[at]);
    bool control = byte < 0x20 || byte == 0x7F || (byte == 0xC2 && length == 2 && static_cast<uint8_t>(bytes[at + 1]) < 0xA0);
    if (byte == '\\') {
      shown += "\\\\";
      ++at;
    } else if (length == 0 || control) {
      shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
      ++at;
    } else {
      shown.append(bytes.substr(at, length));
      at += length;
    }
  }
  return shown;
}

std::string error_to_json(const Error& error) {
  Json inner = Json::object();
  inner["code"] = std::string(wire_name(error.code()));
  inner["message"] = error.message();
  inner["hint"] = error.hint();
  if (!error.holder().empty()) inner["holder"] = error.holder();
  Json document = Json::object();
  document["error"] = std::move(inner);
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Error> error_from_json(std::string_view text, int http_status) {
  auto document = parse_bounded(text, kRequestBytesMax);
  if (!document || !document->is_object() || !document->contains("error")) return std::nullopt;
  const Json& inner = (*document)["error"];
  if (!inner.is_object()) return std::nullopt;
  std::string wire = text_of(inner, "code");
  if (wire.empty()) return std::nullopt;
  auto code = code_from_wire(wire);
  std::string message = text_of(inner, "message");
  if (!code) message = wire.substr(0, 64) + ": " + message;
  return Error(code.value_or(code_for_status(http_status)), message, text_of(inner, "hint"))
      .with_holder(text_of(inner, "holder"));
}

std::optional<Time> time_from_rfc3339(std::string_view text) {
  if (text.size() < 20 || text.size() > 40 || text.back() != 'Z') return std::nullopt;
  auto number = [&](size_t at, size_t digits) -> int {
    int value = 0;
    for (size_t i = at; i < at + digits; ++i) {
      if (text[i] < '0' || text[i] > '9') return -1;
      value = value * 10 + (text[i] - '0');
    }
    return value;
  };
  if (text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':') return std::nullopt;
  int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                   std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1970 || month < 0 || day < 0 || !date.ok()) return std::nullopt;
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return std::nullopt;
  int64_t micros = 0;
  std::string_view fraction = text.substr(19, text.size() - 20);
  if (!fraction.empty()) {
    if (fraction[0] != '.' || fraction.size() < 2) return std::nullopt;
    int64_t scale = 100'000;
    for (char c : fraction.substr(1)) {
      if (c < '0' || c > '9') return std::nullopt;
      micros += (c - '0') * scale;
      scale /= 10;
    }
  }
  int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return Time{((days * 24 + hour) * 60 + minute) * 60'000'000 + second * 1'000'000LL + micros};
}

}  // namespace cairn::api
