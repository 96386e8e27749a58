#include "cli/run_request.h"

#include <unistd.h>

#include <fmt/core.h>

#include "base/limits.h"
#include "cli/progress_printer.h"
#include "cli/terminal_text.h"
#include "cli/volume_text.h"
#include "base/quantity.h"
#include "transfer/put.h"
#include "transfer/scan.h"

namespace cairn::cli {
namespace {

constexpr uint64_t kWorkspaceBytesMax = 2 * limits::kGiB;

transfer::ScanOptions workspace_scan() {
  transfer::ScanOptions scan;
  scan.ignore_file_names = {".gitignore", ".cairnignore"};
  scan.exclude = {"/.git/"};
  return scan;
}

Error unreadable(Code code, const std::string& what, const std::vector<std::string>& paths, uint64_t count) {
  std::string first = paths.empty() ? std::string("something in the working directory") : "'" + shown_path(paths.front()) + "'";
  std::string others = count > 1 ? fmt::format(" (and {} more)", count - 1) : std::string();
  return Error(code, first + others + " " + what, "run again when it can be read, or name it in .cairnignore");
}

// Before anything is made on the server.
Status check_workspace(Context& context) {
  transfer::Progress progress;
  CAIRN_TRY(auto scanner, transfer::Scanner::open(".", workspace_scan(), progress));
  uint64_t bytes = 0;
  for (;;) {
    CAIRN_TRY(auto entry, scanner->next(context.until_interrupted()));
    if (!entry) break;
    if (entry->kind == transfer::EntryKind::kFile) bytes += entry->identity.size;
    if (bytes > kWorkspaceBytesMax) {
      return Error(Code::kRequestTooLarge, "the working directory holds more than 2 GiB (at '" + shown_path(entry->path) + "')",
                   "name large data in .cairnignore and put it on a volume, or run with --no-upload");
    }
  }
  if (scanner->counts().unreadable == 0) return ok();
  return unreadable(Code::kFileUnreadable, "cannot be read", scanner->unreadable(), scanner->counts().unreadable);
}

}  // namespace

void add_mount_options(Verb verb, MountOptions& options) {
  verb.list("--volume", options.volumes, "Volume at /volume, created when missing; a further one only at /mnt/NAME")
      .text("--volume-size", options.size, "Size of volumes that are created, e.g. 500Gi")
      .list("--mount", options.mounts, "NAME[@SNAPSHOT][:ro|:rw][:DIR], read-only unless :rw; may be repeated");
}

Result<std::vector<api::MountRequest>> mount_requests(const MountOptions& options) {
  std::vector<api::MountRequest> requests;
  std::optional<uint64_t> size_bytes;
  if (!options.size.empty()) {
    CAIRN_TRY(size_bytes, parse_size(options.size));
  }
  for (const std::string& name : options.volumes) {
    api::MountRequest request;
    request.volume = name;
    request.primary = requests.empty();
    request.create = true;
    request.size_bytes = size_bytes;
    requests.push_back(request);
  }
  for (const std::string& text : options.mounts) {
    api::MountRequest request;
    request.read_only = true;
    size_t colon = text.find(':');
    CAIRN_TRY(VolumeAtSnapshot where, parse_volume_at(text.substr(0, colon)));
    request.volume = where.volume;
    request.snapshot = where.snapshot.value_or(0);
    while (colon != std::string::npos) {
      size_t next = text.find(':', colon + 1);
      std::string part = text.substr(colon + 1, next == std::string::npos ? next : next - colon - 1);
      if (part == "rw") {
        request.read_only = false;
      } else if (part.starts_with('/')) {
        request.directory = part;
      } else if (part != "ro") {
        return Error(Code::kUsage, "--mount '" + text + "': '" + part + "' is neither ro, rw nor an absolute folder",
                     "write it as NAME[@SNAPSHOT][:ro|:rw][:DIR]");
      }
      colon = next;
    }
    if (!request.read_only && request.snapshot != 0) {
      return Error(Code::kUsage, "--mount '" + text + "': an older snapshot can only be mounted read-only");
    }
    requests.push_back(request);
  }
  return requests;
}

Result<std::string> upload_working_directory(Context& context, client::ApiClient& client) {
  CAIRN_CHECK_OK(check_workspace(context));
  api::CreateWorkspace body;
  body.size_bytes = kWorkspaceBytesMax;
  CAIRN_TRY(api::Volume workspace, client.create_workspace(body, context.call()));
  transfer::PutOptions put;
  put.local = "./";
  put.remote = "/";
  put.scan = workspace_scan();
  auto remote = context.remote(workspace.name);
  ProgressPrinter printer(context.output(), "uploading the working directory", context.global().events);
  auto summary = transfer::put(*remote, put, printer.progress(), context.until_interrupted());
  printer.finish();
  if (summary && summary->failed > 0) {
    summary = unreadable(Code::kFileChanged, "could not be read whole", summary->failed_paths, summary->failed);
  }
  if (!summary) {
    static_cast<void>(client.delete_volume(workspace.name, true, Deadline::after(seconds(10))));
    return std::move(summary).error().while_doing("uploading the working directory");
  }
  return workspace.name;
}

Result<api::Run> submit_run(Context& context, client::ApiClient& client, const api::CreateRun& request) {
  std::vector<std::string> written;
  for (const api::MountRequest& mount : request.mounts) {
    if (!mount.read_only) written.push_back(mount.volume);
  }
  return context.change(written, [&] { return client.create_run(request, context.call()); });
}

}  // namespace cairn::cli
