//! State on a Redis or Valkey server, shared by several machines.
//!
//! An operation is one call of one script, the Lua implementation of the pure functions (`script/`):
//! one round trip, atomic, on the server's clock. All keys of a site have one hash tag, and expire.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;
use redis::{IntoConnectionInfo, RedisError, Script, Value};
use tokio::runtime::{Handle, Runtime};

use crate::error::StoreError;
use crate::handle::{Answer, HeartbeatObserver, SiteHandle, SiteKey, StateStore};
use crate::multiprocess::PerProcess;
use crate::process;

mod bounded;
mod link;
mod lua;
mod script;
mod site;
mod view;
mod wire;

use link::Link;
use script::LAYOUT;
use site::RedisSite;
use wire::ScriptCall;

/// How often a call whose connection broke is repeated. A call that ran twice counts twice: too
/// little is sent, not too much. Calls that take something back are not repeated.
const MAX_REPEATS: u32 = 3;
/// How often this process registers itself and counts the others: when the server is lost, that many
/// share the limits.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a process counts after its last heartbeat.
const PEER_TIMEOUT: Duration = Duration::from_secs(20);
/// How many sites are listed, and how many calls that may take: the list of a hostile server may not
/// end.
const MAX_SITES: usize = 1 << 20;
const MAX_SCANS: u32 = 1 << 17;
/// How long a check of a server that did not answer may take.
const CHECK_TIMEOUT: Duration = Duration::from_millis(800);
/// What every key begins with.
const PREFIX: &str = "docstokg";

/// A store on a Redis server.
pub struct RedisStore {
    inner: Arc<PerProcess<Arc<Inner>>>,
}

/// How many processes were counted, and when: the count falls only when it has been lower for
/// `PEER_TIMEOUT`. A server that was emptied counts few, and processes that have just begun are not
/// counted yet.
#[derive(Default)]
struct PeerCounts {
    first: Option<BootInstant>,
    recent: VecDeque<(BootInstant, u32)>,
}

impl PeerCounts {
    fn note(&mut self, count: u32, now: BootInstant) {
        self.first.get_or_insert(now);
        self.recent.retain(|(at, _)| *at + PEER_TIMEOUT > now);
        self.recent.push_back((now, count));
    }

    fn most(&self) -> Option<u32> {
        self.recent.iter().map(|(_, count)| *count).max()
    }

    fn has_settled(&self, now: BootInstant) -> bool {
        self.first.is_some_and(|first| first + PEER_TIMEOUT <= now)
    }
}

struct Inner {
    /// The DSN of the server, without its password.
    name: String,
    link: Link,
    runtime: Handle,
    script: Script,
    clock: Arc<dyn Clock>,
    who: Arc<str>,
    next_id: AtomicU64,
    /// How many processes were running at the heartbeats of the last seconds.
    peers: Mutex<PeerCounts>,
    /// Counts how often the server has lost its data, or may have: what was known of sites before
    /// does not count.
    losses: AtomicU32,
    /// The number of this process among them.
    rank: AtomicU32,
    /// The runtime of a store that was opened outside of one.
    own: Option<Runtime>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A runtime that is dropped within another one must not wait for its end.
        if let Some(own) = self.own.take() {
            own.shutdown_background();
        }
    }
}

impl RedisStore {
    /// Opens a store on the server of a DSN such as `redis://127.0.0.1:6379/0` or
    /// `rediss://user:password@host/`. It connects at the first operation.
    ///
    /// # Errors
    /// The text is not a DSN.
    pub fn open(dsn: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let inner = Arc::new(Inner::open(
            dsn,
            Arc::clone(&clock),
            Handle::try_current().ok(),
        )?);
        let (dsn, first) = (dsn.to_owned(), Arc::clone(&inner));
        // A child process has neither the connection nor the runtime of its parent. A DSN that was
        // valid once stays so: the parent's connection is only the last resort.
        let again = move || {
            Inner::open(&dsn, Arc::clone(&clock), None)
                .map_or_else(|_| Arc::clone(&first), Arc::new)
        };
        Ok(Self {
            inner: Arc::new(PerProcess::new(inner, again)),
        })
    }

    /// Opens a site on which the script uses the clock of this store, and not the server's: for tests
    /// that compare it with the pure functions. Also returns the id that the next question gets.
    #[doc(hidden)]
    pub fn site_on_own_time(
        &self,
        key: &SiteKey,
    ) -> (Arc<dyn SiteHandle>, impl Fn() -> u64 + use<>) {
        let inner = Arc::clone(self.inner.get());
        let site = RedisSite {
            inner: Arc::clone(&self.inner),
            key: format!("{PREFIX}:{{{key}}}").into(),
            names: Arc::default(),
            birth: Arc::default(),
            uses_caller_clock: true,
        };
        (Arc::new(site), move || {
            inner.next_id.load(Ordering::Relaxed) + 1
        })
    }
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

impl Inner {
    /// Opens the store in a runtime, or in one of its own.
    fn open(dsn: &str, clock: Arc<dyn Clock>, runtime: Option<Handle>) -> Result<Self, StoreError> {
        let name = format!("the redis server {}", without_password(dsn));
        let unusable = |why: String| StoreError::Unusable {
            store: name.clone(),
            why,
            remedy: "give it as redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss:// for TLS"
                .to_owned(),
        };
        // The message of the library may contain the DSN, and so the password.
        let info = dsn
            .into_connection_info()
            .map_err(|_| unusable("its DSN cannot be read".to_owned()))?;
        let (runtime, own) = if let Some(runtime) = runtime {
            (runtime, None)
        } else {
            let own = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build();
            let own = own.map_err(|error| unusable(error.to_string()))?;
            (own.handle().clone(), Some(own))
        };
        let link = Link::new(info, runtime.clone());
        let script = Script::new(&script::text());
        let next_id = AtomicU64::new(process::first_name());
        Ok(Self {
            name,
            link,
            runtime,
            script,
            clock,
            who: process::signature(),
            next_id,
            peers: Mutex::default(),
            losses: AtomicU32::new(0),
            rank: AtomicU32::new(0),
            own,
        })
    }

    fn unavailable(&self, error: &RedisError) -> StoreError {
        let why = if error.is_connection_refusal() {
            "the connection was refused".to_owned()
        } else if error.is_timeout() {
            "it takes too long".to_owned()
        } else {
            error.to_string()
        };
        StoreError::Unavailable {
            store: self.name.clone(),
            why,
        }
    }

    fn malformed(&self) -> StoreError {
        StoreError::Unavailable {
            store: self.name.clone(),
            why: "its answer is not one that this version understands".to_owned(),
        }
    }

    fn of_another_version(&self, layout: &str) -> StoreError {
        StoreError::Unusable {
            store: self.name.clone(),
            why: format!(
                "a site on it was written by another version of the program \
                 (its layout is version {layout}, this one reads {LAYOUT})"
            ),
            remedy: format!(
                "run the version that wrote it, or delete the keys that begin with {PREFIX} \
                 to start with fresh limits"
            ),
        }
    }

    /// Runs a call. A script that the server does not have is loaded again; a call whose connection
    /// broke is repeated.
    async fn run(&self, step: ScriptCall) -> Result<Value, StoreError> {
        let mut broken = 0;
        loop {
            match self
                .link
                .send(&step.arguments)
                .await
                .and_then(Value::extract_error)
            {
                Ok(value) => return Ok(value),
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    self.script
                        .load_async(&mut self.link.clone())
                        .await
                        .map_err(|error| self.unavailable(&error))?;
                }
                Err(error)
                    if error.is_io_error()
                        && !error.is_timeout()
                        && step.may_repeat
                        && broken < MAX_REPEATS =>
                {
                    broken += 1;
                    pause(Duration::from_millis(30) * broken).await;
                }
                Err(error) if error.code() == Some("LOADING") && broken < 20 * MAX_REPEATS => {
                    broken += 1;
                    pause(Duration::from_millis(50)).await;
                }
                Err(error) if error.code() == Some("FORGOTTEN") => {
                    // The next questions, of this site and all others, count as those of a new
                    // process.
                    self.losses.fetch_add(1, Ordering::AcqRel);
                    return Err(StoreError::Forgot {
                        store: self.name.clone(),
                    });
                }
                Err(error) if error.code() == Some("LAYOUT") => {
                    return Err(self.of_another_version(error.detail().unwrap_or("unknown")));
                }
                Err(error) => return Err(self.unavailable(&error)),
            }
        }
    }

    /// Waits for the answer to a check, for a bounded time.
    async fn within_check_timeout(
        &self,
        check: impl Future<Output = Result<(), RedisError>>,
    ) -> Result<(), StoreError> {
        let late = || StoreError::Unavailable {
            store: self.name.clone(),
            why: "it takes too long".to_owned(),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a real server that does not answer, in real time"
        )]
        let checked = tokio::time::timeout(CHECK_TIMEOUT, check).await;
        checked
            .map_err(|_| late())?
            .map_err(|error| self.unavailable(&error))
    }

    /// Registers this process, and counts the running ones.
    async fn heartbeat(&self, member: u64) -> Result<(), RedisError> {
        let script = "local t = tonumber(redis.call('TIME')[1]) \
             redis.call('ZADD', KEYS[1], t, ARGV[1]) \
             redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, t - tonumber(ARGV[2])) \
             redis.call('EXPIRE', KEYS[1], ARGV[2]) \
             local all, rank = redis.call('ZRANGE', KEYS[1], 0, -1), 0 \
             for _, other in ipairs(all) do if other < ARGV[1] then rank = rank + 1 end end \
             return { #all, rank }";
        let mut heartbeat = redis::cmd("EVAL");
        heartbeat
            .arg(script)
            .arg(1)
            .arg(format!("{PREFIX}:peers"))
            .arg(member)
            .arg(PEER_TIMEOUT.as_secs());
        if let Value::Array(counted) = self.link.send(&heartbeat).await?.extract_error()?
            && let [Value::Int(peers), Value::Int(rank)] = counted[..]
        {
            self.rank
                .store(u32::try_from(rank).unwrap_or(0), Ordering::Relaxed);
            self.peers
                .lock()
                .note(u32::try_from(peers).unwrap_or(1), self.clock.boot());
        }
        Ok(())
    }

    fn fresh_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server is real, and so is the time it takes to come back"
)]
async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

/// A future that is polled within the runtime of the store, by whichever task. Dropped early, it
/// runs to its end there.
struct InRuntime<T: Send + 'static> {
    runtime: Handle,
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    unwanted: Option<Box<dyn FnOnce(T) + Send>>,
}

impl<T: Send + 'static> Future for InRuntime<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let Some(work) = &mut this.work else {
            return Poll::Pending;
        };
        let _entered = this.runtime.enter();
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            this.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for InRuntime<T> {
    fn drop(&mut self) {
        if let (Some(work), Some(unwanted)) = (self.work.take(), self.unwanted.take()) {
            #[expect(
                clippy::disallowed_methods,
                reason = "the store's own background work, in the runtime it was opened in"
            )]
            self.runtime.spawn(async move { unwanted(work.await) });
        }
    }
}

/// Begins the work now, so that calls reach the server in order, and answers when it is complete.
fn begin<T: Send + Unpin + 'static>(
    inner: &Arc<Inner>,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    unwanted: impl FnOnce(Result<T, StoreError>) + Send + 'static,
) -> Answer<T> {
    let mut work = InRuntime {
        runtime: inner.runtime.clone(),
        work: Some(Box::pin(work)),
        unwanted: Some(Box::new(unwanted)),
    };
    match Pin::new(&mut work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Answer::Ready(done),
        Poll::Pending => Answer::Later(Box::pin(work)),
    }
}

impl StateStore for RedisStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(RedisSite {
            inner: Arc::clone(&self.inner),
            key: format!("{PREFIX}:{{{key}}}").into(),
            names: Arc::default(),
            birth: Arc::default(),
            uses_caller_clock: false,
        })
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        let inner = Arc::clone(self.inner.get());
        let work = {
            let inner = Arc::clone(&inner);
            async move {
                let (mut link, endless) = (inner.link.clone(), "its list of sites has no end");
                let mut keys = std::collections::BTreeSet::new();
                let (mut cursor, mut listed) = (0u64, 0);
                for _ in 0..MAX_SCANS {
                    let mut scan = redis::cmd("SCAN");
                    scan.arg(cursor)
                        .arg("MATCH")
                        .arg(format!("{PREFIX}:{{*}}"))
                        .arg("COUNT")
                        .arg(1_000);
                    let (next, found): (u64, Vec<String>) = scan
                        .query_async(&mut link)
                        .await
                        .map_err(|error| inner.unavailable(&error))?;
                    keys.extend(found.iter().filter_map(|key| {
                        Some(SiteKey::from(
                            key.strip_prefix(PREFIX)?
                                .strip_prefix(":{")?
                                .strip_suffix('}')?,
                        ))
                    }));
                    (cursor, listed) = (next, listed + found.len());
                    if cursor == 0 {
                        return Ok(keys.into_iter().collect());
                    }
                    if listed > MAX_SITES {
                        break;
                    }
                }
                Err(StoreError::Unavailable {
                    store: inner.name.clone(),
                    why: endless.to_owned(),
                })
            }
        };
        begin(&inner, work, |_| ())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn flush(&self) -> Answer<()> {
        let inner = Arc::clone(self.inner.get());
        let work = {
            let inner = Arc::clone(&inner);
            async move {
                // Commands are answered in the order in which they were sent.
                redis::cmd("PING")
                    .query_async::<()>(&mut inner.link.clone())
                    .await
                    .map_err(|error| inner.unavailable(&error))
            }
        };
        begin(&inner, work, |_| ())
    }

    fn check(&self) -> Answer<()> {
        let inner = Arc::clone(self.inner.get());
        let (runtime, name) = (inner.runtime.clone(), inner.name.clone());
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
            let mut link = inner.link.clone();
            inner
                .within_check_timeout(write.query_async::<()>(&mut link))
                .await?;
            // It was unavailable: no site checks again whether its data is still there.
            inner.losses.fetch_add(1, Ordering::AcqRel);
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
        let inner = self.inner.get();
        inner.peers.lock().most()
    }

    fn has_settled_peers(&self) -> bool {
        let inner = self.inner.get();
        inner.peers.lock().has_settled(inner.clock.boot())
    }

    fn rank(&self) -> u32 {
        self.inner.get().rank.load(Ordering::Relaxed)
    }

    fn watch_peers(&self, observer: HeartbeatObserver) {
        let inner = self.inner.get();
        let (weak, member) = (Arc::downgrade(inner), inner.fresh_id());
        let mut was_unavailable = false;
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        inner.runtime.spawn(async move {
            while let Some(inner) = weak.upgrade() {
                // The next heartbeat follows soon: until then the last known count holds.
                let started = inner.clock.boot();
                let result = inner.within_check_timeout(inner.heartbeat(member)).await;
                if result.is_ok() && was_unavailable {
                    // No site checks again whether its data is still there.
                    inner.losses.fetch_add(1, Ordering::AcqRel);
                }
                was_unavailable = result.is_err();
                observer(started, result);
                drop(inner);
                pause(HEARTBEAT).await;
            }
        });
    }
}
