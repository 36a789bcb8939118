//! One site on the server: each operation is one call of the script.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{
    Ask, Condition, Entered, Entry, OwnedAsk, Permit, Report, Settled, Standing,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::runtime::begin;
use super::server::Server;
use super::view;
use super::wire::{Malformed, Question, Reply, ScriptCall};
use crate::error::StoreError;
use crate::handle::{Answer, BudgetKey, SiteHandle, SiteView, changes_nothing};
use crate::multiprocess::PerProcess;

/// One site on the server.
#[derive(Clone)]
pub(super) struct RedisSite {
    pub(super) server: Arc<PerProcess<Arc<Server>>>,
    pub(super) key: Arc<str>,
    pub(super) names: Arc<Mutex<Vec<String>>>,
    /// When the site was created, on the server's clock, and the count of data losses when this
    /// process learned that.
    pub(super) birth: Arc<Mutex<Option<(u64, u32)>>>,
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
    fn asking(&self, op: &str, ask: &Ask<'_>) -> ScriptCall {
        let server = self.server();
        let id = server.fresh_id();
        let question = Question {
            ask,
            names: &self.names.lock(),
            birth: self.known_birth(),
            id,
            who: &server.who,
        };
        let question = question.pack(server.clock.boot());
        ScriptCall {
            id,
            ..self.call_with(op, &question)
        }
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
        let asked = server.clock.boot();
        let work = async move {
            let value = server.run(call).await?;
            let reply =
                Reply::new(value, asked, server.clock.boot()).map_err(|_| server.malformed())?;
            read(&reply).map_err(|_| server.malformed())
        };
        begin(self.server(), work, unwanted)
    }

    /// Runs a call whose permit is given back if its answer is dropped.
    fn run_in(&self, call: ScriptCall, ask: &Ask<'_>) -> Answer<Entered> {
        let question = ask.to_owned();
        let (again, birth, id, losses) = (
            self.clone(),
            Arc::clone(&self.birth),
            call.id,
            self.server().losses.load(Ordering::Acquire),
        );
        let read = move |reply: &Reply| {
            if let Some(born) = reply.birth() {
                *birth.lock() = Some((born, losses));
            }
            reply.entered(id)
        };
        self.run(call, read, move |entered| {
            again.give_back(&question, entered);
        })
    }

    fn give_back(&self, ask: &OwnedAsk, entered: Result<Entered, StoreError>) {
        let (id, spent) = match entered.map(|entered| entered.entry) {
            Ok(Entry::Go(permit)) => (permit.id, Some(permit.stamp)),
            Ok(Entry::Wait(reserved)) => (reserved.id, None),
            Ok(Entry::WaitForSlot { id, .. }) => (id, None),
            _ => return,
        };
        let _ = self.leave(&ask.as_ask(), id, spent);
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

    fn enter(&self, ask: &Ask<'_>) -> Answer<Entered> {
        self.run_in(self.asking("enter", ask), ask)
    }

    fn confirm(&self, ask: &Ask<'_>, id: u64) -> Answer<Entered> {
        let mut call = self.asking("confirm", ask);
        call.number(id);
        self.run_in(call, ask)
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        let mut call = self.asking("leave", ask);
        call.number(id);
        match spent_at {
            Some(at) => call.number(at.as_micros()),
            None => call.text("-1"),
        };
        self.run(call, |reply| reply.flag(1), |_| ())
    }

    fn hold(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<()> {
        let mut call = self.asking("hold", ask);
        call.number(permit.id)
            .number(permit.stamp.as_micros())
            .length(longest);
        self.run(call, |_| Ok(()), |_| ())
    }

    fn sent(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<Standing> {
        let mut call = self.asking("sent", ask);
        call.number(permit.id)
            .number(u64::from(permit.generation))
            .length(longest);
        self.run(call, Reply::standing, |_| ())
    }

    fn stamp(&self, ask: &Ask<'_>, permit: &Permit) -> Answer<()> {
        let mut call = self.asking("stamp", ask);
        call.number(permit.id);
        self.run(call, |_| Ok(()), |_| ())
    }

    fn settle_headers(&self, ask: &Ask<'_>, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        if !permit.probe || matches!(outcome, Outcome::Failure | Outcome::Throttled) {
            return Answer::now(Settled::default());
        }
        let mut call = self.asking("settle_headers", ask);
        call.number(permit.id)
            .number(u64::from(permit.generation))
            .number(permit.stamp.as_micros())
            .outcome(outcome);
        self.run(call, Reply::settled, |_| ())
    }

    fn settle(&self, ask: &Ask<'_>, permit: &Permit, report: &Report) -> Answer<Settled> {
        if changes_nothing(ask, permit, report) {
            return Answer::now(Settled::default());
        }
        let mut call = self.asking("settle", ask);
        call.number(permit.id)
            .number(u64::from(permit.generation))
            .flag(permit.probe)
            .outcome(report.outcome);
        call.optional(report.retry_after)
            .length(self.server().clock.boot().since(report.sent))
            .flag(report.wants_retry);
        self.run(call, Reply::settled, |_| ())
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
        call.text(&self.server().who);
        self.run(call, |reply| reply.transition(1), |_| ())
    }

    fn forget_learned(&self) -> Answer<bool> {
        // Redis keeps nothing that is learned.
        Answer::now(false)
    }

    fn view(&self) -> Answer<SiteView> {
        let names = self.names.lock().clone();
        self.run(
            self.call("view"),
            move |reply| view::read(reply, &names),
            |_| (),
        )
    }
}
