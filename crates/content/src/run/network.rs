//! What responses and faults say about the network of this machine.

use std::time::Duration;

use super::works::Works;
use crate::artifact::Fetched;
use crate::reason::Reason;
use crate::resolver::{LookupFailure, OFFLINE_RETRY_MS, Outcome};

impl Works {
    /// Takes in whether the network was lost, or is there. While it is lost, a paused host is only
    /// out of reach, and a host that alone is out of reach is one that fails.
    pub(super) async fn watch_network(&self, outcome: Outcome) -> Outcome {
        let Outcome::Failed(failure) = outcome else {
            self.connectivity.answered();
            return outcome;
        };
        let retry_in_ms = failure.retry_in_ms.map(|wait| wait.min(OFFLINE_RETRY_MS));
        match failure.reason {
            Reason::Offline if !self.connectivity.is_lost(self.clock.now()).await => {
                Outcome::Failed(LookupFailure {
                    reason: Reason::RequestException,
                    retry_in_ms: None,
                    ..failure
                })
            }
            Reason::BreakerOpen
                if failure.http_status.is_none() && self.connectivity.lost_since().is_some() =>
            {
                Outcome::Failed(LookupFailure {
                    reason: Reason::Offline,
                    retry_in_ms,
                    ..failure
                })
            }
            _ => {
                if failure.http_status.is_some() {
                    self.connectivity.answered();
                }
                Outcome::Failed(failure)
            }
        }
    }

    /// The same for a file.
    pub(super) async fn watch_fetched(&self, fetched: Fetched) -> Fetched {
        match fetched {
            Fetched::Later {
                reason: Reason::Offline,
                detail,
                ..
            } if !self.connectivity.is_lost(self.clock.now()).await => Fetched::Nothing {
                reason: Reason::RequestException,
                detail,
                status: None,
                gone: false,
            },
            Fetched::Later {
                reason: Reason::BreakerOpen,
                wait,
                detail,
                status: None,
                ..
            } if self.connectivity.lost_since().is_some() => {
                let wait = wait.min(Duration::from_millis(OFFLINE_RETRY_MS));
                Fetched::Later {
                    wait,
                    stated: true,
                    reason: Reason::Offline,
                    detail,
                    status: None,
                }
            }
            fetched => {
                let status = matches!(
                    &fetched,
                    Fetched::Nothing {
                        status: Some(_),
                        ..
                    } | Fetched::Later {
                        status: Some(_),
                        ..
                    }
                );
                if status || matches!(&fetched, Fetched::File(_) | Fetched::Page(_)) {
                    self.connectivity.answered();
                }
                fetched
            }
        }
    }
}
