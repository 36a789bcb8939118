//! How the parts of a record are encoded: the header and its first layout, and the entries of the
//! log.

use docstokg_policy::breaker::Breaker;
use docstokg_policy::budget::{Budget, Change, FirstLayout};
use docstokg_policy::extension::Extensions;
use docstokg_policy::role::Role;
use docstokg_policy::time::BootInstant;
use serde::{Deserialize, Serialize};

use super::Corrupt;

/// The length of one change in the log.
pub(crate) const ENTRY: usize = 16;

/// The header as it is written.
#[derive(Serialize)]
pub(super) struct HeaderRef<'a> {
    pub(super) breaker: &'a Breaker,
    pub(super) isolated: &'a [(Role, Breaker)],
    pub(super) budgets: Vec<(&'a str, &'a Budget)>,
    pub(super) extensions: &'a Extensions,
}

/// The header as it is read.
#[derive(Deserialize)]
pub(super) struct Header {
    pub(super) breaker: Breaker,
    pub(super) isolated: Vec<(Role, Breaker)>,
    pub(super) budgets: Vec<(String, Budget)>,
    pub(super) extensions: Extensions,
}

/// The header as the first layout of the stores wrote it.
#[derive(Deserialize)]
struct FirstHeader {
    breaker: Breaker,
    isolated: Vec<(Role, Breaker)>,
    budgets: Vec<(String, FirstLayout)>,
}

/// Rewrites a header of the first layout as one of this layout. Snapshot and log are the same in
/// both.
pub(crate) fn from_first_layout(header: &[u8]) -> Result<Vec<u8>, Corrupt> {
    if header.is_empty() {
        return Ok(Vec::new());
    }
    let FirstHeader {
        breaker,
        isolated,
        budgets,
    } = postcard::from_bytes(header).map_err(|_| Corrupt)?;
    let budgets: Vec<(String, Budget)> = budgets
        .into_iter()
        .map(|(name, first)| (name, Budget::from(first)))
        .collect();
    let budgets = budgets
        .iter()
        .map(|(name, budget)| (name.as_str(), budget))
        .collect();
    let header = HeaderRef {
        breaker: &breaker,
        isolated: &isolated,
        budgets,
        extensions: &Extensions::default(),
    };
    postcard::to_allocvec(&header).map_err(|_| Corrupt)
}

/// Writes a change: instant, weight, budget, kind.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a site has a handful of budgets"
)]
pub(super) fn entry(index: usize, change: Change) -> [u8; ENTRY] {
    let (kind, weight, at) = match change {
        Change::Spent { weight, at } => (0, weight, at),
        Change::TakenBack { weight, at } => (1, weight, at),
    };
    let mut bytes = [0; ENTRY];
    bytes[..8].copy_from_slice(&at.as_micros().to_le_bytes());
    bytes[8..12].copy_from_slice(&weight.to_le_bytes());
    bytes[12..14].copy_from_slice(&(index as u16).to_le_bytes());
    bytes[14] = kind;
    bytes
}

pub(super) fn read_entry(bytes: &[u8]) -> Option<(usize, Change)> {
    let at = BootInstant::from_micros(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?));
    let weight = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
    let index = u16::from_le_bytes(bytes.get(12..14)?.try_into().ok()?);
    let change = match bytes.get(14)? {
        0 => Change::Spent { weight, at },
        1 => Change::TakenBack { weight, at },
        _ => return None,
    };
    Some((usize::from(index), change))
}
