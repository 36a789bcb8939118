//! Operations of one process as an entry of the log, without their results.
//!
//! Server and process have different clocks, so an entry contains lengths of time: from its sending
//! to a deadline, or since an event. A reader counts them from the instant at which the server
//! added the entry. Budgets have names, because each process numbers them in its own order.

use std::borrow::Cow;

use docstokg_policy::site::{AdmissionRequest, BudgetCost, RequestOperation, SiteOperation};
use docstokg_policy::time::{BootInstant, micros};
use serde::{Deserialize, Serialize};

/// Operations that one process sent together.
#[derive(Serialize, Deserialize)]
pub(super) struct OperationBatch<'a> {
    /// The process.
    pub(super) member: u64,
    /// The number of the batch, which increases within a process. A repeated number means a
    /// repeated call, whose first reply was lost.
    pub(super) number: u64,
    /// The process in words, as the recorded opener of breakers.
    pub(super) who: Cow<'a, str>,
    /// The names of the budgets.
    names: Vec<Cow<'a, str>>,
    /// The operations, each with the id for its permit or reservation.
    operations: Vec<(u64, SiteOperation<'a>)>,
}

impl<'a> OperationBatch<'a> {
    /// Creates a batch without operations.
    pub(super) fn new(member: u64, number: u64, who: &'a str) -> Self {
        Self {
            member,
            number,
            who: Cow::Borrowed(who),
            names: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// Adds a [`SiteOperation`] that is sent at `now`. `names` are the budgets of this process.
    pub(super) fn add(
        &mut self,
        id: u64,
        operation: &SiteOperation<'_>,
        names: &'a [String],
        now: BootInstant,
    ) {
        let own = &mut self.names;
        let mut budget = |index: usize| {
            let name = names.get(index).map_or("", String::as_str);
            let known = own.iter().position(|known| known == name);
            Some(known.unwrap_or_else(|| {
                own.push(Cow::Borrowed(name));
                own.len() - 1
            }))
        };
        let length_until = |at: BootInstant| length(at.since(now), at == BootInstant::FAR);
        let length_since = |at: BootInstant| length(now.since(at), false);
        let converted = convert(operation, length_until, length_since, &mut budget);
        self.operations
            .extend(converted.map(|operation| (id, operation)));
    }

    /// Returns whether the batch has no operation.
    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Writes the batch as an entry.
    pub(super) fn write(&self) -> Vec<u8> {
        // A write to memory does not fail, and every operation can be encoded.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Parses an entry.
    pub(super) fn read(bytes: &[u8]) -> Option<OperationBatch<'static>> {
        postcard::from_bytes(bytes).ok()
    }

    /// Returns the operations as of the instant at which they were added; `budget_of` finds budgets
    /// by name. Returns `None` if a [`SiteOperation`] has a budget without a name.
    pub(super) fn operations_at(
        &self,
        at: BootInstant,
        mut budget_of: impl FnMut(&str) -> usize,
    ) -> Option<Vec<(u64, SiteOperation<'static>)>> {
        let indices: Vec<usize> = self.names.iter().map(|name| budget_of(name)).collect();
        let mut budget = |index: usize| indices.get(index).copied();
        let until = |length: BootInstant| at.plus_micros(length.as_micros());
        let since = |length: BootInstant| {
            BootInstant::from_micros(at.as_micros().saturating_sub(length.as_micros()))
        };
        let operations = self.operations.iter();
        operations
            .map(|(id, operation)| Some((*id, convert(operation, until, since, &mut budget)?)))
            .collect()
    }
}

/// Returns a [`SiteOperation`] of this process as of an instant of the server, which is `here` on
/// the clock of this process.
pub(super) fn as_of(
    operation: &SiteOperation<'_>,
    here: BootInstant,
    now: BootInstant,
) -> Option<SiteOperation<'static>> {
    let to_come = |at: BootInstant| match at {
        BootInstant::FAR => BootInstant::FAR,
        at => now + at.since(here),
    };
    let passed = |at: BootInstant| now - here.since(at);
    convert(operation, to_come, passed, &mut Some)
}

/// Encodes a length of time in a field that otherwise contains an instant.
fn length(length: std::time::Duration, is_forever: bool) -> BootInstant {
    if is_forever {
        BootInstant::FAR
    } else {
        BootInstant::from_micros(micros(length))
    }
}

/// Converts the parts of a [`SiteOperation`] that depend on the process: future instants, past
/// instants, and budgets. Returns `None` if a budget is unknown.
fn convert(
    operation: &SiteOperation<'_>,
    to_come: impl Fn(BootInstant) -> BootInstant,
    passed: impl Fn(BootInstant) -> BootInstant,
    budget: &mut dyn FnMut(usize) -> Option<usize>,
) -> Option<SiteOperation<'static>> {
    let SiteOperation::Request(ask, operation) = operation else {
        return Some(operation.to_static());
    };
    let mut cost = |cost: &BudgetCost| {
        Some(BudgetCost {
            budget: budget(cost.budget)?,
            ..cost.clone()
        })
    };
    let costs: Option<Vec<BudgetCost>> = ask.costs.iter().map(&mut cost).collect();
    let ask = AdmissionRequest {
        latest: to_come(ask.latest),
        deadline: to_come(ask.deadline),
        asked: passed(ask.asked),
        costs: costs?.into(),
        ..AdmissionRequest::clone(ask)
    };
    let mut operation = operation.clone();
    if let RequestOperation::Settle { report, .. } = &mut operation {
        report.sent = passed(report.sent);
    }
    Some(SiteOperation::Request(Cow::Owned(ask), operation))
}
