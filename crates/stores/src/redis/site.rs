//! One site on the server: each operation is one call of the script.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use docstokg_policy::classify::Outcome;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::site::{
    Ask, LimitEvent, Permit, Report, RequestOperation, Settled, SiteOperation, SiteResult,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::limits::{KnownLimits, seal_event};
use super::runtime::begin;
use super::server::Server;
use super::view;
use super::wire::{Lacking, LimitsPart, Malformed, Question, Reply, ScriptCall};
use crate::handle::{Answer, BudgetKey, SiteHandle, SiteView};
use crate::multiprocess::PerProcess;

mod asking;
mod settling;

/// One site on the server.
#[derive(Clone)]
pub(super) struct RedisSite {
    pub(super) server: Arc<PerProcess<Arc<Server>>>,
    pub(super) key: Arc<str>,
    pub(super) names: Arc<Mutex<Vec<String>>>,
    /// When the site was created, on the server's clock, and the count of data losses when this
    /// process learned that.
    pub(super) birth: Arc<Mutex<Option<(u64, u32)>>>,
    /// The limits of the host, as this process knows them.
    pub(super) known: Arc<Mutex<Arc<KnownLimits>>>,
    /// Whether the script uses the caller's clock instead of the server's.
    pub(super) uses_caller_clock: bool,
}

impl RedisSite {
    fn server(&self) -> &Arc<Server> {
        self.server.get()
    }

    /// Returns when the site was created, if this process learned that since the last data loss;
    /// else 0.
    fn known_birth(&self) -> u64 {
        let losses = self.server().losses.load(Ordering::Acquire);
        self.birth
            .lock()
            .filter(|(_, learned)| *learned == losses)
            .map_or(0, |(born, _)| born)
    }

    /// Starts a call without a question.
    fn call(&self, op: &str) -> ScriptCall {
        self.call_with(op, &[])
    }

    /// Starts a call with a question.
    fn asking(&self, op: &str, ask: &Ask) -> ScriptCall {
        self.asking_as(op, ask, self.server().fresh_id(), None)
    }

    /// Starts a call with a question of a request with an id, and what it says about the limits of
    /// its host.
    fn asking_as(&self, op: &str, ask: &Ask, id: u64, limits: Option<&LimitsPart>) -> ScriptCall {
        let server = self.server();
        let question = Question {
            ask,
            names: &self.names.lock(),
            birth: self.known_birth(),
            id,
            who: &server.who,
            limits,
        };
        let question = question.pack(server.clock.boot());
        self.call_with(op, &question)
    }

    /// Starts a call without a question, which says who calls.
    fn signed(&self, op: &str) -> ScriptCall {
        let mut call = self.call(op);
        call.text(&self.server().who);
        call
    }

    fn call_with(&self, op: &str, question: &[u8]) -> ScriptCall {
        let server = self.server();
        let now = self
            .uses_caller_clock
            .then(|| server.clock.boot().as_micros());
        ScriptCall::new(server.script.get_hash(), &self.key, question, op, now)
    }

    /// Runs a call and reads its result from the reply.
    fn run<T: Into<SiteResult>>(
        &self,
        call: ScriptCall,
        read: impl FnOnce(&Reply) -> Result<T, Malformed> + Send + 'static,
    ) -> Answer<SiteResult> {
        let server = Arc::clone(self.server());
        let work = async move {
            let reply = server.reply_to(call).await?;
            read(&reply).map(Into::into).map_err(|_| server.malformed())
        };
        begin(self.server(), work, |_| ())
    }

    /// Asks to send. A permit is given back if its answer is dropped.
    fn enter(&self, ask: &Ask, reservation: Option<u64>) -> Answer<SiteResult> {
        let asking = Arc::new((self.clone(), ask.clone()));
        let again = Arc::clone(&asking);
        let work = async move {
            let (site, ask) = &*asking;
            site.enter_when_current(ask, reservation).await
        };
        begin(self.server(), work, move |result| {
            let (site, ask) = &*again;
            let enter = SiteOperation::for_request(ask, RequestOperation::Enter { reservation });
            if let Some(undo) = result.ok().and_then(|result| enter.undo(&result)) {
                let _ = site.apply(&undo);
            }
        })
    }

    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<SiteResult> {
        let mut call = self.asking("leave", ask);
        call.number(id);
        match spent_at {
            Some(at) => call.number(at.as_micros()),
            None => call.text("-1"),
        };
        let is_counted = self.known().limits.counts(ask, id);
        call.bytes(&event_if(is_counted, || {
            LimitEvent::left(ask, id, spent_at)
        }));
        self.run(call, |reply| reply.flag(1))
    }

    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<SiteResult> {
        let id = permit.id;
        let is_awaited = ask.policy.learn.is_some() && self.known().limits.awaits_headers(id);
        if !(permit.probe || is_awaited) || matches!(outcome, Outcome::Failure | Outcome::Throttled)
        {
            return Answer::now(Settled::default().into());
        }
        let event = event_if(is_awaited, || LimitEvent::Heard { id, outcome });
        let mut call = self.asking("settle_headers", ask);
        call.number(id)
            .number(u64::from(permit.generation))
            .number(permit.stamp.as_micros())
            .flag(permit.probe)
            .outcome(outcome);
        self.record(call, event, |reply, applied| {
            let settled = reply.settled()?;
            Ok(Settled {
                calls_next: applied.calls_next,
                learned: applied.confirmed,
                ..settled
            })
        })
    }

    fn state_quotas(
        &self,
        ask: &Ask,
        permit: &Permit,
        statement: &Statement,
    ) -> Answer<SiteResult> {
        let event = LimitEvent::stated(ask, permit, statement);
        let event = event.map_or_else(Vec::new, |event| seal_event(&event));
        if event.is_empty() {
            return Answer::now(Heard::default().into());
        }
        self.record(self.signed("state"), event, |_, applied| Ok(applied.heard))
    }

    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<SiteResult> {
        let (site, ask, permit, report) = (self.clone(), ask.clone(), permit.clone(), *report);
        let work = async move { site.settle_when_current(&ask, &permit, &report).await };
        begin(self.server(), work, |_| ())
    }

    fn apply_for_request(&self, ask: &Ask, operation: &RequestOperation) -> Answer<SiteResult> {
        match operation {
            RequestOperation::Enter { reservation } => self.enter(ask, *reservation),
            RequestOperation::Leave { id, spent_at } => self.leave(ask, *id, *spent_at),
            RequestOperation::Hold { permit, longest } => {
                let mut call = self.asking("hold", ask);
                call.number(permit.id)
                    .number(permit.stamp.as_micros())
                    .length(*longest);
                self.run(call, |_| Ok(()))
            }
            RequestOperation::Sent { permit, longest } => {
                let mut call = self.asking("sent", ask);
                call.number(permit.id)
                    .number(u64::from(permit.generation))
                    .length(*longest);
                self.run(call, Reply::standing)
            }
            RequestOperation::Stamp { permit } => {
                let mut call = self.asking("stamp", ask);
                call.number(permit.id);
                self.run(call, |_| Ok(()))
            }
            RequestOperation::SettleHeaders { permit, outcome } => {
                self.settle_headers(ask, permit, *outcome)
            }
            RequestOperation::StateQuotas { permit, statement } => {
                self.state_quotas(ask, permit, statement)
            }
            RequestOperation::Settle { permit, report } => self.settle(ask, permit, report),
        }
    }
}

impl SiteHandle for RedisSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        let (mut names, name) = (self.names.lock(), key.to_string());
        names
            .iter()
            .position(|known| *known == name)
            .unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
    }

    fn apply(&self, operation: &SiteOperation<'_>) -> Answer<SiteResult> {
        if operation.changes_nothing() {
            return Answer::now(Settled::default().into());
        }
        match operation {
            SiteOperation::Request(ask, operation) => self.apply_for_request(ask, operation),
            SiteOperation::Renew { ids, length } => {
                let mut call = self.signed("renew");
                call.length(*length).number(ids.len() as u64);
                for id in ids {
                    call.number(*id);
                }
                self.run(call, Reply::condition)
            }
            SiteOperation::Block { length, reason } => {
                let mut call = self.signed("block");
                call.length(*length).text(&reason.to_string());
                self.run(call, |reply| reply.transition(1))
            }
            SiteOperation::Unblock => {
                let mut call = self.signed("unblock");
                call.bytes(&seal_event(&LimitEvent::PauseEnded));
                self.run(call, |reply| reply.transition(1))
            }
            SiteOperation::ForgetLearned => {
                let (site, call) = (self.clone(), self.signed("forget"));
                let work = async move { site.forget(call).await.map(Into::into) };
                begin(self.server(), work, |_| ())
            }
            SiteOperation::ForgetAdaptation => {
                self.run(self.signed("forget_adaptation"), |reply| reply.flag(1))
            }
        }
    }

    fn view(&self) -> Answer<SiteView> {
        let (names, server) = (self.names.lock().clone(), Arc::clone(self.server()));
        let call = self.call("view");
        let work = async move {
            let mut reply = server.reply_to(call).await?;
            let malformed = |_| server.malformed();
            let bytes = reply.take_lacking().map_err(malformed)?;
            let lacking = Lacking::read(&bytes).map_err(malformed)?;
            let seen = (reply.stamp(0).map_err(malformed)?, reply.here());
            let mut view = view::read(&reply, &names).map_err(malformed)?;
            let limits = KnownLimits::default()
                .absorb(&lacking, &[], seen)
                .known
                .limits;
            view.site.set_limits(limits);
            Ok(view)
        };
        begin(self.server(), work, |_| ())
    }
}

/// Writes an event if there is one.
fn event_if(is_one: bool, event: impl FnOnce() -> LimitEvent) -> Vec<u8> {
    if is_one {
        seal_event(&event())
    } else {
        Vec::new()
    }
}
