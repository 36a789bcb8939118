//! The copy of a site in this process: the result of the operations of all processes, in the order
//! in which the server added them.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::site::{Site, SiteOperation, SiteResult};
use docstokg_policy::time::BootInstant;
use serde::{Deserialize, Serialize};

use super::batch::{OperationBatch, as_of};
use super::wire::{
    LogEntry, LogPosition, MalformedReply, ReplyKind, ScriptReply, WholeRecord, entry_length,
};
use crate::SITE_RETENTION;
use crate::handle::SiteView;
use crate::record_copy::{BudgetNames, CorruptRecord, Replica, SiteImage};

/// The time for which a process is recorded after its last operation. A call is not repeated later.
const MEMBER_MEMORY: Duration = Duration::from_secs(60);
/// The interval at which the expiry of the record is extended.
const RENEWAL: Duration = Duration::from_secs(3_600);
/// The number of bytes by which the log must exceed the part before it, to be replaced by a
/// snapshot.
const LONGEST_LOG: u64 = 4_096;
/// The number of parts into which that size of the log is divided. The process whose entry crosses
/// the border of a part replaces the log; if this process ends, another follows at the next border.
const PARTS: u64 = 4;

/// A process that has recorded operations.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct RecordMember {
    id: u64,
    /// The number of its last batch.
    number: u64,
    /// The instant at which that batch was added.
    at: BootInstant,
}

/// The content of a snapshot.
#[derive(Default, Serialize, Deserialize)]
struct RecordSnapshot {
    site: SiteImage,
    members: Vec<RecordMember>,
}

/// The batch of the call whose reply is processed.
pub(super) struct OwnBatch<'a> {
    /// The entry that was sent.
    pub(super) entry: &'a [u8],
    pub(super) member: u64,
    pub(super) number: u64,
    pub(super) who: &'a Arc<str>,
    /// The operations as of the instant of the reply, each with the id for its permit or
    /// reservation.
    pub(super) operations: Vec<(u64, SiteOperation<'static>)>,
}

/// The copy of a site on the server.
pub(super) struct RemoteSiteCopy {
    replica: Replica,
    members: Vec<RecordMember>,
    position: Option<LogPosition>,
    /// The last known instant of the server, with the instant of this process at that time.
    seen: Option<(BootInstant, BootInstant)>,
    /// The instant at which the expiry of the record was last extended.
    renewed: Option<BootInstant>,
}

impl From<CorruptRecord> for MalformedReply {
    fn from(_: CorruptRecord) -> Self {
        Self
    }
}

impl RemoteSiteCopy {
    /// Creates an empty copy in which the budgets have the indices of `names`.
    pub(super) fn naming(names: &BudgetNames) -> Self {
        let mut replica = Replica::naming(names);
        replica.include_all_budgets();
        Self {
            replica,
            members: Vec::new(),
            position: None,
            seen: None,
            renewed: None,
        }
    }

    /// Returns the index of a budget, and records its name for a child process.
    pub(super) fn name(&mut self, names: &BudgetNames, name: &str) -> usize {
        let index = self.replica.name(names, name);
        self.replica.include_all_budgets();
        index
    }

    /// Returns the names of the budgets.
    pub(super) fn names(&self) -> &[String] {
        self.replica.names()
    }

    /// Returns the [`LogPosition`] up to which the log is known.
    pub(super) fn position(&self) -> Option<LogPosition> {
        self.position
    }

    /// Clears the position, so that the next reply is the whole record.
    pub(super) fn distrust(&mut self) {
        self.position = None;
    }

    /// Returns the instant of the server at an instant of this process, if known.
    pub(super) fn server_now(&self, here: BootInstant) -> Option<BootInstant> {
        let (server, then) = self.seen.filter(|_| self.position.is_some())?;
        Some(server + here.since(then))
    }

    /// Returns the result of a [`SiteOperation`] of this process if the operation changes nothing.
    /// `now` is an instant of the server, and `here` the same instant on the clock of this process.
    pub(super) fn result_without_change(
        &self,
        operation: &SiteOperation<'_>,
        here: BootInstant,
        now: BootInstant,
    ) -> Option<SiteResult> {
        let operation = as_of(operation, here, now)?;
        self.replica.result_without_change(&operation, now)
    }

    /// Copies the state for display.
    pub(super) fn view(&self, now: BootInstant) -> SiteView {
        self.replica.view(now)
    }

    /// Applies a [`ScriptReply`] to a call with or without a batch, and returns the results of the
    /// batch. Returns `None` without a batch. Also returns `None` if the first reply of a repeated
    /// call was lost, and its results are no longer known.
    pub(super) fn absorb(
        &mut self,
        reply: &ScriptReply,
        own: Option<&OwnBatch<'_>>,
    ) -> Result<Option<Vec<SiteResult>>, MalformedReply> {
        let absorbed = self.try_absorb(reply, own);
        if absorbed.is_err() {
            self.distrust();
        }
        absorbed
    }

    fn try_absorb(
        &mut self,
        reply: &ScriptReply,
        own: Option<&OwnBatch<'_>>,
    ) -> Result<Option<Vec<SiteResult>>, MalformedReply> {
        self.seen = Some((reply.now, reply.here));
        let entry = own.map_or(&[][..], |own| own.entry);
        let before = match reply.kind {
            ReplyKind::Tail => {
                let Some(unknown) = self.unknown_part(reply)? else {
                    return Ok(None);
                };
                self.replay(unknown, entry)?
            }
            _ => self.read_whole(&reply.bytes, entry)?,
        };
        let Some(own) = own else {
            return Ok(None);
        };
        let is_new = self.note_member(own.member, own.number, reply.now);
        let results = is_new.then(|| self.apply_all(&own.operations, own.who, reply.now));
        let position = self.position.as_mut().ok_or(MalformedReply)?;
        position.end += entry_length(entry.len());
        position.stamp = reply.now.as_micros();
        // If a repeated call was added twice, the results of the first entry apply.
        Ok(results.or(before))
    }

    /// Returns the part of a [`ScriptReply`] that is not yet known, because replies to concurrent
    /// calls overlap. Returns `None` if the copy is ahead of the reply.
    fn unknown_part<'a>(&self, reply: &'a ScriptReply) -> Result<Option<&'a [u8]>, MalformedReply> {
        let (known, asked) = self.position.zip(reply.asked_from).ok_or(MalformedReply)?;
        let ahead = known.end.checked_sub(asked.end).ok_or(MalformedReply)?;
        let ahead = usize::try_from(ahead).map_err(|_| MalformedReply)?;
        if known.birth != asked.birth {
            return Err(MalformedReply);
        }
        Ok(reply.bytes.get(ahead..))
    }

    /// Reads a whole record. Returns the results of the batch with exactly this entry, if any.
    fn read_whole(
        &mut self,
        bytes: &[u8],
        entry: &[u8],
    ) -> Result<Option<Vec<SiteResult>>, MalformedReply> {
        self.position = None;
        self.members.clear();
        if bytes.is_empty() {
            self.replica.read_image(&SiteImage::default())?;
            return Ok(None);
        }
        let record = WholeRecord::read(bytes)?;
        let snapshot: RecordSnapshot = match record.snapshot {
            [] => RecordSnapshot::default(),
            bytes => postcard::from_bytes(bytes).map_err(|_| MalformedReply)?,
        };
        self.replica.read_image(&snapshot.site)?;
        self.members = snapshot.members;
        self.position = Some(record.position);
        self.replay(record.log, entry)
    }

    /// Applies a part of the log. Returns the results of the batch with exactly this entry, if any.
    fn replay(
        &mut self,
        mut log: &[u8],
        own: &[u8],
    ) -> Result<Option<Vec<SiteResult>>, MalformedReply> {
        let mut of_own = None;
        while !log.is_empty() {
            let entry = LogEntry::take(&mut log)?;
            let results = self.apply(entry.bytes, BootInstant::from_micros(entry.stamp))?;
            if entry.bytes == own {
                of_own = of_own.or(results);
            }
            let position = self.position.as_mut().ok_or(MalformedReply)?;
            position.end += entry_length(entry.bytes.len());
            position.stamp = entry.stamp;
        }
        Ok(of_own)
    }

    /// Applies an entry. Returns `None` for a repeated entry, which was applied before.
    fn apply(
        &mut self,
        entry: &[u8],
        at: BootInstant,
    ) -> Result<Option<Vec<SiteResult>>, MalformedReply> {
        let batch = OperationBatch::read(entry).ok_or(MalformedReply)?;
        if !self.note_member(batch.member, batch.number, at) {
            return Ok(None);
        }
        let replica = &mut self.replica;
        let operations = batch.operations_at(at, |name| replica.budget(name));
        replica.include_all_budgets();
        let operations = operations.ok_or(MalformedReply)?;
        let who = Arc::from(&*batch.who);
        Ok(Some(self.apply_all(&operations, &who, at)))
    }

    /// Applies the operations of a batch at its instant.
    fn apply_all(
        &mut self,
        operations: &[(u64, SiteOperation<'static>)],
        who: &Arc<str>,
        at: BootInstant,
    ) -> Vec<SiteResult> {
        let apply = |(id, operation): &(u64, SiteOperation<'static>)| {
            self.replica.apply(operation, *id, who, at)
        };
        operations.iter().map(apply).collect()
    }

    /// Records the number of a batch. Returns whether the batch is new.
    fn note_member(&mut self, id: u64, number: u64, at: BootInstant) -> bool {
        let noted = RecordMember { id, number, at };
        match self.members.iter_mut().find(|known| known.id == noted.id) {
            Some(known) if known.number >= noted.number => false,
            Some(known) => {
                *known = noted;
                true
            }
            None => {
                self.members.push(noted);
                true
            }
        }
    }

    /// Writes a snapshot of the known state at an instant of the server.
    pub(super) fn write_snapshot(&mut self, now: BootInstant) -> Vec<u8> {
        self.members
            .retain(|member| member.at + MEMBER_MEMORY > now);
        let snapshot = RecordSnapshot {
            site: self.replica.write_image(),
            members: self.members.clone(),
        };
        // A write to memory does not fail, and every type of a site can be encoded.
        postcard::to_allocvec(&snapshot).unwrap_or_default()
    }

    /// Writes a snapshot of a [`Site`] from an earlier version of the program.
    pub(super) fn write_imported(
        &mut self,
        site: &mut Site,
        names: &[String],
        now: BootInstant,
    ) -> Vec<u8> {
        self.distrust();
        self.members.clear();
        self.replica.replace(site, names);
        self.write_snapshot(now)
    }

    /// Returns the lifetime of the record in seconds: until its permits no longer count, extended
    /// by the rest of the current open or by `longest_block`.
    pub(super) fn keep(&self, now: BootInstant, longest_block: Duration) -> u64 {
        let open = self.replica.open().map(|(until, _)| until.since(now));
        (SITE_RETENTION + open.unwrap_or_default().max(longest_block)).as_secs() + 1
    }

    /// Returns whether the next call must extend the expiry of the record, and records that it
    /// does.
    pub(super) fn renew(&mut self, here: BootInstant) -> bool {
        let is_due =
            self.position.is_none() || self.renewed.is_none_or(|renewed| renewed + RENEWAL <= here);
        if is_due {
            self.renewed = Some(here);
        }
        is_due
    }
}

/// Returns whether a snapshot should replace the log, from the [`ScriptReply`] to a call with an
/// entry.
pub(super) fn wants_snapshot(reply: &ScriptReply, entry: &[u8]) -> bool {
    let longest = LONGEST_LOG + reply.start as u64;
    let (after, part) = (reply.logged as u64, longest / PARTS);
    let before = after.saturating_sub(entry_length(entry.len()));
    !entry.is_empty() && after >= longest && before / part != after / part
}
