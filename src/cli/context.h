// What every command works with: the global options, the configuration they are merged with, the connection to the server
// (made when first asked for), output, and the token that Ctrl-C cancels.
//
// Used by one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "cli/args.h"
#include "cli/output.h"
#include "cli/wiring.h"
#include "client/api_client.h"
#include "config/client_settings.h"
#include "transfer/remote.h"

namespace cairn::cli {

struct GlobalOptions {
  std::string config_file;
  std::string url;
  std::string token;
  std::string team;
  std::string output = "text";
  bool events = false;
};

class Context {
 public:
  Context(Wiring wiring, CancelToken cancel) : wiring_(std::move(wiring)), cancel_(std::move(cancel)) {}

  // The options that may stand anywhere.
  void add_global_options(Verb root);
  // Checks them. Called once, before the command.
  Status prepare();

  GlobalOptions& global() { return global_; }
  Output& output() { return output_; }
  const Wiring& wiring() const { return wiring_; }
  const CancelToken& cancel() const { return cancel_; }
  // No time limit; ends when the user interrupts.
  Deadline until_interrupted() const { return Deadline::never(cancel_); }
  // For one API call.
  Deadline call() const { return Deadline::after(minutes(2), system_clock(), cancel_); }

  // Flags over environment over file.
  Result<config::ClientSettings> settings() const;
  std::string config_path() const;
  // not_signed_in with the next command when there is no URL or token.
  Result<client::ApiClient*> connect();
  // A client for another server than the configured one.
  std::unique_ptr<client::ApiClient> make_client(const std::string& url, const std::string& token, const std::string& ca_file);
  // One volume for a transfer. REQUIRES: connect() succeeded.
  std::unique_ptr<transfer::Remote> remote(const std::string& volume);
  // Makes a change to `volumes`, and once more when the first was refused for the lease of an upload that died on this machine.
  // REQUIRES: connect() succeeded.
  template <typename Change>
  auto change(const std::vector<std::string>& volumes, Change&& change) -> decltype(change()) {
    auto first = change();
    if (first || !end_dead_uploads(volumes, first.error())) return first;
    return change();
  }

  // There was a `--` on the command line, or a verb that hands its arguments on.
  bool has_rest = false;

 private:
  Wiring wiring_;
  CancelToken cancel_;
  GlobalOptions global_;
  Output output_;
  net::Transport& transport(const std::string& ca_file);
  bool end_dead_uploads(const std::vector<std::string>& volumes, const Error& refusal);
  Result<api::ServerVersion> wait_for_server(client::ApiClient& client);

  std::map<std::string, std::shared_ptr<net::Transport>> transports_;  // by ca_file; they outlive the clients made of them
  std::unique_ptr<client::ApiClient> client_;
};

// A variable of the environment; empty ones count as not set.
std::optional<std::string> environment(const std::string& name);

// "NAME" or "NAME@NUMBER".
struct VolumeAtSnapshot {
  std::string volume;
  std::optional<uint64_t> snapshot;
};
Result<VolumeAtSnapshot> parse_volume_at(const std::string& text);

// A path as typed: without leading, trailing and double '/' and without '.' segments; "" is the top. path_invalid else.
Result<std::string> parse_volume_path(const std::string& text);

// Asks on the terminal and compares; ok when it was typed exactly. Without a terminal: usage, naming `--yes`.
Status confirm(Context& context, const std::string& question, const std::string& expected);

}  // namespace cairn::cli
