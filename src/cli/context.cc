#include "cli/context.h"

#include <cstdlib>
#include <iostream>

#include <fmt/core.h>

#include "api/types.h"
#include "base/limits.h"
#include "base/whole_number.h"
#include "cli/terminal_text.h"
#include "os/file_system.h"
#include "os/terminal.h"
#include "transfer/api_remote.h"
#include "transfer/journal.h"

namespace cairn::cli {
namespace {

std::optional<std::string> given(const std::string& flag) {
  return flag.empty() ? std::nullopt : std::optional<std::string>(flag);
}

constexpr size_t kConfigBytesMax = 1 << 20;
constexpr auto kConnectTime = seconds(10);
constexpr auto kQuietTime = seconds(2);

}  // namespace

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

void Context::add_global_options(Verb root) {
  root.text("--config-file", global_.config_file, "Configuration (default ~/.config/cairn/config.toml)")
      .text("--url", global_.url, "The server, e.g. http://127.0.0.1:8470")
      .text("--token", global_.token, "API token (better: CAIRN_TOKEN, or 'cairn login')")
      .text("--team", global_.team, "The team whose volumes are meant")
      .text("--output,-o", global_.output, "text (default) or json")
      .flag("--events", global_.events, "JSON events, one a line, while a transfer goes on");
}

Status Context::prepare() {
  if (global_.output != "text" && global_.output != "json") {
    return Error(Code::kUsage, "-o " + global_.output + " is not known", "use -o json or -o text");
  }
  output_.set_json(global_.output == "json");
  return ok();
}

std::string Context::config_path() const {
  return global_.config_file.empty() ? config::client_settings_path(environment) : global_.config_file;
}

Result<config::ClientSettings> Context::settings() const {
  config::ClientSettings file;
  std::string path = config_path();
  if (!path.empty()) {
    auto text = os::posix_file_system().read_file(path, kConfigBytesMax);
    if (text) {
      CAIRN_TRY(file, config::parse_client_settings(*text, path));
    } else if (text.error().code() != Code::kFileNotFound) {
      return text.error();
    }
  }
  config::ClientOverrides flags{given(global_.url), given(global_.token), given(global_.team), std::nullopt};
  return config::resolve_client_settings(std::move(file), config::overrides_of_environment(environment), flags);
}

Result<client::ApiClient*> Context::connect() {
  if (client_) return client_.get();
  CAIRN_TRY(config::ClientSettings settings, this->settings());
  if (settings.url.empty()) {
    return Error(Code::kNotSignedIn, "no server is configured",
                 "start one here with 'cairn up --data DIR', or sign in with 'cairn login --url URL --token TOKEN'");
  }
  CAIRN_TRY(std::string url, config::check_server_url(settings.url));
  if (settings.token.empty()) {
    return Error(Code::kNotSignedIn, "no token for " + url, "sign in with: cairn login --url " + url + " --token TOKEN");
  }
  client::ClientOptions options;
  options.url = url;
  options.token = settings.token;
  options.team = settings.team;
  auto client = std::make_unique<client::ApiClient>(transport(settings.ca_file), system_clock(), system_random(), std::move(options));
  CAIRN_TRY(api::ServerVersion server, wait_for_server(*client));
  if (server.api != api::kApiVersion) {
    return Error(Code::kServerUnavailable, fmt::format("{} speaks version {} of the API, this program version {}", url, server.api,
                                                       api::kApiVersion),
                 "use the same version of cairn here and there (the server's is " + server.version + ")");
  }
  client_ = std::move(client);
  return client_.get();
}

// A server that is not there is said soon; one that goes away later is waited for.
Result<api::ServerVersion> Context::wait_for_server(client::ApiClient& client) {
  auto server = client.version(Deadline::after(kQuietTime, system_clock(), cancel_));
  if (server || retry_class(server.error().code()) != RetryClass::kBackoff) return server;
  output_.note("cairn: waiting for the server at " + client.options().url + " ...");
  return client.version(Deadline::after(kConnectTime - kQuietTime, system_clock(), cancel_));
}

net::Transport& Context::transport(const std::string& ca_file) {
  std::shared_ptr<net::Transport>& transport = transports_[ca_file];
  if (!transport) transport = wiring_.make_transport(ca_file);
  return *transport;
}

std::unique_ptr<client::ApiClient> Context::make_client(const std::string& url, const std::string& token,
                                                        const std::string& ca_file) {
  client::ClientOptions options;
  options.url = url;
  options.token = token;
  return std::make_unique<client::ApiClient>(transport(ca_file), system_clock(), system_random(), std::move(options));
}

std::unique_ptr<transfer::Remote> Context::remote(const std::string& volume) {
  return transfer::make_api_remote(*client_, volume);
}

bool Context::end_dead_uploads(const std::vector<std::string>& volumes, const Error& refusal) {
  if (refusal.code() != Code::kWriterLeaseHeld && refusal.code() != Code::kVolumeInUse) return false;
  uint64_t ended = 0;
  for (const std::string& volume : volumes) {
    ended += transfer::end_abandoned_uploads(*remote(volume), transfer::default_state_dir(), call());
  }
  return ended > 0;
}

Result<VolumeAtSnapshot> parse_volume_at(const std::string& text) {
  VolumeAtSnapshot where;
  size_t at = text.find('@');
  where.volume = text.substr(0, at);
  if (at == std::string::npos) return where;
  std::string number = text.substr(at + 1);
  where.snapshot = whole_number<uint64_t>(number).value_or(0);
  if (where.snapshot == 0) {
    return Error(Code::kUsage, "'" + shown_path(text) + "': '" + shown_path(number) + "' is not a snapshot's number",
                 "list them with: cairn volumes snapshots " + where.volume);
  }
  return where;
}

Result<std::string> parse_volume_path(const std::string& text) {
  std::string path;
  for (size_t start = 0; start <= text.size();) {
    size_t end = std::min(text.find('/', start), text.size());
    std::string segment = text.substr(start, end - start);
    start = end + 1;
    if (segment.empty() || segment == ".") continue;
    if (segment == "..") return Error(Code::kPathInvalid, "the path '" + shown_path(text) + "' leaves the volume");
    if (segment.size() > limits::kSegmentBytesMax) {
      return Error(Code::kPathInvalid, "a name in the path has more than 255 bytes: '" + shown_path(segment.substr(0, 40)) + "...'");
    }
    path += (path.empty() ? "" : "/") + segment;
  }
  if (path.size() > limits::kPathBytesMax) {
    return Error(Code::kPathInvalid, "the path has " + std::to_string(path.size()) + " bytes; at most 4096 are possible");
  }
  return path;
}

Status confirm(Context& context, const std::string& question, const std::string& expected) {
  if (!os::is_terminal(0)) {
    return Error(Code::kUsage, "this asks before it goes on, and there is no terminal to ask on", "add --yes to go on without asking");
  }
  std::cerr << question << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (context.cancel().cancelled()) return Error(Code::kCancelled, "interrupted; nothing was changed");
  if (answer != expected) return Error(Code::kUsage, "'" + answer + "' is not '" + expected + "'; nothing was changed");
  return ok();
}

}  // namespace cairn::cli
