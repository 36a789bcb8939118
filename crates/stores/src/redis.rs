//! State on a Redis or Valkey server, shared by several machines.
//!
//! The record of a site is a log: what each process asked, in the order in which the server got it
//! and with the server's instant of that. The server decides nothing. A process sends an operation,
//! and gets what others have added since it last asked; it applies all of that and then its own
//! operation to its copy of the site, with the functions of every other store. Since those depend on
//! nothing but the site, the operation and the instant, all processes make the same of the same log.
//!
//! So the script is the critical section: what is added there has its place for good, and the instant
//! is read there. No permit is counted earlier than it was given, however long question and answer
//! take. No process is overtaken again and again, near or far: an operation is decided where it was
//! added, in one round trip.
//!
//! - `batch` is what an entry of the log says, `copy` the site that the log makes, `exchange` the
//!   operations of this process that wait for their call, and the calls that are on their way.
//! - A snapshot takes the place of the log when that has grown, and of all that is older.
//! - A position in the log is a length and an instant of the server. A server that was emptied, or
//!   that came back with older data, has none in common with what a process knows, and the process
//!   says that the store has lost its data.
//! - A record belongs to one version of the program: another one that finds it replaces the log by
//!   what it makes of that (`take_over`), since it might decide otherwise. An earlier layout is
//!   converted once (`layout_3`).
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

/// How often this process registers itself and counts the others: when the server is lost, that
/// many share the limits.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a process counts after its last heartbeat.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// What every key begins with.
const KEY_PREFIX: &str = "docstokg";

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
    /// tests in virtual time.
    #[doc(hidden)]
    #[must_use]
    pub fn site_on_own_time(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(RedisSite::new(self, key, true))
    }
}

/// Tells whether a text is the DSN of a server.
#[must_use]
pub fn is_dsn(text: &str) -> bool {
    text.into_connection_info().is_ok()
}

/// Hides what is secret in a DSN.
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
                .arg(format!("{KEY_PREFIX}:check"))
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
