// A whole Cairn on one box, below one folder:
//
//   server.toml, agent.toml   made on the first start, then the operator's to edit
//   admin-token, node-token   0600
//   catalog.db, store/        what was saved
//   node/                     the agent's journals and node cache
//   logs/                     server.log, agent.log, up.log
//   up.lock, ready            who runs it; `ready` is there while server and agent are
//
// OneBox starts a server and an agent as processes of their own (so that a fault of one does not end the other), starts them
// again when they die, and ends them in the order that loses nothing: first the agent, which drains its runs and publishes,
// then the server. Used by one thread.
#pragma once

#include <functional>
#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "client/api_client.h"
#include "config/server_settings.h"
#include "os/lock_file.h"
#include "os/process.h"

namespace cairn::cli {

struct OneBoxOptions {
  std::string data_dir;  // absolute
  std::string listen;    // empty: what server.toml says, or 127.0.0.1:8470
  std::string store;     // empty: below data_dir
  std::string catalog;   // empty: below data_dir
  bool restored = false;  // the catalog is a backup
};

struct OneBoxReady {
  std::string url;
  std::string ca_file;  // of the server's certificate; empty: those the system knows
  std::string admin_token;
  std::string node;  // name
};

class OneBox {
 public:
  // `connect` makes a client for a URL, a token and the file of the server's authority (may be empty).
  using Connect = std::function<std::unique_ptr<client::ApiClient>(const std::string& url, const std::string& token,
                                                                   const std::string& ca_file)>;

  OneBox(OneBoxOptions options, Connect connect);

  // Makes the folder and its files and takes the lock. busy when it runs already; config_invalid when the options contradict
  // server.toml, or agent.toml does.
  Status prepare();
  // Starts both and waits until runs can be taken. REQUIRES: prepare() was ok.
  Result<OneBoxReady> start(const CancelToken& stop);
  // Keeps both alive until `stop`, then ends them.
  Status run_until(const CancelToken& stop);

 private:
  struct Child {
    std::string name;
    std::string log_file;
    std::vector<std::string> argv;
    os::Process process;
    Duration started{0};
    uint64_t log_start_bytes = 0;  // of this process in the log
    Duration pause{0};
    int deaths = 0;  // one soon after the other
  };

  Status write_if_absent(const std::string& name, const std::string& text);
  Result<config::ServerSettings> check_server_file();
  Status check_agent_file(const config::ServerSettings& server);
  Status hide_from_runs(const config::ServerSettings& server, const config::AgentSettings& agent, const std::string& text);
  Status spawn(Child& child);
  Status keep_alive(Child& child);
  Status wait_for_server(const CancelToken& stop);
  Status make_node_token();
  Status wait_for_node(const CancelToken& stop);
  Error died(const Child& child) const;
  void end(Child& child, Duration patience);

  OneBoxOptions options_;
  Connect connect_;
  os::LockFile lock_;
  Child server_, agent_;
  OneBoxReady ready_;
};

// path_type_conflict when something that is no folder stands at the box's folder or above it.
Status check_box_folder(const std::string& data_dir);

// Runs as `cairn up --detach` started it? Then its process id.
Result<std::optional<pid_t>> one_box_pid(const std::string& data_dir);

}  // namespace cairn::cli
