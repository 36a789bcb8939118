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

use super::wire::{self, Malformed, Reply, ScriptCall};
use super::{Inner, begin, view};
use crate::error::StoreError;
use crate::handle::{Answer, BudgetKey, SiteHandle, SiteView, changes_nothing};
use crate::multiprocess::PerProcess;

/// One site on the server.
#[derive(Clone)]
pub(super) struct RedisSite {
    pub(super) inner: Arc<PerProcess<Arc<Inner>>>,
    pub(super) key: Arc<str>,
    pub(super) names: Arc<Mutex<Vec<String>>>,
    /// When the site was created, on the server's clock, and the count of data losses when this
    /// process learned that.
    pub(super) birth: Arc<Mutex<Option<(u64, u32)>>>,
    /// Whether the script uses the caller's clock instead of the server's.
    pub(super) uses_caller_clock: bool,
}

impl RedisSite {
    fn inner(&self) -> &Arc<Inner> {
        self.inner.get()
    }

    /// Returns when the site was created, if this process learned that since the last data loss;
    /// else 0.
    fn known_birth(&self) -> u64 {
        let losses = self.inner().losses.load(Ordering::Acquire);
        self.birth
            .lock()
            .filter(|(_, learned)| *learned == losses)
            .map_or(0, |(born, _)| born)
    }

    /// Starts a call without a question.
    fn step(&self, op: &str) -> ScriptCall {
        self.step_with(op, 0, &[])
    }

    /// Starts a call with a question.
    fn asking(&self, op: &str, ask: &Ask<'_>) -> ScriptCall {
        let inner = self.inner();
        let id = inner.fresh_id();
        let question = wire::pack(
            ask,
            &self.names.lock(),
            self.known_birth(),
            id,
            &inner.who,
            inner.clock.boot(),
        );
        self.step_with(op, id, &question)
    }

    fn step_with(&self, op: &str, id: u64, question: &[u8]) -> ScriptCall {
        let inner = self.inner();
        let now = self
            .uses_caller_clock
            .then(|| inner.clock.boot().as_micros());
        ScriptCall::new(inner.script.get_hash(), &self.key, op, now, id, question)
    }

    fn run<T: Send + Unpin + 'static>(
        &self,
        step: ScriptCall,
        read: impl FnOnce(&Reply) -> Result<T, Malformed> + Send + 'static,
        unwanted: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) -> Answer<T> {
        let inner = Arc::clone(self.inner());
        let asked = inner.clock.boot();
        let work = async move {
            let value = inner.run(step).await?;
            let reply =
                Reply::new(value, asked, inner.clock.boot()).map_err(|_| inner.malformed())?;
            read(&reply).map_err(|_| inner.malformed())
        };
        begin(self.inner(), work, unwanted)
    }

    /// Runs a call whose permit is given back if its answer is dropped.
    fn run_in(&self, step: ScriptCall, ask: &Ask<'_>) -> Answer<Entered> {
        let question = ask.to_owned();
        let (again, birth, id, losses) = (
            self.clone(),
            Arc::clone(&self.birth),
            step.id,
            self.inner().losses.load(Ordering::Acquire),
        );
        let read = move |reply: &Reply| {
            if let Some(born) = reply.birth() {
                *birth.lock() = Some((born, losses));
            }
            reply.entered(id)
        };
        self.run(step, read, move |entered| {
            again.give_back(&question, entered)
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
        let mut step = self.asking("confirm", ask);
        step.number(id);
        self.run_in(step, ask)
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        let mut step = self.asking("leave", ask);
        step.number(id);
        match spent_at {
            Some(at) => step.number(at.as_micros()),
            None => step.text("-1"),
        };
        self.run(step, |reply| reply.flag(1), |_| ())
    }

    fn hold(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<()> {
        let mut step = self.asking("hold", ask);
        step.number(permit.id)
            .number(permit.stamp.as_micros())
            .length(longest);
        self.run(step, |_| Ok(()), |_| ())
    }

    fn sent(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<Standing> {
        let mut step = self.asking("sent", ask);
        step.number(permit.id)
            .number(u64::from(permit.generation))
            .length(longest);
        self.run(step, Reply::standing, |_| ())
    }

    fn stamp(&self, ask: &Ask<'_>, permit: &Permit) -> Answer<()> {
        let mut step = self.asking("stamp", ask);
        step.number(permit.id);
        self.run(step, |_| Ok(()), |_| ())
    }

    fn settle_headers(&self, ask: &Ask<'_>, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        if !permit.probe || matches!(outcome, Outcome::Failure | Outcome::Throttled) {
            return Answer::now(Settled::default());
        }
        let mut step = self.asking("settle_headers", ask);
        step.number(permit.id)
            .number(u64::from(permit.generation))
            .number(permit.stamp.as_micros())
            .outcome(outcome);
        self.run(step, Reply::settled, |_| ())
    }

    fn settle(&self, ask: &Ask<'_>, permit: &Permit, report: &Report) -> Answer<Settled> {
        if changes_nothing(ask, permit, report) {
            return Answer::now(Settled::default());
        }
        let mut step = self.asking("settle", ask);
        step.number(permit.id)
            .number(u64::from(permit.generation))
            .flag(permit.probe)
            .outcome(report.outcome);
        step.optional(report.retry_after)
            .length(self.inner().clock.boot().since(report.sent));
        self.run(step, Reply::settled, |_| ())
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let mut step = self.step("renew");
        step.text(&self.inner().who)
            .length(length)
            .number(ids.len() as u64);
        for id in ids {
            step.number(*id);
        }
        self.run(step, Reply::condition, |_| ())
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        let mut step = self.step("block");
        step.text(&self.inner().who)
            .length(length)
            .text(&reason.to_string());
        self.run(step, |reply| reply.transition(1), |_| ())
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        let mut step = self.step("unblock");
        step.text(&self.inner().who);
        self.run(step, |reply| reply.transition(1), |_| ())
    }

    fn view(&self) -> Answer<SiteView> {
        let names = self.names.lock().clone();
        self.run(
            self.step("view"),
            move |reply| view::read(reply, &names),
            |_| (),
        )
    }
}
