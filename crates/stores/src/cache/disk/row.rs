//! Rows of the index: reading and checking them, and the bodies that belong to them.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use docstokg_policy::time::Timestamp;
use rusqlite::{Row as SqlRow, types::ValueRef};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::DiskCore;
use super::layout::BodyName;
use crate::cache::body::FileBody;
use crate::cache::entry::{CacheEntry, EntryBody, EntryId};
use crate::cache::key::{CacheKey, VariantHash};

/// The query for the rows of a key.
pub(super) const SELECT_KEY: &str = "SELECT id, key, variant, url, host, stored_at, length, \
    checksum, row_checksum, file, metadata, body FROM entries WHERE key = ?1";
/// The query for a page of all rows.
pub(super) const SELECT_PAGE: &str = "SELECT id, key, variant, url, host, stored_at, length, \
    checksum, row_checksum, file, metadata, body FROM entries WHERE id > ?1 ORDER BY id LIMIT ?2";

/// An entry in the index, without its body.
pub(super) struct IndexRow {
    pub(super) id: EntryId,
    pub(super) url: String,
    pub(super) host: String,
    pub(super) stored_at: i64,
    pub(super) length: u64,
    pub(super) file: Option<BodyName>,
    pub(super) metadata: Bytes,
    /// The body, if it is stored in the row.
    pub(super) body: Option<Bytes>,
}

/// The reason why an entry cannot be served.
pub(super) enum EntryDamage {
    /// The file does not exist. Another process may have replaced the entry since its row was read.
    Missing,
    /// Body or row differ from what was stored.
    Wrong(String),
}

impl IndexRow {
    /// Reads a row. Returns `None` if the row cannot be decoded, or if its checksum is wrong. The
    /// checksum excludes the body.
    pub(super) fn read(row: &SqlRow<'_>) -> Option<Self> {
        let integer = |column| row.get_ref(column).ok()?.as_i64().ok();
        let blob = |column| row.get_ref(column).ok()?.as_blob().ok();
        let text = |column| row.get_ref(column).ok()?.as_str().ok().map(str::to_owned);
        let file = match row.get_ref(9).ok()? {
            ValueRef::Null => None,
            ValueRef::Blob(name) => Some(BodyName(name.try_into().ok()?)),
            _ => return None,
        };
        let body = match row.get_ref(11).ok()? {
            ValueRef::Null => None,
            ValueRef::Blob(body) => Some(Bytes::copy_from_slice(body)),
            _ => return None,
        };
        if file.is_some() == body.is_some() {
            return None;
        }
        let found = Self {
            id: EntryId {
                row: integer(0)?,
                key: CacheKey::new(blob(1)?.try_into().ok()?),
                variant: VariantHash::new(blob(2)?.try_into().ok()?),
                checksum: integer(7)?.cast_unsigned(),
            },
            url: text(3)?,
            host: text(4)?,
            stored_at: integer(5)?,
            length: u64::try_from(integer(6)?).ok()?,
            file,
            metadata: Bytes::copy_from_slice(blob(10)?),
            body,
        };
        (found.checksum() == integer(8)?.cast_unsigned()).then_some(found)
    }

    /// Returns the checksum of the row, without the body and the id.
    pub(super) fn checksum(&self) -> u64 {
        let mut hasher = Xxh3::new();
        hasher.update(self.id.key.as_bytes());
        hasher.update(self.id.variant.as_bytes());
        let file = self.file.map_or([0; 16], |name| name.0);
        for part in [
            self.url.as_bytes(),
            self.host.as_bytes(),
            &file,
            &self.metadata,
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.update(&self.stored_at.to_le_bytes());
        hasher.update(&self.length.to_le_bytes());
        hasher.update(&self.id.checksum.to_le_bytes());
        hasher.digest()
    }

    /// Opens the [`EntryBody`]. A body of at most `in_memory` bytes is read and verified; a larger
    /// one stays a file.
    pub(super) fn open_body(
        &self,
        core: &Arc<DiskCore>,
        in_memory: u64,
    ) -> Result<EntryBody, EntryDamage> {
        if let Some(body) = &self.body {
            self.verify(body)?;
            return Ok(EntryBody::Whole(body.clone()));
        }
        if self.length <= in_memory {
            let file = self.open_unchecked(core)?;
            let body = read_whole(&file, usize::try_from(self.length).unwrap_or(0))
                .map_err(|error| EntryDamage::Wrong(format!("cannot be read ({error})")))?;
            self.verify(&body)?;
            return Ok(EntryBody::Whole(body.into()));
        }
        Ok(EntryBody::File(Arc::new(FileBody {
            file: self.open_file(core)?,
            length: self.length,
            id: self.id,
            url: self.url.as_str().into(),
            core: Arc::clone(core),
            verified: AtomicBool::new(false),
        })))
    }

    fn open_unchecked(&self, core: &DiskCore) -> Result<File, EntryDamage> {
        let Some(name) = self.file else {
            return Err(EntryDamage::Missing);
        };
        core.layout.open_body(name).map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                return EntryDamage::Missing;
            }
            EntryDamage::Wrong(format!("cannot be opened ({error})"))
        })
    }

    /// Opens the file of the body, and checks its length.
    pub(super) fn open_file(&self, core: &DiskCore) -> Result<File, EntryDamage> {
        let file = self.open_unchecked(core)?;
        match file.metadata() {
            Ok(found) if found.is_file() && found.len() == self.length => Ok(file),
            Ok(found) => Err(EntryDamage::Wrong(format!(
                "has {} bytes instead of {}",
                found.len(),
                self.length
            ))),
            Err(error) => Err(EntryDamage::Wrong(format!("cannot be read ({error})"))),
        }
    }

    fn verify(&self, body: &[u8]) -> Result<(), EntryDamage> {
        if body.len() as u64 == self.length && xxh3_64(body) == self.id.checksum {
            return Ok(());
        }
        Err(EntryDamage::Wrong("does not match its checksum".to_owned()))
    }

    /// Creates a [`CacheEntry`] from the row and its body.
    pub(super) fn into_entry(self, body: EntryBody, used_at: Timestamp) -> CacheEntry {
        CacheEntry {
            id: self.id,
            metadata: self.metadata,
            url: self.url.into(),
            host: self.host.into(),
            stored_at: Timestamp::from_micros(self.stored_at),
            length: self.length,
            body,
            decoded: OnceLock::new(),
            used_at: AtomicI64::new(used_at.as_micros()),
        }
    }
}

/// Reads `length` bytes of a file, or all bytes of a shorter file, into memory that is not cleared
/// first.
fn read_whole(file: &File, length: usize) -> rustix::io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(length);
    while body.len() < length {
        match rustix::io::read(file, rustix::buffer::spare_capacity(&mut body)) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    body.truncate(length);
    Ok(body)
}
