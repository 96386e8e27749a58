#include <filesystem>
#include <memory>

#include "agent/agent.h"
#include "agent/executor.h"
#include "agent/journal.h"
#include "programs.h"
#include "base/log.h"
#include "client/api_client.h"
#include "config/server_settings.h"
#include "net/transport.h"
#include "os/file_system.h"
#include "os/host.h"
#include "transfer/api_remote.h"

namespace cairn::apps {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;
constexpr uint64_t kCacheBytesDefault = uint64_t{200} << 30;

Result<config::AgentSettings> read_settings(const std::string& file) {
  CAIRN_TRY(std::string text, os::posix_file_system().read_file(file, kFileBytesMax));
  CAIRN_TRY(config::AgentSettings settings, config::parse_agent_settings(text, file));
  if (settings.token.empty()) {
    CAIRN_TRY(settings.token, os::posix_file_system().read_file(settings.token_file, kFileBytesMax));
    while (!settings.token.empty() && settings.token.back() == '\n') settings.token.pop_back();
  }
  if (settings.name.empty()) settings.name = os::host_name();
  return settings;
}

// The connection of an agent or executor to its server.
struct Connection {
  explicit Connection(const config::AgentSettings& settings) : transport(curl_settings(settings)), client(transport, system_clock(), system_random(), options(settings)) {}

  static net::CurlSettings curl_settings(const config::AgentSettings& settings) {
    net::CurlSettings curl;
    curl.tls.ca_file = settings.ca_file;
    curl.connections_max = 32;
    return curl;
  }
  static client::ClientOptions options(const config::AgentSettings& settings) {
    client::ClientOptions options;
    options.url = settings.server_url;
    options.token = settings.token;
    return options;
  }

  net::CurlTransport transport;
  client::ApiClient client;
};

}  // namespace

Result<int> run_agent(const std::string& config, CancelToken stop) {
  // Executors start in "/".
  std::error_code failed;
  std::string config_file = std::filesystem::absolute(config, failed).string();
  if (failed) return Error::from_errno(failed.value(), config);
  CAIRN_TRY(config::AgentSettings settings, read_settings(config_file));
  CAIRN_TRY(std::string program, os::executable_path());
  Connection connection(settings);
  agent::ApiServerLink link(connection.client);
  agent::AgentSettings own;
  own.name = settings.name;
  own.state_dir = settings.data_dir;
  own.executor_command = {program, "agent", "--config", config_file, "exec"};
  own.drain_on_stop = true;
  agent::Agent agent(link, system_clock(), own);
  CAIRN_CHECK_OK(agent.run(stop, [&](NodeId node) { log_info("node {} is ready id={} server={}", settings.name, node.hex(), settings.server_url); }));
  return 0;
}

namespace {

Result<int> execute(const cli::AgentExecOptions& options, CancelToken stop) {
  CAIRN_TRY(config::AgentSettings settings, read_settings(options.config_file));
  Connection connection(settings);
  agent::ApiServerLink link(connection.client);
  transfer::NodeCacheOptions cache_options;
  cache_options.dir = agent::cache_dir(settings.data_dir);
  cache_options.bytes_max = settings.cache_bytes_max ? settings.cache_bytes_max : kCacheBytesDefault;
  CAIRN_TRY(auto cache, transfer::NodeCache::open(cache_options));
  agent::TransferVolumeIo volumes(
      std::move(cache), [&](const std::string& volume) { return transfer::make_api_remote(connection.client, volume); },
      cache_options.jobs);
  agent::ExecutorSettings own;
  own.outputs_dir = agent::outputs_dir(settings.data_dir);
  own.locks_dir = agent::locks_dir(settings.data_dir);
  own.reserve_bytes = settings.disk_reserve_bytes;
  if (auto trainer = os::program_beside("cairn-trainer")) own.trainer_program = *std::move(trainer);
  own.hidden = {settings.data_dir, os::parent_path(options.config_file)};
  own.hidden.insert(own.hidden.end(), settings.hidden.begin(), settings.hidden.end());
  agent::Executor executor(link, volumes, system_clock(), own);
  CAIRN_TRY(agent::ExecutorReport report, executor.execute(options.journal, stop));
  log_info("attempt ended: {} {}", api::state_name(report.outcome), report.reason);
  return 0;
}

}  // namespace

Result<int> run_executor(const cli::AgentExecOptions& options, CancelToken stop) {
  auto ended = execute(options, std::move(stop));
  if (!ended) agent::Journal::note_error(options.journal, ended.error());
  return ended;
}

}  // namespace cairn::apps
