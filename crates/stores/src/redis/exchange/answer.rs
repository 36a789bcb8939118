//! The results of operations as this process reads them.

use docstokg_policy::site::{Entered, Entry, Refusal, SiteResult, Standing};
use docstokg_policy::time::BootInstant;

use super::super::wire::Reply;

/// Returns whether a request has to wait or was refused; `None` for other results.
pub(super) fn is_held_up(result: &SiteResult) -> Option<bool> {
    match result {
        SiteResult::Entered(entered) => Some(!matches!(entered.entry, Entry::Go(_))),
        _ => None,
    }
}

/// Returns from when on a request may go that neither goes now nor holds anything; `None` for other
/// results.
pub(super) fn goes_from(result: &SiteResult) -> Option<BootInstant> {
    let SiteResult::Entered(entered) = result else {
        return None;
    };
    match &entered.entry {
        Entry::Queue { at } => Some(*at),
        Entry::WaitForBreaker { until, .. } | Entry::Refused(Refusal { until, .. }) => Some(*until),
        Entry::Go(_) | Entry::Wait(_) | Entry::WaitForSlot { .. } => None,
    }
}

/// Converts the instants of a result to the clock of this process. The server permitted a request at
/// some time between question and reply: its age counts from `sent`, when the question was sent.
pub(super) fn to_here(result: SiteResult, reply: &Reply, sent: BootInstant) -> SiteResult {
    let here = |at| reply.to_here(at);
    let refusal = |refusal: Refusal| Refusal {
        until: here(refusal.until),
        ..refusal
    };
    match result {
        SiteResult::Entered(Entered { entry, transition }) => {
            let entry = match entry {
                Entry::Go(mut permit) => {
                    permit.at = sent;
                    permit.shadowed = permit.shadowed.map(|own| Box::new(refusal(*own)));
                    Entry::Go(permit)
                }
                Entry::Wait(mut reserved) => {
                    reserved.at = here(reserved.at);
                    Entry::Wait(reserved)
                }
                Entry::Queue { at } => Entry::Queue { at: here(at) },
                Entry::WaitForBreaker {
                    until,
                    reason,
                    probing,
                } => Entry::WaitForBreaker {
                    until: here(until),
                    reason,
                    probing,
                },
                Entry::Refused(own) => Entry::Refused(refusal(own)),
                Entry::WaitForSlot { .. } => entry,
            };
            Entered { entry, transition }.into()
        }
        SiteResult::Standing(Standing::Blocked(own)) => Standing::Blocked(refusal(own)).into(),
        SiteResult::Settled(mut settled) => {
            settled.open_until = settled.open_until.map(here);
            settled.into()
        }
        SiteResult::Condition(mut condition) => {
            condition.open = condition.open.map(|(until, reason)| (here(until), reason));
            condition.into()
        }
        other => other,
    }
}
