//! The connection of one attempt. While it is made, the permit of the attempt counts as used at the
//! current instant, because the origin counts a request when it arrives.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::site::{PermitStanding, Refusal, RefusalReason};
use parking_lot::Mutex;

use crate::admission::PermitState;
use crate::clock::{BootInstant, BoxFuture, Runtime};
use crate::process_pause::RequestOut;
use crate::transport::DialObserver;

/// Maximum time after a connection is made until the origin reads the first request on it.
///
/// A slow accept, a proxy or an unfinished handshake can delay that. The permit counts as used at
/// the current instant until the headers of the response arrive, but for at most this time.
const COLD_GRACE: Duration = Duration::from_secs(1);
/// Maximum age of a permit that is not stamped again when its request leaves. The guard of the
/// windows is longer than this age.
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
    /// The request uses a connection of the pool, unless a new one has to be made.
    Pooled,
    /// As [`DialStage::Pooled`], but the permit was too old when the request left. Until the
    /// response, it counts as used at the current instant.
    Late,
    /// A new connection is being made, since the instant in the value.
    Dialling(BootInstant),
    /// The connection was made from `since` to `at`.
    Up { since: BootInstant, at: BootInstant },
}

impl DialStage {
    /// Returns whether the request left over a connection that may have served earlier requests.
    pub(super) fn is_reused(self) -> bool {
        matches!(self, Self::Pooled | Self::Late)
    }
}

impl DialWatch {
    /// Creates the observer for a request that leaves at `sent`.
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

    /// Returns the instant until which the headers are waited for. If the connection is still being
    /// made, their time begins now at the earliest.
    pub(super) fn headers_due(&self, connect: Duration, headers: Duration) -> BootInstant {
        match *self.stage.lock() {
            DialStage::Pooled | DialStage::Late => self.sent + headers,
            DialStage::Dialling(since) => {
                (self.runtime.boot() + headers).min(since + connect + headers)
            }
            DialStage::Up { at, .. } => at + headers,
        }
    }

    /// Ends the observation, because the headers have arrived or will never arrive. Returns the
    /// [`DialStage`] in which the request left.
    pub(super) fn over(&self, out: Option<&RequestOut<'_>>) -> DialStage {
        let met_a_pause = out.is_some_and(RequestOut::met_a_pause);
        let now = self.runtime.boot();
        let up = DialStage::Up {
            since: now,
            at: now,
        };
        let stage = std::mem::replace(&mut *self.stage.lock(), up);
        if stage == DialStage::Pooled && met_a_pause {
            // Because of the pause, the request may have arrived at any time between its stamp and
            // now.
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
                // A new connection that is made after the request has left over another one does
                // not concern this request.
                let DialStage::Dialling(since) = *stage else {
                    return Ok(());
                };
                let at = self.runtime.boot();
                *stage = DialStage::Up { since, at };
            }
            // If the origin closes every connection, each request needs a new one, and all are
            // delayed equally. Waiting for the headers would then only reduce the rate.
            match self
                .permit
                .sent(if self.permit.closes() {
                    Duration::ZERO
                } else {
                    COLD_GRACE
                })
                .await
            {
                // This process may have read a response that blocks the site, of which the store
                // does not know yet.
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
