#include <signal.h>
#include <unistd.h>

#include "programs.h"
#include "cli/commands.h"
#include "net/transport.h"

namespace {

// Never destroyed: a signal may come while the program ends.
cairn::CancelToken& interrupted() {
  static auto* token = new cairn::CancelToken();
  return *token;
}

volatile sig_atomic_t interrupts = 0;

// The first Ctrl-C or SIGTERM asks for an orderly end (leases are released, runs drained); the third does not ask.
void on_signal(int) {
  interrupts = interrupts + 1;
  if (interrupts > 2) _exit(130);
  interrupted().cancel();
}

}  // namespace

int main(int argc, char** argv) {
  interrupted();
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);

  cairn::cli::Wiring wiring;
  wiring.make_transport = [](const std::string& ca_file) {
    cairn::net::CurlSettings settings;
    settings.tls.ca_file = ca_file;
    settings.connections_max = 32;
    return std::make_shared<cairn::net::CurlTransport>(settings);
  };
  wiring.run_server = cairn::apps::run_server;
  wiring.run_agent = cairn::apps::run_agent;
  wiring.run_executor = cairn::apps::run_executor;

  cairn::cli::Context context(wiring, interrupted());
  cairn::cli::Args args("Cairn: volumes and runs for machine-learning training, on your own machines.", CAIRN_VERSION);
  context.add_global_options(args.root());
  cairn::cli::add_commands(args.root());
  return args.parse_and_run(argc, argv, context);
}
