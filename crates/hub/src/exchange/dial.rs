//! The connection of one attempt: while it is dialled, its permit counts as used now.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::site::{PermitStanding, Refusal, RefusalReason};
use parking_lot::Mutex;

use crate::admission::PermitState;
use crate::clock::{BootInstant, BoxFuture, Runtime};
use crate::process_pause::RequestOut;
use crate::transport::DialObserver;

/// How much later than its new connection a request may be read by the origin: a slow accept, a
/// proxy in front, a handshake that is not over on its side. Its permit counts as used now until
/// the headers are there, or for this long.
const COLD_GRACE: Duration = Duration::from_secs(1);
/// How old a permit may be when its request leaves: the guard of the windows covers that.
const MAX_FRESH_AGE: Duration = Duration::from_millis(4);

/// Watches the connection of one attempt: while it is dialled, its permit is pending.
pub(super) struct DialWatch {
    permit: Arc<PermitState>,
    runtime: Arc<dyn Runtime>,
    longest: Duration,
    sent: BootInstant,
    stage: Mutex<DialStage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DialStage {
    /// A pooled connection, as far as is known.
    Pooled,
    /// As that, with a permit that was not fresh any more when the request left: it counts as used
    /// now until the answer.
    Late,
    /// Being made.
    Dialling(BootInstant),
    /// Made: begun and up at these instants.
    Up { since: BootInstant, at: BootInstant },
}

impl DialStage {
    /// Returns whether the request left by a connection that had served before.
    pub(super) fn is_reused(self) -> bool {
        matches!(self, Self::Pooled | Self::Late)
    }
}

impl DialWatch {
    /// Watches a request that leaves at `sent`.
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

    /// Returns until when the headers are waited for, as far as is known now: a connection that is
    /// still being made cannot be up before now.
    pub(super) fn headers_due(&self, connect: Duration, headers: Duration) -> BootInstant {
        match *self.stage.lock() {
            DialStage::Pooled | DialStage::Late => self.sent + headers,
            DialStage::Dialling(since) => {
                (self.runtime.boot() + headers).min(since + connect + headers)
            }
            DialStage::Up { at, .. } => at + headers,
        }
    }

    /// The headers are there, or will never be: whichever way the request left, it has left by now.
    /// Returns which way.
    pub(super) fn over(&self, out: Option<&RequestOut<'_>>) -> DialStage {
        let met_a_pause = out.is_some_and(RequestOut::met_a_pause);
        let now = self.runtime.boot();
        let up = DialStage::Up {
            since: now,
            at: now,
        };
        let stage = std::mem::replace(&mut *self.stage.lock(), up);
        if stage == DialStage::Pooled && met_a_pause {
            // How much later than its stamp it arrived is unknown: not later than now.
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
                // A connection that comes up after the request has left by another one changes
                // nothing.
                let DialStage::Dialling(since) = *stage else {
                    return Ok(());
                };
                let at = self.runtime.boot();
                *stage = DialStage::Up { since, at };
            }
            // Where every request is dialled all of them are late alike, and waiting for headers
            // would only cost rate.
            match self
                .permit
                .sent(if self.permit.closes() {
                    Duration::ZERO
                } else {
                    COLD_GRACE
                })
                .await
            {
                // This process may have read an answer meanwhile that the store does not know of
                // yet.
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
