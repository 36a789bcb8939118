//! Decides whether the last failure of a request is due to its host, or only to this request.
//!
//! After a failure of the host, the same request may succeed later.

use std::time::Duration;

use docstokg_policy::classify::{AttemptClass, AttemptMeaning, Fault};
use http::StatusCode;

use crate::admission::SiteAdmission;
use crate::clock::BootInstant;
use crate::error::{RefusedBy, RetryLater, StatedBy};
use crate::exchange::AttemptFinish;
use crate::target::RoutedHop;

/// Minimum wait before the next request to a host that failed.
const MIN_HOST_WAIT: Duration = Duration::from_secs(1);

/// The last attempt of a request, with the facts about its host.
pub(super) struct LastAttempt<'a> {
    pub(super) target: &'a RoutedHop,
    pub(super) finish: &'a AttemptFinish,
    pub(super) class: AttemptClass,
    /// The end of the current block of the site, if it is blocked.
    pub(super) open_until: Option<BootInstant>,
    /// The send time of the first attempt at this hop.
    pub(super) first_sent: BootInstant,
}

impl LastAttempt<'_> {
    /// If the failure is due to the host, returns as a [`RetryLater`] when the same request may
    /// succeed; otherwise `None`. Such a host demanded a pause, throttles, or may be down.
    pub(super) fn host_failure(&self, now: BootInstant) -> Option<RetryLater> {
        let route = &self.target.route;
        let failure = |wait: Duration, stated_by| RetryLater {
            host: self.target.host.clone(),
            wait: wait.max(MIN_HOST_WAIT),
            stated_by,
            by: RefusedBy::Host,
        };
        if !matches!(
            self.class.outcome,
            AttemptMeaning::Failure | AttemptMeaning::Throttled
        ) {
            return None;
        }
        if let Some(asked) = self.finish.retry_after() {
            let wait = asked.min(route.site.rules.policy.breaker.retry_after_cap);
            return Some(failure(wait, StatedBy::Server));
        }
        let stated_by = match self.class.outcome {
            AttemptMeaning::Throttled => StatedBy::Quota,
            _ if may_be_down(&route.site.site, self.finish, self.first_sent) => StatedBy::Breaker,
            _ => return None,
        };
        let open_until = self.open_until.or_else(|| route.site.site.open_until());
        let wait = open_until.map_or(MIN_HOST_WAIT, |until| until.since(now));
        Some(failure(wait, stated_by))
    }
}

/// Returns whether the host that failed a request may be down. If its breaker stayed closed and it
/// served other requests meanwhile, only this request fails.
fn may_be_down(site: &SiteAdmission, finish: &AttemptFinish, first_sent: BootInstant) -> bool {
    let was_closed = site.health.is_closed_since(first_sent);
    let is_alive = site
        .health
        .last_served()
        .is_some_and(|served| served >= first_sent);
    match finish {
        // The cause is a name, a certificate or this machine, which a later attempt does not
        // change.
        AttemptFinish::Fault {
            fault: Fault::Dns | Fault::Tls | Fault::NoRoute | Fault::OpenFiles,
            ..
        } => false,
        AttemptFinish::Fault { .. } => !(is_alive && was_closed),
        AttemptFinish::Answer { head, .. } if is_outage(head.status) => !(is_alive && was_closed),
        // A program that always fails for one URL responds in this way, too. Only if the breaker
        // opened, other requests failed as well.
        AttemptFinish::Answer { .. } => !was_closed,
    }
}

/// Returns whether a status means that a whole host, or the route to it, is out of service.
fn is_outage(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}
