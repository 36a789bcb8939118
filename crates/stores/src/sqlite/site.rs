//! The handle of a site in the database.

use std::sync::Arc;

use docstokg_policy::site::{SettleEffect, SiteOperation, SiteResult};
use parking_lot::Mutex;

use super::database::{Database, LockMode, SiteCopy};
use super::worker::{DatabaseWorker, ask, at_once, in_turn};
use crate::handle::{BudgetKey, SiteHandle, SiteKey, SiteView, StoreReply};
use crate::multiprocess::PerProcess;
use crate::record_copy::{BudgetNames, Replica};

/// The handle of a site in the database.
pub(super) struct SqliteSite {
    key: SiteKey,
    worker: Arc<PerProcess<DatabaseWorker>>,
    copy: PerProcess<Arc<Mutex<SiteCopy>>>,
    names: BudgetNames,
}

fn fresh_copy(names: &BudgetNames) -> Arc<Mutex<SiteCopy>> {
    Arc::new(Mutex::new(SiteCopy {
        replica: Replica::naming(names),
        row: 0,
    }))
}

impl SqliteSite {
    pub(super) fn new(worker: &Arc<PerProcess<DatabaseWorker>>, key: &SiteKey) -> Self {
        let names = BudgetNames::default();
        let inherited = Arc::clone(&names);
        let copy = PerProcess::new(fresh_copy(&names), move || fresh_copy(&inherited));
        Self {
            key: Arc::clone(key),
            worker: Arc::clone(worker),
            copy,
            names,
        }
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

    /// Runs one [`SiteOperation`] in one transaction: at once if the lock is free, otherwise on the
    /// thread.
    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        if operation.changes_nothing() {
            return StoreReply::now(SettleEffect::default().into());
        }
        let (key, copy) = (Arc::clone(&self.key), Arc::clone(self.copy.get()));
        let step = move |database: &mut Database, turn, operation: &SiteOperation<'_>| {
            database.step(turn, &key, &mut copy.lock(), |site, now| {
                site.apply(operation, now)
            })
        };
        let first = |database: &mut Database| step(database, LockMode::IfFree, operation);
        if let Some(result) = at_once(&self.worker, first) {
            return StoreReply::Ready(result);
        }
        let (operation, again) = (Arc::new(operation.to_static()), step.clone());
        let granting = Arc::clone(&operation);
        let unread = move |database: &mut Database, result| {
            if let Some(undo) = granting.undo(&result) {
                let _ = again(database, LockMode::Wait, &undo);
            }
        };
        let later = move |database: &mut Database, turn| step(database, turn, &operation);
        in_turn(&self.worker, later, unread)
    }

    fn view(&self) -> StoreReply<SiteView> {
        let (key, copy) = (Arc::clone(&self.key), Arc::clone(self.copy.get()));
        ask(&self.worker, move |database, turn| {
            database.view(turn, &key, &mut copy.lock())
        })
    }
}
