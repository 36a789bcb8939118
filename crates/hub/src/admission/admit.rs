//! The way through a gate: ask, wait, ask again, go.
//!
//! A waiting request holds no slot; one that is not the head of its queue holds no reservation
//! either. After any wait the site is asked again at the real instant, so that a request permitted
//! before a block is not sent after it.

use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::rate::Window;
use docstokg_policy::site::{
    Cost, Entered, Entry, Permit, QueuePosition, Refusal, RefusalReason, Reserved,
};
use docstokg_stores::{Answer, StoreError};
use tokio::sync::Semaphore;

use super::line::{Overlap, Seat};
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
const SLOT_RETRY_LEAST: Duration = Duration::from_millis(20);
/// By how much that is spread.
const SLOT_RETRY_SPREAD: Duration = Duration::from_millis(30);
/// The longest time between two asks for a shared slot: a reservation must not expire meanwhile.
const SLOT_RETRY_MOST: Duration = Duration::from_secs(1);
/// From when on a store that does not answer is to blame, and not a deadline that was close.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// For how long a request that has the process's slots may wait for its turn without giving them
/// up.
const KEEPS_SLOTS: Duration = Duration::from_millis(5);
/// For how long a request that is due keeps its reservation while it waits for the process's own
/// slots. Others wait behind it meanwhile, so it is not long; but it doubles each time that the
/// reservation was lost for that.
const KEEPS_RESERVATION: Duration = Duration::from_millis(100);
/// How often it doubles: a reservation expires three seconds after its instant.
const MOST_DOUBLINGS: u32 = 4;
/// For how long a request that has lost a reservation so may keep the process's slots while it
/// waits for the next one.
const KEEPS_SLOTS_AFTER_LOSS: Duration = Duration::from_secs(1);
/// A permit that is older than this, and than two usual round trips to the store, is given back
/// when it would be sent: the process was stopped, and the origin counts arrivals.
const PERMIT_AGE: Duration = Duration::from_millis(100);
/// From this round trip on a store is distant: requests behind the head ask beside it. Nearer, the
/// head alone is fast enough, and processes share more evenly.
const DISTANT: Duration = Duration::from_millis(5);
/// How long until the store has heard of a block that this process has just read.
const BLOCK_HEARD: Duration = Duration::from_millis(10);
/// How often a permit is given back for its age: a store that always takes that long must not keep
/// a request for ever.
const PERMIT_RETRIES: u32 = 3;

/// How long an admission waited, and for what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) rate: Duration,
    pub(crate) slots: Duration,
    pub(crate) breaker: Duration,
}

/// A waiter: leaves the queue, and gives up its reservation, whenever it is dropped.
struct Waiter<'a> {
    gate: &'a Arc<Gate>,
    lane: &'a Arc<Lane>,
    terms: &'a Terms,
    costs: &'a [Cost],
    seat: Arc<Seat>,
    reservation: Option<u64>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.give_up_reservation();
        self.lane.line.leave(&self.seat);
    }
}

impl Waiter<'_> {
    /// Takes note of the reservation it holds, or holds no more; those behind it in the queue judge
    /// by that.
    fn hold(&mut self, reservation: Option<u64>) -> Option<u64> {
        self.seat
            .holds_reservation
            .store(reservation.is_some(), Ordering::Release);
        std::mem::replace(&mut self.reservation, reservation)
    }

    /// Takes note that it has had an answer. Those behind a head that has its first one may judge
    /// for themselves now.
    fn settle_in(&self, queue_position: QueuePosition) {
        if !self.seat.settled_in.swap(true, Ordering::AcqRel)
            && queue_position == QueuePosition::Head
        {
            self.lane.line.wake_others(&self.seat);
        }
    }

    /// Gives up the reservation: other queues of the site may go earlier than they were told.
    fn give_up_reservation(&mut self) {
        if let Some(id) = self.hold(None) {
            self.gate.wake_if(self.gate.site.leave(
                &self.lane.ask(self.costs, self.terms, QueuePosition::Head),
                id,
                None,
            ));
            self.gate.wake_heads_beside(self.lane);
        }
    }
}

impl Waiter<'_> {
    /// Waits for an answer of the store, up to the deadline: a store that hangs is no reason to
    /// hang with it.
    async fn hear(
        &mut self,
        answer: impl Future<Output = Result<Entered, StoreError>>,
        door: &Doorkeeper<'_>,
        track: &Track,
    ) -> Result<Entry, Denied> {
        let asked = door.runtime.boot();
        let Some(entered) = before(&**door.runtime, self.terms.deadline, answer).await else {
            let now = door.runtime.boot();
            let (store, why) = (
                "the store of limits".to_owned(),
                "it gave no answer before the deadline".to_owned(),
            );
            return Err(if now.since(asked) >= STORE_TIMEOUT {
                StoreError::Unavailable { store, why }.into()
            } else {
                Refusal {
                    until: now,
                    reason: RefusalReason::Rate { window: None },
                }
                .into()
            });
        };
        let entered = entered?;
        self.gate.round_trip.note(door.runtime.boot().since(asked));
        self.hold(None);
        self.gate.note_condition(self.lane, track, &entered);
        self.seat.awaits_breaker.store(
            matches!(entered.entry, Entry::WaitForBreaker { .. }),
            Ordering::Release,
        );
        Ok(entered.entry)
    }
}

/// One attempt on its way through a gate: each state that it may wait in is a method, and `run`
/// goes from one to the next.
struct Admission<'a, 'b> {
    waiter: Waiter<'a>,
    terms: Terms,
    door: &'a Doorkeeper<'b>,
    track: &'a Track,
    waits: &'a mut Waits,
    slots: Option<Slots>,
    /// It has been told once when its turn comes.
    judged: bool,
    /// How often a permit was given back for its age.
    too_old: u32,
    /// How often a reservation was lost because no slot of the process came free.
    lost: u32,
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
        let costs = lane.costs(&terms);
        let join = || {
            let seat = lane.line.join(terms.weight);
            Waiter {
                gate: self,
                lane,
                terms: &terms,
                costs: &costs,
                seat,
                reservation: None,
            }
        };
        let (waiter, first) = if self.remote || lane.line.weight() > 0 {
            (join(), None)
        } else {
            match self
                .site
                .enter(&lane.ask(&costs, &terms, QueuePosition::Head))
            {
                // Almost always the answer is there at once, and it is to go: then nothing has to
                // wait.
                Answer::Ready(entered) => {
                    let entered = entered?;
                    self.note_condition(lane, track, &entered);
                    match entered.entry {
                        Entry::Go(permit) => {
                            if let Some(slots) = lane.try_slots(door.process_slots) {
                                return Ok(self.granted(lane, terms, permit, slots));
                            }
                            self.give_back(lane, &costs, &terms, &permit);
                            (join(), None)
                        }
                        Entry::Refused(refusal) => return Err(refusal.into()),
                        other => {
                            let waiter = join();
                            waiter.settle_in(QueuePosition::Head);
                            (waiter, Some(other))
                        }
                    }
                }
                // Requests that come meanwhile queue behind this one.
                Answer::Later(coming) => {
                    let mut waiter = join();
                    let entry = waiter.hear(coming, door, track).await?;
                    if !matches!(entry, Entry::Go(_)) {
                        waiter.settle_in(QueuePosition::Head);
                    }
                    (waiter, Some(entry))
                }
            }
        };
        let admission = Admission {
            waiter,
            terms,
            door,
            track,
            waits,
            slots: None,
            judged: false,
            too_old: 0,
            lost: 0,
        };
        admission.run(first).await
    }

    fn granted(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        terms: Terms,
        permit: Permit,
        slots: Slots,
    ) -> Granted {
        Granted::new(Arc::clone(self), Arc::clone(lane), terms, permit, slots)
    }

    pub(super) fn give_back(
        self: &Arc<Self>,
        lane: &Lane,
        costs: &[Cost],
        terms: &Terms,
        permit: &Permit,
    ) {
        self.wake_if(self.site.leave(
            &lane.ask(costs, terms, QueuePosition::Head),
            permit.id,
            Some(permit.stamp),
        ));
    }

    pub(crate) fn note_transition(
        &self,
        lane: &Lane,
        track: &Track,
        transition: Option<Transition>,
    ) {
        if let Some(transition) = transition {
            // A role that counts for itself has a breaker of its own, which the others do not obey.
            if !lane.rules.isolated {
                self.seen.note(&transition, self.runtime.boot());
            }
            self.spread_change();
            self.show(&transition);
            track.note(&lane.key.host, lane.key.role, || What::Breaker {
                key: Arc::clone(&self.key),
                transition,
            });
        }
    }
}

impl<'a> Admission<'a, '_> {
    async fn run(mut self, first: Option<Entry>) -> Result<Granted, Denied> {
        let mut entry = match first {
            Some(entry) => entry,
            None => self.ask().await?,
        };
        loop {
            match entry {
                Entry::Go(permit) => {
                    if let Some(granted) = self.take(permit).await? {
                        return Ok(granted);
                    }
                }
                Entry::Wait(reserved) => self.wait_for_rate(reserved).await?,
                Entry::Queue { at } => self.wait_for_turn(at).await?,
                Entry::WaitForBreaker {
                    until,
                    reason,
                    probing,
                } => self.wait_for_breaker(until, reason, probing).await,
                Entry::WaitForSlot { id, earlier } => {
                    self.wait_for_shared_slot(id, earlier).await?
                }
                Entry::Refused(refusal) => return Err(refusal.into()),
            }
            entry = self.ask().await?;
        }
    }

    fn runtime(&self) -> &dyn Runtime {
        &**self.door.runtime
    }

    fn note(&self, what: What) {
        let key = &self.waiter.lane.key;
        self.track.note(&key.host, key.role, || what);
    }

    /// Asks the store: confirms the reservation, or enters from the place that it has in its queue.
    async fn ask(&mut self) -> Result<Entry, Denied> {
        let (gate, lane) = (self.waiter.gate, self.waiter.lane);
        let (place, mut overlap) = self.place().await?;
        let is_distant = gate.remote && gate.round_trip.usual() >= DISTANT;
        let asking = (is_distant && place == QueuePosition::Head)
            .then(|| lane.line.begin_round(&self.waiter.seat));
        let ask = lane.ask(self.waiter.costs, &self.terms, place);
        let answer = match self.waiter.reservation {
            Some(id) => gate.site.confirm(&ask, id),
            None => gate.site.enter(&ask),
        };
        let entry = self
            .waiter
            .hear(answer.into_future(), self.door, self.track)
            .await?;
        drop(asking);
        let waits = !matches!(entry, Entry::Go(_));
        if let Some(overlap) = &mut overlap {
            overlap.calls_next = !waits;
        }
        if waits {
            self.waiter.settle_in(place);
        }
        Ok(entry)
    }

    /// Finds out where in its queue the request stands. Few ask while the head waits for its first
    /// answer, and the others wait until they are called.
    async fn place(&mut self) -> Result<(QueuePosition, Option<Overlap<'a>>), Denied> {
        let lane = self.waiter.lane;
        loop {
            if self.waiter.reservation.is_some() {
                return Ok((QueuePosition::Head, None));
            }
            let ahead = lane.line.ahead_of(&self.waiter.seat);
            match ahead {
                None => return Ok((QueuePosition::Head, None)),
                Some(_) if lane.line.is_behind_an_asker(&self.waiter.seat) => {
                    if let Some(overlap) = lane.line.overlap(&self.waiter.seat) {
                        return Ok((QueuePosition::Overlapping, Some(overlap)));
                    }
                    // A waiting request holds no slot: the head may be waiting for it.
                    self.slots = None;
                    let asleep = self.runtime().boot();
                    let bound = self.terms.latest.min(self.terms.deadline);
                    let called =
                        before(self.runtime(), bound, self.waiter.seat.called.notified()).await;
                    self.waits.rate += self.runtime().boot().since(asleep);
                    if called.is_none() {
                        return Ok((
                            QueuePosition::Behind(
                                lane.line.ahead_of(&self.waiter.seat).unwrap_or(0),
                            ),
                            None,
                        ));
                    }
                }
                Some(ahead) => return Ok((QueuePosition::Behind(ahead), None)),
            }
        }
    }

    /// Takes a permit, with the process's own slots; gives it back where there is none, or where it
    /// has become too old.
    async fn take(&mut self, permit: Permit) -> Result<Option<Granted>, Denied> {
        let (gate, lane) = (self.waiter.gate, self.waiter.lane);
        if gate.was_blocked_since(&permit) {
            // The store hears of it when the answer has been read: then this request is called, or
            // asks again.
            gate.give_back(lane, self.waiter.costs, &self.terms, &permit);
            let soon = (self.runtime().boot() + BLOCK_HEARD).min(self.terms.deadline);
            before(self.runtime(), soon, self.waiter.seat.called.notified()).await;
            return Ok(None);
        }
        let stale = self.runtime().boot().since(permit.at)
            > PERMIT_AGE + 2 * gate.round_trip.usual()
            && self.too_old < PERMIT_RETRIES;
        if stale {
            self.too_old += 1;
        } else if let Some(slots) = self
            .slots
            .take()
            .or_else(|| lane.try_slots(self.door.process_slots))
        {
            return Ok(Some(gate.granted(lane, self.terms, permit, slots)));
        }
        gate.give_back(lane, self.waiter.costs, &self.terms, &permit);
        // Those behind the head wait for their turn, and not for slots.
        if !stale && lane.line.ahead_of(&self.waiter.seat).is_none() {
            self.waiter.settle_in(QueuePosition::Head);
            self.slots = Some(
                self.wait_for_slots(self.terms.deadline)
                    .await
                    .ok_or_else(|| self.no_slot())?,
            );
        }
        Ok(None)
    }

    /// Sleeps until the instant of a reservation, then takes the process's own slots.
    async fn wait_for_rate(&mut self, reserved: Reserved) -> Result<(), Denied> {
        // For a turn of a moment slots are kept: another lane would take them, and be in the way
        // when the turn comes.
        let keeps = if self.lost > 0 {
            KEEPS_SLOTS_AFTER_LOSS
        } else {
            KEEPS_SLOTS
        };
        self.slots = self
            .slots
            .take()
            .filter(|_| reserved.at.since(self.runtime().boot()) <= keeps);
        self.waiter.hold(Some(reserved.id));
        self.note(What::WaitRate {
            until: reserved.at,
            window: reserved.because,
        });
        let slept = self.sleep(reserved.at).await;
        self.count_rate(reserved.because, slept);
        if self.runtime().boot() < reserved.at {
            // Called earlier: the state of the site has changed.
            return Ok(());
        }
        self.slots = self
            .slots
            .take()
            .or_else(|| self.waiter.lane.try_slots(self.door.process_slots));
        if self.slots.is_none() {
            let keeps = KEEPS_RESERVATION * 2_u32.pow(self.lost.min(MOST_DOUBLINGS));
            let until = (self.runtime().boot() + keeps).min(self.terms.deadline);
            self.slots = self.wait_for_slots(until).await;
        }
        if self.slots.is_none() {
            self.waiter.give_up_reservation();
            self.lost += 1;
            self.slots = Some(
                self.wait_for_slots(self.terms.deadline)
                    .await
                    .ok_or_else(|| self.no_slot())?,
            );
        }
        Ok(())
    }

    /// Without a window it is the jitter of a probe, which is the breaker's.
    fn count_rate(&mut self, window: Option<Window>, slept: Duration) {
        if window.is_some() {
            self.waits.rate += slept;
        } else {
            self.waits.breaker += slept;
        }
    }

    /// Waits behind others of the same process until it is called.
    async fn wait_for_turn(&mut self, at: BootInstant) -> Result<(), Denied> {
        // A waiting request holds no slot: the head may be waiting for it.
        self.slots = None;
        if !self.judged {
            let ahead = self
                .waiter
                .lane
                .line
                .ahead_of(&self.waiter.seat)
                .unwrap_or(0);
            self.note(What::WaitTurn {
                not_before: at,
                ahead,
            });
        }
        let asleep = self.runtime().boot();
        // Judged again when the bound has passed, and refused then unless the turn is due.
        let judged = std::mem::replace(&mut self.judged, true);
        let bound = if judged && asleep >= self.terms.latest {
            self.terms.deadline
        } else {
            self.terms.latest.min(self.terms.deadline)
        };
        before(self.runtime(), bound, self.waiter.seat.called.notified()).await;
        let now = self.runtime().boot();
        self.waits.rate += now.since(asleep);
        if now >= self.terms.deadline {
            return Err(Refusal {
                until: at.max(now),
                reason: RefusalReason::Rate { window: None },
            }
            .into());
        }
        Ok(())
    }

    /// Waits for the end of a block, or for the result of a probe.
    async fn wait_for_breaker(&mut self, until: BootInstant, reason: OpenReason, probing: bool) {
        self.slots = None;
        let (gate, lane) = (self.waiter.gate, self.waiter.lane);
        if gate.shared {
            // Another process closed the site: those who have not heard of it have reason to ask,
            // too.
            lane.line.wake_unaware();
        }
        self.note(What::WaitBreaker {
            until,
            reason,
            probing,
        });
        let slept = self.sleep(until).await;
        self.waits.breaker += slept;
    }

    /// Waits a moment for a slot that is shared with other processes: its place is reserved
    /// meanwhile.
    async fn wait_for_shared_slot(&mut self, id: u64, earlier: u32) -> Result<(), Denied> {
        self.slots = None;
        self.waiter.hold(Some(id));
        let asleep = self.runtime().boot();
        if asleep >= self.terms.deadline {
            return Err(self.no_slot());
        }
        self.note(What::WaitSlot);
        // A slot that another process frees calls nobody here: asked for again, the later the more
        // come first.
        let moment = SLOT_RETRY_LEAST + SLOT_RETRY_SPREAD.mul_f64(self.door.random.share());
        let moment = (moment * earlier.saturating_add(1)).min(SLOT_RETRY_MOST);
        before(
            self.runtime(),
            (asleep + moment).min(self.terms.deadline),
            self.waiter.seat.called.notified(),
        )
        .await;
        self.waits.slots += self.runtime().boot().since(asleep);
        Ok(())
    }

    /// Sleeps until an instant, or until it is called. While it sleeps for long in a shared store,
    /// the gate listens for what other processes do.
    async fn sleep(&self, until: BootInstant) -> Duration {
        let asleep = self.runtime().boot();
        let _listening = self.waiter.gate.listen(until);
        before(self.runtime(), until, self.waiter.seat.called.notified()).await;
        self.runtime().boot().since(asleep)
    }

    /// Waits for the process's own slots, up to an instant.
    async fn wait_for_slots(&mut self, until: BootInstant) -> Option<Slots> {
        self.note(What::WaitSlot);
        let asleep = self.runtime().boot();
        let slots = before(
            self.runtime(),
            until,
            self.waiter.lane.wait_slots(self.door.process_slots),
        )
        .await;
        self.waits.slots += self.runtime().boot().since(asleep);
        slots
    }

    fn no_slot(&self) -> Denied {
        Refusal {
            until: self.runtime().boot(),
            reason: RefusalReason::Slots,
        }
        .into()
    }
}

impl Gate {
    /// Reports a change of state that time, or another process, brought about.
    fn note_condition(&self, lane: &Lane, track: &Track, entered: &Entered) {
        if let Some(transition) = &entered.transition {
            self.note_transition(lane, track, Some((**transition).clone()));
        }
        // A role that counts for itself has a breaker of its own, which the others do not obey.
        if lane.rules.isolated {
            return;
        }
        if let Some(transition) = self.seen.by_answer(&entered.entry, self.runtime.boot()) {
            track.note(&lane.key.host, lane.key.role, || What::BreakerSeen {
                key: Arc::clone(&self.key),
                transition,
            });
        }
    }
}
