//! Operations of one process as an entry of the log: what they ask, and not what came of them.
//!
//! Server and process have clocks of their own, so an entry holds lengths of time: from the instant
//! it was sent to a deadline, or since something happened. Who reads it counts them from the instant
//! at which the server added it. Budgets have names, since each process numbers them in its own
//! order.

use std::borrow::Cow;

use docstokg_policy::site::{AdmissionRequest, BudgetCost, RequestOperation, SiteOperation};
use docstokg_policy::time::{BootInstant, micros};
use serde::{Deserialize, Serialize};

/// Operations that one process sent together.
#[derive(Serialize, Deserialize)]
pub(super) struct OperationBatch<'a> {
    /// The process.
    pub(super) member: u64,
    /// Its number among those of the process, upwards: one that comes again was repeated, because
    /// its answer was lost.
    pub(super) number: u64,
    /// The process, as it is recorded as the opener of breakers.
    pub(super) who: Cow<'a, str>,
    /// The names of the budgets.
    names: Vec<Cow<'a, str>>,
    /// The operations, each with the id of what it makes.
    operations: Vec<(u64, SiteOperation<'a>)>,
}

impl<'a> OperationBatch<'a> {
    /// Starts a batch without operations.
    pub(super) fn new(member: u64, number: u64, who: &'a str) -> Self {
        Self {
            member,
            number,
            who: Cow::Borrowed(who),
            names: Vec::new(),
            operations: Vec::new(),
        }
    }

    /// Adds an operation that is sent at `now`, of a process that knows the budgets under `names`.
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

    /// Returns whether it has no operation.
    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Writes it as an entry.
    pub(super) fn write(&self) -> Vec<u8> {
        // Writing to memory does not fail, and every operation can be encoded.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads an entry.
    pub(super) fn read(bytes: &[u8]) -> Option<OperationBatch<'static>> {
        postcard::from_bytes(bytes).ok()
    }

    /// Returns the operations as of the instant at which they were added, for a process that finds
    /// budgets by name; `None` if one has a budget without a name.
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

/// Returns an operation of this process as it would be at an instant of the server, which is `here` on
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

/// Writes a length in the place of an instant.
fn length(length: std::time::Duration, is_forever: bool) -> BootInstant {
    if is_forever {
        BootInstant::FAR
    } else {
        BootInstant::from_micros(micros(length))
    }
}

/// Converts what depends on the process in an operation: instants to come, instants that have
/// passed, and budgets. `None` if a budget is unknown.
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
