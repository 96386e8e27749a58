#include "catalog/pins.h"

namespace cairn::catalog::pins {
namespace {

constexpr char kReaders[] = "purpose not like 'upload %' and purpose not like 'run-%'";

Result<std::optional<PinRow>> one(Tx& tx, const std::string& which, const Values& values) {
  CAIRN_TRY(std::optional<Row> row,
            tx.query_one("select id, volume_id, number, purpose, created_us, expires_lease_us from pins where " + which +
                             " and expires_lease_us > " + kLeaseNowSql + " order by created_us desc, id limit 1",
                         values));
  if (!row) return std::optional<PinRow>();
  PinRow pin;
  CAIRN_TRY(pin.id, row->id<PinId>(0));
  CAIRN_TRY(pin.volume, row->id<VolumeId>(1));
  pin.number = row->integer(2);
  pin.purpose = row->text(3);
  pin.created = row->time(4);
  pin.expires_lease = LeaseTime{row->integer(5)};
  return std::optional<PinRow>(std::move(pin));
}

}  // namespace

Status insert(Tx& tx, const PinRow& row) {
  CAIRN_CHECK_OK(tx.update("insert into pins (id, volume_id, number, purpose, created_us, expires_lease_us) "
                           "values (?1, ?2, ?3, ?4, ?5, ?6)",
                           {row.id.hex(), row.volume.hex(), row.number, row.purpose, row.created.us, row.expires_lease.us}));
  return ok();
}

Result<int64_t> count_readers(Tx& tx, VolumeId volume) {
  CAIRN_TRY(Rows rows, tx.query(std::string("select count(*) from pins where volume_id = ?1 and ") + kReaders +
                                    " and expires_lease_us > " + kLeaseNowSql,
                                {volume.hex()}));
  return rows.at(0).integer(0);
}

Result<bool> remove_idlest_reader(Tx& tx, VolumeId volume, LeaseTime expires) {
  CAIRN_TRY(int64_t affected, tx.update(std::string("delete from pins where id in (select id from pins where volume_id = ?1 and ") +
                                            kReaders + " and expires_lease_us <= ?2 and expires_lease_us > " + kLeaseNowSql +
                                            " order by expires_lease_us, id limit 1)",
                                        {volume.hex(), expires.us}));
  return affected == 1;
}

Result<std::optional<PinRow>> find(Tx& tx, PinId id) {
  return one(tx, "id = ?1", {id.hex()});
}

Result<std::optional<PinRow>> find_by_purpose(Tx& tx, VolumeId volume, const std::string& purpose) {
  return one(tx, "volume_id = ?1 and purpose = ?2", {volume.hex(), purpose});
}

Result<bool> renew(Tx& tx, PinId id, LeaseTime expires) {
  CAIRN_TRY(int64_t affected,
            tx.update(std::string("update pins set expires_lease_us = ?2 where id = ?1 and expires_lease_us > ") +
                          kLeaseNowSql,
                      {id.hex(), expires.us}));
  return affected == 1;
}

Result<bool> remove(Tx& tx, PinId id) {
  CAIRN_TRY(int64_t affected, tx.update("delete from pins where id = ?1", {id.hex()}));
  return affected == 1;
}

Status remove_of_ended_uploads(Tx& tx) {
  CAIRN_CHECK_OK(tx.update("delete from pins where purpose like 'upload %' and not exists "
                           "(select 1 from uploads u where u.id = substr(pins.purpose, 8) and u.state = 'open')",
                           {}));
  return ok();
}

Status remove_by_purpose(Tx& tx, VolumeId volume, const std::string& purpose) {
  CAIRN_CHECK_OK(tx.update("delete from pins where volume_id = ?1 and purpose = ?2", {volume.hex(), purpose}));
  return ok();
}

Result<int64_t> remove_dead(Tx& tx) {
  return tx.update(std::string("delete from pins where expires_lease_us <= ") + kLeaseNowSql);
}

Status remove_of_volume(Tx& tx, VolumeId volume) {
  CAIRN_CHECK_OK(tx.update("delete from pins where volume_id = ?1", {volume.hex()}));
  return ok();
}

}  // namespace cairn::catalog::pins
