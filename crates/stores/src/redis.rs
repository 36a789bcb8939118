//! State on a Redis or Valkey server, shared by several machines.
//!
//! An operation is one call of one script, the Lua implementation of the pure functions
//! (`script/`): one round trip, atomic, on the server's clock. A site is one key, which expires.
//! What is known of a host's own limits is not decided by the script but by the processes, from a
//! record of events in it (`limits`): a process that does not know the last of them asks twice.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::time::Clock;
use redis::IntoConnectionInfo;
use tokio::runtime::Handle;

use crate::error::StoreError;
use crate::handle::{Answer, HeartbeatObserver, SiteHandle, SiteKey, StateStore};
use crate::multiprocess::PerProcess;

mod bounded;
mod limits;
mod link;
mod lua;
mod peers;
mod runtime;
mod script;
mod server;
mod site;
mod view;
mod wire;

use runtime::{begin, pause};
use server::Server;
use site::RedisSite;

/// How often this process registers itself and counts the others: when the server is lost, that
/// many share the limits.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process counts after its last heartbeat.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// What every key begins with.
const PREFIX: &str = "docstokg";

/// A store on a Redis server.
pub struct RedisStore {
    server: Arc<PerProcess<Arc<Server>>>,
}

impl RedisStore {
    /// Opens a store on the server of a DSN such as `redis://127.0.0.1:6379/0` or
    /// `rediss://user:password@host/`. It connects at the first operation.
    ///
    /// # Errors
    /// The text is not a DSN.
    pub fn open(dsn: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let server = Arc::new(Server::open(
            dsn,
            Arc::clone(&clock),
            Handle::try_current().ok(),
        )?);
        let (dsn, first) = (dsn.to_owned(), Arc::clone(&server));
        // A child process has neither the connection nor the runtime of its parent. A DSN that was
        // valid once stays so: the parent's connection is only the last resort.
        let again = move || {
            Server::open(&dsn, Arc::clone(&clock), None)
                .map_or_else(|_| Arc::clone(&first), Arc::new)
        };
        Ok(Self {
            server: Arc::new(PerProcess::new(server, again)),
        })
    }

    /// Opens a site on which the script uses the clock of this store, and not the server's: for
    /// tests that compare it with the pure functions. Also returns the id that the next question
    /// gets.
    #[doc(hidden)]
    pub fn site_on_own_time(
        &self,
        key: &SiteKey,
    ) -> (Arc<dyn SiteHandle>, impl Fn() -> u64 + use<>) {
        let server = Arc::clone(self.server.get());
        let site = RedisSite {
            server: Arc::clone(&self.server),
            key: format!("{PREFIX}:{{{key}}}").into(),
            names: Arc::default(),
            birth: Arc::default(),
            known: Arc::default(),
            uses_caller_clock: true,
        };
        (Arc::new(site), move || {
            server.next_id.load(Ordering::Relaxed) + 1
        })
    }
}

/// Tells whether a text is the DSN of a server.
#[must_use]
pub fn is_dsn(text: &str) -> bool {
    text.into_connection_info().is_ok()
}

/// Hides what is secret in a DSN.
#[must_use]
pub fn without_password(dsn: &str) -> String {
    // What follows a question mark may be a password as well.
    let (shown, query) = dsn
        .split_once('?')
        .map_or((dsn, ""), |(shown, _)| (shown, "?***"));
    match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, address))) => format!("{scheme}://***@{address}{query}"),
        _ => format!("{shown}{query}"),
    }
}

impl StateStore for RedisStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(RedisSite {
            server: Arc::clone(&self.server),
            key: format!("{PREFIX}:{{{key}}}").into(),
            names: Arc::default(),
            birth: Arc::default(),
            known: Arc::default(),
            uses_caller_clock: false,
        })
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        let server = Arc::clone(self.server.get());
        let work = {
            let server = Arc::clone(&server);
            async move { server.list_sites().await }
        };
        begin(&server, work, |_| ())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn flush(&self) -> Answer<()> {
        let server = Arc::clone(self.server.get());
        let work = {
            let server = Arc::clone(&server);
            async move {
                // Commands are answered in the order in which they were sent.
                redis::cmd("PING")
                    .query_async::<()>(&mut server.link.clone())
                    .await
                    .map_err(|error| server.unavailable(&error))
            }
        };
        begin(&server, work, |_| ())
    }

    fn check(&self) -> Answer<()> {
        let server = Arc::clone(self.server.get());
        let (runtime, name) = (server.runtime.clone(), server.name.clone());
        // It runs by itself: a caller that polls only now and then must not take its own delay for
        // the server's.
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        let checked = runtime.spawn(async move {
            // A server whose memory is full answers, but accepts no writes.
            let mut write = redis::cmd("SET");
            write
                .arg(format!("{PREFIX}:check"))
                .arg("")
                .arg("EX")
                .arg(PEER_TIMEOUT.as_secs());
            let mut link = server.link.clone();
            server
                .within_check_timeout(write.query_async::<()>(&mut link))
                .await?;
            // It was unavailable: no site checks again whether its data is still there.
            server.losses.fetch_add(1, Ordering::AcqRel);
            Ok(())
        });
        Answer::Later(Box::pin(async move {
            let ended = |_| {
                Err(StoreError::Unavailable {
                    store: name,
                    why: "the runtime that asks it has ended".to_owned(),
                })
            };
            checked.await.unwrap_or_else(ended)
        }))
    }

    fn peers(&self) -> Option<u32> {
        let server = self.server.get();
        server.peers.lock().most()
    }

    fn has_settled_peers(&self) -> bool {
        let server = self.server.get();
        server.peers.lock().has_settled(server.clock.boot())
    }

    fn rank(&self) -> u32 {
        self.server.get().rank.load(Ordering::Relaxed)
    }

    fn watch_peers(&self, observer: HeartbeatObserver) {
        let server = self.server.get();
        let (weak, member) = (Arc::downgrade(server), server.fresh_id());
        let mut was_unavailable = false;
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        server.runtime.spawn(async move {
            while let Some(server) = weak.upgrade() {
                // The next heartbeat follows soon: until then the last known count holds.
                let started = server.clock.boot();
                let result = server.within_check_timeout(server.heartbeat(member)).await;
                if result.is_ok() && was_unavailable {
                    // No site checks again whether its data is still there.
                    server.losses.fetch_add(1, Ordering::AcqRel);
                }
                was_unavailable = result.is_err();
                observer(started, result);
                drop(server);
                pause(HEARTBEAT_INTERVAL).await;
            }
        });
    }
}
