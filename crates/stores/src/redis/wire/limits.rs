//! What a call says about the limits of a host, and what its reply tells of them.

use docstokg_policy::rate::Window;
use docstokg_policy::site::LimitTurn;
use docstokg_policy::time::BootInstant;

use super::question::Packer;
use super::reply::Malformed;
use super::{FAR, in_micros};

/// When a request may go by the limits of its host, and what its permit changes, as its process
/// knows it.
#[derive(Default)]
pub(in super::super) struct LimitsPart {
    /// The version that the process knows.
    pub(in super::super) version: u64,
    /// Whether the script answers even if there is a later one.
    pub(in super::super) forced: bool,
    /// How many requests wait before one in the first of the turns.
    pub(in super::super) first: u32,
    /// When it may go, by how many wait before it; none if the limits say nothing to it.
    pub(in super::super) turns: Vec<LimitTurn>,
    /// The instant at which what was learned is to be asked again: it is a time from then on, not an
    /// instant of its own. `None` where it is one.
    pub(in super::super) since: Option<BootInstant>,
    /// What holds it back, where that was learned.
    pub(in super::super) window: Option<Window>,
    /// Whether its answer teaches anything.
    pub(in super::super) teaches: bool,
    /// The event of its permit; empty if that changes nothing.
    pub(in super::super) permit: Vec<u8>,
    /// The event that time has passed; empty if that changes nothing.
    pub(in super::super) advance: Vec<u8>,
}

impl LimitsPart {
    /// Packs it as the script's `read_limits` reads it.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a handful of turns, and events of a few dozen bytes"
    )]
    pub(super) fn pack(&self, packer: &mut Packer) {
        packer
            .long(self.version)
            .byte(self.forced)
            .byte(self.since.is_some())
            .short(self.first)
            .byte(self.turns.len() as u8);
        for turn in &self.turns {
            let stated = turn.stated.as_ref();
            let learned = match (turn.learned, self.since) {
                (Some(at), Some(since)) => Some(BootInstant::ZERO + at.since(since)),
                (learned, _) => learned,
            };
            packer
                .instant(learned)
                .instant(stated.map(|stated| stated.paced))
                .instant(stated.map(|stated| stated.earliest))
                .window(stated.and_then(|stated| stated.window));
        }
        packer.window(self.window).byte(self.teaches);
        packer.bytes(&self.permit).bytes(&self.advance);
    }
}

impl Packer {
    /// Packs an instant on the clock of the server; none as the first of all.
    fn instant(&mut self, at: Option<BootInstant>) -> &mut Self {
        self.long(at.map_or(0, |at| at.as_micros().min(FAR)))
    }

    fn window(&mut self, window: Option<Window>) -> &mut Self {
        let (limit, per) =
            window.map_or((0, 0), |window| (window.limit.get(), in_micros(window.per)));
        self.short(limit).long(per)
    }
}

/// An event, as the script recorded it.
pub(in super::super) struct Recorded<'a> {
    pub(in super::super) version: u64,
    /// When it happened, on the clock of the server.
    pub(in super::super) at: BootInstant,
    /// What the program wrote.
    pub(in super::super) bytes: &'a [u8],
}

/// What a process lacks to know the last version.
pub(in super::super) struct Lacking<'a> {
    /// The last version.
    pub(in super::super) version: u64,
    /// How many events the server keeps.
    pub(in super::super) kept: u32,
    /// Whether the server keeps anything.
    pub(in super::super) is_kept: bool,
    /// The snapshot before the events, if the process does not know what precedes them.
    pub(in super::super) snapshot: Option<&'a [u8]>,
    /// The events that it lacks.
    pub(in super::super) events: Vec<Recorded<'a>>,
}

impl<'a> Lacking<'a> {
    /// Reads what the script's `lacking` packs.
    pub(in super::super) fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        let (version, kept) = (long(&mut rest)?, short(&mut rest)?);
        let (is_kept, is_whole) = (byte(&mut rest)? == 1, byte(&mut rest)? == 1);
        let snapshot = if is_whole {
            let _version_of_snapshot = long(&mut rest)?;
            let length = short(&mut rest)?;
            Some(take(&mut rest, length)?)
        } else {
            None
        };
        let mut events = Vec::new();
        while !rest.is_empty() {
            let length = short(&mut rest)?;
            let mut event = take(&mut rest, length)?;
            events.push(Recorded {
                version: long(&mut event)?,
                at: BootInstant::from_micros(long(&mut event)?),
                bytes: event,
            });
        }
        Ok(Self {
            version,
            kept,
            is_kept,
            snapshot,
            events,
        })
    }
}

fn take<'a>(bytes: &mut &'a [u8], length: u32) -> Result<&'a [u8], Malformed> {
    let length = usize::try_from(length).map_err(|_| Malformed)?;
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Malformed)?;
    *bytes = rest;
    Ok(taken)
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(Malformed)?;
    *bytes = rest;
    Ok(*taken)
}

fn byte(bytes: &mut &[u8]) -> Result<u8, Malformed> {
    Ok(fixed::<1>(bytes)?[0])
}

fn short(bytes: &mut &[u8]) -> Result<u32, Malformed> {
    Ok(u32::from_le_bytes(fixed(bytes)?))
}

fn long(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    Ok(u64::from_le_bytes(fixed(bytes)?))
}
