#include "cli/commands.h"

#include <algorithm>

#include <fmt/core.h>

#include "cli/json_text.h"
#include "cli/progress_printer.h"
#include "cli/volume_text.h"
#include "base/quantity.h"
#include "transfer/get.h"

namespace cairn::cli {
namespace {

struct Options {
  std::string name, remote, local, bwlimit;
  bool dry_run = false, checksum = false;
  uint64_t jobs = 8;
  std::vector<std::string> include, exclude;
};

std::string summary_json(const transfer::GetSummary& summary) {
  return JsonText()
      .add("files", summary.files)
      .add("links", summary.links)
      .add("bytes", summary.bytes)
      .add("bytes_received", summary.bytes_received)
      .add("chunks_fetched", summary.chunks_fetched)
      .add("chunks_reused", summary.chunks_reused)
      .add("files_written", summary.files_written)
      .add("skipped", summary.skipped)
      .add("snapshot", summary.snapshot)
      .add("duration_ms", static_cast<uint64_t>(summary.duration.count() / 1000))
      .str();
}

std::string summary_text(const transfer::GetSummary& summary, bool dry_run) {
  double s = static_cast<double>(std::max<int64_t>(1, summary.duration.count())) / 1e6;
  std::string text = fmt::format("{}, {}; received {} in {} ({}/s){}; snapshot {}",
                                 files_and_links(summary.files, summary.links), human_bytes(summary.bytes),
                                 human_bytes(summary.bytes_received), human_duration(summary.duration),
                                 human_bytes(static_cast<uint64_t>(static_cast<double>(summary.bytes) / s)),
                                 summary.bytes_received == 0 ? "" : ", every chunk verified", summary.snapshot);
  return dry_run ? text + "; dry run: nothing was written" : text;
}

Result<int> run_get(Context& context, const Options& options) {
  CAIRN_TRY(client::ApiClient * client, context.connect());
  static_cast<void>(client);
  CAIRN_TRY(VolumeAtSnapshot where, parse_volume_at(options.name));
  transfer::GetOptions get;
  get.remote = options.remote;
  get.local = options.local;
  get.snapshot = where.snapshot;
  get.include = options.include;
  get.exclude = options.exclude;
  get.dry_run = options.dry_run;
  get.checksum = options.checksum;
  get.jobs = static_cast<unsigned>(std::clamp<uint64_t>(options.jobs, 1, 64));
  if (!options.bwlimit.empty()) {
    CAIRN_TRY(get.bytes_per_second, parse_size(options.bwlimit));
  }
  auto remote = context.remote(where.volume);
  Output& output = context.output();
  if (options.local == "-") {
    transfer::CatOptions cat;
    CAIRN_TRY(cat.path, parse_volume_path(options.remote));
    cat.snapshot = where.snapshot;
    transfer::Progress progress;
    auto sink = [&](std::span<const uint8_t> bytes) {
      return output.write_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    };
    CAIRN_TRY(uint64_t written, transfer::cat(*remote, cat, sink, progress, context.until_interrupted()));
    static_cast<void>(written);
    return 0;
  }
  ProgressPrinter printer(output, "get " + options.name, context.global().events);
  auto summary = transfer::get(*remote, get, printer.progress(), context.until_interrupted());
  printer.finish();
  if (!summary) return summary.error();
  if (output.json()) {
    output.document(summary_json(*summary));
  } else {
    output.line(summary_text(*summary, options.dry_run));
  }
  return 0;
}

}  // namespace

void add_volumes_get(Verb parent) {
  auto options = std::make_shared<Options>();
  parent.add("get", "Download a file or folder of one snapshot; type it again to go on after an interruption")
      .text("NAME", options->name, "The volume, or NAME@SNAPSHOT", true)
      .text("REMOTE", options->remote, "A file or folder ('dir/' for what is inside it)", true)
      .text("LOCAL", options->local, "Where to (default: the current folder); '-' writes one file to stdout")
      .flag("--dry-run", options->dry_run, "Say what would be fetched; write nothing")
      .flag("--checksum", options->checksum, "Hash the files that are there already")
      .list("--include", options->include, "Only what matches; may be repeated")
      .list("--exclude", options->exclude, "Leave out what matches; may be repeated")
      .text("--bwlimit", options->bwlimit, "At most so many bytes a second, e.g. 50Mi")
      .number("--jobs,-j", options->jobs, "Ranges at once (default 8)")
      .run([options](Context& context) { return run_get(context, *options); });
}

}  // namespace cairn::cli
