#include "cli/commands.h"

#include <fmt/core.h>

#include "cli/json_text.h"
#include "cli/progress_printer.h"
#include "cli/terminal_text.h"
#include "cli/volume_text.h"
#include "base/quantity.h"
#include "transfer/put.h"

namespace cairn::cli {
namespace {

struct Options {
  std::string name, local, remote, bwlimit;
  bool dry_run = false, checksum = false, mirror = false, follow_links = false;
  uint64_t jobs = 8;
  std::vector<std::string> include, exclude, ignore_files;
  std::string message;
};

std::string summary_json(const transfer::PutSummary& summary) {
  std::vector<std::string> failed;
  for (const std::string& path : summary.failed_paths) failed.push_back(json_quote(shown_path(path)));
  return JsonText()
      .add("files", summary.files)
      .add("links", summary.links)
      .add("bytes", summary.bytes)
      .add("bytes_sent", summary.bytes_sent)
      .add("chunks_new", summary.chunks_new)
      .add("chunks_reused", summary.chunks_reused)
      .add("skipped", summary.skipped)
      .add("failed", summary.failed)
      .raw("failed_paths", json_array(failed))
      .add("files_changed", summary.files_changed)
      .add("files_deleted", summary.files_deleted)
      .add("published", summary.published)
      .add("snapshot", summary.snapshot)
      .add("duration_ms", static_cast<uint64_t>(summary.duration.count() / 1000))
      .str();
}

std::string summary_text(const transfer::PutSummary& summary, bool dry_run) {
  double s = static_cast<double>(std::max<int64_t>(1, summary.duration.count())) / 1e6;
  std::string text = fmt::format("{}, {}; sent {} in {} ({}/s)", files_and_links(summary.files, summary.links), human_bytes(summary.bytes),
                                 human_bytes(summary.bytes_sent), human_duration(summary.duration),
                                 human_bytes(static_cast<uint64_t>(static_cast<double>(summary.bytes) / s)));
  if (summary.files_deleted) text += fmt::format("; {} deleted", human_count(summary.files_deleted));
  if (summary.skipped) text += fmt::format("; {} skipped", human_count(summary.skipped));
  if (dry_run) return text + "; dry run: nothing was changed";
  if (!summary.published) return text + fmt::format("; nothing changed, snapshot {}", summary.snapshot);
  return text + fmt::format("; snapshot {}", summary.snapshot);
}

Result<transfer::PutOptions> put_options(const Options& options) {
  transfer::PutOptions put;
  put.local = options.local;
  put.remote = options.remote;
  put.scan.include = options.include;
  put.scan.exclude = options.exclude;
  put.scan.ignore_files = options.ignore_files;
  put.scan.follow_links = options.follow_links;
  put.mirror = options.mirror;
  put.dry_run = options.dry_run;
  put.checksum = options.checksum;
  put.jobs = static_cast<unsigned>(std::clamp<uint64_t>(options.jobs, 1, 64));
  put.message = options.message;
  if (!options.bwlimit.empty()) {
    CAIRN_TRY(put.bytes_per_second, parse_size(options.bwlimit));
  }
  return put;
}

// Only for a put that can begin: a refused one leaves no empty volume behind.
Status create_if_missing(Context& context, client::ApiClient& client, const std::string& name, const transfer::PutOptions& put) {
  auto there = client.get_volume(name, context.call());
  if (there) return ok();
  if (there.error().code() != Code::kVolumeNotFound) return there.error();
  CAIRN_CHECK_OK(transfer::check_put(put));
  api::CreateVolume body;
  body.name = name;
  CAIRN_TRY(api::Volume volume, client.create_volume(body, context.call()));
  context.output().note("created volume " + volume.name + ", " + size_text(volume.size_bytes));
  return ok();
}

Result<int> run_put(Context& context, const Options& options, bool create_missing) {
  CAIRN_TRY(client::ApiClient * client, context.connect());
  CAIRN_TRY(transfer::PutOptions put, put_options(options));
  if (create_missing && !options.dry_run) CAIRN_CHECK_OK(create_if_missing(context, *client, options.name, put));
  auto remote = context.remote(options.name);
  ProgressPrinter printer(context.output(), "put " + options.name, context.global().events);
  auto summary = transfer::put(*remote, put, printer.progress(), context.until_interrupted());
  printer.finish();
  if (!summary) return summary.error();
  Output& output = context.output();
  if (output.json()) {
    output.document(summary_json(*summary));
  } else {
    output.line(summary_text(*summary, options.dry_run));
  }
  if (summary->failed == 0) return 0;
  output.note(fmt::format("cairn: {} could not be read whole and {} not on the volume as now here; put again when {} can be read",
                          summary->failed == 1 ? "1 file or folder" : human_count(summary->failed) + " files or folders",
                          summary->failed == 1 ? "is" : "are", summary->failed == 1 ? "it" : "they"));
  return 1;
}

}  // namespace

void add_volumes_put(Verb parent, bool create_missing) {
  auto options = std::make_shared<Options>();
  parent.add("put", "Upload a file or folder; type it again after an interruption and only what is missing is sent")
      .text("NAME", options->name, "The volume", true)
      .text("LOCAL", options->local, "A file, a folder ('dir/' for what is inside it), or '-' for stdin", true)
      .text("REMOTE", options->remote, "Where to (a trailing '/' means into this folder; default: the top)")
      .flag("--delete", options->mirror, "Also delete what is there and not here (never below runs/)")
      .flag("--dry-run", options->dry_run, "Say what would be sent; change nothing")
      .flag("--checksum", options->checksum, "Read every file, even those that look unchanged")
      .flag("--follow-links", options->follow_links, "Upload what symlinks point to")
      .list("--include", options->include, "Only what matches; may be repeated")
      .list("--exclude", options->exclude, "Leave out what matches; may be repeated")
      .list("--ignore-file", options->ignore_files, "A file of patterns, as .gitignore; may be repeated")
      .text("--bwlimit", options->bwlimit, "At most so many bytes a second, e.g. 50Mi")
      .number("--jobs,-j", options->jobs, "Files at once (default 8)")
      .free_text("--message,-m", options->message, "A note for the snapshot")
      .footer("Example: cairn volumes put research ./my-data datasets/   makes datasets/my-data on the volume")
      .run([options, create_missing](Context& context) { return run_put(context, *options, create_missing); });
}

}  // namespace cairn::cli
