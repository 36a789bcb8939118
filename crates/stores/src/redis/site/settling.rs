//! Reporting how an attempt ended, where its answer may teach something about the host's limits.

use std::time::Duration;

use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{
    Answered, Applied, Ask, LimitEvent, Permit, Report, Settled, SiteResult,
};
use docstokg_policy::time::BootInstant;

use super::super::limits::{KnownLimits, seal_event};
use super::super::wire::{Reply, ScriptCall};
use super::asking::MAX_ROUNDS;
use super::{RedisSite, event_if};
use crate::error::StoreError;

/// What an answer changes in the limits of its host, as the script gets it.
struct Lesson {
    version: u64,
    /// Whether it is recorded even if there is a later version.
    forced: bool,
    event: Vec<u8>,
    /// How long nothing is sent after it.
    wait: Wait,
    /// Whether it is a first refusal, which is recorded with the history of its budget.
    begins: bool,
}

/// How long nothing is sent after a refusal.
#[derive(Clone, Copy)]
enum Wait {
    /// That is not learned.
    Unlearned,
    /// That depends on the history of a budget, which the script has.
    Unknown,
    /// So long.
    Of(Duration),
}

impl RedisSite {
    /// Settles an attempt. A refusal is settled with all that is known of the host's limits: how
    /// long its breaker is open depends on them.
    pub(super) async fn settle_when_current(
        &self,
        ask: &Ask,
        permit: &Permit,
        report: &Report,
    ) -> Result<SiteResult, StoreError> {
        let server = self.server();
        let answered = Answered::new(ask, permit, report);
        let mut history: Option<Vec<BootInstant>> = None;
        for round in 0..=MAX_ROUNDS {
            let known = self.known();
            let lesson = ask.policy.learn.map(|_| match report.outcome {
                Outcome::Throttled => Lesson {
                    forced: round == MAX_ROUNDS,
                    ..self.lesson_of_refusal(&known, ask, &answered, history.as_deref())
                },
                _ => lesson_of_answer(&known, &answered),
            });
            let call = self.settling(ask, permit, report, lesson.as_ref());
            let mut reply = server.reply_to(call).await?;
            if reply.stale().is_some() {
                let before = reply.take_history().map_err(|_| server.malformed())?;
                // The script returns it only to a call that asks for it.
                history = lesson.is_some_and(|lesson| lesson.begins).then_some(before);
                self.absorb(&known, &mut reply, &[])?;
                continue;
            }
            let (applied, limits) = match &lesson {
                Some(lesson) => {
                    let absorbed = self.absorb(&known, &mut reply, &lesson.event)?;
                    (absorbed.own, absorbed.known.limits)
                }
                None => (Applied::default(), known.limits.clone()),
            };
            let settled = Reply::settled(&reply).map_err(|_| server.malformed())?;
            let settled = Settled {
                calls_next: limits.learned().is_some(),
                learned: applied.confirmed,
                ..settled
            };
            return Ok(settled.into());
        }
        Err(server.malformed())
    }

    /// Returns what a refusal changes. `history` lists the requests before it, if they are known.
    fn lesson_of_refusal(
        &self,
        known: &KnownLimits,
        ask: &Ask,
        answered: &Answered,
        history: Option<&[BootInstant]>,
    ) -> Lesson {
        let begins = known.limits.learned().is_none();
        let wait = if begins && history.is_none() {
            Wait::Unknown
        } else {
            let now = self.script_now(known);
            let mut limits = known.limits.clone();
            let history = history.unwrap_or_default();
            let _ = limits.answered(answered, history.iter().copied(), now);
            let wait = limits.throttle_wait(ask, now);
            wait.map_or(Wait::Unlearned, Wait::Of)
        };
        Lesson {
            version: known.version,
            forced: false,
            event: seal_event(&LimitEvent::Answered(*answered)),
            wait,
            begins,
        }
    }

    fn settling(
        &self,
        ask: &Ask,
        permit: &Permit,
        report: &Report,
        lesson: Option<&Lesson>,
    ) -> ScriptCall {
        let mut call = self.asking("settle", ask);
        call.number(permit.id)
            .number(u64::from(permit.generation))
            .flag(permit.probe)
            .outcome(report.outcome);
        call.optional(report.retry_after)
            .length(self.server().clock.boot().since(report.sent))
            .flag(report.wants_retry);
        call.version(lesson.map(|lesson| lesson.version))
            .flag(lesson.is_some_and(|lesson| lesson.forced))
            .bytes(lesson.map_or(&[], |lesson| &lesson.event));
        match lesson.map(|lesson| lesson.wait) {
            Some(Wait::Of(length)) => call.length(length),
            Some(Wait::Unknown) => call.text("-2"),
            Some(Wait::Unlearned) | None => call.text("-1"),
        };
        call.flag(lesson.is_some_and(|lesson| lesson.begins))
            .flag(report.is_throttling());
        call
    }
}

/// Returns what an answer changes that is not a refusal. What other processes learned comes in any
/// case.
fn lesson_of_answer(known: &KnownLimits, answered: &Answered) -> Lesson {
    let is_awaited = known.limits.awaits_answer(answered.id);
    Lesson {
        version: known.version,
        forced: false,
        event: event_if(is_awaited, || LimitEvent::Answered(*answered)),
        wait: Wait::Unlearned,
        begins: false,
    }
}
