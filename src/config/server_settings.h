// Settings of a server and of a node's agent, as their TOML files say them. No I/O here. Nothing in them is a secret of the
// signed URLs (that key is made by the server itself, in its data folder).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"

namespace cairn::config {

struct ServerSettings {
  std::string host = "127.0.0.1";  // "listen" in the file, with the port
  uint16_t port = 8470;
  std::string data_dir;            // keys, admin token; and catalog and store unless said otherwise
  std::string store;               // a directory; empty: <data_dir>/store
  std::string catalog;             // file or postgresql://…; empty: <data_dir>/catalog.db
  std::string certificate_file;    // [tls], both or neither
  std::string private_key_file;

  uint64_t default_size_bytes = 5 * limits::kTiB;  // [volumes]
  uint64_t maximum_size_bytes = 20 * limits::kTiB;
  std::string history = "7d";      // "30d", "20" or "off"
  Duration trash_time = hours(7 * 24);
  uint64_t owner_quota_bytes = 0;  // 0: none

  Duration gc_grace = hours(24);   // [gc]; longer than signed URLs live
  Duration gc_interval = hours(1);

  std::map<std::string, std::vector<std::string>> engines;  // [engines.NAME] command
  std::string default_engine;                               // [engines] default; empty: "cairn", the built-in one

  int64_t log_lines_per_run = 200'000;  // [limits]
  int64_t connections_max = 4096;
};

// Relative names of files start from the folder of `file`.
Result<ServerSettings> parse_server_settings(std::string_view text, const std::string& file);

struct AgentSettings {
  std::string server_url;
  std::string token;             // of a node; or
  std::string token_file;        // a file that holds it
  std::string name;              // empty: the host's name
  std::string data_dir;
  std::string ca_file;
  std::vector<std::string> hidden;                 // folders and files of this machine that no run may see, besides the agent's own
  uint64_t disk_reserve_bytes = 1 * limits::kGiB;  // kept free on the node, so that syncing always works
  uint64_t cache_bytes_max = 0;                    // of staged volumes; 0: what the disk has
};

// Relative names of files start from the folder of `file`: the agent's executors run elsewhere and read it too.
Result<AgentSettings> parse_agent_settings(std::string_view text, const std::string& file);

// "HOST:PORT", "[::1]:8470", ":8470" (all addresses). config_invalid otherwise.
struct ListenAddress {
  std::string host;
  uint16_t port = 0;
};
Result<ListenAddress> parse_listen(std::string_view text);

}  // namespace cairn::config
