//! The conversion of results for this process.

use docstokg_policy::site::{
    AdmissionDecision, AdmissionResult, PermitStanding, Refusal, SiteResult,
};
use docstokg_policy::time::BootInstant;

use super::super::wire::ScriptReply;

/// Returns whether an admission result makes its request wait or refuses it; `None` for the results
/// of other operations.
pub(super) fn is_held_up(result: &SiteResult) -> Option<bool> {
    match result {
        SiteResult::Entered(entered) => Some(!matches!(entered.entry, AdmissionDecision::Go(_))),
        _ => None,
    }
}

/// Returns the instant from which a request without a permit or reservation may be sent; `None` for
/// other results.
pub(super) fn goes_from(result: &SiteResult) -> Option<BootInstant> {
    let SiteResult::Entered(entered) = result else {
        return None;
    };
    match &entered.entry {
        AdmissionDecision::Queue { at } => Some(*at),
        AdmissionDecision::WaitForBreaker { until, .. }
        | AdmissionDecision::Refused(Refusal { until, .. }) => Some(*until),
        AdmissionDecision::Go(_)
        | AdmissionDecision::Wait(_)
        | AdmissionDecision::WaitForSlot { .. } => None,
    }
}

/// Converts the instants of a result to the clock of this process. The server permitted a request
/// between call and [`ScriptReply`], so the age of the permit counts from `sent`, the instant of
/// the call.
pub(super) fn to_here(result: SiteResult, reply: &ScriptReply, sent: BootInstant) -> SiteResult {
    let here = |at| reply.to_here(at);
    let refusal = |refusal: Refusal| Refusal {
        until: here(refusal.until),
        ..refusal
    };
    match result {
        SiteResult::Entered(AdmissionResult { entry, transition }) => {
            let entry = match entry {
                AdmissionDecision::Go(mut permit) => {
                    permit.at = sent;
                    permit.shadowed = permit.shadowed.map(|own| Box::new(refusal(*own)));
                    AdmissionDecision::Go(permit)
                }
                AdmissionDecision::Wait(mut reserved) => {
                    reserved.at = here(reserved.at);
                    AdmissionDecision::Wait(reserved)
                }
                AdmissionDecision::Queue { at } => AdmissionDecision::Queue { at: here(at) },
                AdmissionDecision::WaitForBreaker {
                    until,
                    reason,
                    probing,
                } => AdmissionDecision::WaitForBreaker {
                    until: here(until),
                    reason,
                    probing,
                },
                AdmissionDecision::Refused(own) => AdmissionDecision::Refused(refusal(own)),
                AdmissionDecision::WaitForSlot { .. } => entry,
            };
            AdmissionResult { entry, transition }.into()
        }
        SiteResult::Standing(PermitStanding::Blocked(own)) => {
            PermitStanding::Blocked(refusal(own)).into()
        }
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
