#include "client/api_client.h"

#include <algorithm>

#include "api/json.h"
#include "client/call.h"
#include "net/transport.h"

namespace cairn::client {
namespace {

constexpr Duration kRetryAfterMax = seconds(60);

bool worth_another_try(Code code) {
  return retry_class(code) == RetryClass::kBackoff || code == Code::kOutcomeUnknown;
}

// Nobody is there to do it; a server that is busy or slow will.
bool is_away(Code code) {
  return code == Code::kServerUnavailable || code == Code::kCatalogUnavailable || code == Code::kStoreUnavailable;
}

// What is no answer of a Cairn server: a proxy's page, a redirect, another program on that port.
Error foreign_answer(const std::string& url, int status) {
  return Error(Code::kServerUnavailable,
               url + " answered HTTP " + std::to_string(status) + ", and not as a Cairn server does",
               "check the server's URL and the proxies in between: cairn config view");
}

}  // namespace

ApiClient::ApiClient(net::Transport& transport, Clock& clock, Random& random, ClientOptions options)
    : transport_(transport), clock_(clock), random_(random), options_(std::move(options)) {
  while (options_.url.ends_with('/')) options_.url.pop_back();
}

Deadline ApiClient::default_deadline(CancelToken token) const {
  return Deadline::after(options_.default_deadline, clock_, std::move(token));
}

RequestId ApiClient::new_request_id() {
  std::lock_guard lock(random_mutex_);
  return RequestId::random(random_);
}

std::string ApiClient::absolute_url(const std::string& url) const { return url.starts_with('/') ? options_.url + url : url; }

void ApiClient::wait_before_retry(int tries, Duration at_least, const Deadline& deadline) {
  Duration longest = options_.backoff_min;
  for (int i = 1; i < tries && longest < options_.backoff_max; ++i) longest *= 2;
  longest = std::max(std::min(longest, options_.backoff_max), Duration(2));
  Duration wait;
  {
    std::lock_guard lock(random_mutex_);
    wait = longest / 2 + Duration(static_cast<int64_t>(random_.below(static_cast<uint64_t>(longest.count() / 2 + 1))));
  }
  wait = std::max(wait, std::min(at_least, kRetryAfterMax));
  // In slices, so that Ctrl-C is not kept waiting.
  while (wait.count() > 0 && !deadline.expired()) {
    Duration slice = std::min({wait, Duration(milliseconds(100)), deadline.remaining()});
    clock_.sleep_for(slice);
    wait -= slice;
  }
}

ApiClient::Try ApiClient::try_once(const Call& call, const Deadline& deadline) {
  const api::RouteSpec& spec = api::route_spec(call.route);
  net::HttpRequest request;
  request.method = spec.method;
  request.url = options_.url + call.target();
  request.headers = {{"Accept", "application/json"}};
  if (!options_.token.empty()) request.headers.emplace_back("Authorization", "Bearer " + options_.token);
  if (!options_.team.empty()) request.headers.emplace_back(std::string(api::kTeamHeader), options_.team);
  if (spec.mutation) request.headers.emplace_back(std::string(api::kRequestIdHeader), call.request.hex());
  if (!call.body.empty()) request.headers.emplace_back("Content-Type", "application/json");
  request.body = {reinterpret_cast<const uint8_t*>(call.body.data()), call.body.size()};
  request.mutation = spec.mutation;
  request.response_bytes_max = api::kAnswerBytesMax;
  request.stall_timeout = std::chrono::seconds(0);  // the server may think: the try's deadline bounds it

  std::string shown = options_.url + call.path;
  auto response = transport_.round_trip(request, deadline.child(options_.try_timeout + call.longer));
  if (!response) {
    Code code = response.error().code();
    bool unknown = code == Code::kOutcomeUnknown || (spec.mutation && code == Code::kDeadlineExceeded);
    return Try{std::move(response).error(), worth_another_try(code), unknown, false, Duration(0)};
  }
  Duration at_least = response->retry_after ? Duration(*response->retry_after) : Duration(0);
  if (response->status >= 200 && response->status < 300) {
    Reply reply{std::move(shown), std::move(response->body), std::nullopt};
    if (auto next = response->header("cairn-next")) reply.next = std::string(*next);
    return Try{std::move(reply), false, false, true, Duration(0)};
  }
  auto error = api::error_from_json(response->body, response->status);
  if (!error) {
    // A gateway that lost its server says 502 to 504 in its own words; then the request may have arrived.
    bool gateway = response->status >= 502 && response->status <= 504;
    return Try{foreign_answer(shown, response->status), gateway, gateway && spec.mutation, true, at_least};
  }
  Code code = error->code();
  bool unknown = code == Code::kOutcomeUnknown || (spec.mutation && code == Code::kDeadlineExceeded);
  return Try{*std::move(error), worth_another_try(code), unknown, true, at_least};
}

Status ApiClient::persist(const std::function<Status()>& once, const Deadline& deadline) {
  constexpr int kTriesMin = 6;
  Duration failing_since{0};
  for (int tries = 1;; ++tries) {
    Status status = once();
    if (status || !worth_another_try(status.error().code()) || deadline.expired()) return status;
    if (tries == 1) failing_since = clock_.monotonic();
    if (tries >= kTriesMin && clock_.monotonic() - failing_since >= options_.outage_patience) {
      Error error = std::move(status).error();
      error.with_hint("run the same command again when it can be reached: what has arrived is kept");
      return error;
    }
    wait_before_retry(tries, Duration(0), deadline);
  }
}

Result<ApiClient::Reply> ApiClient::perform(const Call& given, const Deadline& deadline) {
  Call call = given;
  bool mutation = api::route_spec(call.route).mutation;
  if (mutation && call.request.is_none()) call.request = new_request_id();
  bool unknown = false;
  Duration reached = clock_.monotonic();
  Duration answered = reached;
  CAIRN_CHECK_OK(deadline.check());
  for (int tries = 1;; ++tries) {
    Try outcome = try_once(call, deadline);
    // Any other answer of the server settles what became of the request, because it knows the request id.
    unknown = outcome.unknown || (unknown && outcome.again);
    if (outcome.result || !outcome.again) return std::move(outcome.result);
    if (!is_away(outcome.result.error().code())) reached = clock_.monotonic();
    if (outcome.answered) answered = clock_.monotonic();
    bool gone = clock_.monotonic() - reached >= options_.outage_patience ||
                clock_.monotonic() - answered >= options_.silence_patience;
    if (!gone && !deadline.expired()) wait_before_retry(tries, outcome.at_least, deadline);
    if (!gone && !deadline.expired()) continue;
    Error& last = outcome.result.error();
    if (gone) last.with_hint("run the same command again when the server is back: what has arrived is kept");
    if (unknown && last.code() != Code::kOutcomeUnknown) {
      return Error(Code::kOutcomeUnknown, "the request may have been done; the last try: " + last.message(),
                   "run the same command again: it is safe to repeat");
    }
    return last;
  }
}

}  // namespace cairn::client
