//! The encoding of the parts of a record: the header, and the entries of the log.

use docstokg_policy::breaker::Breaker;
use docstokg_policy::budget::{Budget, BudgetChange};
use docstokg_policy::extension::Extensions;
use docstokg_policy::role::Role;
use docstokg_policy::time::BootInstant;
use serde::{Deserialize, Serialize};

/// The length of one change in the log, in bytes.
pub(crate) const LOG_ENTRY_BYTES: usize = 16;

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
pub(super) struct RecordHeader {
    pub(super) breaker: Breaker,
    pub(super) isolated: Vec<(Role, Breaker)>,
    pub(super) budgets: Vec<(String, Budget)>,
    pub(super) extensions: Extensions,
}

/// Writes a change: instant, weight, budget, kind.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a site has a handful of budgets"
)]
pub(super) fn entry(index: usize, change: BudgetChange) -> [u8; LOG_ENTRY_BYTES] {
    let (kind, weight, at) = match change {
        BudgetChange::Spent { weight, at } => (0, weight, at),
        BudgetChange::TakenBack { weight, at } => (1, weight, at),
    };
    let mut bytes = [0; LOG_ENTRY_BYTES];
    bytes[..8].copy_from_slice(&at.as_micros().to_le_bytes());
    bytes[8..12].copy_from_slice(&weight.to_le_bytes());
    bytes[12..14].copy_from_slice(&(index as u16).to_le_bytes());
    bytes[14] = kind;
    bytes
}

pub(super) fn read_entry(bytes: &[u8]) -> Option<(usize, BudgetChange)> {
    let at = BootInstant::from_micros(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?));
    let weight = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
    let index = u16::from_le_bytes(bytes.get(12..14)?.try_into().ok()?);
    let change = match bytes.get(14)? {
        0 => BudgetChange::Spent { weight, at },
        1 => BudgetChange::TakenBack { weight, at },
        _ => return None,
    };
    Some((usize::from(index), change))
}
