// Settings of the command line: a file (by default ~/.config/cairn/config.toml), over which the environment stands, over which
// flags stand. No I/O here: the caller reads and writes the file (atomically, mode 0600, because it holds the token).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::config {

struct ClientSettings {
  std::string url;
  std::string token;
  std::string team;
  std::string ssh_key_path;
  std::string ca_file;  // PEM of a private authority
};

// The same with "not given" for each: what flags or the environment say.
struct ClientOverrides {
  std::optional<std::string> url;
  std::optional<std::string> token;
  std::optional<std::string> team;
  std::optional<std::string> ssh_key_path;
};

// A variable's value, or nothing when it is not set. An empty value counts as not set.
using GetEnvironment = std::function<std::optional<std::string>(const std::string& name)>;

// CAIRN_CONFIG, else $XDG_CONFIG_HOME/cairn/config.toml, else $HOME/.config/cairn/config.toml; empty without any of them.
std::string client_settings_path(const GetEnvironment& environment);

Result<ClientSettings> parse_client_settings(std::string_view text, const std::string& file);
// The text of a file that parse_client_settings reads back to the same settings.
std::string render_client_settings(const ClientSettings& settings);

// CAIRN_URL, CAIRN_TOKEN, CAIRN_TEAM, CAIRN_SSH_KEY_PATH.
ClientOverrides overrides_of_environment(const GetEnvironment& environment);
// Flags over environment over file.
ClientSettings resolve_client_settings(ClientSettings file, const ClientOverrides& environment, const ClientOverrides& flags);

// A URL without a trailing '/', "http://" or "https://" with a host and nothing behind the port. config_invalid otherwise;
// plain http is accepted (with a loopback address or behind the user's own tunnel), and no user name or query is.
Result<std::string> check_server_url(std::string_view url);

}  // namespace cairn::config
