//! Calls of the script, its replies, and the parts of a record in them.

use std::sync::LazyLock;

use docstokg_policy::time::BootInstant;
use redis::{Cmd, Value};

use super::script::{HEADER, SCRIPT_LAYOUT_VERSION};
use crate::hash::fnv;

/// The version of the program in a record. Another version might decide differently about recorded
/// operations.
static VERSION: LazyLock<[u8; 8]> =
    LazyLock::new(|| fnv(env!("CARGO_PKG_VERSION").as_bytes()).to_le_bytes());

/// The position up to which a process knows the log of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPosition {
    /// The instant at which the record was created.
    pub(super) birth: u64,
    /// The length of the whole log up to the position, including dropped parts.
    pub(super) end: u64,
    /// The instant of the last entry before the position, or of the snapshot.
    pub(super) stamp: u64,
}

/// A call of the script.
#[derive(Default)]
pub(super) struct ScriptCall<'a> {
    /// The instant to use instead of the server's, for tests.
    pub(super) now: Option<BootInstant>,
    /// The [`LogPosition`] that the process knows.
    pub(super) position: Option<LogPosition>,
    /// The shortest lifetime of the record in seconds, if the call must extend it.
    pub(super) keep: Option<u64>,
    /// The entry to add; empty for no entry. If the call has a snapshot, the field contains the
    /// record of an earlier layout.
    pub(super) entry: &'a [u8],
    /// The snapshot that replaces the known part of the log; empty for no snapshot.
    pub(super) snapshot: &'a [u8],
}

impl ScriptCall<'_> {
    /// Returns the command that calls the script with this hash on a record.
    pub(super) fn command(&self, hash: &str, key: &str) -> Cmd {
        let mut command = Cmd::with_capacity(12, 192 + self.entry.len() + self.snapshot.len());
        command.arg("EVALSHA").arg(hash).arg("1").arg(key);
        match self.now {
            Some(now) => command.arg(now.as_micros()),
            None => command.arg(""),
        };
        command.arg(&VERSION[..]);
        match self.position {
            Some(known) => command.arg(known.birth).arg(known.end),
            None => command.arg("0").arg("0"),
        };
        match self.position {
            Some(known) => command.arg(&known.stamp.to_le_bytes()[..]),
            None => command.arg(""),
        };
        match self.keep {
            Some(seconds) => command.arg(seconds),
            None => command.arg(""),
        };
        command.arg(self.entry).arg(self.snapshot);
        command
    }
}

/// The content of a reply of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyKind {
    /// The entries since the position of the call.
    Tail,
    /// The whole record before the entry of the call; empty for a new record.
    Whole,
    /// A record other than the one that the process knows.
    Lost,
    /// The whole record of another version of the program; no entry was added.
    Foreign,
    /// The whole record of another layout; no entry was added.
    Other,
}

/// A reply of the script.
pub(super) struct ScriptReply {
    pub(super) kind: ReplyKind,
    /// The instant of the server at which the call ran.
    pub(super) now: BootInstant,
    /// The instant of this process at which the reply arrived.
    pub(super) here: BootInstant,
    /// The [`LogPosition`] of the process at the call.
    pub(super) asked_from: Option<LogPosition>,
    /// The length of the log after the call.
    pub(super) logged: usize,
    /// The length of the part before the log.
    pub(super) start: usize,
    pub(super) bytes: Vec<u8>,
}

/// A reply that does not have the expected form.
#[derive(Debug)]
pub(super) struct MalformedReply;

impl ScriptReply {
    pub(super) fn new(
        value: Value,
        asked_from: Option<LogPosition>,
        here: BootInstant,
    ) -> Result<Self, MalformedReply> {
        let Value::Array(values) = value else {
            return Err(MalformedReply);
        };
        let Ok([kind, now, logged, start, bytes]) = <[Value; 5]>::try_from(values) else {
            return Err(MalformedReply);
        };
        let number = |value| match value {
            Value::Int(number) => u64::try_from(number).map_err(|_| MalformedReply),
            _ => Err(MalformedReply),
        };
        let size = |value| usize::try_from(number(value)?).map_err(|_| MalformedReply);
        let text = |value| match value {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(MalformedReply),
        };
        Ok(Self {
            kind: match text(kind)?.as_slice() {
                b"tail" => ReplyKind::Tail,
                b"whole" => ReplyKind::Whole,
                b"lost" => ReplyKind::Lost,
                b"foreign" => ReplyKind::Foreign,
                b"other" => ReplyKind::Other,
                _ => return Err(MalformedReply),
            },
            now: BootInstant::from_micros(number(now)?),
            here,
            asked_from,
            logged: size(logged)?,
            start: size(start)?,
            bytes: text(bytes)?,
        })
    }

    /// Returns an instant of the server on the clock of this process, relative to the arrival of
    /// the reply.
    pub(super) fn to_here(&self, at: BootInstant) -> BootInstant {
        if at == BootInstant::FAR {
            return at;
        }
        if at >= self.now {
            self.here + at.since(self.now)
        } else {
            self.here - self.now.since(at)
        }
    }
}

/// A whole record.
pub(super) struct WholeRecord<'a> {
    /// The [`LogPosition`] up to the snapshot.
    pub(super) position: LogPosition,
    /// The state at that position; empty for a new site.
    pub(super) snapshot: &'a [u8],
    pub(super) log: &'a [u8],
}

impl<'a> WholeRecord<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, MalformedReply> {
        let mut rest = bytes;
        let [layout] = take(&mut rest)?;
        let birth = u64::from_le_bytes(take(&mut rest)?);
        let _version: [u8; 8] = take(&mut rest)?;
        let end = u64::from_le_bytes(take(&mut rest)?);
        let start = u32::from_le_bytes(take(&mut rest)?);
        let start = usize::try_from(start).map_err(|_| MalformedReply)?;
        let before = start.checked_sub(HEADER + 8).ok_or(MalformedReply)?;
        let (snapshot, mut rest) = rest.split_at_checked(before).ok_or(MalformedReply)?;
        let stamp = u64::from_le_bytes(take(&mut rest)?);
        if layout != SCRIPT_LAYOUT_VERSION {
            return Err(MalformedReply);
        }
        Ok(Self {
            position: LogPosition { birth, end, stamp },
            snapshot,
            log: rest,
        })
    }
}

/// An entry of the log.
pub(super) struct LogEntry<'a> {
    pub(super) bytes: &'a [u8],
    /// The instant at which the entry was added.
    pub(super) stamp: u64,
}

/// Returns the length of an entry in the log; `written` is the length of the program's part.
pub(super) fn entry_length(written: usize) -> u64 {
    (4 + written + 8) as u64
}

impl<'a> LogEntry<'a> {
    /// Removes and returns the first entry of a part of the log.
    pub(super) fn take(log: &mut &'a [u8]) -> Result<Self, MalformedReply> {
        let length = u32::from_le_bytes(take(log)?);
        let length = usize::try_from(length).map_err(|_| MalformedReply)?;
        let (bytes, rest) = log.split_at_checked(length).ok_or(MalformedReply)?;
        *log = rest;
        let stamp = u64::from_le_bytes(take(log)?);
        Ok(Self { bytes, stamp })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], MalformedReply> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(MalformedReply)?;
    *bytes = rest;
    Ok(*taken)
}
