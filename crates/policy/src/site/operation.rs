//! The operations on a site as data: a store applies, queues or forwards all of them in one way.

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

/// An operation on a site: one atomic step at the instant it happens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SiteOperation<'a> {
    /// An operation of a request, with its question.
    Request(Cow<'a, AdmissionRequest>, RequestOperation),
    /// Prolongs the shared slots and probe leases of permits in use, and returns the condition of
    /// the breakers: a process's heartbeat, which reports what other processes and operators did.
    Renew {
        /// The ids of the permits.
        ids: Vec<u64>,
        /// How long they last from now on.
        length: Duration,
    },
    /// Blocks the site on an operator's request.
    Block {
        /// How long from now on.
        length: Duration,
        /// Why.
        reason: OpenReason,
    },
    /// Closes the breaker on an operator's request.
    Unblock,
    /// Forgets what was learned of the host's limits. Returns whether there was anything.
    ForgetLearned,
    /// Forgets the adaptive rates of the site: the run that found them has ended. Returns whether
    /// there were any.
    ForgetAdaptation,
}

/// An operation of a request on its site.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RequestOperation {
    /// Asks to send. See [`Site::enter`] and [`Site::confirm`].
    Enter {
        /// The reservation with which the request has waited, if it has one.
        reservation: Option<u64>,
    },
    /// Gives up a reservation, or a permit that was not used. Returns whether the lease of a probe
    /// was released.
    Leave {
        /// The id of the reservation or permit.
        id: u64,
        /// When the cost of the permit was spent; `None` if it stays spent.
        spent_at: Option<BootInstant>,
    },
    /// Keeps a permit pending while its connection is dialled.
    Hold {
        /// The permit.
        permit: Permit,
        /// For how long at most.
        longest: Duration,
    },
    /// Notes that the connection of a held permit is up and its request is about to be sent, unless
    /// the site was blocked meanwhile.
    Sent {
        /// The permit.
        permit: Permit,
        /// How long the origin may take to read the request.
        longest: Duration,
    },
    /// Spends now what a permit still holds.
    Stamp {
        /// The permit.
        permit: Permit,
    },
    /// Records the headers of an answer: the result of a probe.
    SettleHeaders {
        /// The permit of the request.
        permit: Permit,
        /// What they mean.
        outcome: AttemptMeaning,
    },
    /// Records the quotas that the headers of an answer state.
    StateQuotas {
        /// The permit of the request.
        permit: Permit,
        /// What they state.
        statement: Arc<QuotaStatement>,
    },
    /// Records the result of an attempt, once.
    Settle {
        /// The permit of the attempt.
        permit: Permit,
        /// The result.
        report: AttemptResult,
    },
}

impl RequestOperation {
    /// Returns the permit that it follows.
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

    /// Returns the permit that it follows, to be replaced by what another store knows it as.
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

    /// Returns the id of the permit or reservation that it is about.
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
    /// Makes the operation of a request from its question.
    #[inline]
    #[must_use]
    pub fn for_request(ask: &'a AdmissionRequest, operation: RequestOperation) -> Self {
        Self::Request(Cow::Borrowed(ask), operation)
    }

    /// Copies the operation, to be applied on another thread or machine.
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

    /// Returns the operation that takes back the permit or reservation of a result that nobody
    /// reads.
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

    /// Returns whether it is a result that changes nothing: a good answer to a request that found a
    /// healthy breaker. Then a remote store need not be asked.
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

/// Defines [`SiteResult`] and its conversions from and into what it holds.
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
    /// Of [`RequestOperation::Enter`].
    Entered(AdmissionResult),
    /// Of [`RequestOperation::Sent`].
    Standing(PermitStanding),
    /// Of [`RequestOperation::SettleHeaders`] and [`RequestOperation::Settle`].
    Settled(SettleEffect),
    /// Of [`RequestOperation::StateQuotas`].
    Heard(QuotaEffect),
    /// Of [`SiteOperation::Renew`].
    Condition(BreakerCondition),
    /// Of [`SiteOperation::Block`] and [`SiteOperation::Unblock`].
    Transition(Option<Transition>),
    /// Of [`RequestOperation::Leave`] and of what forgets: whether there was anything.
    Found(bool),
    /// Of an operation that returns nothing.
    Done(()),
}

impl Site {
    /// Applies an operation at `now`.
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
