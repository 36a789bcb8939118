//! One site on the server: each operation is one call of the script.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::site::{
    Ask, Condition, Entered, Entry, LimitEvent, Permit, Report, Settled, Standing,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::limits::{KnownLimits, seal_event};
use super::runtime::begin;
use super::server::Server;
use super::view;
use super::wire::{Lacking, LimitsPart, Malformed, Question, Reply, ScriptCall};
use crate::error::StoreError;
use crate::handle::{Answer, BudgetKey, EnterOrConfirm, SiteHandle, SiteView, changes_nothing};
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

    fn call_with(&self, op: &str, question: &[u8]) -> ScriptCall {
        let server = self.server();
        let now = self
            .uses_caller_clock
            .then(|| server.clock.boot().as_micros());
        ScriptCall::new(server.script.get_hash(), &self.key, question, op, now)
    }

    fn run<T: Send + Unpin + 'static>(
        &self,
        call: ScriptCall,
        read: impl FnOnce(&Reply) -> Result<T, Malformed> + Send + 'static,
        unwanted: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) -> Answer<T> {
        let server = Arc::clone(self.server());
        let work = async move {
            let reply = server.reply_to(call).await?;
            read(&reply).map_err(|_| server.malformed())
        };
        begin(self.server(), work, unwanted)
    }

    /// Asks to send. A permit is given back if its answer is dropped.
    fn ask(&self, ask: &Ask, step: EnterOrConfirm) -> Answer<Entered> {
        let asking = Arc::new((self.clone(), ask.clone()));
        let again = Arc::clone(&asking);
        let id = self.server().fresh_id();
        let work = async move {
            let (site, question) = &*asking;
            site.ask_until_current(question, step, id).await
        };
        begin(self.server(), work, move |entered| {
            let (site, question) = &*again;
            site.give_back(question, entered);
        })
    }

    fn give_back(&self, ask: &Ask, entered: Result<Entered, StoreError>) {
        let (id, spent) = match entered.map(|entered| entered.entry) {
            Ok(Entry::Go(permit)) => (permit.id, Some(permit.stamp)),
            Ok(Entry::Wait(reserved)) => (reserved.id, None),
            Ok(Entry::WaitForSlot { id, .. }) => (id, None),
            _ => return,
        };
        let _ = self.leave(ask, id, spent);
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

    fn enter(&self, ask: &Ask) -> Answer<Entered> {
        self.ask(ask, EnterOrConfirm::Enter)
    }

    fn confirm(&self, ask: &Ask, id: u64) -> Answer<Entered> {
        self.ask(ask, EnterOrConfirm::Confirm(id))
    }

    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
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
        self.run(call, |reply| reply.flag(1), |_| ())
    }

    fn hold(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<()> {
        let mut call = self.asking("hold", ask);
        call.number(permit.id)
            .number(permit.stamp.as_micros())
            .length(longest);
        self.run(call, |_| Ok(()), |_| ())
    }

    fn sent(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<Standing> {
        let mut call = self.asking("sent", ask);
        call.number(permit.id)
            .number(u64::from(permit.generation))
            .length(longest);
        self.run(call, Reply::standing, |_| ())
    }

    fn stamp(&self, ask: &Ask, permit: &Permit) -> Answer<()> {
        let mut call = self.asking("stamp", ask);
        call.number(permit.id);
        self.run(call, |_| Ok(()), |_| ())
    }

    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        let id = permit.id;
        let is_awaited = ask.policy.learn.is_some() && self.known().limits.awaits_headers(id);
        if !(permit.probe || is_awaited) || matches!(outcome, Outcome::Failure | Outcome::Throttled)
        {
            return Answer::now(Settled::default());
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

    fn state_quotas(&self, ask: &Ask, permit: &Permit, stated: &Statement) -> Answer<Heard> {
        let event = LimitEvent::stated(ask, permit, stated);
        let event = event.map_or_else(Vec::new, |event| seal_event(&event));
        if event.is_empty() {
            return Answer::now(Heard::default());
        }
        let mut call = self.call("state");
        call.text(&self.server().who);
        self.record(call, event, |_, applied| Ok(applied.heard))
    }

    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<Settled> {
        if changes_nothing(ask, permit, report) {
            return Answer::now(Settled::default());
        }
        let (site, question) = (self.clone(), ask.clone());
        let (permit, report) = (permit.clone(), *report);
        let work = async move { site.settle_until_current(&question, &permit, &report).await };
        begin(self.server(), work, |_| ())
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let mut call = self.call("renew");
        call.text(&self.server().who)
            .length(length)
            .number(ids.len() as u64);
        for id in ids {
            call.number(*id);
        }
        self.run(call, Reply::condition, |_| ())
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        let mut call = self.call("block");
        call.text(&self.server().who)
            .length(length)
            .text(&reason.to_string());
        self.run(call, |reply| reply.transition(1), |_| ())
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        let mut call = self.call("unblock");
        call.text(&self.server().who)
            .bytes(&seal_event(&LimitEvent::PauseEnded));
        self.run(call, |reply| reply.transition(1), |_| ())
    }

    fn forget_learned(&self) -> Answer<bool> {
        let (site, mut call) = (self.clone(), self.call("forget"));
        call.text(&self.server().who);
        let work = async move { site.forget(call).await };
        begin(self.server(), work, |_| ())
    }

    fn forget_adaptation(&self) -> Answer<bool> {
        let mut call = self.call("forget_adaptation");
        call.text(&self.server().who);
        self.run(call, |reply| reply.flag(1), |_| ())
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
