#include "config/client_settings.h"

#include "config/toml_reader.h"

namespace cairn::config {
namespace {

std::optional<std::string> set_variable(const GetEnvironment& environment, const std::string& name) {
  auto value = environment(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

void override_with(std::string& value, const std::optional<std::string>& other) {
  if (other) value = *other;
}

void override_all(ClientSettings& settings, const ClientOverrides& overrides) {
  override_with(settings.url, overrides.url);
  override_with(settings.token, overrides.token);
  override_with(settings.team, overrides.team);
  override_with(settings.ssh_key_path, overrides.ssh_key_path);
}

}  // namespace

std::string client_settings_path(const GetEnvironment& environment) {
  if (auto file = set_variable(environment, "CAIRN_CONFIG")) return *file;
  if (auto folder = set_variable(environment, "XDG_CONFIG_HOME")) return *folder + "/cairn/config.toml";
  if (auto home = set_variable(environment, "HOME")) return *home + "/.config/cairn/config.toml";
  return {};
}

Result<ClientSettings> parse_client_settings(std::string_view text, const std::string& file) {
  CAIRN_TRY(TomlReader reader, TomlReader::parse(text, file));
  ClientSettings settings;
  TomlSection top = reader.top();
  top.text("url", settings.url);
  top.text("token", settings.token);
  top.text("team", settings.team);
  top.text("ssh_key_path", settings.ssh_key_path);
  top.text("ca_file", settings.ca_file);
  if (!settings.url.empty()) {
    auto url = check_server_url(settings.url);
    if (url) {
      settings.url = *std::move(url);
    } else {
      top.complain("url", "is " + url.error().message());
    }
  }
  CAIRN_CHECK_OK(reader.finish());
  return settings;
}

std::string render_client_settings(const ClientSettings& settings) {
  std::string text = "# Settings of the cairn command line. It holds your token: keep it to yourself (mode 0600).\n";
  auto line = [&](const char* key, const std::string& value) {
    if (!value.empty()) text += std::string(key) + " = " + quote_toml(value) + "\n";
  };
  line("url", settings.url);
  line("token", settings.token);
  line("team", settings.team);
  line("ssh_key_path", settings.ssh_key_path);
  line("ca_file", settings.ca_file);
  return text;
}

ClientOverrides overrides_of_environment(const GetEnvironment& environment) {
  ClientOverrides overrides;
  overrides.url = set_variable(environment, "CAIRN_URL");
  overrides.token = set_variable(environment, "CAIRN_TOKEN");
  overrides.team = set_variable(environment, "CAIRN_TEAM");
  overrides.ssh_key_path = set_variable(environment, "CAIRN_SSH_KEY_PATH");
  return overrides;
}

ClientSettings resolve_client_settings(ClientSettings file, const ClientOverrides& environment, const ClientOverrides& flags) {
  override_all(file, environment);
  override_all(file, flags);
  return file;
}

Result<std::string> check_server_url(std::string_view url) {
  std::string shown(url.substr(0, 200));
  Error bad(Code::kConfigInvalid, "'" + shown + "', which is no server URL", "write it like https://cairn.example.org or http://127.0.0.1:8470");
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else {
    return bad;
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.empty() || url.size() > 1024) return bad;
  for (char c : rest) {
    bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
                c == ':' || c == '[' || c == ']' || c == '_' || c == '~' || c == '/';
    if (!fine) return bad;
  }
  if (rest.front() == '/' || rest.front() == ':') return bad;
  return std::string(url.substr(0, static_cast<size_t>(rest.data() - url.data()) + rest.size()));
}

}  // namespace cairn::config
