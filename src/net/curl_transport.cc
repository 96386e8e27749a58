#include <condition_variable>
#include <mutex>

#include <curl/curl.h>
#include <sys/socket.h>

#include "net/exchange.h"
#include "net/transport.h"
#include "net/url.h"

namespace cairn::net {
namespace {

constexpr auto kPollInterval = milliseconds(100);  // how soon a cancelled call notices
constexpr long kUploadBufferBytes = 1024 * 1024;
constexpr long kStallBytesPerSecond = 1024;
constexpr long kIdleConnectionSeconds = 50;  // below the server's 60 s, so that it rarely closes under a new request
constexpr size_t kExpectBytesMin = 1024 * 1024;

void init_curl_once() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

// A child process must not inherit a connection that carries a token.
curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

size_t on_read(char* buffer, size_t size, size_t count, void* user) {
  auto read = static_cast<Exchange*>(user)->read_body({reinterpret_cast<uint8_t*>(buffer), size * count});
  return read ? *read : CURL_READFUNC_ABORT;
}

int on_seek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  return static_cast<Exchange*>(user)->seek_body(static_cast<uint64_t>(offset)) ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

size_t on_header(char* data, size_t size, size_t count, void* user) {
  return static_cast<Exchange*>(user)->take_header_line({data, size * count}) ? size * count : 0;
}

size_t on_write(char* data, size_t size, size_t count, void* user) {
  bool taken = static_cast<Exchange*>(user)->take_body({reinterpret_cast<const uint8_t*>(data), size * count});
  return taken ? size * count : 0;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using HeaderLines = std::unique_ptr<curl_slist, FreeList>;

Result<HeaderLines> header_lines(const HttpRequest& request) {
  HeaderLines lines;
  auto append = [&](const std::string& line) {
    curl_slist* list = curl_slist_append(lines.get(), line.c_str());
    if (list == nullptr) return false;
    static_cast<void>(lines.release());
    lines.reset(list);
    return true;
  };
  bool appended = true;
  for (const auto& [name, value] : request.headers) {
    if (!is_token(name) || !is_field_value(value)) {
      return Error(Code::kUsage, "the header '" + escape(name) + "' holds characters that a header must not hold");
    }
    // libcurl sends an empty value only when the name ends in ';'.
    appended = appended && append(value.empty() ? name + ";" : name + ": " + value);
  }
  uint64_t body_bytes = request.source != nullptr ? request.source->size() : request.body.size();
  // Servers that ignore "Expect" cost a second a request.
  if (!request.expect_continue || body_bytes < kExpectBytesMin) appended = appended && append("Expect:");
  if (!appended) return Error(Code::kInternal, "out of memory");
  return lines;
}

bool sends_body(const HttpRequest& request) {
  return request.source != nullptr || !request.body.empty() || request.method == "PUT" || request.method == "POST" ||
         request.method == "PATCH";
}

// One easy handle with the multi handle that keeps its connections.
struct Slot {
  CURL* easy = curl_easy_init();
  CURLM* multi = curl_multi_init();
  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() {
    if (easy != nullptr) curl_easy_cleanup(easy);
    if (multi != nullptr) curl_multi_cleanup(multi);
  }
};

void apply_connection(CURL* easy, const CurlSettings& settings, const Url& url, const Deadline& deadline) {
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, kIdleConnectionSeconds);
  std::string agent = settings.user_agent.empty() ? std::string("cairn/") + CAIRN_VERSION : settings.user_agent;
  curl_easy_setopt(easy, CURLOPT_USERAGENT, agent.c_str());
  if (url.is_loopback()) curl_easy_setopt(easy, CURLOPT_PROXY, "");

  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!settings.tls.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, settings.tls.ca_file.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }

  auto connect =
      std::chrono::duration_cast<milliseconds>(std::min(Duration(settings.connect_timeout), deadline.remaining()));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, std::max(1L, static_cast<long>(connect.count())));
}

void apply_request(CURL* easy, const HttpRequest& request, curl_slist* lines, Exchange& exchange) {
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines);
  if (sends_body(request)) {
    uint64_t bytes = request.source != nullptr ? request.source->size() : request.body.size();
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
    if (bytes > 64 * 1024) curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBufferBytes);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(easy, CURLOPT_READDATA, &exchange);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(easy, CURLOPT_SEEKDATA, &exchange);
  } else if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else {
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  }
  if (request.method != "GET" && request.method != "HEAD") {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (request.range) {
    std::string range =
        std::to_string(request.range->offset) + "-" + std::to_string(request.range->offset + request.range->length - 1);
    curl_easy_setopt(easy, CURLOPT_RANGE, range.c_str());
  }
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  if (request.stall_timeout.count() > 0) {
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, kStallBytesPerSecond);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout.count()));
  }
}

bool is_certificate_problem(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_SSL_ISSUER_ERROR;
}

// What went wrong, when libcurl or the deadline ended the call. `sent`: at least a part of the request has left.
Error failure(const HttpRequest& request, const Url& url, CURLcode code, const char* detail, bool sent,
              const Deadline& deadline) {
  std::string where = request.method + " to " + url.authority();
  bool unknown = sent && request.mutation;
  const std::string maybe_done = unknown ? "; whether the server did it is not known" : "";
  if (deadline.token().cancelled()) return Error(Code::kCancelled, where + " was cancelled" + maybe_done);
  std::string why = detail[0] != '\0' ? detail : curl_easy_strerror(code);
  if (deadline.expired()) why = "the time for this call is over";
  if (unknown) {
    return Error(Code::kOutcomeUnknown, where + " broke off after it was sent (" + why + ")" + maybe_done,
                 "ask again with the same request id, or look whether it was done");
  }
  if (deadline.expired()) return Error(Code::kDeadlineExceeded, where + ": " + why);
  if (is_certificate_problem(code)) {
    return Error(Code::kServerUnavailable, "the certificate of " + url.authority() + " is not accepted: " + why,
                 "name the file of its authority (ca_file) in the configuration");
  }
  if (!sent) {
    return Error(Code::kServerUnavailable, "cannot reach " + url.authority() + ": " + why + "; nothing was sent",
                 "check that the server runs and that its address is right");
  }
  return Error(Code::kServerUnavailable, where + " broke off: " + why);
}

}  // namespace

class CurlTransport::Impl {
 public:
  explicit Impl(CurlSettings settings) : settings_(std::move(settings)) { init_curl_once(); }

  Result<HttpResponse> round_trip(const HttpRequest& request, const Deadline& deadline) {
    CAIRN_TRY(Url url, parse_url(request.url));
    CAIRN_CHECK_OK(check_request(request));
    CAIRN_TRY(HeaderLines lines, header_lines(request));
    CAIRN_TRY(std::unique_ptr<Slot> slot, take_slot(url, deadline));
    Result<HttpResponse> response = perform(*slot, request, url, lines.get(), deadline);
    give_slot(std::move(slot));
    return response;
  }

 private:
  Result<HttpResponse> perform(const Slot& slot, const HttpRequest& request, const Url& url, curl_slist* lines,
                               const Deadline& deadline) {
    Exchange exchange(request, url.authority());
    char detail[CURL_ERROR_SIZE] = "";
    curl_easy_reset(slot.easy);
    curl_easy_setopt(slot.easy, CURLOPT_ERRORBUFFER, detail);
    apply_connection(slot.easy, settings_, url, deadline);
    apply_request(slot.easy, request, lines, exchange);

    CURLcode code = run(slot, deadline);
    long sent_bytes = 0;
    curl_easy_getinfo(slot.easy, CURLINFO_REQUEST_SIZE, &sent_bytes);
    curl_off_t retry_after = 0;
    curl_easy_getinfo(slot.easy, CURLINFO_RETRY_AFTER, &retry_after);
    // The handle outlives this call and must not remember its buffers.
    curl_easy_setopt(slot.easy, CURLOPT_ERRORBUFFER, nullptr);
    curl_easy_setopt(slot.easy, CURLOPT_HTTPHEADER, nullptr);

    if (exchange.error()) return *exchange.error();
    if (code != CURLE_OK) return failure(request, url, code, detail, sent_bytes > 0, deadline);
    CAIRN_TRY(HttpResponse response, exchange.finish());
    if (retry_after > 0) response.retry_after = seconds(retry_after);
    return response;
  }

  // Our own loop around the multi interface: it notices the deadline within kPollInterval, whatever libcurl waits for.
  static CURLcode run(const Slot& slot, const Deadline& deadline) {
    if (curl_multi_add_handle(slot.multi, slot.easy) != CURLM_OK) return CURLE_FAILED_INIT;
    CURLcode code = CURLE_ABORTED_BY_CALLBACK;
    for (;;) {
      int running = 0;
      if (curl_multi_perform(slot.multi, &running) != CURLM_OK) break;
      if (running == 0) {
        int left = 0;
        while (CURLMsg* message = curl_multi_info_read(slot.multi, &left)) {
          if (message->msg == CURLMSG_DONE) code = message->data.result;
        }
        break;
      }
      if (deadline.expired()) break;
      auto wait = std::chrono::duration_cast<milliseconds>(std::min(Duration(kPollInterval), deadline.remaining()));
      if (curl_multi_poll(slot.multi, nullptr, 0, std::max(1, static_cast<int>(wait.count())), nullptr) != CURLM_OK)
        break;
    }
    // Closes the connection of a transfer that has not ended.
    curl_multi_remove_handle(slot.multi, slot.easy);
    return code;
  }

  Result<std::unique_ptr<Slot>> take_slot(const Url& url, const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (deadline.expired()) {
        Error error = deadline.check().error();
        return std::move(error).while_doing("waiting for a free connection to " + url.authority());
      }
      if (!idle_.empty()) {
        // The last one used: its connection is the likeliest to be alive.
        std::unique_ptr<Slot> slot = std::move(idle_.back());
        idle_.pop_back();
        return slot;
      }
      if (slots_ < std::max<size_t>(1, settings_.connections_max)) {
        auto slot = std::make_unique<Slot>();
        if (slot->easy == nullptr || slot->multi == nullptr) return Error(Code::kInternal, "libcurl gave no handle");
        ++slots_;
        return slot;
      }
      freed_.wait_for(lock, kPollInterval);
    }
  }

  void give_slot(std::unique_ptr<Slot> slot) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(slot));
    freed_.notify_one();
  }

  const CurlSettings settings_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::unique_ptr<Slot>> idle_;
  size_t slots_ = 0;
};

CurlTransport::CurlTransport(CurlSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
CurlTransport::~CurlTransport() = default;

Result<HttpResponse> CurlTransport::round_trip(const HttpRequest& request, const Deadline& deadline) {
  return impl_->round_trip(request, deadline);
}

}  // namespace cairn::net
