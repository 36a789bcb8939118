//! A site: one breaker and all budgets of one operator's limit, and the decisions over them as one
//! step.
//!
//! `enter` asks breaker and every charged budget together, all or none. `confirm` asks again at the
//! real instant for whoever waited. A store calls these inside its critical section with a `now` it
//! read there.

use std::time::Duration;

use crate::adaptive::{AdaptivePolicy, Adjustment};
use crate::breaker::{Admission, Breaker, BreakerPolicy, OpenReason, State, Transition};
use crate::budget::{Budget, Fit, Reservation, Stage, Wait};
use crate::classify::Outcome;
use crate::extension::Extensions;
use crate::rate::Window;
use crate::role::Role;
use crate::time::BootInstant;
use crate::windows::Windows;

mod ask;
mod order;
mod shared;

pub use ask::{
    Ask, Cost, Entered, Entry, Patience, Permit, QueuePosition, Refusal, RefusalReason, Reserved,
    Standing,
};
use order::{GRACE, Held};
pub use shared::OwnedAsk;

/// The shared state of a site.
#[derive(Clone, Debug, Default)]
pub struct Site {
    breaker: Breaker,
    /// The breakers of roles that count for themselves: one word where there are none.
    #[expect(
        clippy::box_collection,
        reason = "very many sites, few of which have any"
    )]
    isolated: Option<Box<Vec<(Role, Breaker)>>>,
    budgets: Vec<Budget>,
    next_id: u64,
    /// Something other than the history of budgets may have changed.
    touched: bool,
    /// What later versions add.
    extensions: Extensions,
}

/// What a settled outcome did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settled {
    /// The change of state, if there was one.
    pub transition: Option<Transition>,
    /// The end of the block or open in force now: a retry before it would be refused.
    pub open_until: Option<BootInstant>,
    /// The change of an adaptive rate, and of which budget.
    pub adjusted: Option<(usize, Adjustment)>,
    /// Whether those who wait for a verdict have reason to ask again.
    pub wakes: bool,
}

/// What an attempt came to, as told to the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it means.
    pub outcome: Outcome,
    /// How long the server asked to be left alone, if it did.
    pub retry_after: Option<Duration>,
    /// When the request was sent.
    pub sent: BootInstant,
}

/// How the breakers of a site stand: what a heartbeat brings back from a shared store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Changes whenever an open or a block of any of them begins, or an operator closes them.
    pub generation: u32,
    /// Whether the host's is half-open.
    pub half_open: bool,
    /// How many of those that roles have for themselves are half-open.
    pub half_open_roles: u32,
    /// Until when the host's is open, and why; `None` when it is closed or half-open.
    pub open: Option<(BootInstant, OpenReason)>,
}

impl Condition {
    /// Tells whether sleeping requests have to look again after `earlier`.
    ///
    /// A remote store's instants are converted by this machine's clock, a little differently each
    /// time: that is no change.
    #[must_use]
    pub fn has_changed_since(&self, earlier: &Self) -> bool {
        const CONVERSION: Duration = Duration::from_secs(1);
        let same_open = match (&self.open, &earlier.open) {
            (Some((until, reason)), Some((before, because))) => {
                reason == because
                    && until.since(*before) < CONVERSION
                    && before.since(*until) < CONVERSION
            }
            (None, None) => true,
            _ => false,
        };
        !same_open
            || (self.generation, self.half_open, self.half_open_roles)
                != (
                    earlier.generation,
                    earlier.half_open,
                    earlier.half_open_roles,
                )
    }
}

impl Site {
    /// Makes room for `count` budgets.
    pub fn ensure_budgets(&mut self, count: usize) {
        if self.budgets.len() < count {
            self.budgets.reserve_exact(count - self.budgets.len());
            self.budgets.resize_with(count, Budget::default);
        }
    }

    /// Asks to send: breaker, blocks and all budgets in one step.
    #[inline]
    pub fn enter(&mut self, ask: &Ask<'_>, now: BootInstant) -> Entered {
        // Almost always the breaker is closed and nobody waits: then there is nothing but windows
        // to look at.
        if ask.isolated || ask.queue_position.ahead().is_some() || self.breaker.has_tripped() {
            return self.enter_with_care(ask, now);
        }
        let (mut at, mut because) = (now, None);
        for cost in ask.costs {
            let budget = &self.budgets[cost.budget];
            if !budget.is_plain() || cost.slots.is_some() || !budget.remembers(&cost.windows) {
                return self.enter_with_care(ask, now);
            }
            if cost.weight > 0
                && let (free, Some(place)) = budget.plain_fit(&cost.windows, cost.weight, at)
            {
                (at, because) = (free, Some((cost, place)));
            }
        }
        if at <= now {
            for cost in ask.costs {
                self.budgets[cost.budget].spend(cost.weight, now);
            }
            let clean = self.breaker.failures() == 0;
            let permit = Permit {
                id: self.fresh_id(),
                generation: self.breaker.generation(),
                at: now,
                stamp: now,
                probe: false,
                clean,
                shadowed: None,
            };
            return Entered {
                entry: Entry::Go(permit),
                transition: None,
            };
        }
        let fit = Fit {
            at,
            because: because.map(|(cost, place)| cost.windows.list()[place]),
        };
        if is_too_late(ask, None, fit, now) {
            return Entered {
                entry: refused(fit),
                transition: None,
            };
        }
        self.enter_with_care(ask, now)
    }

    #[cold]
    fn enter_with_care(&mut self, ask: &Ask<'_>, now: BootInstant) -> Entered {
        let transition = self.advance(ask, now);
        Entered {
            entry: self.judge(ask, None, now),
            transition,
        }
    }

    /// Asks again for a request that waited: still admitted, and do the windows still fit at the
    /// real instant?
    ///
    /// The reservation is used up by a go or a refusal; until then it keeps its position, whatever
    /// instant it gets. One that has expired counts as a newcomer.
    pub fn confirm(&mut self, ask: &Ask<'_>, id: u64, now: BootInstant) -> Entered {
        let transition = self.advance(ask, now);
        for cost in ask.costs {
            self.budgets[cost.budget].free_slot(id);
        }
        let entry = self.judge(ask, Some(id), now);
        if !matches!(
            entry,
            Entry::Go(_) | Entry::Wait(_) | Entry::WaitForSlot { .. }
        ) {
            self.release(ask, id);
            self.breaker_for(ask).release(id);
        }
        Entered { entry, transition }
    }

    fn release(&mut self, ask: &Ask<'_>, id: u64) {
        for cost in ask.costs {
            self.budgets[cost.budget].release(id);
        }
    }

    /// Lets time do its part: reservations and leases of the dead expire, open becomes half-open.
    #[inline]
    fn advance(&mut self, ask: &Ask<'_>, now: BootInstant) -> Option<Box<Transition>> {
        self.touched = true;
        for cost in ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.remember(&cost.windows);
            budget.expire(now);
        }
        self.breaker_for(ask).advance(now).map(Box::new)
    }

    #[inline]
    fn judge(&mut self, ask: &Ask<'_>, id: Option<u64>, now: BootInstant) -> Entry {
        let breaker = self.breaker_for(ask);
        let generation = breaker.generation();
        let admission = breaker.admit(ask.breaker, ask.role, id, now);
        let mut shadowed = None;
        let (from, probe) = match admission {
            Admission::Permit => (now, false),
            Admission::Probe { jitter } => (now + jitter.mul_f64(ask.jitter_sample), true),
            Admission::Refused {
                until,
                reason,
                probing,
            } => {
                let refusal = |reason| Refusal {
                    until,
                    reason: RefusalReason::Open { reason, probing },
                };
                match ask.patience {
                    _ if ask.breaker.shadow => shadowed = Some(Box::new(refusal(reason))),
                    Patience::Wait if now < ask.deadline && (until <= ask.deadline || probing) => {
                        return Entry::WaitForBreaker {
                            until: until.min(ask.deadline),
                            reason,
                            probing,
                        };
                    }
                    _ => return Entry::Refused(refusal(reason)),
                }
                (now, false)
            }
        };
        let mine = id.and_then(|id| self.held(ask, id));
        let before = self.before(ask, mine, now);
        let mut fit = self.first_fit(ask, &before, from);
        let may_go = ask.queue_position.ahead().is_none();
        if fit.at <= now && may_go && id.is_none() && !probe {
            fit = self.give_way(ask, &before, fit, now);
        }
        if fit.at <= now && may_go {
            if let Some(earlier) = self.waits_for_slot(ask, id, mine, now) {
                if ask.queue_position != QueuePosition::Head {
                    return Entry::Queue { at: now };
                }
                return self.reserve_until_slot(ask, id, mine, earlier, now);
            }
            let permit = Permit {
                probe,
                shadowed,
                ..self.grant(ask, id, generation, now)
            };
            if probe {
                self.breaker_for(ask)
                    .lease(permit.id, ask.role, now + ask.lease);
            }
            return Entry::Go(permit);
        }
        if fit.at > now && is_too_late(ask, mine, fit, from) {
            return refused(fit);
        }
        if ask.queue_position != QueuePosition::Head {
            return Entry::Queue { at: fit.at };
        }
        let at = before.ask_again_at(fit.at);
        let id = self.reserve(ask, id, mine, at, |cost| cost.weight > 0);
        if probe {
            self.breaker_for(ask).lease(id, ask.role, at + ask.lease);
        }
        Entry::Wait(Reserved {
            id,
            at,
            because: fit.because,
            probe,
        })
    }

    /// Reserves a place at `at`, or moves the one that `id` has: its position stays.
    fn reserve(
        &mut self,
        ask: &Ask<'_>,
        id: Option<u64>,
        mine: Option<Held>,
        at: BootInstant,
        takes_part: impl Fn(&Cost) -> bool,
    ) -> u64 {
        let position = mine.map_or_else(|| self.next_position(ask), |mine| mine.position);
        let id = id.unwrap_or_else(|| self.fresh_id());
        for cost in ask.costs.iter().filter(|cost| takes_part(cost)) {
            let reservation = Reservation {
                id,
                position,
                at,
                weight: cost.weight,
                expires: at + GRACE,
                stage: Stage::Waiting,
            };
            self.budgets[cost.budget].reserve(reservation);
        }
        id
    }

    /// Tells whether a shared slot is missing, and how many requests with an earlier position are
    /// about to take one.
    fn waits_for_slot(
        &self,
        ask: &Ask<'_>,
        id: Option<u64>,
        mine: Option<Held>,
        now: BootInstant,
    ) -> Option<u32> {
        let mut missing = None;
        for cost in ask.costs {
            let Some(most) = cost.slots else { continue };
            let earlier = self.earlier_due(cost, mine, now);
            if !self.budgets[cost.budget].has_slot(most.get(), id, earlier) {
                missing = Some(missing.unwrap_or(0).max(earlier));
            }
        }
        missing
    }

    /// Keeps the place of a request for which every window has room and no shared slot is free.
    fn reserve_until_slot(
        &mut self,
        ask: &Ask<'_>,
        id: Option<u64>,
        mine: Option<Held>,
        earlier: u32,
        now: BootInstant,
    ) -> Entry {
        let id = self.reserve(ask, id, mine, now, |cost| {
            cost.weight > 0 || cost.slots.is_some()
        });
        Entry::WaitForSlot { id, earlier }
    }

    /// Charges every budget now, and writes the pass.
    #[inline]
    fn grant(
        &mut self,
        ask: &Ask<'_>,
        held: Option<u64>,
        generation: u32,
        now: BootInstant,
    ) -> Permit {
        let id = held.unwrap_or_else(|| self.fresh_id());
        for cost in ask.costs {
            let budget = &mut self.budgets[cost.budget];
            if held.is_some() {
                budget.release(id);
            }
            budget.spend(cost.weight, now);
            if cost.slots.is_some() {
                budget.take_slot(id, now + ask.lease);
            }
            if held.is_some() && cost.weight > 0 {
                budget.note_wait(Wait {
                    at: now,
                    length: now.since(ask.asked),
                });
            }
        }
        let breaker = self.breaker_for(ask);
        let clean = !breaker.has_tripped() && breaker.failures() == 0;
        Permit {
            id,
            generation,
            at: now,
            stamp: now,
            probe: false,
            clean,
            shadowed: None,
        }
    }

    /// Gives up a reservation, or a pass that was never used: its grants and its probe's place are
    /// free again.
    pub fn leave(&mut self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> bool {
        self.touched = true;
        for cost in ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.free_slot(id);
            if !budget.release(id)
                && let Some(at) = spent_at
            {
                budget.take_back(cost.weight, at);
            }
        }
        self.breaker_for(ask).release(id)
    }

    /// Turns the permits of a pass into a reservation that counts as used now, until its connection
    /// is up.
    pub fn hold(&mut self, ask: &Ask<'_>, permit: &Permit, expires: BootInstant) {
        self.touched = true;
        for cost in ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.take_back(cost.weight, permit.stamp);
            if cost.weight > 0 {
                // Whatever becomes of its holder: it may have left, so it counts in the end.
                let (id, at, weight) = (permit.id, permit.stamp, cost.weight);
                budget.reserve(Reservation {
                    id,
                    position: 0,
                    at,
                    weight,
                    expires,
                    stage: Stage::Sent,
                });
            }
        }
    }

    /// Notes that the connection of a held pass is up and its request leaves, and says whether it
    /// still may.
    ///
    /// The origin reads it a little later than that: it counts as used now until [`Site::stamp`],
    /// for `longest` at most.
    pub fn sent(
        &mut self,
        ask: &Ask<'_>,
        permit: &Permit,
        longest: Duration,
        now: BootInstant,
    ) -> Standing {
        self.touched = true;
        for cost in ask.costs {
            self.budgets[cost.budget].sent(permit.id, now + longest);
        }
        let breaker = self.breaker_for(ask);
        match breaker.open_until(now) {
            Some((until, reason))
                if breaker.generation() != permit.generation && !ask.breaker.shadow =>
            {
                Standing::Blocked(Refusal {
                    until,
                    reason: RefusalReason::Open {
                        reason: reason.clone(),
                        probing: false,
                    },
                })
            }
            _ => Standing::Good,
        }
    }

    /// Spends at `now` what a pass still holds: its answer has begun, or it has come to an end.
    pub fn stamp(&mut self, ask: &Ask<'_>, permit: &Permit, now: BootInstant) {
        self.touched = true;
        for cost in ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.expire(now);
            if budget.release(permit.id) {
                budget.spend(cost.weight, now);
            }
        }
    }

    /// Frees the probe's place of a pass once its headers are there, before the body is read.
    ///
    /// The origin answered: anything but a failure closes a half-open breaker now, so that others
    /// need not wait for a body.
    pub fn settle_headers(
        &mut self,
        ask: &Ask<'_>,
        permit: &Permit,
        outcome: Outcome,
        now: BootInstant,
    ) -> Settled {
        if !permit.probe || matches!(outcome, Outcome::Failure | Outcome::Throttled) {
            return Settled::default();
        }
        self.touched = true;
        let breaker = self.breaker_for(ask);
        let released = breaker.release(permit.id);
        let transition = breaker.settle(ask.breaker, outcome, permit.generation, permit.stamp, now);
        Settled {
            wakes: released || transition.is_some(),
            transition,
            ..Settled::default()
        }
    }

    /// Takes in what an attempt came to, once, when its body has ended.
    ///
    /// A stated Retry-After blocks the whole site whatever the era: the server means everybody.
    pub fn settle(
        &mut self,
        ask: &Ask<'_>,
        permit: &Permit,
        report: &Report,
        now: BootInstant,
    ) -> Settled {
        self.touched = true;
        for cost in ask.costs.iter().filter(|cost| cost.slots.is_some()) {
            self.budgets[cost.budget].free_slot(permit.id);
        }
        let breaker = self.breaker_for(ask);
        let released = permit.probe && breaker.release(permit.id);
        let mut transition = breaker.settle(
            ask.breaker,
            report.outcome,
            permit.generation,
            report.sent,
            now,
        );
        if matches!(report.outcome, Outcome::Failure | Outcome::Throttled) {
            let stated = report.retry_after.map(|asked| {
                (
                    asked.min(ask.breaker.retry_after_cap),
                    OpenReason::RetryAfter,
                )
            });
            let throttled = (report.outcome == Outcome::Throttled)
                .then_some(ask.breaker.throttle_block)
                .flatten();
            if let Some(asked) = report.retry_after {
                self.breaker_for(ask).learn(ask.breaker, asked);
            }
            if let Some((length, reason)) =
                stated.or_else(|| throttled.map(|length| (length, OpenReason::Throttled)))
            {
                transition = self.block(now + length, &reason, now).or(transition);
            }
        }
        let open_until = self
            .breaker_for(ask)
            .open_until(now)
            .map(|(until, _)| until);
        let adjusted = ask
            .adaptive
            .and_then(|policy| self.adapt(ask, policy, report.outcome == Outcome::Throttled, now));
        Settled {
            wakes: released || transition.is_some(),
            transition,
            open_until,
            adjusted,
        }
    }

    fn adapt(
        &mut self,
        ask: &Ask<'_>,
        policy: &AdaptivePolicy,
        throttled: bool,
        now: BootInstant,
    ) -> Option<(usize, Adjustment)> {
        let cost = ask.costs.first()?;
        let adjustment = self.budgets[cost.budget].observe(policy, throttled, now)?;
        Some((cost.budget, adjustment))
    }

    /// Blocks every breaker of the site until `until`.
    pub fn block(
        &mut self,
        until: BootInstant,
        reason: &OpenReason,
        now: BootInstant,
    ) -> Option<Transition> {
        self.touched = true;
        for (_, breaker) in self.isolated.as_deref_mut().into_iter().flatten() {
            let _ = breaker.block(until, reason.clone(), now);
        }
        self.breaker.block(until, reason.clone(), now)
    }

    /// Closes every breaker of the site on an operator's word.
    pub fn unblock(&mut self, now: BootInstant) -> Option<Transition> {
        self.touched = true;
        // Whoever sleeps for a role's own breaker hears of it by the era, which outgrows all that
        // the roles' had.
        let roles = self
            .breakers()
            .1
            .iter()
            .fold(0, |generations: u32, (_, own)| {
                generations.wrapping_add(own.generation()).wrapping_add(1)
            });
        self.isolated = None;
        let transition = self.breaker.close(now);
        self.breaker.permit_generations(roles);
        transition
    }

    /// Reads how the breakers stand at `now`.
    fn condition(&self, now: BootInstant) -> Condition {
        let own = self.breakers().1;
        Condition {
            generation: own
                .iter()
                .fold(self.breaker.generation(), |generations, (_, breaker)| {
                    generations.wrapping_add(breaker.generation())
                }),
            half_open: self.breaker.state(now) == State::HalfOpen,
            half_open_roles: own
                .iter()
                .map(|(_, breaker)| u32::from(breaker.state(now) == State::HalfOpen))
                .sum(),
            open: self
                .breaker
                .open_until(now)
                .map(|(until, reason)| (until, reason.clone())),
        }
    }

    /// Returns the breaker that a request obeys: the host's, or its role's own where the role is
    /// isolated.
    #[inline]
    fn breaker_for(&mut self, ask: &Ask<'_>) -> &mut Breaker {
        if !ask.isolated {
            return &mut self.breaker;
        }
        let isolated = self.isolated.get_or_insert_default();
        let place = isolated
            .iter()
            .position(|(role, _)| *role == ask.role)
            .unwrap_or_else(|| {
                // A block that runs already holds for the newcomer too: its own failures start from
                // none.
                isolated.push((ask.role, self.breaker.blocked_twin()));
                isolated.len() - 1
            });
        &mut isolated[place].1
    }

    /// Returns the host-wide breaker.
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Returns the budgets, in the order of their indices.
    #[must_use]
    pub fn budgets(&self) -> &[Budget] {
        &self.budgets
    }

    /// Prolongs the shared slots and probes' places of `ids` by `length` from now, and says how the
    /// breaker stands.
    pub fn renew(&mut self, ids: &[u64], length: Duration, now: BootInstant) -> Condition {
        if !ids.is_empty() {
            self.touched = true;
            for budget in &mut self.budgets {
                budget.renew(ids, now + length);
            }
            self.breaker.renew(ids, now + length);
            for (_, breaker) in self.isolated.as_deref_mut().into_iter().flatten() {
                breaker.renew(ids, now + length);
            }
        }
        self.condition(now)
    }

    /// Tells whether nothing here matters any more.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        self.breaker.is_idle(now)
            && self
                .breakers()
                .1
                .iter()
                .all(|(_, breaker)| breaker.is_idle(now))
            && self.budgets.iter().all(|budget| budget.is_idle(now))
    }

    #[inline]
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// Tells whether an instant is beyond what the caller waits for; up to `from` it is not the rate
/// that makes it wait.
///
/// A request that holds a reservation was let in to wait: it is not turned away because it woke a
/// moment late.
#[inline]
fn is_too_late(ask: &Ask<'_>, mine: Option<Held>, fit: Fit, from: BootInstant) -> bool {
    let latest = mine.map_or(ask.latest, |mine| ask.latest.max(mine.at + GRACE));
    fit.at > latest.max(from) || fit.at > ask.deadline
}

#[inline]
fn refused(fit: Fit) -> Entry {
    Entry::Refused(Refusal {
        until: fit.at,
        reason: RefusalReason::Rate {
            window: fit.because,
        },
    })
}
