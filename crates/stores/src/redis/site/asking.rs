//! Asking to send, where the limits of the host are known to several processes.
//!
//! A process computes when its request may go from what it knows, and the script permits it only if
//! that is all there is to know: two processes never take the last place of a limit together. If
//! another process was first, the script changes nothing and returns what is missing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::quota::Turn;
use docstokg_policy::site::{Applied, Ask, LimitTurn, SiteResult};
use docstokg_policy::time::BootInstant;

use super::super::limits::{Absorbed, KnownLimits, seal_limits};
use super::super::runtime::begin;
use super::super::wire::{Lacking, LimitsPart, Malformed, Reply, ScriptCall};
use super::RedisSite;
use crate::error::StoreError;
use crate::handle::Answer;

/// How often a request asks again at once because another process was first. Then it waits a little
/// with a reservation, which keeps its position.
pub(super) const MAX_ROUNDS: u32 = 12;
/// How long it waits then.
const SHORT_WAIT: Duration = Duration::from_millis(20);

impl RedisSite {
    /// Returns what this process knows of the host's limits.
    pub(super) fn known(&self) -> Arc<KnownLimits> {
        Arc::clone(&self.known.lock())
    }

    /// Returns the instant of the clock that the script uses, as far as it is known.
    pub(super) fn script_now(&self, known: &KnownLimits) -> BootInstant {
        let here = self.server().clock.boot();
        if self.uses_caller_clock {
            here
        } else {
            known.server_now(here)
        }
    }

    /// Asks to send until this process knows as much of the host's limits as the server.
    pub(super) async fn enter_when_current(
        &self,
        ask: &Ask,
        reservation: Option<u64>,
    ) -> Result<SiteResult, StoreError> {
        let server = self.server();
        let id = server.fresh_id();
        let counted_as = reservation.unwrap_or(id);
        for round in 0..=MAX_ROUNDS {
            let losses = server.losses.load(Ordering::Acquire);
            let known = self.known();
            let now = self.script_now(&known);
            let part = if round < MAX_ROUNDS {
                known.part_of(ask, counted_as, now)
            } else {
                Some(Box::new(waiting_part(&known, ask, counted_as, now)))
            };
            let call = self.entering(ask, reservation, id, part.as_deref());
            let mut reply = server.reply_to(call).await?;
            let stale = reply.stale();
            if part.is_some() || stale.is_some() {
                let own_event = part.as_ref().map_or(&[][..], |part| &part.permit);
                self.absorb(&known, &mut reply, own_event)?;
            }
            if let Some(waiting) = stale {
                if let Some(waiting) = waiting {
                    Arc::make_mut(&mut self.known.lock()).expect_waiting(waiting);
                }
                continue;
            }
            if let Some(born) = reply.birth() {
                *self.birth.lock() = Some((born, losses));
            }
            let entered = reply.entered(id).map_err(|_| server.malformed());
            return entered.map(Into::into);
        }
        Err(server.malformed())
    }

    fn entering(
        &self,
        ask: &Ask,
        reservation: Option<u64>,
        id: u64,
        part: Option<&LimitsPart>,
    ) -> ScriptCall {
        let Some(reserved) = reservation else {
            return self.asking_as("enter", ask, id, part);
        };
        let mut call = self.asking_as("confirm", ask, id, part);
        call.number(reserved);
        call
    }

    /// Runs a call that records an event, if it is not empty, and reads its reply and what the event
    /// did.
    pub(super) fn record<T: Into<SiteResult>>(
        &self,
        mut call: ScriptCall,
        event: Vec<u8>,
        read: impl FnOnce(&Reply, Applied) -> Result<T, Malformed> + Send + 'static,
    ) -> Answer<SiteResult> {
        let (site, known) = (self.clone(), self.known());
        let version = (!event.is_empty()).then_some(known.version);
        call.version(version).bytes(&event);
        let work = async move {
            let server = site.server();
            let mut reply = server.reply_to(call).await?;
            let applied = match version {
                Some(_) => site.absorb(&known, &mut reply, &event)?.own,
                None => Applied::default(),
            };
            let result = read(&reply, applied).map_err(|_| server.malformed());
            result.map(Into::into)
        };
        begin(self.server(), work, |_| ())
    }

    /// Adds what a reply tells of the host's limits to what was known at the call.
    pub(super) fn absorb(
        &self,
        before: &KnownLimits,
        reply: &mut Reply,
        own_event: &[u8],
    ) -> Result<Absorbed, StoreError> {
        let malformed = |_| self.server().malformed();
        let bytes = reply.take_lacking().map_err(malformed)?;
        let lacking = Lacking::read(&bytes).map_err(malformed)?;
        let now = reply.stamp(0).map_err(malformed)?;
        let absorbed = before.absorb(&lacking, own_event, (now, reply.here()));
        if absorbed.wants_snapshot {
            self.write_snapshot(&absorbed.known);
        }
        let mut known = self.known.lock();
        // Another call of this process may have brought later events.
        if known.version == before.version || known.version < absorbed.known.version {
            *known = Arc::new(absorbed.known.clone());
        }
        Ok(absorbed)
    }

    /// Replaces the events on the server by what they made, in the background.
    fn write_snapshot(&self, known: &KnownLimits) {
        let server = Arc::clone(self.server());
        let mut call = self.call("compact");
        call.text(&server.who)
            .number(known.version)
            .bytes(&seal_limits(&known.limits));
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        server.runtime.clone().spawn(async move {
            // Without it the events stay, and the next process tries.
            let _ = server.run(call).await;
        });
    }

    /// Forgets the limits of the host, and returns whether anything was known.
    pub(super) async fn forget(&self, mut call: ScriptCall) -> Result<bool, StoreError> {
        let (server, known) = (self.server(), self.known());
        call.number(known.version);
        let mut reply = server.reply_to(call).await?;
        let malformed = |_| server.malformed();
        let bytes = reply.take_lacking().map_err(malformed)?;
        let lacking = Lacking::read(&bytes).map_err(malformed)?;
        let now = reply.stamp(0).map_err(malformed)?;
        let forgotten = known.absorb(&lacking, &[], (now, reply.here())).known;
        Ok(!forgotten.limits.is_empty())
    }
}

/// Makes a request wait a little, whatever is known: the script answers it in any case, and permits
/// none but a probe.
fn waiting_part(known: &KnownLimits, ask: &Ask, id: u64, now: BootInstant) -> LimitsPart {
    let part = known.part_of(ask, id, now).unwrap_or_default();
    let at = now + SHORT_WAIT;
    let turn = LimitTurn {
        learned: Some(at),
        stated: Some(Turn {
            paced: at,
            earliest: at,
            window: None,
        }),
    };
    LimitsPart {
        forced: true,
        // From the script's own instant on, however long the question takes to reach it.
        since: Some(now),
        turns: vec![turn],
        ..*part
    }
}
