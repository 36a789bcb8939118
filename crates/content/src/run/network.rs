//! What responses and faults say about the network of this machine.

use std::time::Duration;

use super::works::Works;
use crate::artifact::Fetched;
use crate::reason::Reason;
use crate::resolver::Outcome;
use crate::web::{OFFLINE_RETRY, RetryLater};
use crate::work_state::Postponed;

impl Works {
    /// Takes in whether the network was lost, or is there. While it is lost, a paused host is only
    /// out of reach. A host that alone is out of reach is waited for like one that is down.
    pub(super) async fn watch_network(&self, outcome: Outcome) -> Outcome {
        let Outcome::Failed(mut failure) = outcome else {
            self.connectivity.answered();
            return outcome;
        };
        if failure.http_status.is_some() {
            self.connectivity.answered();
        } else if failure.reason == Reason::Offline
            && !self.connectivity.is_lost(self.clock.now()).await
        {
            failure.reason = Reason::RequestException;
        } else if self.is_out_of_reach(failure.reason) {
            failure.reason = Reason::Offline;
            failure.retry = failure.retry.map(|retry| until_network(retry.wait));
        }
        Outcome::Failed(failure)
    }

    /// The same for a file.
    pub(super) async fn watch_fetched(&self, fetched: Fetched) -> Fetched {
        let Fetched::Later(postponed) = fetched else {
            let was_answered = match &fetched {
                Fetched::Nothing { status, .. } => status.is_some(),
                Fetched::File(_) | Fetched::Page(_) => true,
                _ => false,
            };
            if was_answered {
                self.connectivity.answered();
            }
            return fetched;
        };
        let Postponed { wait, failure, .. } = &postponed;
        if failure.http_status.is_some() {
            self.connectivity.answered();
        } else if failure.reason == Reason::Offline
            && !self.connectivity.is_lost(self.clock.now()).await
        {
            let mut postponed = postponed;
            postponed.failure.reason = Reason::RequestException;
            return Fetched::Later(postponed);
        } else if self.is_out_of_reach(failure.reason) {
            let retry = until_network(*wait);
            let postponed = Postponed::until_retry(retry, Reason::Offline, &failure.detail);
            return Fetched::Later(postponed);
        }
        Fetched::Later(postponed)
    }

    /// Tells whether a host is paused only because the network is lost.
    fn is_out_of_reach(&self, reason: Reason) -> bool {
        reason == Reason::BreakerOpen && self.connectivity.lost_since().is_some()
    }
}

/// Returns when to try again while the network is lost.
fn until_network(wait: Duration) -> RetryLater {
    RetryLater {
        wait: wait.min(OFFLINE_RETRY),
        cause: None,
    }
}
