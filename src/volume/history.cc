#include "volume/history.h"

#include "base/log.h"
#include "base/whole_number.h"
#include "catalog/leases.h"
#include "catalog/pins.h"
#include "catalog/publish_ops.h"
#include "catalog/snapshots.h"
#include "catalog/uploads.h"
#include "catalog/volumes.h"
#include "store/paths.h"
#include "volume/rows.h"
#include "volume/uploads.h"

namespace cairn::volume {
namespace {

constexpr int64_t kDaysMax = 3'650;
constexpr int64_t kCountMax = 10'000;
constexpr int64_t kPage = 500;
// Results of publications are kept longer than anybody asks again.
constexpr Duration kResultsKept = hours(8 * 24);

}  // namespace

Result<HistoryPolicy> HistoryPolicy::parse(std::string_view text) {
  auto invalid = [&] {
    return Error(Code::kUsage,
                 "the history '" + store::escape_for_display(text.substr(0, 64)) +
                     "' is neither days (\"7d\") nor a number of snapshots (\"20\") nor \"off\"",
                 "write 1d to 3650d, 1 to 10000, or off");
  };
  HistoryPolicy policy;
  if (text == "off") {
    policy.kind = Kind::kOff;
    policy.amount = 0;
    return policy;
  }
  policy.kind = text.ends_with('d') ? Kind::kDays : Kind::kCount;
  std::string_view digits = policy.kind == Kind::kDays ? text.substr(0, text.size() - 1) : text;
  policy.amount = whole_number<decltype(policy.amount)>(digits).value_or(0);
  if (policy.amount < 1) return invalid();
  if (policy.amount > (policy.kind == Kind::kDays ? kDaysMax : kCountMax)) return invalid();
  return policy;
}

std::string HistoryPolicy::to_string() const {
  switch (kind) {
    case Kind::kDays: return std::to_string(amount) + "d";
    case Kind::kCount: return std::to_string(amount);
    case Kind::kOff: return "off";
  }
  return "off";
}

Result<int64_t> Retention::run(VolumeId volume) {
  return context_.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
    CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find(tx, volume));
    if (!row || row->state != "created") return 0;
    CAIRN_TRY(HistoryPolicy policy, HistoryPolicy::parse(row->history));
    CAIRN_TRY(Time now, context_.catalog_clock.removal_now(tx));
    CAIRN_TRY(int64_t interim, catalog::snapshots::retire_interim(tx, volume, now));
    CAIRN_TRY(int64_t side, catalog::snapshots::retire_side(tx, volume, now));
    int64_t regular = 0;
    switch (policy.kind) {
      case HistoryPolicy::Kind::kDays: {
        CAIRN_TRY(regular, catalog::snapshots::retire_superseded(tx, volume, now - hours(24 * policy.amount), now));
        break;
      }
      case HistoryPolicy::Kind::kCount: {
        CAIRN_TRY(regular, catalog::snapshots::retire_beyond(tx, volume, policy.amount, now));
        break;
      }
      case HistoryPolicy::Kind::kOff: {
        CAIRN_TRY(regular, catalog::snapshots::retire_superseded(tx, volume, now, now));
        break;
      }
    }
    return interim + side + regular;
  });
}

Result<int64_t> Retention::run_all() {
  CAIRN_CHECK_OK(Uploads(context_).lapse_abandoned());
  Status cleaned = context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(Time now, context_.catalog_clock.removal_now(tx));
    CAIRN_CHECK_OK(catalog::pins::remove_dead(tx));
    CAIRN_CHECK_OK(catalog::pins::remove_of_ended_uploads(tx));
    CAIRN_CHECK_OK(catalog::publish_ops::remove_finished(tx, now - kResultsKept, 10'000));
    CAIRN_CHECK_OK(catalog::uploads::remove_finished(tx, now - kResultsKept, 10'000));
    CAIRN_CHECK_OK(catalog::leases::remove_ended(tx, now - kResultsKept, 10'000));
    return ok();
  });
  CAIRN_CHECK_OK(cleaned);
  int64_t total = 0;
  VolumeId after;
  while (true) {
    CAIRN_TRY(std::vector<catalog::VolumeRow> page, context_.db.read([&](catalog::Tx& tx) {
      return catalog::volumes::list_in_state(tx, "created", after, kPage);
    }));
    for (const catalog::VolumeRow& volume : page) {
      after = volume.id;
      Result<int64_t> retired = run(volume.id);
      if (!retired) {
        log_warning("history of volume '{}' was not cut: {}", volume.name, retired.error().to_string());
        continue;
      }
      total += *retired;
    }
    if (page.size() < static_cast<size_t>(kPage)) return total;
  }
}

}  // namespace cairn::volume
