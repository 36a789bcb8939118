//! The connection of one attempt. While the connection is dialled, the permit of the attempt counts
//! as used now.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::site::{PermitStanding, Refusal, RefusalReason};
use parking_lot::Mutex;

use crate::admission::PermitState;
use crate::clock::{BootInstant, BoxFuture, Runtime};
use crate::process_pause::RequestOut;
use crate::transport::DialObserver;

/// Maximum time after a new connection in which the origin may read its first request.
///
/// Reasons are a slow accept, a proxy, or an unfinished handshake. Until the headers arrive, but at
/// most for this time, the permit counts as used now.
const COLD_GRACE: Duration = Duration::from_secs(1);
/// Maximum age of a permit whose request leaves without a new stamp. The guard of the windows
/// covers this age.
const MAX_FRESH_AGE: Duration = Duration::from_millis(4);

/// Observes the connection of one attempt, as the [`DialObserver`] of the transport.
pub(super) struct DialWatch {
    permit: Arc<PermitState>,
    runtime: Arc<dyn Runtime>,
    longest: Duration,
    sent: BootInstant,
    stage: Mutex<DialStage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DialStage {
    /// The connection comes from the pool, as far as is known.
    Pooled,
    /// A pooled connection with a permit that was too old when the request left: the permit counts
    /// as used now until the response.
    Late,
    /// The connection is being made since this instant.
    Dialling(BootInstant),
    /// The connection is made. Its beginning and its end are `since` and `at`.
    Up { since: BootInstant, at: BootInstant },
}

impl DialStage {
    /// Returns whether the request left over a connection that had served earlier requests.
    pub(super) fn is_reused(self) -> bool {
        matches!(self, Self::Pooled | Self::Late)
    }
}

impl DialWatch {
    /// Creates the observer of a request that leaves at `sent`.
    pub(super) fn leaving(
        permit: &Arc<PermitState>,
        runtime: &Arc<dyn Runtime>,
        longest: Duration,
        sent: BootInstant,
    ) -> Arc<Self> {
        let late = sent.since(permit.permit.at) >= MAX_FRESH_AGE;
        if late {
            permit.hold(COLD_GRACE);
        }
        let stage = Mutex::new(if late {
            DialStage::Late
        } else {
            DialStage::Pooled
        });
        Arc::new(Self {
            permit: Arc::clone(permit),
            runtime: Arc::clone(runtime),
            longest,
            sent,
            stage,
        })
    }

    /// Returns the instant until which the headers are awaited. A connection that is still being
    /// made cannot be up before now.
    pub(super) fn headers_due(&self, connect: Duration, headers: Duration) -> BootInstant {
        match *self.stage.lock() {
            DialStage::Pooled | DialStage::Late => self.sent + headers,
            DialStage::Dialling(since) => {
                (self.runtime.boot() + headers).min(since + connect + headers)
            }
            DialStage::Up { at, .. } => at + headers,
        }
    }

    /// Ends the observation: the headers have arrived or will never arrive, so that the request has
    /// left. Returns the [`DialStage`] in which it left.
    pub(super) fn over(&self, out: Option<&RequestOut<'_>>) -> DialStage {
        let met_a_pause = out.is_some_and(RequestOut::met_a_pause);
        let now = self.runtime.boot();
        let up = DialStage::Up {
            since: now,
            at: now,
        };
        let stage = std::mem::replace(&mut *self.stage.lock(), up);
        if stage == DialStage::Pooled && met_a_pause {
            // The request arrived at an unknown time after its stamp, but not later than now.
            self.permit.hold(COLD_GRACE);
        }
        if stage != DialStage::Pooled || met_a_pause {
            self.permit.stamp();
        }
        stage
    }
}

impl DialObserver for DialWatch {
    fn dialling(&self) {
        let mut stage = self.stage.lock();
        match *stage {
            DialStage::Pooled => self.permit.hold(self.longest),
            DialStage::Late => self.permit.hold_longer(self.longest),
            DialStage::Dialling(_) | DialStage::Up { .. } => return,
        }
        *stage = DialStage::Dialling(self.runtime.boot());
    }

    fn connected(&self) -> BoxFuture<'_, Result<(), Refusal>> {
        Box::pin(async {
            {
                let mut stage = self.stage.lock();
                // A connection that comes up after the request has left over another one has no
                // effect.
                let DialStage::Dialling(since) = *stage else {
                    return Ok(());
                };
                let at = self.runtime.boot();
                *stage = DialStage::Up { since, at };
            }
            // If every request is dialled, all of them are equally late. Waiting for the headers
            // would then only reduce the rate.
            match self
                .permit
                .sent(if self.permit.closes() {
                    Duration::ZERO
                } else {
                    COLD_GRACE
                })
                .await
            {
                // This process may have read a block meanwhile that the store does not know yet.
                PermitStanding::Good if self.permit.was_blocked_since() => {
                    let reason = RefusalReason::Open {
                        reason: OpenReason::RetryAfter,
                        probing: false,
                    };
                    Err(Refusal {
                        until: self.runtime.boot(),
                        reason,
                    })
                }
                PermitStanding::Good => Ok(()),
                PermitStanding::Blocked(refusal) => Err(refusal),
            }
        })
    }
}
