#include "cli/one_box.h"

#include <signal.h>

#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "api/types.h"
#include "base/log.h"
#include "cli/json_text.h"
#include "cli/logged_error.h"
#include "config/server_settings.h"
#include "os/file_system.h"
#include "os/host.h"

namespace cairn::cli {
namespace {

constexpr size_t kSmallFileBytesMax = 1 << 20;
constexpr auto kStartTime = seconds(60);
constexpr auto kDrainTime = minutes(12);
constexpr auto kServerStopTime = seconds(60);
constexpr auto kShortestPause = milliseconds(250);
constexpr auto kLongestPause = seconds(30);

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// A TOML string; only paths and addresses are written with it.
std::string quoted(const std::string& text) { return json_quote(text); }

std::string listen_text(const config::ServerSettings& settings) {
  std::string host = settings.host.find(':') == std::string::npos ? settings.host : "[" + settings.host + "]";
  return host + ":" + std::to_string(settings.port);
}

std::string connect_url(const config::ServerSettings& settings) {
  std::string address = listen_text(settings);
  if (address.starts_with(":")) address = "127.0.0.1" + address;
  if (address.starts_with("0.0.0.0:")) address = "127.0.0.1" + address.substr(7);
  return (settings.certificate_file.empty() ? "http://" : "https://") + address;
}

// What the server keeps outside of its box. Of the catalog the folder: SQLite makes further files beside it.
std::vector<std::string> server_paths(const config::ServerSettings& settings, const std::string& box) {
  std::string catalog = settings.catalog.starts_with("sqlite:") ? settings.catalog.substr(7) : settings.catalog;
  if (catalog.starts_with('/')) catalog = os::parent_path(catalog);
  std::vector<std::string> paths = {settings.data_dir, settings.store, catalog, settings.private_key_file};
  std::erase_if(paths, [&](const std::string& path) {
    return !path.starts_with('/') || path == box || path.starts_with(box + "/");
  });
  return paths;
}

std::string hidden_line(const std::vector<std::string>& paths) {
  std::string list;
  for (const std::string& path : paths) list += (list.empty() ? "" : ", ") + quoted(path);
  return "hidden = [" + list + "]  # of the server: no run may see it\n";
}

}  // namespace

OneBox::OneBox(OneBoxOptions options, Connect connect) : options_(std::move(options)), connect_(std::move(connect)) {
  server_.name = "server";
  agent_.name = "agent";
  for (Child* child : {&server_, &agent_}) child->log_file = options_.data_dir + "/logs/" + child->name + ".log";
}

Status OneBox::write_if_absent(const std::string& name, const std::string& text) {
  std::string path = options_.data_dir + "/" + name;
  CAIRN_TRY(bool there, os::posix_file_system().exists(path));
  if (there) return ok();
  return os::posix_file_system().write_file_atomic(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 0600);
}

Result<config::ServerSettings> OneBox::check_server_file() {
  std::string path = options_.data_dir + "/server.toml";
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(path, kSmallFileBytesMax));
  CAIRN_TRY(config::ServerSettings settings, config::parse_server_settings(text, path));
  auto contradicts = [&](const std::string& flag, const std::string& given, const std::string& stored) {
    return Error(Code::kConfigInvalid, fmt::format("{} {} was given, and {} says {}", flag, given, path, stored),
                 "edit the file, or leave the flag out");
  };
  if (!options_.listen.empty()) {
    CAIRN_TRY(config::ListenAddress given, config::parse_listen(options_.listen));
    if (given.host != settings.host || given.port != settings.port) return contradicts("--listen", options_.listen, listen_text(settings));
  }
  if (!options_.store.empty() && options_.store != settings.store) {
    return contradicts("--store", options_.store, settings.store.empty() ? "nothing" : settings.store);
  }
  if (!options_.catalog.empty() && options_.catalog != settings.catalog) {
    return contradicts("--catalog", options_.catalog, settings.catalog.empty() ? "nothing" : settings.catalog);
  }
  return settings;
}

// A run is user 0 without capabilities: it reads what root may read wherever its sandbox shows it. An agent.toml of before is given
// the line it lacks.
Status OneBox::hide_from_runs(const config::ServerSettings& server, const config::AgentSettings& agent, const std::string& text) {
  std::vector<std::string> missing = server_paths(server, options_.data_dir);
  std::erase_if(missing, [&](const std::string& path) {
    return std::find(agent.hidden.begin(), agent.hidden.end(), path) != agent.hidden.end();
  });
  if (missing.empty()) return ok();
  std::string path = options_.data_dir + "/agent.toml";
  std::string more = text + (text.ends_with('\n') ? "" : "\n") + hidden_line(missing);
  if (!config::parse_agent_settings(more, path)) {
    return Error(Code::kConfigInvalid, fmt::format("{} does not hide {} from runs, where the server keeps what they may not see", path, missing.front()),
                 "add it to the list 'hidden' there");
  }
  return os::posix_file_system().write_file_atomic(path, {reinterpret_cast<const uint8_t*>(more.data()), more.size()}, 0600);
}

// Where the server has a certificate, the box goes by the name and authority that agent.toml has for it: 127.0.0.1 is in few
// certificates.
Status OneBox::check_agent_file(const config::ServerSettings& server) {
  std::string path = options_.data_dir + "/agent.toml";
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(path, kSmallFileBytesMax));
  CAIRN_TRY(config::AgentSettings agent, config::parse_agent_settings(text, path));
  CAIRN_CHECK_OK(hide_from_runs(server, agent, text));
  ready_.url = connect_url(server);
  if (server.certificate_file.empty()) {
    if (agent.server_url == ready_.url || !agent.server_url.starts_with("http://127.0.0.1:")) return ok();
    return Error(Code::kConfigInvalid, fmt::format("{} says {}, and the server listens on {}", path, agent.server_url, listen_text(server)),
                 fmt::format("set server_url = \"{}\" there", ready_.url));
  }
  if (!agent.server_url.starts_with("https://")) {
    return Error(Code::kConfigInvalid,
                 fmt::format("{} says {}, and the server at {} has a certificate ({})", path, agent.server_url, listen_text(server),
                             server.certificate_file),
                 fmt::format("set server_url = \"https://NAME:{}\" there, with a name that the certificate is for, and ca_file to the file "
                             "of its authority",
                             server.port));
  }
  ready_.url = agent.server_url;
  ready_.ca_file = agent.ca_file;
  return ok();
}

Status OneBox::prepare() {
  const std::string& dir = options_.data_dir;
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(dir, 0700));
  for (const char* below : {"/logs", "/node"}) CAIRN_CHECK_OK(os::posix_file_system().make_directories(dir + below, 0700));
  auto lock = os::LockFile::try_lock(dir + "/up.lock", std::to_string(getpid()));
  if (!lock && lock.error().code() == Code::kBusy) {
    return Error(Code::kBusy, "Cairn runs in " + dir + " already (process " + trimmed(os::lock_note(dir + "/up.lock")) + ")",
                 "end it with: cairn down --data " + dir);
  }
  if (!lock) return lock.error();
  lock_ = std::move(*lock);
  static_cast<void>(os::posix_file_system().remove(dir + "/ready"));

  std::string server = "# A Cairn server. Every key is described in docs/operating.md; restart to apply changes.\n";
  server += "listen = " + quoted(options_.listen.empty() ? "127.0.0.1:8470" : options_.listen) + "\n";
  server += "data_dir = " + quoted(dir) + "\n";
  if (!options_.store.empty()) server += "store = " + quoted(options_.store) + "\n";
  if (!options_.catalog.empty()) server += "catalog = " + quoted(options_.catalog) + "\n";
  CAIRN_CHECK_OK(write_if_absent("server.toml", server));
  CAIRN_TRY(config::ServerSettings settings, check_server_file());

  std::string agent = "# A Cairn node agent. Restart to apply changes.\n";
  agent += "server_url = " + quoted(connect_url(settings)) + "\n";
  if (!settings.certificate_file.empty()) agent += "ca_file = " + quoted(settings.certificate_file) + "\n";
  agent += "token_file = " + quoted(dir + "/node-token") + "\n";
  agent += "data_dir = " + quoted(dir + "/node") + "\n";
  agent += "name = " + quoted(os::host_name()) + "\n";
  CAIRN_CHECK_OK(write_if_absent("agent.toml", agent));
  CAIRN_CHECK_OK(check_agent_file(settings));

  CAIRN_TRY(std::string program, os::executable_path());
  server_.argv = {program, "server", "--config", dir + "/server.toml"};
  if (options_.restored) server_.argv.push_back("--restored");
  agent_.argv = {program, "agent", "--config", dir + "/agent.toml"};
  return ok();
}

Status OneBox::spawn(Child& child) {
  CAIRN_TRY(os::Fd log, os::open_append_fd(child.log_file, 0600));
  CAIRN_TRY(os::FileStat before, os::posix_file_system().stat(child.log_file));
  child.log_start_bytes = before.size;
  os::SpawnOptions options;
  options.argv = child.argv;
  options.stdout_fd = log.get();
  options.stderr_fd = log.get();
  options.new_process_group = true;  // a Ctrl-C is for us: we end them in order
  options.death_signal = SIGTERM;
  CAIRN_TRY(child.process, os::Process::spawn(options));
  child.started = system_clock().monotonic();
  return ok();
}

Error OneBox::died(const Child& child) const {
  auto text = os::posix_file_system().read_file(child.log_file, 64 << 20);
  std::string lines = text ? trimmed(text->substr(std::min<uint64_t>(child.log_start_bytes, text->size()))) : std::string();
  if (auto said = last_logged_error(lines + "\n")) {
    return Error(said->code(), "the " + child.name + " ended at once: " + said->message(),
                 said->hint().empty() ? "read " + child.log_file : said->hint());
  }
  std::string last = lines.substr(lines.rfind('\n') == std::string::npos ? 0 : lines.rfind('\n') + 1);
  return Error(Code::kServerUnavailable, "the " + child.name + " ended at once: " + last, "read " + child.log_file);
}

Status OneBox::wait_for_server(const CancelToken& stop) {
  Deadline deadline = Deadline::after(kStartTime, system_clock(), stop);
  std::string token_file = options_.data_dir + "/admin-token";
  Error last(Code::kServerUnavailable, "it has made no admin token yet", "read " + server_.log_file);
  for (;;) {
    if (stop.cancelled()) return deadline.check();
    if (deadline.expired()) return std::move(last).while_doing("waiting for the server at " + ready_.url);
    CAIRN_TRY(auto ended, server_.process.try_wait());
    if (ended) return died(server_);
    auto token = os::posix_file_system().read_file(token_file, 4096);
    if (token) {
      ready_.admin_token = trimmed(*token);
      auto client = connect_(ready_.url, ready_.admin_token, ready_.ca_file);
      auto who = client->whoami(Deadline::after(seconds(1), system_clock(), stop));
      if (who) return ok();
      if (who.error().code() == Code::kTokenInvalid) {
        return std::move(who).error().while_doing("talking to " + ready_.url + " (does another server listen there?)");
      }
      last = std::move(who).error();
    }
    system_clock().sleep_for(milliseconds(30));
  }
}

Status OneBox::make_node_token() {
  std::string path = options_.data_dir + "/node-token";
  CAIRN_TRY(bool there, os::posix_file_system().exists(path));
  if (there) return ok();
  auto client = connect_(ready_.url, ready_.admin_token, ready_.ca_file);
  api::CreateToken body;
  body.label = "node " + os::host_name();
  body.scopes = {"node"};
  CAIRN_TRY(api::CreatedToken token, client->create_token(body, client->default_deadline()));
  return write_if_absent("node-token", token.secret + "\n");
}

Status OneBox::wait_for_node(const CancelToken& stop) {
  Deadline deadline = Deadline::after(kStartTime, system_clock(), stop);
  auto client = connect_(ready_.url, ready_.admin_token, ready_.ca_file);
  Time since = system_clock().now() - seconds(5);
  for (;;) {
    if (stop.cancelled()) return deadline.check();
    if (deadline.expired()) {
      return Error(Code::kServerUnavailable, "the node's agent did not become ready at " + ready_.url, "read " + agent_.log_file);
    }
    CAIRN_TRY(auto ended, agent_.process.try_wait());
    if (ended) return died(agent_);
    CAIRN_TRY(api::NodeList nodes, client->list_nodes(deadline));
    for (const api::Node& node : nodes.nodes) {
      if (node.state == "READY" && node.seen_at > since) {
        ready_.node = node.name;
        return ok();
      }
    }
    system_clock().sleep_for(milliseconds(30));
  }
}

Result<OneBoxReady> OneBox::start(const CancelToken& stop) {
  CAIRN_CHECK_OK(spawn(server_));
  Status up = wait_for_server(stop);
  // Once: a server that is started again goes on with what this start made.
  if (up) std::erase(server_.argv, "--restored");
  if (up) up = make_node_token();
  if (up) up = spawn(agent_);
  if (up) up = wait_for_node(stop);
  if (up) up = write_if_absent("ready", JsonText().add("url", ready_.url).add("node", ready_.node).str() + "\n");
  if (!up) {
    end(agent_, kDrainTime);
    end(server_, kServerStopTime);
    return up.error();
  }
  return ready_;
}

Status OneBox::keep_alive(Child& child) {
  CAIRN_TRY(auto ended, child.process.try_wait());
  if (!ended) return ok();
  Duration now = system_clock().monotonic();
  if (child.pause == Duration(0)) {
    // At once the first time, then less and less often while it keeps dying early.
    bool lived_long = now - child.started > Duration(minutes(1));
    child.deaths = lived_long ? 1 : child.deaths + 1;
    log_error("the {} ended: {}; it is started again; its log is {}", child.name, ended->to_string(), child.log_file);
    child.pause = std::min<Duration>(kLongestPause, kShortestPause * (1 << std::min(child.deaths - 1, 10)));
    child.started = now;
  }
  if (now - child.started < child.pause) return ok();
  child.pause = Duration(0);
  return spawn(child);
}

Status OneBox::run_until(const CancelToken& stop) {
  Status status = ok();
  while (!stop.cancelled() && status) {
    status = keep_alive(server_);
    if (status) status = keep_alive(agent_);
    system_clock().sleep_for(milliseconds(50));
  }
  static_cast<void>(os::posix_file_system().remove(options_.data_dir + "/ready"));
  end(agent_, kDrainTime);
  end(server_, kServerStopTime);
  return status;
}

void OneBox::end(Child& child, Duration patience) {
  if (!child.process.running()) return;
  auto ended = child.process.terminate(patience);
  if (ended && ended->signal == SIGKILL) {
    log_warning("the {} did not end within {} s and was killed; nothing that was saved is lost", child.name,
                patience.count() / 1'000'000);
  }
}

Status check_box_folder(const std::string& data_dir) {
  Result<os::FileStat> found = os::posix_file_system().stat(data_dir);
  bool wrong = found ? found->type == os::FileType::kFile || found->type == os::FileType::kOther
                     : found.error().code() == Code::kPathTypeConflict;
  if (!wrong) return ok();
  return Error(Code::kPathTypeConflict, "--data " + data_dir + (found ? " is no folder" : " lies below what is no folder") +
                   ", and Cairn keeps everything in one",
               "name a folder: 'cairn up' makes it when it is missing");
}

Result<std::optional<pid_t>> one_box_pid(const std::string& data_dir) {
  std::string path = data_dir + "/up.lock";
  CAIRN_TRY(bool there, os::posix_file_system().exists(path));
  if (!there) return std::optional<pid_t>();
  auto lock = os::LockFile::try_lock(path, "");
  if (lock) return std::optional<pid_t>();
  if (lock.error().code() != Code::kBusy) return lock.error();
  std::string note = trimmed(os::lock_note(path));
  if (note.empty() || note.size() > 9 || note.find_first_not_of("0123456789") != std::string::npos) {
    return Error(Code::kBusy, path + " is held by '" + note + "'");
  }
  return std::optional<pid_t>(std::stoi(note));
}

}  // namespace cairn::cli
