#include "config/server_settings.h"

#include <filesystem>

#include "config/client_settings.h"
#include "config/toml_reader.h"

namespace cairn::config {
namespace {

bool is_engine_name(std::string_view name) {
  if (name.empty() || name.size() > 40) return false;
  for (char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')) return false;
  }
  return true;
}

// Placeholders of a template, so that a mistyped one is found when the server starts and not when a run does.
void check_placeholders(TomlSection& section, const std::vector<std::string>& command) {
  constexpr std::string_view kKnown[] = {"{config}", "{output}", "{volume}", "{gpus}"};
  for (const std::string& word : command) {
    for (size_t at = word.find('{'); at != std::string::npos; at = word.find('{', at + 1)) {
      size_t end = word.find('}', at);
      std::string_view inside = std::string_view(word).substr(at, end == std::string::npos ? end : end - at + 1);
      bool name_like = inside.size() > 2;
      for (char c : inside.substr(1, inside.size() < 2 ? 0 : inside.size() - 2)) name_like = name_like && c >= 'a' && c <= 'z';
      bool known = false;
      for (std::string_view placeholder : kKnown) known = known || inside == placeholder;
      if (name_like && end != std::string::npos && !known) {
        section.complain("command", "has the unknown placeholder " + std::string(inside),
                         "known: {config}, {output}, {volume}, {gpus}");
        return;
      }
    }
  }
}

bool is_history(std::string_view text) {
  if (text == "off") return true;
  if (text.ends_with('d')) text.remove_suffix(1);
  if (text.empty() || text.size() > 6) return false;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

void read_engines(TomlSection section, ServerSettings& settings) {
  bool given = section.text("default", settings.default_engine);
  for (const std::string& name : section.section_names()) {
    TomlSection engine = section.section(name);
    if (name == "cairn") engine.complain("command", "belongs to the built-in engine, which has a command already", "choose another name");
    if (!is_engine_name(name)) engine.complain("command", "belongs to an engine whose name is not 1 to 40 of a-z 0-9 - _");
    std::vector<std::string> command;
    if (engine.command("command", command)) {
      check_placeholders(engine, command);
      settings.engines[name] = std::move(command);
    } else if (!engine.has("command")) {
      engine.complain("command", "is missing");
    }
  }
  bool known = settings.default_engine == "cairn" || settings.engines.contains(settings.default_engine);
  if (given && !known) {
    section.complain("default", "names an engine that is not configured: '" + settings.default_engine + "'");
  }
}

// A relative name of a file starts where the file that names it lies.
void start_from_folder_of(const std::string& file, std::string& path) {
  if (!path.empty()) path = (std::filesystem::path(file).parent_path() / path).string();
}

}  // namespace

Result<ListenAddress> parse_listen(std::string_view text) {
  Error bad(Code::kConfigInvalid, "'" + std::string(text.substr(0, 200)) + "' is not HOST:PORT", "write it like 127.0.0.1:8470");
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad;
  std::string_view host = text.substr(0, colon);
  std::string_view digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5) return bad;
  uint32_t port = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return bad;
    port = port * 10 + static_cast<uint32_t>(c - '0');
  }
  if (port > 65'535) return bad;
  if (host.starts_with('[') != host.ends_with(']')) return bad;
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos) return bad;
  ListenAddress address{host.empty() ? "0.0.0.0" : std::string(host), static_cast<uint16_t>(port)};
  return address;
}

Result<ServerSettings> parse_server_settings(std::string_view text, const std::string& file) {
  CAIRN_TRY(TomlReader reader, TomlReader::parse(text, file));
  ServerSettings settings;
  TomlSection top = reader.top();
  std::string listen;
  if (top.text("listen", listen)) {
    auto address = parse_listen(listen);
    if (address) {
      settings.host = address->host;
      settings.port = address->port;
    } else {
      top.complain("listen", "is " + address.error().message(), address.error().hint());
    }
  }
  top.text("data_dir", settings.data_dir);
  if (!settings.data_dir.starts_with('/')) top.complain("data_dir", "must be an absolute path");
  if (top.text("store", settings.store) && !settings.store.starts_with('/')) {
    top.complain("store", "must be the absolute path of a directory; S3 stores are not part of this version");
  }
  top.text("catalog", settings.catalog);
  if (settings.catalog.starts_with("sqlite:") && !settings.catalog.starts_with("sqlite:/")) {
    top.complain("catalog", "must name an absolute path after sqlite:");
  }

  TomlSection tls = top.section("tls");
  tls.text("certificate", settings.certificate_file);
  tls.text("private_key", settings.private_key_file);
  start_from_folder_of(file, settings.certificate_file);
  start_from_folder_of(file, settings.private_key_file);
  if (settings.certificate_file.empty() != settings.private_key_file.empty()) {
    top.complain("tls", "needs certificate and private_key, both or neither");
  }

  TomlSection volumes = top.section("volumes");
  volumes.size("default_size", settings.default_size_bytes);
  volumes.size("maximum_size", settings.maximum_size_bytes);
  if (settings.default_size_bytes > settings.maximum_size_bytes) {
    volumes.complain("default_size", "is larger than maximum_size");
  }
  if (settings.default_size_bytes == 0) volumes.complain("default_size", "must be more than nothing");
  if (volumes.text("history", settings.history) && !is_history(settings.history)) {
    volumes.complain("history", "is neither days (\"7d\"), a number of snapshots (\"20\") nor \"off\"");
  }
  volumes.duration("trash", settings.trash_time);
  volumes.size("owner_quota", settings.owner_quota_bytes);

  TomlSection gc = top.section("gc");
  if (gc.duration("grace", settings.gc_grace) && settings.gc_grace < Duration(hours(1))) {
    gc.complain("grace", "is shorter than an hour: signed URLs live up to 30 minutes");
  }
  if (gc.duration("interval", settings.gc_interval) && settings.gc_interval < Duration(seconds(1))) {
    gc.complain("interval", "is shorter than a second");
  }

  read_engines(top.section("engines"), settings);

  TomlSection limits = top.section("limits");
  limits.number("log_lines_per_run", settings.log_lines_per_run, 100, 10'000'000);
  limits.number("connections", settings.connections_max, 16, 100'000);
  CAIRN_CHECK_OK(reader.finish());
  return settings;
}

Result<AgentSettings> parse_agent_settings(std::string_view text, const std::string& file) {
  CAIRN_TRY(TomlReader reader, TomlReader::parse(text, file));
  AgentSettings settings;
  TomlSection top = reader.top();
  top.text("server_url", settings.server_url);
  auto url = check_server_url(settings.server_url);
  if (url) {
    settings.server_url = *std::move(url);
  } else {
    top.complain("server_url", "is " + url.error().message(), url.error().hint());
  }
  top.text("token", settings.token);
  top.text("token_file", settings.token_file);
  if (settings.token.empty() == settings.token_file.empty()) {
    top.complain("token_file", "or 'token' must be given, one of them", "a box's own is the file node-token in its data folder");
  }
  top.text("name", settings.name);
  top.text("data_dir", settings.data_dir);
  if (!settings.data_dir.starts_with('/')) top.complain("data_dir", "must be an absolute path");
  top.text("ca_file", settings.ca_file);
  start_from_folder_of(file, settings.token_file);
  start_from_folder_of(file, settings.ca_file);
  top.texts("hidden", settings.hidden);
  for (const std::string& path : settings.hidden) {
    if (!path.starts_with('/')) top.complain("hidden", "must be a list of absolute paths");
  }
  top.size("disk_reserve", settings.disk_reserve_bytes);
  top.size("cache_max", settings.cache_bytes_max);
  CAIRN_CHECK_OK(reader.finish());
  return settings;
}

}  // namespace cairn::config
