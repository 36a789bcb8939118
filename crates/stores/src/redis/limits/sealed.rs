//! Snapshots and events as bytes, which say by themselves whether this program can read them.
//!
//! A server may hold what another version wrote, or what was damaged. A number and a hash show that;
//! it is then as if nothing had been written.

use docstokg_policy::extension::Extensions;
use docstokg_policy::site::{HostLimits, LimitEvent};
use docstokg_policy::time::BootInstant;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::hash::fnv;

/// The version of what is written. It grows whenever the layout of an event, of `Learned` or of
/// `Quotas` changes.
const FORMAT: u8 = 3;
/// Version, hash and length.
const HEADER: usize = 1 + 4 + 2;

/// Writes an event.
pub(in super::super) fn seal_event(event: &LimitEvent) -> Vec<u8> {
    seal(event)
}

/// Writes a snapshot; empty if nothing is known.
pub(in super::super) fn seal_limits(limits: &HostLimits) -> Vec<u8> {
    if limits.is_empty() {
        return Vec::new();
    }
    let mut extensions = Extensions::default();
    limits.write_to(&mut extensions);
    seal(&extensions)
}

/// Reads an event, and the instants that the script added to it.
pub(super) fn open_event(
    bytes: &[u8],
) -> Option<(LimitEvent, impl Iterator<Item = BootInstant> + '_)> {
    let (event, rest) = open(bytes)?;
    let words = rest.as_chunks().0.iter();
    let history = words.map(|word| BootInstant::from_micros(u64::from_le_bytes(*word)));
    Some((event, history))
}

/// Reads a snapshot. One that cannot be read says nothing.
pub(super) fn open_limits(bytes: &[u8]) -> HostLimits {
    match open::<Extensions>(bytes) {
        Some((mut extensions, [])) => HostLimits::take_from(&mut extensions),
        _ => HostLimits::default(),
    }
}

/// Writes a value; nothing if it is too large to be written.
fn seal(value: &impl Serialize) -> Vec<u8> {
    let Ok(body) = postcard::to_allocvec(value) else {
        return Vec::new();
    };
    let Ok(length) = u16::try_from(body.len()) else {
        return Vec::new();
    };
    let mut sealed = Vec::with_capacity(HEADER + body.len());
    sealed.push(FORMAT);
    sealed.extend_from_slice(&hash(&body).to_le_bytes());
    sealed.extend_from_slice(&length.to_le_bytes());
    sealed.extend_from_slice(&body);
    sealed
}

/// Reads a value that this version wrote, and returns what follows it.
fn open<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (&[format, a, b, c, d, low, high], rest) = bytes.split_first_chunk::<HEADER>()?;
    let length = usize::from(u16::from_le_bytes([low, high]));
    let (body, rest) = rest.split_at_checked(length)?;
    if format != FORMAT || hash(body) != u32::from_le_bytes([a, b, c, d]) {
        return None;
    }
    Some((postcard::from_bytes(body).ok()?, rest))
}

#[expect(clippy::cast_possible_truncation, reason = "a part of a hash is one")]
fn hash(bytes: &[u8]) -> u32 {
    fnv(bytes) as u32
}
