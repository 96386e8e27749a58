#include "agent/program.h"

#include <filesystem>

#include "agent/agent.h"
#include "agent/executor.h"
#include "agent/server_link.h"
#include "agent/volume_io.h"
#include "base/log.h"
#include "base/random.h"
#include "client/api_client.h"
#include "os/file_system.h"
#include "os/host.h"
#include "transfer/api_remote.h"

namespace cairn::agent {
namespace {

constexpr size_t kTokenBytesMax = 4096;
constexpr unsigned kStageJobs = 4;

Result<client::ClientOptions> client_options(const config::AgentSettings& settings) {
  client::ClientOptions options;
  options.url = settings.server_url;
  options.token = settings.token;
  if (options.token.empty()) {
    CAIRN_TRY(options.token, os::posix_file_system().read_file(settings.token_file, kTokenBytesMax));
    while (!options.token.empty() && (options.token.back() == '\n' || options.token.back() == ' ')) options.token.pop_back();
  }
  return options;
}

}  // namespace

Result<int> run_agent_program(const config::AgentSettings& settings, net::Transport& transport,
                              std::vector<std::string> executor_command, CancelToken stop) {
  CAIRN_TRY(client::ClientOptions options, client_options(settings));
  client::ApiClient client(transport, system_clock(), system_random(), std::move(options));
  ApiServerLink link(client);
  AgentSettings agent_settings;
  agent_settings.name = settings.name.empty() ? os::host_name() : settings.name;
  agent_settings.state_dir = settings.data_dir;
  agent_settings.executor_command = std::move(executor_command);
  agent_settings.drain_on_stop = true;
  agent_settings.drain_timeout = settings.grace + minutes(30);
  Agent agent(link, system_clock(), std::move(agent_settings));
  CAIRN_CHECK_OK(agent.run(std::move(stop)));
  return 0;
}

Result<int> run_executor_program(const config::AgentSettings& settings, const std::string& config_file,
                                 net::Transport& transport, const std::string& journal, CancelToken stop) {
  CAIRN_TRY(client::ClientOptions options, client_options(settings));
  client::ApiClient client(transport, system_clock(), system_random(), std::move(options));
  ApiServerLink link(client);
  transfer::NodeCacheOptions cache_options;
  cache_options.dir = cache_dir(settings.data_dir);
  if (settings.cache_bytes_max > 0) cache_options.bytes_max = settings.cache_bytes_max;
  CAIRN_TRY(std::unique_ptr<transfer::NodeCache> cache, transfer::NodeCache::open(cache_options));
  TransferVolumeIo volumes(
      std::move(cache), [&client](const std::string& volume) { return transfer::make_api_remote(client, volume); }, kStageJobs);
  ExecutorSettings executor_settings;
  executor_settings.outputs_dir = outputs_dir(settings.data_dir);
  executor_settings.locks_dir = locks_dir(settings.data_dir);
  executor_settings.reserve_bytes = settings.disk_reserve_bytes;
  std::error_code error;
  for (const std::string& path : {settings.data_dir, config_file, settings.token_file}) {
    std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
    if (path.empty() || error) continue;
    // A file is hidden with its folder.
    executor_settings.hidden.push_back(std::filesystem::is_directory(real, error) ? real.string() : real.parent_path().string());
  }
  Executor executor(link, volumes, system_clock(), std::move(executor_settings));
  auto report = executor.execute(journal, std::move(stop));
  if (!report) {
    log_error("attempt {}: {}", journal, report.error().to_string());
    return std::move(report).error();
  }
  return 0;
}

}  // namespace cairn::agent
