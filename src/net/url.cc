#include "net/url.h"

#include "base/whole_number.h"

namespace cairn::net {
namespace {

constexpr size_t kUrlBytesMax = 8 * 1024;
constexpr char kHexDigits[] = "0123456789ABCDEF";

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

std::string escape_except(std::string_view text, char kept) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    if (is_unreserved(c) || (kept != '\0' && c == kept)) {
      out.push_back(c);
    } else {
      auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kHexDigits[byte >> 4]);
      out.push_back(kHexDigits[byte & 15]);
    }
  }
  return out;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

Error invalid(std::string_view text, std::string_view why) {
  // The query may hold a signature: it stays out of messages.
  std::string shown(text.substr(0, text.find('?')).substr(0, 200));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return Error(Code::kUsage, "'" + shown + "' is not a URL that can be used: " + std::string(why),
               "write it as http://HOST:PORT or https://HOST");
}

// Host names and IPv4 addresses; what stands between the brackets of an IPv6 address.
bool is_host(std::string_view host, bool bracketed) {
  if (host.empty() || host.size() > 253) return false;
  for (char c : host) {
    bool fits = bracketed ? hex_value(c) >= 0 || c == ':' || c == '.' : is_unreserved(c);
    if (!fits) return false;
  }
  return true;
}

}  // namespace

std::string Url::authority() const {
  bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool Url::is_loopback() const {
  if (host == "localhost" || host == "::1") return true;
  // Not a prefix test alone: "127.example.org" is a name like any other.
  return host.rfind("127.", 0) == 0 && host.find_first_not_of("0123456789.") == std::string::npos;
}

std::string Url::to_string() const {
  return scheme + "://" + authority() + path + (query.empty() ? "" : "?" + query);
}

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kUrlBytesMax) return invalid(text, "it is longer than 8 KiB");
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f) return invalid(text, "it holds a space, a control character or a non-ASCII byte");
  }
  size_t colon = text.find("://");
  if (colon == std::string_view::npos) return invalid(text, "it does not begin with http:// or https://");
  Url url;
  url.scheme = lower(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") return invalid(text, "it does not begin with http:// or https://");
  url.port = url.scheme == "https" ? 443 : 80;

  std::string_view rest = text.substr(colon + 3);
  if (rest.find('#') != std::string_view::npos) return invalid(text, "it has a fragment ('#')");
  size_t end = rest.find_first_of("/?");
  std::string_view authority = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end);
  if (authority.find('@') != std::string_view::npos) return invalid(text, "it holds a user name");

  std::string_view port;
  bool bracketed = !authority.empty() && authority.front() == '[';
  if (bracketed) {
    size_t close = authority.find(']');
    if (close == std::string_view::npos) return invalid(text, "the '[' of its address is not closed");
    url.host = lower(authority.substr(1, close - 1));
    port = authority.substr(close + 1);
    if (url.host.find(':') == std::string::npos) return invalid(text, "what stands in brackets is not an IPv6 address");
  } else {
    size_t at = authority.find(':');
    url.host = lower(authority.substr(0, at));
    if (at != std::string_view::npos) port = authority.substr(at);
  }
  if (!is_host(url.host, bracketed)) return invalid(text, "its host is missing or malformed");
  if (!port.empty()) {
    if (port.front() != ':') return invalid(text, "its port is malformed");
    port.remove_prefix(1);
    url.port = whole_number<uint16_t>(port).value_or(0);
    if (url.port == 0) return invalid(text, "its port is not a number from 1 to 65535");
  }

  size_t question = rest.find('?');
  url.path = std::string(rest.substr(0, question));
  if (url.path.empty()) url.path = "/";
  if (question != std::string_view::npos) url.query = std::string(rest.substr(question + 1));
  return url;
}

std::string escape(std::string_view text) {
  return escape_except(text, '\0');
}

std::string escape_path(std::string_view text) {
  return escape_except(text, '/');
}

Result<std::string> unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) return Error(Code::kRequestInvalid, "a '%' is not followed by two hex digits");
    out.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return out;
}

std::string make_url(std::string_view base, std::string_view path,
                     const std::vector<std::pair<std::string, std::string>>& query) {
  while (!base.empty() && base.back() == '/') base.remove_suffix(1);
  std::string url = std::string(base) + std::string(path);
  char separator = '?';
  for (const auto& [name, value] : query) {
    url += separator;
    url += escape(name) + "=" + escape(value);
    separator = '&';
  }
  return url;
}

}  // namespace cairn::net
