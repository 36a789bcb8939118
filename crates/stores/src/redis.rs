//! State on a Redis or Valkey server, shared by several machines.
//!
//! The record of a site is a log of operations, in the order of their arrival at the server, with
//! the server's instants. A process sends an operation, and receives the new entries of others.
//! Then the process applies these entries and its own operation to its copy of the site. The
//! functions depend only on site, operation and instant, so all processes reach the same state. The
//! server decides nothing.
//!
//! The script that appends is the critical section: it assigns the position and reads the instant.
//! No permit counts earlier than it was given, and no process is overtaken, because one round trip
//! decides an operation.
//!
//! - `batch` defines the entries of the log, and `copy` the site that the log results in.
//! - `exchange` has the waiting operations of this process, and the calls in flight.
//! - A snapshot replaces a log that has grown.
//! - A position is a length and an instant of the server. If the server was emptied or has older
//!   data, its positions do not match, and the process reports the loss.
//! - A record belongs to one version of the program. Another version replaces the log by its result
//!   (`take_over`), because it might decide differently. An earlier layout is converted once
//!   (`layout_3`).
//!
//! A site is one key, which expires.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::time::Clock;
use redis::IntoConnectionInfo;
use tokio::runtime::Handle;

use crate::error::StoreError;
use crate::handle::{HeartbeatObserver, SiteHandle, SiteKey, StateStore, StoreReply};
use crate::multiprocess::PerProcess;

mod batch;
mod bounded_connection;
mod copy;
mod exchange;
mod layout_3;
mod link;
mod peers;
mod runtime;
mod script;
mod server;
mod site;
mod wire;

use runtime::{begin, pause};
use server::Server;
use site::RedisSite;

/// The time between registrations of this process, which also count the others. The last count
/// divides the limits if the server is lost.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// The time for which a process counts as running after its last heartbeat.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// The prefix of every key.
const KEY_PREFIX: &str = "docstokg";

/// A store on a Redis server.
pub struct RedisStore {
    server: Arc<PerProcess<Arc<Server>>>,
}

impl RedisStore {
    /// Opens a store on the server of a DSN such as `redis://127.0.0.1:6379/0` or
    /// `rediss://user:password@host/`. The connection is made at the first operation.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the text is not a DSN.
    pub fn open(dsn: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let server = Arc::new(Server::open(
            dsn,
            Arc::clone(&clock),
            Handle::try_current().ok(),
        )?);
        let (dsn, first) = (dsn.to_owned(), Arc::clone(&server));
        // A child process needs its own connection and runtime. A DSN that was valid stays valid,
        // so the parent's connection is only the last resort.
        let again = move || {
            Server::open(&dsn, Arc::clone(&clock), None)
                .map_or_else(|_| Arc::clone(&first), Arc::new)
        };
        Ok(Self {
            server: Arc::new(PerProcess::new(server, again)),
        })
    }

    /// Opens a site whose script uses the clock of this store instead of the server's, for tests in
    /// virtual time.
    #[doc(hidden)]
    #[must_use]
    pub fn site_on_own_time(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(RedisSite::new(self, key, true))
    }
}

/// Returns whether a text is the DSN of a server.
#[must_use]
pub fn is_dsn(text: &str) -> bool {
    text.into_connection_info().is_ok()
}

/// Removes the secrets from a DSN.
///
/// ```
/// use docstokg_stores::redis::{is_dsn, without_password};
///
/// assert!(is_dsn("redis://:s3cret@cache.example:6379/2"));
/// assert!(!without_password("redis://:s3cret@cache.example:6379/2").contains("s3cret"));
/// assert!(!is_dsn("/var/lib/limits.sqlite3"));
/// ```
#[must_use]
pub fn without_password(dsn: &str) -> String {
    // The text after a question mark may be a password as well.
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
        Arc::new(RedisSite::new(self, key, false))
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
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

    fn flush(&self) -> StoreReply<()> {
        let server = Arc::clone(self.server.get());
        let work = {
            let server = Arc::clone(&server);
            async move { server.flush().await }
        };
        begin(&server, work, |_| ())
    }

    fn check(&self) -> StoreReply<()> {
        let server = Arc::clone(self.server.get());
        let (runtime, ended) = (server.runtime.clone(), server.ended());
        // A separate task, so that a caller that polls rarely does not count its own delay as the
        // server's.
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        let checked = runtime.spawn(async move {
            // A server with full memory responds, but accepts no writes.
            let mut write = redis::cmd("SET");
            write
                .arg(format!("{KEY_PREFIX}:check"))
                .arg("")
                .arg("EX")
                .arg(PEER_TIMEOUT.as_secs());
            let mut link = server.link.clone();
            server
                .within_check_timeout(write.query_async::<()>(&mut link))
                .await?;
            // The server was unavailable, so each site must check if its data still exists.
            server.losses.fetch_add(1, Ordering::AcqRel);
            Ok(())
        });
        StoreReply::Later(Box::pin(async move { checked.await.unwrap_or(Err(ended)) }))
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
                // The next heartbeat follows soon: until then the last known count applies.
                let started = server.clock.boot();
                let result = server.within_check_timeout(server.heartbeat(member)).await;
                if result.is_ok() && was_unavailable {
                    // Each site must check if its data still exists.
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
