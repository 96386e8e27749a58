#include "cli/volume_text.h"

#include <fmt/core.h>

#include "cli/json_text.h"
#include "cli/output.h"

namespace cairn::cli {

std::string volume_json(const api::Volume& volume, bool with_aside) {
  JsonText json;
  if (with_aside) {
    std::vector<std::string> aside;
    for (const api::Snapshot& snapshot : volume.side_snapshots) aside.push_back(snapshot_json(snapshot));
    json.raw("kept_aside", json_array(aside));
  }
  json.add("name", volume.name)
      .add("id", volume.id.hex())
      .add("owner", volume.owner)
      .add("size_bytes", volume.size_bytes)
      .add("used_bytes", volume.used_bytes)
      .add("files", volume.files)
      .add("entries", volume.entries)
      .add("status", volume.status);
  if (volume.writer.empty()) {
    json.raw("writer", "null");
  } else {
    json.add("writer", volume.writer);
  }
  return json.add("history", volume.history)
      .add("snapshot", volume.snapshot)
      .add("created_at", to_rfc3339(volume.created_at))
      .add("created_by", volume.created_by)
      .str();
}

std::string snapshot_json(const api::Snapshot& snapshot) {
  JsonText json;
  json.add("number", snapshot.number)
      .add("kind", snapshot.kind)
      .add("files", snapshot.files)
      .add("entries", snapshot.entries)
      .add("bytes", snapshot.bytes)
      .add("created_at", to_rfc3339(snapshot.created_at))
      .add("author", snapshot.author)
      .add("root", snapshot.root)
      .add("tag", snapshot.tag)
      .add("interim", snapshot.interim);
  return (snapshot.side.empty() ? json.raw("side", "null") : json.add("side", snapshot.side)).str();
}

std::string volume_text(const api::Volume& volume) {
  std::string text = fmt::format(
      "Name        {}\nSize        {}\nUsed        {} in {}\nSnapshot    {}\nStatus      {}\nWriter      {}\n"
      "History     {}\nCreated     {} by {}",
      volume.name, size_text(volume.size_bytes), human_bytes(volume.used_bytes), plural(volume.files, "file"),
      volume.snapshot == 0 ? "none yet" : std::to_string(volume.snapshot), volume.status,
      volume.writer.empty() ? "-" : volume.writer, volume.history, human_time(volume.created_at), volume.created_by);
  if (volume.purge_at) text += "\nPurged      " + human_time(*volume.purge_at);
  return text;
}

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? human_bytes(bytes) : fmt::format("{} {}", bytes, kUnits[unit]);
}

}  // namespace cairn::cli
