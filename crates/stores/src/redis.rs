//! State on a Redis or Valkey server, shared by several machines.
//!
//! A step is one call of one script, which is the twin of the pure functions (`script/`): one round
//! trip, atomic, on the server's clock. All keys of a site have one hash tag and run out by
//! themselves.

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
use crate::handle::{Answer, Heard, SiteHandle, SiteKey, StateStore};
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
use wire::Step;

/// How often a step whose connection broke is sent again. What was done twice counts twice: too
/// little is sent, not too much. Steps that take something back are not sent again.
const AGAIN: u32 = 3;
/// How often this process says that it lives, and hears how many others do: when the server is
/// lost, that many share.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// For how long it is believed.
const ALIVE: Duration = Duration::from_secs(20);
/// How many sites are listed, and how often the server is asked for more of them: a list has an
/// end.
const MAX_SITES: usize = 1 << 20;
const MAX_SCANS: u32 = 1 << 17;
/// How long a look at a server that did not answer may take.
const CHECK: Duration = Duration::from_millis(800);
/// What every key begins with.
const PREFIX: &str = "docstokg";

/// A store on a Redis server.
pub struct RedisStore {
    inner: Arc<PerProcess<Arc<Inner>>>,
}

/// How many processes were counted, and when: the count falls only when it has been lower for as
/// long as a process is believed to live. A server that was emptied counts few, and those that have
/// just begun are not counted yet.
#[derive(Default)]
struct Counted {
    first: Option<BootInstant>,
    recent: VecDeque<(BootInstant, u32)>,
}

impl Counted {
    fn note(&mut self, count: u32, now: BootInstant) {
        self.first.get_or_insert(now);
        self.recent.retain(|(at, _)| *at + ALIVE > now);
        self.recent.push_back((now, count));
    }

    fn most(&self) -> Option<u32> {
        self.recent.iter().map(|(_, count)| *count).max()
    }

    fn has_settled(&self, now: BootInstant) -> bool {
        self.first.is_some_and(|first| first + ALIVE <= now)
    }
}

struct Inner {
    /// Where the server is, without its password.
    name: String,
    link: Link,
    home: Handle,
    script: Script,
    clock: Arc<dyn Clock>,
    who: Arc<str>,
    next_id: AtomicU64,
    /// How many processes lived at the heartbeats of the last seconds.
    peers: Mutex<Counted>,
    /// Counts how often the server has lost what it knew, or may have: what was known of sites
    /// before does not count.
    lives: AtomicU32,
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
    /// Names the server of a DSN such as `redis://127.0.0.1:6379/0` or
    /// `rediss://user:password@host/`. It is connected to when it is first needed.
    ///
    /// # Errors
    /// The DSN is none.
    pub fn open(dsn: &str, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let inner = Arc::new(Inner::open(
            dsn,
            Arc::clone(&clock),
            Handle::try_current().ok(),
        )?);
        let (dsn, first) = (dsn.to_owned(), Arc::clone(&inner));
        // A child has neither the connection nor the runtime of its parent. A DSN that was good
        // once stays so: the parent's connection is the last resort, not the first.
        let again = move || {
            Inner::open(&dsn, Arc::clone(&clock), None)
                .map_or_else(|_| Arc::clone(&first), Arc::new)
        };
        Ok(Self {
            inner: Arc::new(PerProcess::new(inner, again)),
        })
    }

    /// Opens a site on which the script goes by the clock of this store, and not by the server's:
    /// for tests that compare it with the pure functions. Returns also the name that the next
    /// question gets.
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
            told_time: true,
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
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://***@{place}{query}"),
        _ => format!("{shown}{query}"),
    }
}

impl Inner {
    /// Opens the store in a runtime, or in one of its own.
    fn open(dsn: &str, clock: Arc<dyn Clock>, home: Option<Handle>) -> Result<Self, StoreError> {
        let name = format!("the redis server {}", without_password(dsn));
        let unusable = |why: String| StoreError::Unusable {
            store: name.clone(),
            why,
            remedy: "give it as redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss:// for TLS"
                .to_owned(),
        };
        // What the library says of a DSN may repeat it.
        let info = dsn
            .into_connection_info()
            .map_err(|_| unusable("its DSN cannot be read".to_owned()))?;
        let (home, own) = if let Some(home) = home {
            (home, None)
        } else {
            let own = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build();
            let own = own.map_err(|error| unusable(error.to_string()))?;
            (own.handle().clone(), Some(own))
        };
        let link = Link::new(info, home.clone());
        let script = Script::new(&script::text());
        let next_id = AtomicU64::new(process::first_name());
        Ok(Self {
            name,
            link,
            home,
            script,
            clock,
            who: process::signature(),
            next_id,
            peers: Mutex::default(),
            lives: AtomicU32::new(0),
            rank: AtomicU32::new(0),
            own,
        })
    }

    fn away(&self, error: &RedisError) -> StoreError {
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
                "a site on it was written by another version of the program (its layout is version {layout}, this one reads {LAYOUT})"
            ),
            remedy: format!(
                "run the version that wrote it, or delete the keys that begin with {PREFIX} to start with fresh limits"
            ),
        }
    }

    /// Runs a step. A script that the server has forgotten is told again; a connection that broke
    /// is made again.
    async fn run(&self, step: Step) -> Result<Value, StoreError> {
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
                        .map_err(|error| self.away(&error))?;
                }
                Err(error)
                    if error.is_io_error()
                        && !error.is_timeout()
                        && step.may_repeat
                        && broken < AGAIN =>
                {
                    broken += 1;
                    pause(Duration::from_millis(30) * broken).await;
                }
                Err(error) if error.code() == Some("LOADING") && broken < 20 * AGAIN => {
                    broken += 1;
                    pause(Duration::from_millis(50)).await;
                }
                Err(error) if error.code() == Some("FORGOTTEN") => {
                    // The next questions, of this site and all others, are those of a newcomer.
                    self.lives.fetch_add(1, Ordering::AcqRel);
                    return Err(StoreError::Forgot {
                        store: self.name.clone(),
                    });
                }
                Err(error) if error.code() == Some("LAYOUT") => {
                    return Err(self.of_another_version(error.detail().unwrap_or("unknown")));
                }
                Err(error) => return Err(self.away(&error)),
            }
        }
    }

    /// Waits for the answer to a look, but not for long.
    async fn in_time(
        &self,
        look: impl Future<Output = Result<(), RedisError>>,
    ) -> Result<(), StoreError> {
        let late = || StoreError::Unavailable {
            store: self.name.clone(),
            why: "it takes too long".to_owned(),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a real server that does not answer, in real time"
        )]
        let looked = tokio::time::timeout(CHECK, look).await;
        looked
            .map_err(|_| late())?
            .map_err(|error| self.away(&error))
    }

    /// Says that this process lives, and counts who else does.
    async fn beat(&self, member: u64) -> Result<(), RedisError> {
        let script = "local t = tonumber(redis.call('TIME')[1]) \
             redis.call('ZADD', KEYS[1], t, ARGV[1]) \
             redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, t - tonumber(ARGV[2])) \
             redis.call('EXPIRE', KEYS[1], ARGV[2]) \
             local all, rank = redis.call('ZRANGE', KEYS[1], 0, -1), 0 \
             for _, other in ipairs(all) do if other < ARGV[1] then rank = rank + 1 end end \
             return { #all, rank }";
        let mut beat = redis::cmd("EVAL");
        beat.arg(script)
            .arg(1)
            .arg(format!("{PREFIX}:peers"))
            .arg(member)
            .arg(ALIVE.as_secs());
        if let Value::Array(counted) = self.link.send(&beat).await?.extract_error()?
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

/// A future that runs in the runtime of the store, whoever polls it; and, dropped early, runs to
/// its end there.
struct AtHome<T: Send + 'static> {
    home: Handle,
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    unwanted: Option<Box<dyn FnOnce(T) + Send>>,
}

impl<T: Send + 'static> Future for AtHome<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let Some(work) = &mut this.work else {
            return Poll::Pending;
        };
        let _entered = this.home.enter();
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            this.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for AtHome<T> {
    fn drop(&mut self) {
        if let (Some(work), Some(unwanted)) = (self.work.take(), self.unwanted.take()) {
            #[expect(
                clippy::disallowed_methods,
                reason = "the store's own background work, in the runtime it was opened in"
            )]
            self.home.spawn(async move { unwanted(work.await) });
        }
    }
}

/// Begins the work now, so that what is said first is heard first, and answers when it is done.
fn begin<T: Send + Unpin + 'static>(
    inner: &Arc<Inner>,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    unwanted: impl FnOnce(Result<T, StoreError>) + Send + 'static,
) -> Answer<T> {
    let mut work = AtHome {
        home: inner.home.clone(),
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
            told_time: false,
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
                        .map_err(|error| inner.away(&error))?;
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
                    .map_err(|error| inner.away(&error))
            }
        };
        begin(&inner, work, |_| ())
    }

    fn check(&self) -> Answer<()> {
        let inner = Arc::clone(self.inner.get());
        let (home, name) = (inner.home.clone(), inner.name.clone());
        // It goes on by itself: whoever looks only now and then must not take its own absence for
        // the server's.
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        let checked = home.spawn(async move {
            // A server whose memory is full answers, and takes nothing.
            let mut write = redis::cmd("SET");
            write
                .arg(format!("{PREFIX}:check"))
                .arg("")
                .arg("EX")
                .arg(ALIVE.as_secs());
            let mut link = inner.link.clone();
            inner.in_time(write.query_async::<()>(&mut link)).await?;
            // It was away: whether it still knows what it knew is not asked a second time, site by
            // site.
            inner.lives.fetch_add(1, Ordering::AcqRel);
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

    fn watch_peers(&self, heard: Heard) {
        let inner = self.inner.get();
        let (weak, member) = (Arc::downgrade(inner), inner.fresh_id());
        let mut was_away = false;
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        inner.home.spawn(async move {
            while let Some(inner) = weak.upgrade() {
                // Away now is asked again in a moment: the last known number holds meanwhile.
                let started = inner.clock.boot();
                let said = inner.in_time(inner.beat(member)).await;
                if said.is_ok() && was_away {
                    // Whether it still knows what it knew is not asked again, site by site.
                    inner.lives.fetch_add(1, Ordering::AcqRel);
                }
                was_away = said.is_err();
                heard(started, said);
                drop(inner);
                pause(HEARTBEAT).await;
            }
        });
    }
}
