//! Flight leases in the index. Their instants are those of the boot clock, which all processes of
//! the machine share. A record of an earlier boot is ignored.

use std::sync::Arc;

use docstokg_policy::time::BootInstant;
use rusqlite::{Connection, OptionalExtension, params};

use super::DiskCore;
use super::index::DiskIndex;
use crate::cache::key::CacheKey;
use crate::cache::lease::{self, Claim, Holder, LeaseRecord};
use crate::error::StoreError;

impl DiskCore {
    /// Reads the [`LeaseRecord`] for a key in this boot of the machine.
    fn lease(
        &self,
        connection: &Connection,
        key: &CacheKey,
    ) -> rusqlite::Result<Option<LeaseRecord>> {
        let found = connection
            .prepare_cached("SELECT holder, until, boot FROM leases WHERE key = ?1")?
            .query_row([key.as_bytes()], |row| {
                let lease = LeaseRecord {
                    holder: row
                        .get::<_, Option<i64>>(0)?
                        .map(|holder| Holder(holder.cast_unsigned())),
                    until: BootInstant::from_micros(row.get::<_, i64>(1)?.max(0).unsigned_abs()),
                };
                Ok((lease, row.get::<_, i64>(2)?))
            })
            .optional()?;
        Ok(found
            .filter(|(_, boot)| *boot == self.boot)
            .map(|(lease, _)| lease))
    }

    fn record(
        &self,
        connection: &Connection,
        key: &CacheKey,
        lease: LeaseRecord,
    ) -> rusqlite::Result<()> {
        let until = i64::try_from(lease.until.as_micros()).unwrap_or(i64::MAX);
        connection
            .prepare_cached("INSERT OR REPLACE INTO leases VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![
                key.as_bytes(),
                lease.holder.map(|holder| holder.0.cast_signed()),
                until,
                self.boot
            ])?;
        Ok(())
    }

    /// Claims a key. If the [`DiskIndex`] fails, the claimant leads, because a flight saves
    /// requests and must not stop a request.
    pub(in super::super) fn claim(
        &self,
        index: &mut DiskIndex,
        key: &CacheKey,
        holder: Holder,
        until: BootInstant,
    ) -> Claim {
        let claim = index.write(self, |connection| {
            let now = self.clock.boot();
            let claim = lease::claim(self.lease(connection, key)?, holder, now);
            if claim == Claim::Leader {
                self.record(connection, key, LeaseRecord::flight(holder, until, now))?;
            }
            Ok(claim)
        });
        claim.unwrap_or(Claim::Leader)
    }

    pub(in super::super) fn renew(
        &self,
        index: &mut DiskIndex,
        key: &CacheKey,
        holder: Holder,
        until: BootInstant,
    ) -> bool {
        let renewed = index.write(self, |connection| {
            let now = self.clock.boot();
            let is_held = lease::is_held(self.lease(connection, key)?, holder, now);
            if is_held {
                self.record(connection, key, LeaseRecord::flight(holder, until, now))?;
            }
            Ok(is_held)
        });
        renewed.unwrap_or(false)
    }

    pub(in super::super) fn release(&self, index: &mut DiskIndex, key: &CacheKey, holder: Holder) {
        let released = index.write(self, |connection| {
            connection
                .prepare_cached("DELETE FROM leases WHERE key = ?1 AND holder = ?2")?
                .execute(params![key.as_bytes(), holder.0.cast_signed()])
        });
        if released.is_ok_and(|rows| rows > 0) {
            self.marks.changed(key);
        }
    }

    pub(in super::super) fn remember_uncacheable(
        self: &Arc<Self>,
        index: &mut DiskIndex,
        key: &CacheKey,
        until: BootInstant,
    ) {
        let recorded = index.write(self, |connection| {
            let now = self.clock.boot();
            self.record(connection, key, LeaseRecord::uncacheable(until, now))
        });
        if recorded.is_ok() {
            self.marks.changed(key);
        }
        self.maintain(index);
    }

    /// Drops expired records, and those of an earlier boot.
    pub(super) fn drop_expired_leases(&self, index: &mut DiskIndex) -> Result<(), StoreError> {
        let now = i64::try_from(self.clock.boot().as_micros()).unwrap_or(i64::MAX);
        index.write(self, |connection| {
            connection.execute(
                "DELETE FROM leases WHERE until <= ?1 OR boot != ?2",
                [now, self.boot],
            )
        })?;
        Ok(())
    }
}
