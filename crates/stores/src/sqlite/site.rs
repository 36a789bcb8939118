//! One site of the database.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::site::{
    Ask, Condition, Entered, Entry, Permit, Report, Settled, Site, Standing,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::database::{Database, SiteCopy, Turn};
use super::worker::{Worker, ask, at_once, in_turn};
use crate::handle::{Answer, BudgetKey, SiteHandle, SiteKey, SiteView, changes_nothing};
use crate::multiprocess::PerProcess;
use crate::replica::{Names, Replica};

/// One site of the database.
pub(super) struct SqliteSite {
    key: SiteKey,
    worker: Arc<PerProcess<Worker>>,
    copy: PerProcess<Arc<Mutex<SiteCopy>>>,
    names: Names,
}

fn fresh_copy(names: &Names) -> Arc<Mutex<SiteCopy>> {
    Arc::new(Mutex::new(SiteCopy {
        replica: Replica::naming(names),
        row: 0,
    }))
}

impl SqliteSite {
    pub(super) fn new(worker: &Arc<PerProcess<Worker>>, key: &SiteKey) -> Self {
        let names = Names::default();
        let inherited = Arc::clone(&names);
        let copy = PerProcess::new(fresh_copy(&names), move || fresh_copy(&inherited));
        Self {
            key: Arc::clone(key),
            worker: Arc::clone(worker),
            copy,
            names,
        }
    }

    /// Runs one operation in one transaction.
    fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Site, BootInstant) -> T + Clone + Send + 'static,
    ) -> Answer<T> {
        let (key, copy) = (Arc::clone(&self.key), Arc::clone(self.copy.get()));
        ask(&self.worker, move |database, turn| {
            database.step(turn, &key, &mut copy.lock(), step)
        })
    }

    /// Runs an operation whose permit is given back if its answer is dropped.
    fn step_in(
        &self,
        ask: &Ask,
        step: impl Fn(&mut Site, &Ask, BootInstant) -> Entered + Send + 'static,
    ) -> Answer<Entered> {
        let now = |database: &mut Database| {
            database.step(
                Turn::IfFree,
                &self.key,
                &mut self.copy.get().lock(),
                |site, now| step(site, ask, now),
            )
        };
        if let Some(entered) = at_once(&self.worker, now) {
            return Answer::Ready(entered);
        }
        let (key, copy, question) = (
            Arc::clone(&self.key),
            Arc::clone(self.copy.get()),
            ask.clone(),
        );
        let (again, asked) = ((Arc::clone(&key), Arc::clone(&copy)), question.clone());
        let unwanted = move |database: &mut Database, entered: Entered| {
            let (id, spent) = match entered.entry {
                Entry::Go(permit) => (permit.id, Some(permit.stamp)),
                Entry::Wait(reserved) => (reserved.id, None),
                Entry::WaitForSlot { id, .. } => (id, None),
                _ => return,
            };
            let _ = database.step(Turn::Wait, &again.0, &mut again.1.lock(), |site, _| {
                site.leave(&asked, id, spent)
            });
        };
        let later = move |database: &mut Database, turn| {
            database.step(turn, &key, &mut copy.lock(), |site, now| {
                step(site, &question, now)
            })
        };
        in_turn(&self.worker, later, unwanted)
    }
}

impl SiteHandle for SqliteSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.copy
            .get()
            .lock()
            .replica
            .name(&self.names, &key.to_string())
    }

    fn enter(&self, ask: &Ask) -> Answer<Entered> {
        self.step_in(ask, Site::enter)
    }

    fn confirm(&self, ask: &Ask, id: u64) -> Answer<Entered> {
        self.step_in(ask, move |site, ask, now| site.confirm(ask, id, now))
    }

    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        let ask = ask.clone();
        self.step(move |site, _| site.leave(&ask, id, spent_at))
    }

    fn hold(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<()> {
        let (ask, permit) = (ask.clone(), permit.clone());
        self.step(move |site, now| site.hold(&ask, &permit, now + longest))
    }

    fn sent(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<Standing> {
        let (ask, permit) = (ask.clone(), permit.clone());
        self.step(move |site, now| site.sent(&ask, &permit, longest, now))
    }

    fn stamp(&self, ask: &Ask, permit: &Permit) -> Answer<()> {
        let (ask, permit) = (ask.clone(), permit.clone());
        self.step(move |site, now| site.stamp(&ask, &permit, now))
    }

    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        let (ask, permit) = (ask.clone(), permit.clone());
        self.step(move |site, now| site.settle_headers(&ask, &permit, outcome, now))
    }

    fn state_quotas(&self, ask: &Ask, permit: &Permit, stated: &Statement) -> Answer<Heard> {
        let (ask, permit, stated) = (ask.clone(), permit.clone(), stated.clone());
        self.step(move |site, now| site.state_quotas(&ask, &permit, &stated, now))
    }

    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<Settled> {
        if changes_nothing(ask, permit, report) {
            return Answer::now(Settled::default());
        }
        let (ask, permit, report) = (ask.clone(), permit.clone(), *report);
        self.step(move |site, now| site.settle(&ask, &permit, &report, now))
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let ids = ids.to_vec();
        self.step(move |site, now| site.renew(&ids, length, now))
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        let reason = reason.clone();
        self.step(move |site, now| site.block(now + length, &reason, now))
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        self.step(Site::unblock)
    }

    fn forget_learned(&self) -> Answer<bool> {
        self.step(|site, _| site.forget_learned())
    }

    fn forget_adaptation(&self) -> Answer<bool> {
        self.step(|site, _| site.forget_adaptation())
    }

    fn view(&self) -> Answer<SiteView> {
        let (key, copy) = (Arc::clone(&self.key), Arc::clone(self.copy.get()));
        ask(&self.worker, move |database, turn| {
            database.view(turn, &key, &mut copy.lock())
        })
    }
}
