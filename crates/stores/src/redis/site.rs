//! The handle of a site on the server.

use std::sync::Arc;

use docstokg_policy::site::{SettleEffect, SiteOperation, SiteResult};

use super::exchange::{Receiver, SiteExchange};
use super::runtime::begin;
use super::server::Server;
use super::{KEY_PREFIX, RedisStore};
use crate::error::StoreError;
use crate::handle::{BudgetKey, SiteHandle, SiteKey, SiteView, StoreReply};
use crate::multiprocess::PerProcess;
use crate::record_copy::BudgetNames;

/// The handle of a site on the server.
pub(super) struct RedisSite {
    exchange: PerProcess<Arc<SiteExchange>>,
    names: BudgetNames,
}

impl RedisSite {
    /// Opens a site. The script uses the clock of this process if `uses_caller_clock` is set.
    pub(super) fn new(store: &RedisStore, key: &SiteKey, uses_caller_clock: bool) -> Self {
        let (names, server) = (BudgetNames::default(), Arc::clone(&store.server));
        let (inherited, key) = (Arc::clone(&names), format!("{KEY_PREFIX}:{{{key}}}").into());
        let open = move || SiteExchange::new(server.get(), &key, &inherited, uses_caller_clock);
        Self {
            exchange: PerProcess::new(open(), open),
            names,
        }
    }
}

/// Waits for a reply of the [`Server`].
async fn receive<T>(server: Arc<Server>, receiver: Receiver<T>) -> Result<T, StoreError> {
    let answer = receiver.await;
    answer.unwrap_or_else(|_| Err(server.ended()))
}

impl SiteHandle for RedisSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.exchange.get().name(&self.names, &key.to_string())
    }

    /// Records a [`SiteOperation`], and returns its result. If the reply is dropped, a permit or
    /// reservation is given back.
    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        if operation.changes_nothing() {
            return StoreReply::now(SettleEffect::default().into());
        }
        let exchange = Arc::clone(self.exchange.get());
        if let Some(result) = exchange.known_result(operation) {
            return StoreReply::now(result);
        }
        let operation = Arc::new(operation.to_static());
        let receiver = exchange.begin(&operation);
        let server = Arc::clone(exchange.server());
        begin(exchange.server(), receive(server, receiver), {
            let exchange = Arc::clone(&exchange);
            move |result| {
                if let Some(undo) = result.ok().and_then(|result| operation.undo(&result)) {
                    drop(exchange.begin(&Arc::new(undo)));
                }
            }
        })
    }

    fn view(&self) -> StoreReply<SiteView> {
        let exchange = self.exchange.get();
        let (server, receiver) = (Arc::clone(exchange.server()), exchange.begin_view());
        begin(exchange.server(), receive(server, receiver), |_| ())
    }
}
