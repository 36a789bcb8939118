//! The way through a gate: enter, wait, confirm.
//!
//! Whoever waits holds no slot; whoever is not the head of its line holds no ticket either. After any wait the site is
//! asked again at the real instant, so that a request granted before a block is not sent after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::breaker::Transition;
use docstokg_policy::rate::Window;
use docstokg_policy::site::{Charge, Entry, Pass, Refusal, RefusalReason};
use docstokg_stores::StoreError;
use tokio::sync::Semaphore;

use super::line::Seat;
use super::{Denied, Gate, Granted, Lane, Slots, Terms};
use crate::clock::{BootInstant, Random, Runtime, before};
use crate::event::What;
use crate::journey::Track;

/// What admission needs of the process.
pub(crate) struct Doorkeeper<'a> {
    pub(crate) runtime: &'a Arc<dyn Runtime>,
    /// The process's own slots; resolvers take none.
    pub(crate) process_slots: Option<&'a Arc<Semaphore>>,
    pub(crate) random: &'a Random,
}

/// The least after which a shared slot is asked for again.
const BUSY_LEAST: Duration = Duration::from_millis(20);
/// By how much that is spread.
const BUSY_SPREAD: Duration = Duration::from_millis(30);
/// From when on a store that does not answer is to blame, and not a deadline that was close.
const HANGS: Duration = Duration::from_secs(2);
/// For how long somebody who has a slot may wait for its turn without giving it up.
const MOMENT: Duration = Duration::from_millis(5);
/// How long a waiter sleeps at most before it looks whether another process has changed the site.
const LISTEN: Duration = Duration::from_secs(5);

/// How long an admission waited, and for what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) rate: Duration,
    pub(crate) slots: Duration,
    pub(crate) breaker: Duration,
}

/// A waiter: leaves the line, and gives up its ticket, whenever it is dropped.
struct Waiter<'a> {
    gate: &'a Arc<Gate>,
    lane: &'a Arc<Lane>,
    terms: &'a Terms,
    charges: &'a [Charge],
    seat: Arc<Seat>,
    ticket: Option<u64>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.give_up_ticket();
        self.lane.line.leave(&self.seat);
    }
}

impl Waiter<'_> {
    /// Takes note of the ticket it holds, or holds no more; those behind it in line judge by that.
    fn hold(&mut self, ticket: Option<u64>) -> Option<u64> {
        self.seat.holds_ticket.store(ticket.is_some(), Ordering::Release);
        std::mem::replace(&mut self.ticket, ticket)
    }

    fn give_up_ticket(&mut self) {
        if let Some(ticket) = self.hold(None) {
            self.gate.wake_if(self.gate.site.leave(&self.lane.ask(self.charges, self.terms, None), ticket, None));
        }
    }
}

impl Gate {
    /// Lets one attempt through, waiting as long as its terms allow.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        terms: Terms,
        door: &Doorkeeper<'_>,
        track: &Track,
        waits: &mut Waits,
    ) -> Result<Granted, Denied> {
        let charges = lane.charges(&terms);
        if !self.remote && lane.line.weight() == 0 {
            let entered = self.site.enter(&lane.ask(&charges, &terms, None)).await?;
            self.note_transition(lane, track, entered.transition.map(|transition| *transition));
            match entered.entry {
                Entry::Go(pass) => match lane.try_slots(door.process_slots) {
                    Some(slots) => return Ok(self.granted(lane, terms, pass, slots)),
                    None => self.give_back(lane, &charges, &terms, &pass),
                },
                Entry::Refused(refusal) => return Err(refusal.into()),
                Entry::Wait(ticket) => {
                    let seat = lane.line.join(terms.weight);
                    let mut waiter = Waiter { gate: self, lane, terms: &terms, charges: &charges, seat, ticket: None };
                    waiter.hold(Some(ticket.id));
                    return self.wait_in_line(waiter, Some(ticket.at), ticket.because, door, track, waits).await;
                }
                Entry::Queue { .. } | Entry::Await { .. } | Entry::Busy => {}
            }
        }
        let seat = lane.line.join(terms.weight);
        let waiter = Waiter { gate: self, lane, terms: &terms, charges: &charges, seat, ticket: None };
        self.wait_in_line(waiter, None, None, door, track, waits).await
    }

    async fn wait_in_line(
        self: &Arc<Self>,
        mut waiter: Waiter<'_>,
        mut due: Option<BootInstant>,
        mut window: Option<Window>,
        door: &Doorkeeper<'_>,
        track: &Track,
        waits: &mut Waits,
    ) -> Result<Granted, Denied> {
        let (lane, terms) = (waiter.lane, *waiter.terms);
        let runtime = &**door.runtime;
        let mut slots = None;
        let mut judged = false;
        loop {
            if let (Some(at), Some(_)) = (due.take(), waiter.ticket) {
                track.note(&lane.key.host, lane.key.role, || What::WaitRate { until: at, window });
                let asleep = runtime.boot();
                // A change of the site's state may end the wait early: a block turns it into a refusal.
                before(runtime, self.at_latest(at, asleep), waiter.seat.called.notified()).await;
                let slept = runtime.boot().since(asleep);
                // Without a window it is the jitter of a probe, which is the breaker's.
                if window.is_some() {
                    waits.rate += slept;
                } else {
                    waits.breaker += slept;
                }
                if runtime.boot() >= at {
                    slots = slots.or_else(|| lane.try_slots(door.process_slots));
                    if slots.is_none() {
                        waiter.give_up_ticket();
                        slots = Some(self.wait_slots(lane, &terms, door, track, waits).await?);
                    }
                }
            }
            // Where an answer takes its time, whoever comes meanwhile lets the head hear its own first.
            if self.remote && waiter.ticket.is_none() && lane.line.is_behind_an_asker(&waiter.seat) {
                if before(runtime, terms.deadline, waiter.seat.called.notified()).await.is_none() {
                    return Err(Refusal { until: runtime.boot(), reason: RefusalReason::Rate { window: None } }.into());
                }
                continue;
            }
            let ahead = if waiter.ticket.is_some() { None } else { lane.line.ahead_of(&waiter.seat) };
            let ask = lane.ask(waiter.charges, &terms, ahead);
            let answer = match waiter.ticket {
                Some(ticket) => self.site.confirm(&ask, ticket),
                None => self.site.enter(&ask),
            };
            // A store that hangs is no reason to hang with it.
            let asked = runtime.boot();
            let Some(entered) = before(runtime, terms.deadline, answer.into_future()).await else {
                let now = runtime.boot();
                let (store, why) = ("the store of limits".to_owned(), "it gave no answer before the deadline".to_owned());
                return Err(if now.since(asked) >= HANGS {
                    StoreError::Away { store, why }.into()
                } else {
                    Refusal { until: now, reason: RefusalReason::Rate { window: None } }.into()
                });
            };
            let entered = entered?;
            waiter.hold(None);
            if self.remote && !matches!(entered.entry, Entry::Go(_)) && !waiter.seat.settled_in.swap(true, Ordering::AcqRel) {
                // Those behind it may judge for themselves now.
                lane.line.wake_others(&waiter.seat);
            }
            self.note_transition(lane, track, entered.transition.map(|transition| *transition));
            waiter.seat.awaits_breaker.store(matches!(entered.entry, Entry::Await { .. }), Ordering::Release);
            match entered.entry {
                Entry::Go(pass) => {
                    if let Some(slots) = slots.take().or_else(|| lane.try_slots(door.process_slots)) {
                        return Ok(self.granted(lane, terms, pass, slots));
                    }
                    self.give_back(lane, waiter.charges, &terms, &pass);
                    slots = Some(self.wait_slots(lane, &terms, door, track, waits).await?);
                }
                Entry::Wait(ticket) => {
                    // For a turn of a moment it is kept: another lane would take it, and be in the way when the turn comes.
                    slots = slots.filter(|_| ticket.at.since(runtime.boot()) <= MOMENT);
                    waiter.hold(Some(ticket.id));
                    (due, window) = (Some(ticket.at), ticket.because);
                }
                Entry::Queue { at } => {
                    // Whoever waits holds no slot: the head may be waiting for it.
                    slots = None;
                    if !judged {
                        track.note(&lane.key.host, lane.key.role, || What::WaitTurn { not_before: at, ahead: ahead.unwrap_or(0) });
                    }
                    let asleep = runtime.boot();
                    // Judged again when the bound has passed, and refused then unless the turn is due.
                    let until = if judged && asleep >= terms.latest { terms.deadline } else { terms.latest.min(terms.deadline) };
                    judged = true;
                    before(runtime, until, waiter.seat.called.notified()).await;
                    let now = runtime.boot();
                    waits.rate += now.since(asleep);
                    if now >= terms.deadline {
                        return Err(Refusal { until: at.max(now), reason: RefusalReason::Rate { window: None } }.into());
                    }
                }
                Entry::Await { until, probing } => {
                    slots = None;
                    if self.shared {
                        // Another process closed the site: those who have not heard of it have reason to ask, too.
                        lane.line.wake_unaware();
                    }
                    track.note(&lane.key.host, lane.key.role, || What::WaitBreaker { until, probing });
                    let asleep = runtime.boot();
                    before(runtime, self.at_latest(until, asleep), waiter.seat.called.notified()).await;
                    waits.breaker += runtime.boot().since(asleep);
                }
                Entry::Busy => {
                    slots = None;
                    let asleep = runtime.boot();
                    if asleep >= terms.deadline {
                        return Err(Refusal { until: asleep, reason: RefusalReason::Slots }.into());
                    }
                    track.note(&lane.key.host, lane.key.role, || What::WaitSlot);
                    // A slot that another process frees calls nobody here: asked again in a moment, each at its own.
                    let moment = BUSY_LEAST + BUSY_SPREAD.mul_f64(door.random.share());
                    before(runtime, (asleep + moment).min(terms.deadline), waiter.seat.called.notified()).await;
                    waits.slots += runtime.boot().since(asleep);
                }
                Entry::Refused(refusal) => return Err(refusal.into()),
            }
        }
    }

    /// Bounds a long sleep where other processes may change what it waits for: an operator's word must be heard.
    fn at_latest(&self, at: BootInstant, now: BootInstant) -> BootInstant {
        if self.shared { at.min(now + LISTEN) } else { at }
    }

    /// Waits for slots, up to the deadline.
    async fn wait_slots(&self, lane: &Arc<Lane>, terms: &Terms, door: &Doorkeeper<'_>, track: &Track, waits: &mut Waits) -> Result<Slots, Refusal> {
        track.note(&lane.key.host, lane.key.role, || What::WaitSlot);
        let asleep = door.runtime.boot();
        let slots = before(&**door.runtime, terms.deadline, lane.wait_slots(door.process_slots)).await;
        waits.slots += door.runtime.boot().since(asleep);
        slots.ok_or_else(|| Refusal { until: door.runtime.boot(), reason: RefusalReason::Slots })
    }

    fn granted(self: &Arc<Self>, lane: &Arc<Lane>, terms: Terms, pass: Pass, slots: Slots) -> Granted {
        Granted::new(Arc::clone(self), Arc::clone(lane), terms, pass, slots)
    }

    pub(super) fn give_back(self: &Arc<Self>, lane: &Lane, charges: &[Charge], terms: &Terms, pass: &Pass) {
        self.wake_if(self.site.leave(&lane.ask(charges, terms, None), pass.id, Some(pass.stamp)));
    }

    pub(crate) fn note_transition(&self, lane: &Lane, track: &Track, transition: Option<Transition>) {
        if let Some(transition) = transition {
            track.note(&lane.key.host, lane.key.role, || What::Breaker { key: Arc::clone(&self.key), transition });
        }
    }
}
