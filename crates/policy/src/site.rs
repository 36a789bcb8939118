//! A site: one breaker and all budgets of one operator's limit, and the decisions over them as one step.
//!
//! `enter` asks breaker and every charged budget together, all or none. `confirm` asks again at the real instant for
//! whoever waited. A store calls these inside its critical section with a `now` it read there.

use std::time::Duration;

use crate::adaptive::{AdaptivePolicy, Adjustment};
use crate::breaker::{Admission, Breaker, BreakerPolicy, OpenReason, Transition};
use crate::budget::{Budget, Fit, Wait};
use crate::classify::Outcome;
use crate::rate::Window;
use crate::role::Role;
use crate::time::BootInstant;
use crate::windows::Windows;

mod ask;
mod shared;

pub use ask::{Ask, Charge, Entered, Entry, Pass, Patience, Refusal, RefusalReason, Standing, Ticket};
pub use shared::OwnedAsk;

/// How long a ticket outlives its instant when its holder is gone.
const TICKET_GRACE: Duration = Duration::from_secs(3);
/// Whoever could go at once lets those go first whose turn comes within so long, or came so long ago.
///
/// Grants leave their window in the bursts in which they were made. Without this, the process that wakes first takes all of
/// a burst for its own line, and the others find nothing when they wake a moment later.
const COURTESY: Duration = Duration::from_millis(4);

/// The shared state of a site.
#[derive(Clone, Debug, Default)]
pub struct Site {
    breaker: Breaker,
    isolated: Vec<(Role, Breaker)>,
    budgets: Vec<Budget>,
    next_id: u64,
    /// Something other than the history of budgets may have changed.
    touched: bool,
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
        // Almost always the breaker is closed and nobody waits: then there is nothing but windows to look at.
        if ask.isolated || ask.ahead.is_some() || self.breaker.has_tripped() {
            return self.enter_with_care(ask, now);
        }
        let (mut at, mut because) = (now, None);
        for charge in ask.charges {
            let budget = &self.budgets[charge.budget];
            if !budget.is_plain() || charge.slots.is_some() || !budget.remembers(&charge.windows) {
                return self.enter_with_care(ask, now);
            }
            if charge.weight > 0
                && let (free, Some(place)) = budget.plain_fit(&charge.windows, charge.weight, at)
            {
                (at, because) = (free, Some((charge, place)));
            }
        }
        if at <= now {
            for charge in ask.charges {
                self.budgets[charge.budget].spend(charge.weight, now);
            }
            let clean = self.breaker.failures() == 0;
            let pass = Pass { id: self.fresh_id(), era: self.breaker.era(), at: now, stamp: now, probe: false, clean, shadowed: None };
            return Entered { entry: Entry::Go(pass), transition: None };
        }
        let fit = Fit { at, because: because.map(|(charge, place)| charge.windows.list()[place]) };
        if is_too_late(ask, fit, now) {
            return Entered { entry: refused(fit), transition: None };
        }
        self.enter_with_care(ask, now)
    }

    #[cold]
    fn enter_with_care(&mut self, ask: &Ask<'_>, now: BootInstant) -> Entered {
        let transition = self.advance(ask, now);
        Entered { entry: self.judge(ask, None, now), transition }
    }

    /// Asks again for whoever waited: still admitted, and do the windows still fit at the real instant?
    ///
    /// The ticket is used up by a go or a refusal; a later instant comes with the same ticket.
    pub fn confirm(&mut self, ask: &Ask<'_>, ticket: u64, now: BootInstant) -> Entered {
        let transition = self.advance(ask, now);
        for charge in ask.charges {
            self.budgets[charge.budget].release(ticket);
            self.budgets[charge.budget].free_slot(ticket);
        }
        let entry = self.judge(ask, Some(ticket), now);
        if !matches!(entry, Entry::Go(_) | Entry::Wait(_)) {
            self.breaker_for(ask).release(ticket);
        }
        Entered { entry, transition }
    }

    /// Lets time do its part: tickets and leases of the dead expire, open becomes half-open.
    #[inline]
    fn advance(&mut self, ask: &Ask<'_>, now: BootInstant) -> Option<Box<Transition>> {
        self.touched = true;
        for charge in ask.charges {
            let budget = &mut self.budgets[charge.budget];
            budget.remember(&charge.windows);
            budget.expire(now);
        }
        self.breaker_for(ask).advance(now).map(Box::new)
    }

    #[inline]
    fn judge(&mut self, ask: &Ask<'_>, held: Option<u64>, now: BootInstant) -> Entry {
        let breaker = self.breaker_for(ask);
        let era = breaker.era();
        let admission = breaker.admit(ask.breaker, ask.role, held, now);
        let mut shadowed = None;
        let (from, probe) = match admission {
            Admission::Pass => (now, false),
            Admission::Probe { jitter } => (now + jitter.mul_f64(ask.draw), true),
            Admission::Refused { until, reason, probing } => {
                let refusal = Refusal { until, reason: RefusalReason::Open { reason, probing } };
                match ask.patience {
                    _ if ask.breaker.shadow => shadowed = Some(Box::new(refusal)),
                    Patience::Wait if now < ask.deadline && (until <= ask.deadline || probing) => {
                        return Entry::Await { until: until.min(ask.deadline), probing };
                    }
                    _ => return Entry::Refused(refusal),
                }
                (now, false)
            }
        };
        let mut fit = self.first_fit(ask, from, now);
        if fit.at <= now && ask.ahead.is_none() && held.is_none() && !probe {
            fit = self.give_way(ask, fit, now);
        }
        if fit.at <= now && ask.ahead.is_none() {
            let has_slots = |charge: &Charge| charge.slots.is_none_or(|most| self.budgets[charge.budget].has_slot(most.get(), held));
            if !ask.charges.iter().all(has_slots) {
                return Entry::Busy;
            }
            let pass = Pass { probe, shadowed, ..self.grant(ask, held, era, now) };
            if probe {
                self.breaker_for(ask).lease(pass.id, ask.role, now + ask.lease);
            }
            return Entry::Go(pass);
        }
        if fit.at > now && is_too_late(ask, fit, from) {
            return refused(fit);
        }
        if ask.ahead.is_some() {
            return Entry::Queue { at: fit.at };
        }
        let id = held.unwrap_or_else(|| self.fresh_id());
        for charge in ask.charges {
            self.budgets[charge.budget].hold(id, fit.at, charge.weight, fit.at + TICKET_GRACE);
        }
        if probe {
            self.breaker_for(ask).lease(id, ask.role, fit.at + ask.lease);
        }
        Entry::Wait(Ticket { id, at: fit.at, because: fit.because, probe })
    }

    /// Puts whoever could go at once behind those whose turn it is, as far as its patience allows.
    fn give_way(&self, ask: &Ask<'_>, fit: Fit, now: BootInstant) -> Fit {
        let turns = ask.charges.iter().filter(|charge| charge.weight > 0);
        let behind = turns.filter_map(|charge| self.budgets[charge.budget].turn_behind(&charge.windows, COURTESY, now));
        let Some(behind) = behind.max_by_key(|behind| behind.at) else { return fit };
        let later = self.first_fit(ask, behind.at, now);
        // A turn costs a moment. Where it would cost the place as well, the place that is free now is taken.
        if later.at > behind.at || later.at > ask.latest || later.at > ask.deadline { fit } else { behind }
    }

    /// Charges every budget now, and writes the pass.
    #[inline]
    fn grant(&mut self, ask: &Ask<'_>, held: Option<u64>, era: u32, now: BootInstant) -> Pass {
        let id = held.unwrap_or_else(|| self.fresh_id());
        for charge in ask.charges {
            let budget = &mut self.budgets[charge.budget];
            budget.spend(charge.weight, now);
            if charge.slots.is_some() {
                budget.take_slot(id, now + ask.lease);
            }
            if held.is_some() && charge.weight > 0 {
                budget.note_wait(Wait { at: now, length: now.since(ask.asked) });
            }
        }
        let breaker = self.breaker_for(ask);
        let clean = !breaker.has_tripped() && breaker.failures() == 0;
        Pass { id, era, at: now, stamp: now, probe: false, clean, shadowed: None }
    }

    /// Finds the first instant that fits every window of every charged budget.
    #[inline]
    fn first_fit(&self, ask: &Ask<'_>, from: BootInstant, now: BootInstant) -> Fit {
        let mut fit = Fit { at: from, because: None };
        loop {
            let before = fit.at;
            for charge in ask.charges {
                let start = if ask.ahead.is_none() { fit.at } else { from };
                let next = self.budgets[charge.budget].first_fit(&charge.windows, charge.weight, ask.ahead, start, now);
                if next.at > fit.at {
                    fit = next;
                }
            }
            if fit.at == before || ask.charges.len() < 2 || ask.ahead.is_some() {
                return fit;
            }
        }
    }

    /// Gives up a ticket, or a pass that was never used: its grants and its probe's place are free again.
    pub fn leave(&mut self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> bool {
        self.touched = true;
        for charge in ask.charges {
            let budget = &mut self.budgets[charge.budget];
            budget.free_slot(id);
            if !budget.release(id)
                && let Some(at) = spent_at
            {
                budget.take_back(charge.weight, at);
            }
        }
        self.breaker_for(ask).release(id)
    }

    /// Turns the grants of a pass into a ticket that counts as used now, until its connection is up.
    pub fn hold(&mut self, ask: &Ask<'_>, pass: &Pass, expires: BootInstant) {
        self.touched = true;
        for charge in ask.charges {
            let budget = &mut self.budgets[charge.budget];
            budget.take_back(charge.weight, pass.stamp);
            budget.hold(pass.id, pass.stamp, charge.weight, expires);
            // Whatever becomes of its holder: it may have left, so it counts in the end.
            budget.sent(pass.id, expires);
        }
    }

    /// Notes that the connection of a held pass is up and its request leaves, and says whether it still may.
    ///
    /// The origin reads it a little later than that: it counts as used now until [`Site::stamp`], for `longest` at most.
    pub fn sent(&mut self, ask: &Ask<'_>, pass: &Pass, longest: Duration, now: BootInstant) -> Standing {
        self.touched = true;
        for charge in ask.charges {
            self.budgets[charge.budget].sent(pass.id, now + longest);
        }
        let breaker = self.breaker_for(ask);
        match breaker.open_until(now) {
            Some((until, reason)) if breaker.era() != pass.era && !ask.breaker.shadow => {
                Standing::Blocked(Refusal { until, reason: RefusalReason::Open { reason: reason.clone(), probing: false } })
            }
            _ => Standing::Good,
        }
    }

    /// Spends at `now` what a pass still holds: its answer has begun, or it has come to an end.
    pub fn stamp(&mut self, ask: &Ask<'_>, pass: &Pass, now: BootInstant) {
        self.touched = true;
        for charge in ask.charges {
            let budget = &mut self.budgets[charge.budget];
            budget.expire(now);
            if budget.release(pass.id) {
                budget.spend(charge.weight, now);
            }
        }
    }

    /// Frees the probe's place of a pass once its headers are there, before the body is read.
    ///
    /// The origin answered: anything but a failure closes a half-open breaker now, so that others need not wait for a body.
    pub fn settle_headers(&mut self, ask: &Ask<'_>, pass: &Pass, outcome: Outcome, now: BootInstant) -> Settled {
        if !pass.probe || matches!(outcome, Outcome::Failure | Outcome::Throttled) {
            return Settled::default();
        }
        self.touched = true;
        let breaker = self.breaker_for(ask);
        let released = breaker.release(pass.id);
        let transition = breaker.settle(ask.breaker, outcome, pass.era, pass.stamp, now);
        Settled { wakes: released || transition.is_some(), transition, ..Settled::default() }
    }

    /// Takes in what an attempt came to, once, when its body has ended.
    ///
    /// A stated Retry-After blocks the whole site whatever the era: the server means everybody.
    pub fn settle(&mut self, ask: &Ask<'_>, pass: &Pass, report: &Report, now: BootInstant) -> Settled {
        self.touched = true;
        for charge in ask.charges.iter().filter(|charge| charge.slots.is_some()) {
            self.budgets[charge.budget].free_slot(pass.id);
        }
        let breaker = self.breaker_for(ask);
        let released = pass.probe && breaker.release(pass.id);
        let mut transition = breaker.settle(ask.breaker, report.outcome, pass.era, report.sent, now);
        if matches!(report.outcome, Outcome::Failure | Outcome::Throttled) {
            let stated = report.retry_after.map(|asked| (asked.min(ask.breaker.retry_after_cap), OpenReason::RetryAfter));
            let throttled = (report.outcome == Outcome::Throttled).then_some(ask.breaker.throttle_block).flatten();
            if let Some(asked) = report.retry_after {
                self.breaker_for(ask).learn(ask.breaker, asked);
            }
            if let Some((length, reason)) = stated.or_else(|| throttled.map(|length| (length, OpenReason::Throttled))) {
                transition = self.block(now + length, &reason, now).or(transition);
            }
        }
        let open_until = self.breaker_for(ask).open_until(now).map(|(until, _)| until);
        let adjusted = ask.adaptive.and_then(|policy| self.adapt(ask, policy, report.outcome == Outcome::Throttled, now));
        Settled { wakes: released || transition.is_some(), transition, open_until, adjusted }
    }

    fn adapt(&mut self, ask: &Ask<'_>, policy: &AdaptivePolicy, throttled: bool, now: BootInstant) -> Option<(usize, Adjustment)> {
        let charge = ask.charges.first()?;
        let adjustment = self.budgets[charge.budget].observe(policy, throttled, now)?;
        Some((charge.budget, adjustment))
    }

    /// Blocks every breaker of the site until `until`.
    pub fn block(&mut self, until: BootInstant, reason: &OpenReason, now: BootInstant) -> Option<Transition> {
        self.touched = true;
        for (_, breaker) in &mut self.isolated {
            let _ = breaker.block(until, reason.clone(), now);
        }
        self.breaker.block(until, reason.clone(), now)
    }

    /// Closes every breaker of the site on an operator's word.
    pub fn unblock(&mut self, now: BootInstant) -> Option<Transition> {
        self.touched = true;
        self.isolated.clear();
        self.breaker.close(now)
    }

    /// Returns the breaker that a request obeys: the host's, or its role's own where the role is isolated.
    #[inline]
    fn breaker_for(&mut self, ask: &Ask<'_>) -> &mut Breaker {
        if !ask.isolated {
            return &mut self.breaker;
        }
        let place = self.isolated.iter().position(|(role, _)| *role == ask.role).unwrap_or_else(|| {
            // A block that runs already holds for the newcomer too: its own failures start from none.
            self.isolated.push((ask.role, self.breaker.blocked_twin()));
            self.isolated.len() - 1
        });
        &mut self.isolated[place].1
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

    /// Prolongs the shared slots and probes' places of `ids` by `length` from now.
    pub fn renew(&mut self, ids: &[u64], length: Duration, now: BootInstant) {
        self.touched = true;
        for budget in &mut self.budgets {
            budget.renew(ids, now + length);
        }
        for breaker in std::iter::once(&mut self.breaker).chain(self.isolated.iter_mut().map(|(_, breaker)| breaker)) {
            breaker.renew(ids, now + length);
        }
    }

    /// Tells whether nothing here matters any more.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        self.breaker.is_idle(now)
            && self.isolated.iter().all(|(_, breaker)| breaker.is_idle(now))
            && self.budgets.iter().all(|budget| budget.is_idle(now))
    }

    #[inline]
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// Tells whether an instant is beyond what the caller waits for; up to `from` it is not the rate that makes it wait.
#[inline]
fn is_too_late(ask: &Ask<'_>, fit: Fit, from: BootInstant) -> bool {
    fit.at > ask.latest.max(from) || fit.at > ask.deadline
}

#[inline]
fn refused(fit: Fit) -> Entry {
    Entry::Refused(Refusal { until: fit.at, reason: RefusalReason::Rate { window: fit.because } })
}
