//! The states of one admission. Each state in which a request may wait is a method, and
//! [`AttemptAdmission::run`] moves from one state to the next.
//!
//! A waiting request occupies no slot, and a request behind the head of its queue has no
//! reservation. After any wait, the site decides again. So a request that was permitted before a
//! block is not sent after it.

use std::future::IntoFuture;
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::rate::{LimitBasis, Window};
use docstokg_policy::site::{
    AdmissionDecision, Permit, QueuePosition, Refusal, RefusalReason, ReservedSlot,
};

use super::queue::OverlapPermit;
use super::queued_request::QueuedRequest;
use super::slots::Slots;
use super::{AdmissionContext, AdmissionTerms, AdmissionWaits, AttemptDenial, HeldPermit};
use crate::clock::{BootInstant, Runtime, before};
use crate::event::EventKind;
use crate::journey::RequestTrack;

/// Minimum wait before a shared slot is requested again.
const MIN_SLOT_RETRY: Duration = Duration::from_millis(20);
/// Maximum random time that is added to [`MIN_SLOT_RETRY`], so that processes do not retry
/// together.
const SLOT_RETRY_JITTER: Duration = Duration::from_millis(30);
/// Maximum wait between two requests for a shared slot, short enough for the reservation not to
/// expire.
const MAX_SLOT_RETRY: Duration = Duration::from_secs(1);
/// Maximum time to wait for a reservation with slots in hand. A request that must wait longer
/// releases its slots.
const SLOT_HOLD: Duration = Duration::from_millis(5);
/// Time for which a due reservation is kept at first, while its request waits for slots of the
/// process.
///
/// The value is short because other requests wait behind the reservation. It doubles each time that
/// the request has lost a reservation for lack of slots, up to [`MAX_DOUBLINGS`] times.
const RESERVATION_HOLD: Duration = Duration::from_millis(100);
/// Maximum number of times that [`RESERVATION_HOLD`] doubles. With more, it would exceed the three
/// seconds after which a reservation expires.
const MAX_DOUBLINGS: u32 = 4;
/// Replaces [`SLOT_HOLD`] for a request that has lost a reservation for lack of slots.
const SLOT_HOLD_AFTER_LOSS: Duration = Duration::from_secs(1);
/// Maximum age of a permit at which its request is sent, in addition to two usual round trips to
/// the store.
///
/// An older permit is given back. The origin counts requests when they arrive, and this process was
/// paused, so that several requests could arrive together.
const MAX_PERMIT_AGE: Duration = Duration::from_millis(100);
/// Minimum [round trip](super::round_trip::RoundTrip) of a distant store, at which requests behind
/// the head send their admission requests beside it. With a nearer store, the head alone is fast
/// enough, and the processes share the rate more evenly.
const MIN_DISTANT_ROUND_TRIP: Duration = Duration::from_millis(5);
/// The time after which the store should know of a block that this process has just read.
const BLOCK_REPORT_DELAY: Duration = Duration::from_millis(10);
/// Maximum number of times that a request gives back a permit because of its age. Without this
/// bound, a store that is always slow would delay a request forever.
const MAX_PERMIT_RETRIES: u32 = 3;

/// An attempt that waits for its admission to a site.
pub(super) struct AttemptAdmission<'a, 'b> {
    pub(super) waiting: QueuedRequest<'a>,
    pub(super) terms: AdmissionTerms,
    pub(super) context: &'a AdmissionContext<'b>,
    pub(super) track: &'a RequestTrack,
    pub(super) waits: &'a mut AdmissionWaits,
    slots: Option<Slots>,
    /// `true` if this request has waited behind others before, so that the wait has been reported.
    judged: bool,
    /// The number of permits that were given back because of their age.
    too_old: u32,
    /// The number of reservations that were lost for lack of process slots.
    lost: u32,
}

impl<'a, 'b> AttemptAdmission<'a, 'b> {
    pub(super) fn new(
        waiting: QueuedRequest<'a>,
        terms: AdmissionTerms,
        context: &'a AdmissionContext<'b>,
        track: &'a RequestTrack,
        waits: &'a mut AdmissionWaits,
    ) -> Self {
        Self {
            waiting,
            terms,
            context,
            track,
            waits,
            slots: None,
            judged: false,
            too_old: 0,
            lost: 0,
        }
    }

    pub(super) async fn run(
        mut self,
        first: Option<AdmissionDecision>,
    ) -> Result<HeldPermit, AttemptDenial> {
        let mut entry = match first {
            Some(entry) => entry,
            None => self.ask().await?,
        };
        loop {
            match entry {
                AdmissionDecision::Go(permit) => {
                    if let Some(permit) = self.take(permit).await? {
                        return Ok(permit);
                    }
                }
                AdmissionDecision::Wait(reserved) => self.wait_for_rate(reserved).await?,
                AdmissionDecision::Queue { at } => self.wait_for_turn(at).await?,
                AdmissionDecision::WaitForBreaker {
                    until,
                    reason,
                    probing,
                } => self.wait_for_breaker(until, reason, probing).await,
                AdmissionDecision::WaitForSlot { id, earlier } => {
                    self.wait_for_shared_slot(id, earlier).await?;
                }
                AdmissionDecision::Refused(refusal) => return Err(refusal.into()),
            }
            entry = self.ask().await?;
        }
    }

    fn runtime(&self) -> &dyn Runtime {
        &**self.context.runtime
    }

    fn note(&self, what: EventKind) {
        let key = &self.waiting.lane.key;
        self.track.note(&key.host, key.role, || what);
    }

    /// Returns the [`AdmissionDecision`] of the store. A request with a reservation confirms it;
    /// any other request enters from its position in the queue.
    async fn ask(&mut self) -> Result<AdmissionDecision, AttemptDenial> {
        let (site, lane) = (&self.waiting.lane.site, self.waiting.lane);
        let (position, mut overlap) = self.queue_position().await?;
        if position == QueuePosition::Head && lane.must_wait_for_failures(&self.terms) {
            // A waiting request occupies no slot. Without its reservation, it does not delay other
            // processes.
            self.slots = None;
            self.waiting.give_up_reservation();
            lane.wait_while_failing(&self.terms, self.context, self.track, self.waits)
                .await;
        }
        let is_distant = site.remote && site.round_trip.usual() >= MIN_DISTANT_ROUND_TRIP;
        let asking = (is_distant && position == QueuePosition::Head)
            .then(|| lane.queue.begin_round(&self.waiting.waiter));
        // Built again, to apply the limits that the host has declared since the last request to the
        // store.
        self.waiting.ask = lane.ask(&self.terms, position);
        let answer = match self.waiting.reservation {
            Some(id) => site.handle.confirm(&self.waiting.ask, id),
            None => site.handle.enter(&self.waiting.ask),
        };
        let entry = self
            .waiting
            .wait_for_answer(answer.into_future(), self.context, self.track)
            .await?;
        drop(asking);
        let waits = !matches!(entry, AdmissionDecision::Go(_));
        if let Some(overlap) = &mut overlap {
            overlap.calls_next = !waits;
        }
        if waits {
            self.waiting.settle_in(position);
        }
        Ok(entry)
    }

    /// Determines the position of the request in its queue. While the head waits for the store, a
    /// few waiters may send their requests beside it, and the others wait until they are called.
    async fn queue_position(
        &mut self,
    ) -> Result<(QueuePosition, Option<OverlapPermit<'a>>), AttemptDenial> {
        let lane = self.waiting.lane;
        loop {
            if self.waiting.reservation.is_some() {
                return Ok((QueuePosition::Head, None));
            }
            let ahead = lane.queue.ahead_of(&self.waiting.waiter);
            match ahead {
                None => return Ok((QueuePosition::Head, None)),
                Some(_) if lane.queue.is_behind_an_asker(&self.waiting.waiter) => {
                    if let Some(overlap) = lane.queue.overlap(&self.waiting.waiter) {
                        return Ok((QueuePosition::Overlapping, Some(overlap)));
                    }
                    // A waiting request occupies no slot, because the head may be waiting for that
                    // slot.
                    self.slots = None;
                    let asleep = self.runtime().boot();
                    let bound = self.terms.latest.min(self.terms.deadline);
                    let called =
                        before(self.runtime(), bound, self.waiting.waiter.called.notified()).await;
                    self.waits.rate += self.runtime().boot().since(asleep);
                    if called.is_none() {
                        return Ok((
                            QueuePosition::Behind(
                                lane.queue.ahead_of(&self.waiting.waiter).unwrap_or(0),
                            ),
                            None,
                        ));
                    }
                }
                Some(ahead) => return Ok((QueuePosition::Behind(ahead), None)),
            }
        }
    }

    /// Combines a [`Permit`] with slots of the process. Returns `None` after giving the permit back
    /// if slots are missing, if the permit is too old, or if the site is blocked.
    async fn take(&mut self, permit: Permit) -> Result<Option<HeldPermit>, AttemptDenial> {
        let (site, lane) = (&self.waiting.lane.site, self.waiting.lane);
        if site.health.was_blocked_since(&permit) {
            // The store may not know of the block yet. The request sends its admission request
            // again when it is woken, or soon.
            lane.give_back(&self.waiting.ask, &permit);
            let soon = (self.runtime().boot() + BLOCK_REPORT_DELAY).min(self.terms.deadline);
            before(self.runtime(), soon, self.waiting.waiter.called.notified()).await;
            return Ok(None);
        }
        let stale = self.runtime().boot().since(permit.at)
            > MAX_PERMIT_AGE + 2 * site.round_trip.usual()
            && self.too_old < MAX_PERMIT_RETRIES;
        if stale {
            self.too_old += 1;
        } else if let Some(slots) = self
            .slots
            .take()
            .or_else(|| lane.try_slots(self.context.process_slots))
        {
            let (lane, ask) = (lane.clone(), self.waiting.ask.clone());
            return Ok(Some(HeldPermit::new(lane, ask, permit, slots)));
        }
        lane.give_back(&self.waiting.ask, &permit);
        // Only the head waits for slots here: waiters behind it first wait for their position.
        if !stale && lane.queue.ahead_of(&self.waiting.waiter).is_none() {
            self.waiting.settle_in(QueuePosition::Head);
            self.slots = Some(
                self.wait_for_slots(self.terms.deadline)
                    .await
                    .ok_or_else(|| self.no_slot())?,
            );
        }
        Ok(None)
    }

    /// Sleeps until the instant of a [`ReservedSlot`], and then takes slots of the process.
    async fn wait_for_rate(&mut self, reserved: ReservedSlot) -> Result<(), AttemptDenial> {
        // Slots are kept if the reservation is due soon. Otherwise another queue could take them,
        // and this request would have to wait for slots when its reservation is due.
        let keeps = if self.lost > 0 {
            SLOT_HOLD_AFTER_LOSS
        } else {
            SLOT_HOLD
        };
        self.slots = self
            .slots
            .take()
            .filter(|_| reserved.at.since(self.runtime().boot()) <= keeps);
        self.waiting.hold(Some(reserved.id));
        let window = reserved.because;
        self.note(EventKind::WaitRate {
            until: reserved.at,
            window,
            basis: window.map_or(LimitBasis::Configured, |window| {
                self.waiting.lane.basis_of(&window)
            }),
        });
        let slept = self.sleep(reserved.at).await;
        self.count_rate(reserved.because, slept);
        if self.runtime().boot() < reserved.at {
            // Another task woke the request early, because the state of the site has changed.
            return Ok(());
        }
        self.slots = self
            .slots
            .take()
            .or_else(|| self.waiting.lane.try_slots(self.context.process_slots));
        if self.slots.is_none() {
            let keeps = RESERVATION_HOLD * 2_u32.pow(self.lost.min(MAX_DOUBLINGS));
            let until = (self.runtime().boot() + keeps).min(self.terms.deadline);
            self.slots = self.wait_for_slots(until).await;
        }
        if self.slots.is_none() {
            self.waiting.give_up_reservation();
            self.lost += 1;
            self.slots = Some(
                self.wait_for_slots(self.terms.deadline)
                    .await
                    .ok_or_else(|| self.no_slot())?,
            );
        }
        Ok(())
    }

    /// Adds `slept` to the wait for rate limits. Without a window, the wait is the random delay of
    /// a probe and is added to the wait for the breaker.
    fn count_rate(&mut self, window: Option<Window>, slept: Duration) {
        if window.is_some() {
            self.waits.rate += slept;
            self.waits.rate_window = window;
        } else {
            self.waits.breaker += slept;
        }
    }

    /// Waits behind other requests of this process, until woken or until the wait has reached its
    /// bound.
    async fn wait_for_turn(&mut self, at: BootInstant) -> Result<(), AttemptDenial> {
        // A waiting request occupies no slot, because the head may be waiting for that slot.
        self.slots = None;
        if !self.judged {
            let ahead = self
                .waiting
                .lane
                .queue
                .ahead_of(&self.waiting.waiter)
                .unwrap_or(0);
            self.note(EventKind::WaitTurn {
                not_before: at,
                ahead,
            });
        }
        let asleep = self.runtime().boot();
        // When the bound of its wait has passed, the store decides once more on the request, and
        // refuses it unless it may be sent then.
        let judged = std::mem::replace(&mut self.judged, true);
        let bound = if judged && asleep >= self.terms.latest {
            self.terms.deadline
        } else {
            self.terms.latest.min(self.terms.deadline)
        };
        before(self.runtime(), bound, self.waiting.waiter.called.notified()).await;
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

    /// Waits for the end of a block or for the result of a probe, and then for the slow start.
    async fn wait_for_breaker(&mut self, until: BootInstant, reason: OpenReason, probing: bool) {
        self.slots = None;
        let (site, lane) = (&self.waiting.lane.site, self.waiting.lane);
        if site.shared {
            // Another process may have opened the breaker. Waiters that do not know of that must
            // send their admission requests again.
            lane.queue.wake_unaware();
        }
        self.note(EventKind::WaitBreaker {
            until,
            reason,
            probing,
        });
        let slept = self.sleep(until).await;
        self.waits.breaker += slept;
        lane.start_slowly(&self.terms, self.context, self.track, self.waits)
            .await;
    }

    /// Waits for a slot that processes share. The reservation `id` keeps the request's position
    /// meanwhile.
    async fn wait_for_shared_slot(&mut self, id: u64, earlier: u32) -> Result<(), AttemptDenial> {
        self.slots = None;
        self.waiting.hold(Some(id));
        let asleep = self.runtime().boot();
        if asleep >= self.terms.deadline {
            return Err(self.no_slot());
        }
        self.note(EventKind::WaitSlot);
        // A slot that another process frees wakes no request of this one, so the request tries
        // again after a delay, which grows with the number of earlier requests.
        let moment = MIN_SLOT_RETRY + SLOT_RETRY_JITTER.mul_f64(self.context.random.share());
        let moment = (moment * earlier.saturating_add(1)).min(MAX_SLOT_RETRY);
        before(
            self.runtime(),
            (asleep + moment).min(self.terms.deadline),
            self.waiting.waiter.called.notified(),
        )
        .await;
        self.waits.slots += self.runtime().boot().since(asleep);
        Ok(())
    }

    /// Sleeps until `until` or until woken, and returns the time slept. During a long sleep with a
    /// shared store, the heartbeat notices changes by other processes.
    async fn sleep(&self, until: BootInstant) -> Duration {
        let asleep = self.runtime().boot();
        let _listening = self.waiting.lane.site.listen(until);
        before(self.runtime(), until, self.waiting.waiter.called.notified()).await;
        self.runtime().boot().since(asleep)
    }

    /// Waits for slots of this process, at most until `until`. Returns `None` if no slots are free
    /// by then.
    async fn wait_for_slots(&mut self, until: BootInstant) -> Option<Slots> {
        self.note(EventKind::WaitSlot);
        let asleep = self.runtime().boot();
        let slots = before(
            self.runtime(),
            until,
            self.waiting.lane.wait_slots(self.context.process_slots),
        )
        .await;
        self.waits.slots += self.runtime().boot().since(asleep);
        slots
    }

    fn no_slot(&self) -> AttemptDenial {
        Refusal {
            until: self.runtime().boot(),
            reason: RefusalReason::Slots,
        }
        .into()
    }
}
