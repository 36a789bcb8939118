//! The operations on a site as data, so that a store can apply, queue or forward all of them in the
//! same way.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, AttemptResult, BreakerCondition, Permit,
    PermitStanding, SettleEffect, Site,
};
use crate::breaker::{OpenReason, Transition};
use crate::classify::AttemptMeaning;
use crate::host_model::quotas::{QuotaEffect, QuotaStatement};
use crate::time::BootInstant;

/// An operation on a [`Site`]: one atomic step at the instant of its execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SiteOperation<'a> {
    /// An operation of a request, with its [`AdmissionRequest`].
    Request(Cow<'a, AdmissionRequest>, RequestOperation),
    /// Renews the shared slots and probe leases of a process, and returns the condition of the
    /// breakers. This heartbeat reports changes by other processes and operators.
    Renew {
        /// The ids of the permits.
        ids: Vec<u64>,
        /// The new length of the leases from now on.
        length: Duration,
    },
    /// Blocks the site on an operator's request.
    Block {
        /// The length of the block from now on.
        length: Duration,
        /// The [`OpenReason`] of the block.
        reason: OpenReason,
    },
    /// Closes the breaker on an operator's request.
    Unblock,
    /// Drops the learned limits of the host. Returns whether any were known.
    ForgetLearned,
    /// Drops the adaptive rates of the site, because the run that found them has ended. Returns
    /// whether any were set.
    ForgetAdaptation,
}

/// An operation of a request on its [`Site`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RequestOperation {
    /// Requests admission. See [`Site::enter`] and [`Site::confirm`].
    Enter {
        /// The reservation with which the request has waited, if any.
        reservation: Option<u64>,
    },
    /// Gives a reservation or an unused permit back. Reports whether the lease of a probe was
    /// released.
    Leave {
        /// The id of the reservation or permit.
        id: u64,
        /// The instant at which the cost of the permit was spent; `None` if the cost is not
        /// reverted.
        spent_at: Option<BootInstant>,
    },
    /// Keeps a permit pending while its connection is established.
    Hold {
        /// The [`Permit`].
        permit: Permit,
        /// The longest time for the connection.
        longest: Duration,
    },
    /// Records that the connection of a pending permit is ready and its request is about to be
    /// sent. Reports whether the site was blocked in the meantime.
    Sent {
        /// The [`Permit`].
        permit: Permit,
        /// The longest time until the origin reads the request.
        longest: Duration,
    },
    /// Spends the pending cost of a permit now.
    Stamp {
        /// The [`Permit`].
        permit: Permit,
    },
    /// Settles a probe with the headers of its response.
    SettleHeaders {
        /// The [`Permit`] of the request.
        permit: Permit,
        /// The [`AttemptMeaning`] of the headers.
        outcome: AttemptMeaning,
    },
    /// Records the quotas that the headers of a response declare.
    StateQuotas {
        /// The [`Permit`] of the request.
        permit: Permit,
        /// The declared quotas.
        statement: Arc<QuotaStatement>,
    },
    /// Records the result of an attempt, once.
    Settle {
        /// The [`Permit`] of the attempt.
        permit: Permit,
        /// The [`AttemptResult`].
        report: AttemptResult,
    },
}

impl RequestOperation {
    /// Returns the [`Permit`] of the operation, if any.
    #[must_use]
    pub fn permit(&self) -> Option<&Permit> {
        match self {
            Self::Hold { permit, .. }
            | Self::Sent { permit, .. }
            | Self::Stamp { permit }
            | Self::SettleHeaders { permit, .. }
            | Self::StateQuotas { permit, .. }
            | Self::Settle { permit, .. } => Some(permit),
            Self::Enter { .. } | Self::Leave { .. } => None,
        }
    }

    /// Returns the [`Permit`] of the operation, so that another store can replace it by its own.
    pub fn permit_mut(&mut self) -> Option<&mut Permit> {
        match self {
            Self::Hold { permit, .. }
            | Self::Sent { permit, .. }
            | Self::Stamp { permit }
            | Self::SettleHeaders { permit, .. }
            | Self::StateQuotas { permit, .. }
            | Self::Settle { permit, .. } => Some(permit),
            Self::Enter { .. } | Self::Leave { .. } => None,
        }
    }

    /// Returns the id of the permit or reservation of the operation, if any.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        match self {
            Self::Enter { reservation } => *reservation,
            Self::Leave { id, .. } => Some(*id),
            _ => self.permit().map(|permit| permit.id),
        }
    }
}

impl<'a> SiteOperation<'a> {
    /// Creates the operation of a request from its [`AdmissionRequest`].
    #[inline]
    #[must_use]
    pub fn for_request(ask: &'a AdmissionRequest, operation: RequestOperation) -> Self {
        Self::Request(Cow::Borrowed(ask), operation)
    }

    /// Copies the [`SiteOperation`] for another thread or machine.
    #[must_use]
    pub fn to_static(&self) -> SiteOperation<'static> {
        match self.clone() {
            Self::Request(ask, operation) => {
                SiteOperation::Request(Cow::Owned(ask.into_owned()), operation)
            }
            Self::Renew { ids, length } => SiteOperation::Renew { ids, length },
            Self::Block { length, reason } => SiteOperation::Block { length, reason },
            Self::Unblock => SiteOperation::Unblock,
            Self::ForgetLearned => SiteOperation::ForgetLearned,
            Self::ForgetAdaptation => SiteOperation::ForgetAdaptation,
        }
    }

    /// Returns the [`SiteOperation`] that reverts the permit or reservation in `result`, which no
    /// caller used; `None` if there is nothing to revert.
    #[must_use]
    pub fn undo(&self, result: &SiteResult) -> Option<SiteOperation<'static>> {
        let (Self::Request(ask, _), SiteResult::Entered(entered)) = (self, result) else {
            return None;
        };
        let (id, spent_at) = match &entered.entry {
            AdmissionDecision::Go(permit) => (permit.id, Some(permit.stamp)),
            AdmissionDecision::Wait(reserved) => (reserved.id, None),
            AdmissionDecision::WaitForSlot { id, .. } => (*id, None),
            _ => return None,
        };
        let leave = RequestOperation::Leave { id, spent_at };
        Some(SiteOperation::Request(
            Cow::Owned(AdmissionRequest::clone(ask)),
            leave,
        ))
    }

    /// Returns whether the operation changes nothing: a successful response to a request that found
    /// a healthy breaker. A remote store then needs no request.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        let Self::Request(ask, RequestOperation::Settle { permit, report }) = self else {
            return false;
        };
        let is_good = matches!(
            report.outcome,
            AttemptMeaning::Success | AttemptMeaning::Neutral
        );
        is_good
            && permit.clean
            && ask.policy.adaptive.is_none()
            && ask.costs.iter().all(|cost| cost.slots.is_none())
    }
}

/// Defines [`SiteResult`] and its conversions from and into the type of each variant.
macro_rules! site_results {
    ($($(#[$doc:meta])* $name:ident($result:ty),)*) => {
        /// The result of an operation on a site.
        #[derive(Clone, Debug, PartialEq)]
        pub enum SiteResult {
            $($(#[$doc])* $name($result),)*
        }

        $(
            impl From<$result> for SiteResult {
                #[inline]
                fn from(result: $result) -> Self {
                    Self::$name(result)
                }
            }

            impl TryFrom<SiteResult> for $result {
                type Error = SiteResult;

                #[inline]
                fn try_from(result: SiteResult) -> Result<Self, SiteResult> {
                    match result {
                        SiteResult::$name(result) => Ok(result),
                        other => Err(other),
                    }
                }
            }
        )*
    };
}

site_results! {
    /// The result of [`RequestOperation::Enter`].
    Entered(AdmissionResult),
    /// The result of [`RequestOperation::Sent`].
    Standing(PermitStanding),
    /// The result of [`RequestOperation::SettleHeaders`] and [`RequestOperation::Settle`].
    Settled(SettleEffect),
    /// The result of [`RequestOperation::StateQuotas`].
    Heard(QuotaEffect),
    /// The result of [`SiteOperation::Renew`].
    Condition(BreakerCondition),
    /// The result of [`SiteOperation::Block`] and [`SiteOperation::Unblock`].
    Transition(Option<Transition>),
    /// The result of [`RequestOperation::Leave`], [`SiteOperation::ForgetLearned`] and
    /// [`SiteOperation::ForgetAdaptation`]. The value is `true` if there was anything to remove.
    Found(bool),
    /// The result of an operation without a value.
    Done(()),
}

impl Site {
    /// Applies a [`SiteOperation`] at `now`.
    #[inline]
    pub fn apply(&mut self, operation: &SiteOperation<'_>, now: BootInstant) -> SiteResult {
        match operation {
            SiteOperation::Request(ask, RequestOperation::Enter { reservation: None }) => {
                self.enter(ask, now).into()
            }
            SiteOperation::Request(ask, operation) => self.apply_for_request(ask, operation, now),
            SiteOperation::Renew { ids, length } => self.renew(ids, *length, now).into(),
            SiteOperation::Block { length, reason } => {
                self.block(now + *length, reason, now).into()
            }
            SiteOperation::Unblock => self.unblock(now).into(),
            SiteOperation::ForgetLearned => self.forget_learned().into(),
            SiteOperation::ForgetAdaptation => self.forget_adaptation().into(),
        }
    }

    fn apply_for_request(
        &mut self,
        ask: &AdmissionRequest,
        operation: &RequestOperation,
        now: BootInstant,
    ) -> SiteResult {
        match operation {
            RequestOperation::Enter { reservation: None } => self.enter(ask, now).into(),
            RequestOperation::Enter {
                reservation: Some(id),
            } => self.confirm(ask, *id, now).into(),
            RequestOperation::Leave { id, spent_at } => self.leave(ask, *id, *spent_at).into(),
            RequestOperation::Hold { permit, longest } => {
                self.hold(ask, permit, now + *longest);
                SiteResult::Done(())
            }
            RequestOperation::Sent { permit, longest } => {
                self.sent(ask, permit, *longest, now).into()
            }
            RequestOperation::Stamp { permit } => {
                self.stamp(ask, permit, now);
                SiteResult::Done(())
            }
            RequestOperation::SettleHeaders { permit, outcome } => {
                self.settle_headers(ask, permit, *outcome, now).into()
            }
            RequestOperation::StateQuotas { permit, statement } => {
                self.state_quotas(ask, permit, statement, now).into()
            }
            RequestOperation::Settle { permit, report } => {
                self.settle(ask, permit, report, now).into()
            }
        }
    }
}
