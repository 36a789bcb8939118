//! The storing and changing of entries: each change is one write transaction of the index.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::index::DiskIndex;
use super::layout::BodyName;
use super::row::IndexRow;
use super::{DiskCore, MAX_INLINE_BODY_BYTES};
use crate::cache::entry::EntryId;
use crate::cache::key::{CacheKey, MAX_VARIANTS, NewEntry, size_of};
use crate::cache::reply::CacheReply;
use crate::cache::warning::CacheTrouble;
use crate::cache::writer::{SpilledBody, StoreOutcome};
use crate::error::StoreError;

/// A body that is ready to be stored.
struct ReadyBody {
    length: u64,
    checksum: u64,
    file: Option<BodyName>,
    inline: Option<Vec<u8>>,
}

/// The result of the transaction of a put.
enum PutResult {
    Done {
        replaced: Vec<BodyName>,
        total_bytes: u64,
    },
    Invalidated,
}

impl DiskCore {
    /// Appends to the temporary file of a [`SpilledBody`], and creates the file first if necessary.
    /// Returns `None` if that fails, which is reported.
    pub(in super::super) fn spill(
        &self,
        spilled: Option<SpilledBody>,
        mut bytes: Vec<u8>,
    ) -> Option<SpilledBody> {
        let write = || -> std::io::Result<SpilledBody> {
            let mut spilled = match spilled {
                Some(spilled) => spilled,
                None => SpilledBody {
                    file: self.layout.temporary()?,
                    hasher: Box::new(Xxh3::new()),
                    spare: Vec::new(),
                },
            };
            spilled.file.write(&bytes)?;
            spilled.hasher.update(&bytes);
            bytes.clear();
            spilled.spare = bytes;
            Ok(spilled)
        };
        write()
            .map_err(|error| self.not_stored(&error.to_string()))
            .ok()
    }

    fn not_stored(&self, why: &str) {
        let root = self.layout.root.display();
        self.warnings.report(CacheTrouble::NotStored, || {
            format!(
                "a response could not be stored in the cache {root}: {why}; requests go on \
                 without it (make room or make the directory writable)"
            )
        });
    }

    /// Stores a response: a file thread writes the rest of its [`SpilledBody`], then the index
    /// thread writes its row.
    pub(in super::super) fn put(
        core: &Arc<Self>,
        new: NewEntry,
        spilled: Option<SpilledBody>,
        rest: Vec<u8>,
    ) -> CacheReply<StoreOutcome> {
        let (sender, reply) = CacheReply::later(StoreOutcome::Failed);
        let own = Arc::clone(core);
        let store = move |core: &Arc<Self>, index: &mut DiskIndex, body: ReadyBody| {
            let (stored, is_full) = core.put_row(index, &new, &body);
            let _ = sender.send(stored);
            if is_full {
                let _ = core.evict(index, core.options.max_bytes / 10 * 9);
            }
            core.maintain(index);
        };
        if spilled.is_none() && rest.len() <= MAX_INLINE_BODY_BYTES {
            let body = ReadyBody {
                length: rest.len() as u64,
                checksum: xxh3_64(&rest),
                file: None,
                inline: Some(rest),
            };
            core.in_index(Box::new(move |index| store(&own, index, body)));
        } else {
            core.in_files(Box::new(move |_| {
                if let Some(body) = own.finish_file(spilled, rest) {
                    let core = Arc::clone(&own);
                    own.in_index(Box::new(move |index| store(&core, index, body)));
                }
            }));
        }
        reply
    }

    /// Writes the rest of a [`SpilledBody`], and gives its file its final name.
    fn finish_file(&self, spilled: Option<SpilledBody>, rest: Vec<u8>) -> Option<ReadyBody> {
        let spilled = self.spill(spilled, rest)?;
        let (length, checksum) = (spilled.file.length(), spilled.hasher.digest());
        let kept = self.layout.keep(spilled.file);
        let name = kept
            .map_err(|error| self.not_stored(&error.to_string()))
            .ok()?;
        Some(ReadyBody {
            length,
            checksum,
            file: Some(name),
            inline: None,
        })
    }

    /// Commits the row of a response. Also returns whether the cache exceeds its size limit.
    fn put_row(
        &self,
        index: &mut DiskIndex,
        new: &NewEntry,
        body: &ReadyBody,
    ) -> (StoreOutcome, bool) {
        let file = body.file;
        let row = IndexRow {
            id: EntryId {
                row: 0,
                key: new.key,
                variant: new.variant,
                checksum: body.checksum,
            },
            url: new.url.clone(),
            host: new.host.clone(),
            stored_at: self.clock.wall().as_micros(),
            length: body.length,
            file,
            metadata: new.metadata.clone(),
            body: None,
        };
        let inline = body.inline.as_deref();
        let put = index.write(self, |connection| {
            // An invalidation increases its counter before it takes the write lock, so this check
            // sees every earlier invalidation. A later invalidation removes this row.
            if self.marks.stamp(&new.key) != new.since {
                return Ok(PutResult::Invalidated);
            }
            let replaced = replace(connection, &row, inline)?;
            let total: i64 = connection
                .prepare_cached("SELECT bytes FROM totals")?
                .query_row([], |row| row.get(0))?;
            Ok(PutResult::Done {
                replaced,
                total_bytes: total.max(0).unsigned_abs(),
            })
        });
        match put {
            Ok(PutResult::Done {
                replaced,
                total_bytes,
            }) => {
                self.changed(&new.key);
                self.invalid.forget(&new.key);
                for name in replaced {
                    self.layout.remove_body(name);
                }
                (StoreOutcome::Yes, total_bytes > self.options.max_bytes)
            }
            Ok(PutResult::Invalidated) => {
                self.discard(file);
                (StoreOutcome::Invalidated, false)
            }
            Err(error) => {
                self.discard(file);
                self.not_stored(&error.to_string());
                (StoreOutcome::Failed, false)
            }
        }
    }

    fn discard(&self, file: Option<BodyName>) {
        if let Some(name) = file {
            self.layout.remove_body(name);
        }
    }

    /// Replaces the metadata of an entry. Returns `false` if the entry is no longer stored.
    pub(in super::super) fn update_metadata(
        &self,
        index: &mut DiskIndex,
        id: &EntryId,
        metadata: &Bytes,
    ) -> Result<bool, StoreError> {
        let updated = index.write(self, |connection| {
            let mut rows = connection.prepare_cached(super::row::SELECT_KEY)?;
            let rows = rows
                .query_map([id.key.as_bytes()], |row| Ok(IndexRow::read(row)))?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            let Some(mut row) = rows.into_iter().flatten().find(|row| row.id == *id) else {
                return Ok(false);
            };
            row.metadata = metadata.clone();
            let size = size_of(row.length, metadata, &row.url, &row.host);
            connection
                .prepare_cached(
                    "UPDATE entries SET metadata = ?2, row_checksum = ?3, size = ?4 WHERE id = ?1",
                )?
                .execute(params![
                    id.row,
                    &metadata[..],
                    row.checksum().cast_signed(),
                    size.cast_signed()
                ])?;
            Ok(true)
        });
        self.changed(&id.key);
        updated
    }

    /// Removes an entry. Returns `false` if the entry is no longer stored.
    pub(in super::super) fn remove(
        &self,
        index: &mut DiskIndex,
        id: &EntryId,
    ) -> Result<bool, StoreError> {
        let removed = index.write(self, |connection| {
            let mut found = connection.prepare_cached(
                "SELECT file FROM entries \
                 WHERE id = ?1 AND key = ?2 AND variant = ?3 AND checksum = ?4",
            )?;
            let file = found
                .query_row(
                    params![
                        id.row,
                        id.key.as_bytes(),
                        id.variant.as_bytes(),
                        id.checksum.cast_signed()
                    ],
                    file_of,
                )
                .optional()?;
            if file.is_some() {
                delete(connection, id.row)?;
            }
            Ok(file)
        });
        self.changed(&id.key);
        let removed = removed?;
        self.discard(removed.flatten());
        Ok(removed.is_some())
    }

    /// Removes a row that cannot be decoded, and its file if the row names a file.
    pub(super) fn remove_row(&self, index: &mut DiskIndex, row: i64) -> Result<bool, StoreError> {
        let removed = index.write(self, |connection| {
            let file = connection
                .prepare_cached("SELECT file FROM entries WHERE id = ?1")?
                .query_row([row], file_of)
                .optional()?;
            delete(connection, row)?;
            Ok(file)
        })?;
        self.discard(removed.flatten());
        Ok(removed.is_some())
    }

    /// Removes all variants of a [`CacheKey`]. This process stops serving them at the call.
    pub(in super::super) fn invalidate(
        core: &Arc<Self>,
        key: &CacheKey,
    ) -> CacheReply<Result<(), StoreError>> {
        core.marks.invalidated(key);
        core.memory.lock().remove(key);
        let key = *key;
        Self::ask(Self::in_index, core, Ok(()), move |core, index| {
            let removed = core.remove_key(index, &key);
            if removed.is_err() {
                core.invalid.add(key);
            }
            removed
        })
    }

    fn remove_key(&self, index: &mut DiskIndex, key: &CacheKey) -> Result<(), StoreError> {
        let files = index.write(self, |connection| {
            let files = connection
                .prepare_cached("SELECT file FROM entries WHERE key = ?1")?
                .query_map([key.as_bytes()], file_of)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            if !files.is_empty() {
                connection
                    .prepare_cached("DELETE FROM entries WHERE key = ?1")?
                    .execute([key.as_bytes()])?;
            }
            Ok(files)
        });
        self.changed(key);
        for file in files? {
            self.discard(file);
        }
        Ok(())
    }
}

/// Reads the [`BodyName`] of a body file from a row's first column. Returns `None` if the value is
/// not a valid name.
pub(super) fn file_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<BodyName>> {
    let name = row.get_ref(0)?.as_blob().ok();
    Ok(name.and_then(|name| name.try_into().ok()).map(BodyName))
}

/// Deletes a row. Triggers keep the totals.
pub(super) fn delete(connection: &Connection, row: i64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM entries WHERE id = ?1")?
        .execute([row])
}

/// Inserts a row in place of an older one of its variant, and drops the oldest variants above
/// [`MAX_VARIANTS`]. Returns the files that are no longer needed.
fn replace(
    connection: &Connection,
    row: &IndexRow,
    inline: Option<&[u8]>,
) -> rusqlite::Result<Vec<BodyName>> {
    let (key, variant) = (row.id.key.as_bytes(), row.id.variant.as_bytes());
    let mut variants = connection
        .prepare_cached("SELECT file, id, variant, stored_at FROM entries WHERE key = ?1")?
        .query_map([key], |found| {
            let is_same = found
                .get_ref(2)?
                .as_blob()
                .is_ok_and(|other| other == variant);
            let stored_at = found.get_ref(3)?.as_i64().unwrap_or(i64::MIN);
            // The older row of this variant is dropped first, then the oldest other rows.
            Ok((
                !is_same,
                stored_at,
                found.get::<_, i64>(1)?,
                file_of(found)?,
            ))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    variants.sort_by_key(|(is_other, stored_at, id, _)| (*is_other, *stored_at, *id));
    let mut files = Vec::new();
    let mut left = variants.len();
    for (is_other, _, id, file) in variants {
        if is_other && left < MAX_VARIANTS {
            break;
        }
        delete(connection, id)?;
        files.extend(file);
        left -= 1;
    }
    let size = size_of(row.length, &row.metadata, &row.url, &row.host);
    connection
        .prepare_cached(
            "INSERT INTO entries (key, variant, url, host, stored_at, length, checksum, \
             row_checksum, size, file, metadata, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            key,
            variant,
            row.url,
            row.host,
            row.stored_at,
            row.length.cast_signed(),
            row.id.checksum.cast_signed(),
            row.checksum().cast_signed(),
            size.cast_signed(),
            row.file.as_ref().map(|name| &name.0[..]),
            &row.metadata[..],
            inline
        ])?;
    connection
        .prepare_cached("INSERT INTO uses VALUES (?1, ?2)")?
        .execute(params![connection.last_insert_rowid(), row.stored_at])?;
    Ok(files)
}
