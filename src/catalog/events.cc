#include "catalog/events.h"

#include <algorithm>

namespace cairn::catalog {

namespace {

// Cut at a character, not inside of one.
std::string cut(const std::string& text) {
  if (text.size() <= kEventDetailBytesMax) return text;
  size_t end = kEventDetailBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

Status add_event(Tx& tx, const Event& event) {
  CAIRN_TRY(Outcome added,
            tx.exec("insert into events (at_us, actor_id, actor_name, action, object_kind, object_name, detail, origin)"
                    " values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    {event.at.us, event.actor ? Value(event.actor->hex()) : Value(), event.actor_name, event.action,
                     event.object_kind, event.object_name, cut(event.detail), event.origin}));
  return ok();
}

Result<std::vector<Event>> list_events(Tx& tx, const EventFilter& filter, int64_t limit) {
  CAIRN_TRY(Rows rows,
            tx.query("select seq, at_us, actor_id, actor_name, action, object_kind, object_name, detail, origin from events"
                     " where seq < ?1 and (?2 = '' or object_kind = ?2) and (?3 = '' or object_name = ?3)"
                     " order by seq desc limit ?4",
                     {filter.before_seq, filter.object_kind, filter.object_name,
                      std::clamp<int64_t>(limit, 1, kEventsPageMax)}));
  std::vector<Event> events;
  events.reserve(rows.size());
  for (const Row& row : rows) {
    Event event;
    event.seq = row.integer(0);
    event.at = row.time(1);
    if (!row.is_null(2)) {
      CAIRN_TRY(event.actor, row.id<UserId>(2));
    }
    event.actor_name = row.text(3);
    event.action = row.text(4);
    event.object_kind = row.text(5);
    event.object_name = row.text(6);
    event.detail = row.text(7);
    event.origin = row.text(8);
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace cairn::catalog
