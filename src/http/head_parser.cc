#include "http/head_parser.h"

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

namespace cairn::http {
namespace {

namespace beast_http = boost::beast::http;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Nothing for a broken escape or a NUL byte.
std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return std::nullopt;
      int high = hex_value(text[i + 1]);
      int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high << 4 | low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out.push_back(c);
  }
  return out;
}

std::optional<std::string> parse_query(std::string_view query, RequestHead& head) {
  while (!query.empty()) {
    size_t end = query.find('&');
    std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
    if (pair.empty()) continue;
    size_t equals = pair.find('=');
    auto name = decode(pair.substr(0, equals), true);
    auto value = equals == std::string_view::npos ? std::string() : decode(pair.substr(equals + 1), true);
    if (!name || !value) return "its query holds a broken escape or a NUL byte";
    if (!head.query.emplace(*std::move(name), *std::move(value)).second) return "its query names a value twice";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> parse_target(std::string_view target, RequestHead& head) {
  head.target = target;
  if (target.empty() || target.front() != '/') return "its target does not begin with '/'";
  if (target.find('#') != std::string_view::npos) return "its target holds a '#'";
  size_t question = target.find('?');
  head.raw_path = target.substr(0, question);
  if (question != std::string_view::npos) head.raw_query = target.substr(question + 1);

  std::string_view rest = std::string_view(head.raw_path).substr(1);
  while (head.raw_path.size() > 1) {
    size_t end = rest.find('/');
    std::string_view raw = rest.substr(0, end);
    auto segment = decode(raw, false);
    if (!segment) return "its path holds a broken escape or a NUL byte";
    if (*segment == "." || *segment == "..") return "its path holds a '.' or '..' segment";
    head.raw_segments.emplace_back(raw);
    head.segments.push_back(*std::move(segment));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return parse_query(head.raw_query, head);
}

struct HeadParser::Impl {
  beast_http::request_parser<beast_http::empty_body> parser;
};

HeadParser::HeadParser(uint32_t header_bytes_max) : impl_(std::make_unique<Impl>()) {
  impl_->parser.header_limit(header_bytes_max);
  impl_->parser.body_limit(boost::none);  // the route decides
  impl_->parser.eager(false);
}

HeadParser::~HeadParser() = default;

void HeadParser::refuse(int status, std::string message) {
  Code code = status == 431 ? Code::kLimitExceeded : Code::kRequestInvalid;
  refusal_.emplace(status, Error(code, std::move(message)));
}

size_t HeadParser::feed(std::string_view bytes) {
  if (refusal_ || complete() || bytes.empty()) return 0;
  boost::system::error_code failure;
  size_t used = impl_->parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), failure);
  if (!failure || failure == beast_http::error::need_more) return used;
  if (failure == beast_http::error::header_limit) {
    refuse(431, "the request's header is larger than this server reads");
  } else if (failure == beast_http::error::bad_version) {
    refuse(505, "the request is not HTTP/1.0 or HTTP/1.1");
  } else {
    refuse(400, "the request is not HTTP: " + failure.message());
  }
  return used;
}

bool HeadParser::complete() const {
  return impl_->parser.is_header_done();
}

bool HeadParser::take_target(std::string_view target, RequestHead& head) {
  // Absolute form, as proxies send it: the authority says nothing that the Host line does not.
  for (std::string_view scheme : {"http://", "https://"}) {
    if (target.substr(0, scheme.size()) == scheme) {
      size_t slash = target.find('/', scheme.size());
      target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
      break;
    }
  }
  if (auto reason = parse_target(target, head)) {
    refuse(400, "the request is malformed: " + *reason);
    return false;
  }
  return true;
}

ParsedHead HeadParser::take() {
  const auto& message = impl_->parser.get();
  ParsedHead parsed;
  auto method = message.method_string();
  auto target = message.target();
  parsed.head.method.assign(method.data(), method.size());
  for (const auto& field : message) {
    auto name = field.name_string();
    auto value = field.value();
    parsed.head.headers.add(std::string(name.data(), name.size()), std::string(value.data(), value.size()));
  }
  const Headers& headers = parsed.head.headers;
  if (headers.count("Transfer-Encoding") > 0) {
    refuse(411, "the request's body has no Content-Length: bodies in chunks are not taken");
    return parsed;
  }
  bool is_1_1 = message.version() >= 11;
  if (headers.count("Host") > 1 || (is_1_1 && headers.count("Host") == 0)) {
    refuse(400, "the request must name its host once");
    return parsed;
  }
  if (auto expect = headers.get("Expect")) {
    if (!equal_ignoring_case(*expect, "100-continue")) {
      refuse(417, "the request expects more than '100-continue'");
      return parsed;
    }
    parsed.expects_continue = is_1_1;
  }
  if (!take_target(std::string_view(target.data(), target.size()), parsed.head)) return parsed;
  if (auto length = impl_->parser.content_length()) {
    parsed.has_length = true;
    parsed.head.content_length = *length;
  }
  parsed.keep_alive = is_1_1 && message.keep_alive();
  return parsed;
}

}  // namespace cairn::http
