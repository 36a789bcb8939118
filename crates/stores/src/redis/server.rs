//! The server: its connection, its script, and the calls that do not concern a site.

use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use docstokg_policy::time::Clock;
use parking_lot::Mutex;
use redis::{Cmd, IntoConnectionInfo, RedisError, Script, Value};
use tokio::runtime::{Handle, Runtime};

use super::exchange::SiteExchange;
use super::link::ServerLink;
use super::peers::PeerCounts;
use super::runtime::pause;
use super::script::{self, SCRIPT_LAYOUT_VERSION};
use super::wire::{ScriptCall, ScriptReply};
use super::{KEY_PREFIX, PEER_TIMEOUT, without_password};
use crate::error::StoreError;
use crate::handle::SiteKey;
use crate::process;

/// The number of repetitions of a call whose connection broke. An entry that is added twice is
/// applied once.
const MAX_REPEATS: u32 = 3;
/// The largest number of listed sites, because a hostile server could return an endless list.
const MAX_SITES: usize = 1 << 20;
/// The largest number of calls that list sites.
const MAX_SCANS: u32 = 1 << 17;
/// The longest time for a check of an unavailable server.
const CHECK_TIMEOUT: Duration = Duration::from_millis(800);

/// The script of a heartbeat: registers a process, removes those without a heartbeat, and returns
/// their number and the rank of this process.
const HEARTBEAT: &str = "local t = tonumber(redis.call('TIME')[1]) \
    redis.call('ZADD', KEYS[1], t, ARGV[1]) \
    redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, t - tonumber(ARGV[2])) \
    redis.call('EXPIRE', KEYS[1], ARGV[2]) \
    local all, rank = redis.call('ZRANGE', KEYS[1], 0, -1), 0 \
    for _, other in ipairs(all) do if other < ARGV[1] then rank = rank + 1 end end \
    return { #all, rank }";

/// A Redis server, as one process uses it.
pub(super) struct Server {
    /// The DSN of the server, without its password.
    pub(super) name: String,
    pub(super) link: ServerLink,
    pub(super) runtime: Handle,
    pub(super) script: Script,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) who: Arc<str>,
    pub(super) next_id: AtomicU64,
    /// The number of processes at the heartbeats of the last seconds.
    pub(super) peers: Mutex<PeerCounts>,
    /// The number of times that the server has lost its data, or may have. Earlier knowledge of
    /// sites is then void.
    pub(super) losses: AtomicU32,
    /// The rank of this process among those that share the server.
    pub(super) rank: AtomicU32,
    /// The open sites.
    exchanges: Mutex<Vec<Weak<SiteExchange>>>,
    /// The runtime of a store that was opened outside of a runtime.
    own: Option<Runtime>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // A runtime that is dropped within another one must not wait for its end.
        if let Some(own) = self.own.take() {
            own.shutdown_background();
        }
    }
}

impl Server {
    /// Opens the store in a runtime, or creates a runtime for it.
    pub(super) fn open(
        dsn: &str,
        clock: Arc<dyn Clock>,
        runtime: Option<Handle>,
    ) -> Result<Self, StoreError> {
        let name = format!("the redis server {}", without_password(dsn));
        let unusable = |why: String| StoreError::Unusable {
            store: name.clone(),
            why,
            remedy: "give it as redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss:// for TLS"
                .to_owned(),
        };
        // The message of the library may contain the DSN, and therefore the password.
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
        let link = ServerLink::new(info, runtime.clone());
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
            exchanges: Mutex::default(),
            own,
        })
    }

    pub(super) fn unavailable(&self, error: &RedisError) -> StoreError {
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

    pub(super) fn malformed(&self) -> StoreError {
        StoreError::Unavailable {
            store: self.name.clone(),
            why: "its answer is not one that this version understands".to_owned(),
        }
    }

    /// Returns the [`StoreError`] for a runtime of the store that ended before a reply arrived.
    pub(super) fn ended(&self) -> StoreError {
        StoreError::Unavailable {
            store: self.name.clone(),
            why: "the runtime that asks it has ended".to_owned(),
        }
    }

    /// Returns the [`StoreError`] for a lost reply, whose content is unknown.
    pub(super) fn unanswered(&self) -> StoreError {
        StoreError::Unavailable {
            store: self.name.clone(),
            why: "its answer was lost".to_owned(),
        }
    }

    /// Records that the server has lost its data, and returns the [`StoreError`]. The copies of all
    /// sites are then void.
    pub(super) fn forgot(&self) -> StoreError {
        self.losses.fetch_add(1, Ordering::AcqRel);
        StoreError::Forgot {
            store: self.name.clone(),
        }
    }

    pub(super) fn of_another_version(&self, layout: u8) -> StoreError {
        StoreError::Unusable {
            store: self.name.clone(),
            why: format!(
                "a site on it was written by another version of the program \
                 (its layout is version {layout}, this one reads {SCRIPT_LAYOUT_VERSION})"
            ),
            remedy: format!(
                "run the version that wrote it, or delete the keys that begin with {KEY_PREFIX} \
                 to start with fresh limits"
            ),
        }
    }

    /// Calls the script on a record, and returns its [`ScriptReply`].
    pub(super) async fn reply_to(
        &self,
        key: &str,
        call: &ScriptCall<'_>,
    ) -> Result<ScriptReply, StoreError> {
        let value = self.run(&call.command(self.script.get_hash(), key)).await?;
        let reply = ScriptReply::new(value, call.position, self.clock.boot());
        reply.map_err(|_| self.malformed())
    }

    /// Runs a command. If the server does not have the script, it is loaded again. A call whose
    /// connection broke is repeated.
    async fn run(&self, command: &Cmd) -> Result<Value, StoreError> {
        let mut broken = 0;
        loop {
            let sent = self.link.send(command).await;
            match sent.and_then(Value::extract_error) {
                Ok(value) => return Ok(value),
                Err(error) if error.code() == Some("NOSCRIPT") => {
                    self.script
                        .load_async(&mut self.link.clone())
                        .await
                        .map_err(|error| self.unavailable(&error))?;
                }
                Err(error)
                    if error.is_io_error() && !error.is_timeout() && broken < MAX_REPEATS =>
                {
                    broken += 1;
                    pause(Duration::from_millis(30) * broken).await;
                }
                Err(error) if error.code() == Some("LOADING") && broken < 20 * MAX_REPEATS => {
                    broken += 1;
                    pause(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(self.unavailable(&error)),
            }
        }
    }

    /// Records an open site, for as long as it is open.
    pub(super) fn note_exchange(&self, exchange: &Arc<SiteExchange>) {
        let mut exchanges = self.exchanges.lock();
        if exchanges.len() == exchanges.capacity() {
            exchanges.retain(|known| known.strong_count() > 0);
        }
        exchanges.push(Arc::downgrade(exchange));
    }

    /// Waits until every operation that has begun is complete.
    pub(super) async fn flush(&self) -> Result<(), StoreError> {
        let open: Vec<Arc<SiteExchange>> = {
            let exchanges = self.exchanges.lock();
            exchanges.iter().filter_map(Weak::upgrade).collect()
        };
        let busy: Vec<_> = (open.iter())
            .filter_map(SiteExchange::begin_view_if_busy)
            .collect();
        for view in busy {
            view.await.unwrap_or_else(|_| Err(self.ended()))?;
        }
        let mut link = self.link.clone();
        let answered = redis::cmd("PING").query_async::<()>(&mut link).await;
        answered.map_err(|error| self.unavailable(&error))
    }

    /// Waits for the reply to a check, up to [`CHECK_TIMEOUT`].
    pub(super) async fn within_check_timeout(
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
    pub(super) async fn heartbeat(&self, member: u64) -> Result<(), RedisError> {
        let mut heartbeat = redis::cmd("EVAL");
        heartbeat
            .arg(HEARTBEAT)
            .arg(1)
            .arg(format!("{KEY_PREFIX}:peers"))
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

    /// Lists the sites that have a [`SiteKey`], in a limited number of calls.
    pub(super) async fn list_sites(&self) -> Result<Vec<SiteKey>, StoreError> {
        let mut link = self.link.clone();
        let mut keys = std::collections::BTreeSet::new();
        let (mut cursor, mut listed) = (0u64, 0);
        for _ in 0..MAX_SCANS {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor)
                .arg("MATCH")
                .arg(format!("{KEY_PREFIX}:{{*}}"))
                .arg("COUNT")
                .arg(1_000);
            let (next, found): (u64, Vec<String>) = scan
                .query_async(&mut link)
                .await
                .map_err(|error| self.unavailable(&error))?;
            keys.extend(found.iter().filter_map(|key| site_of(key)));
            (cursor, listed) = (next, listed + found.len());
            if cursor == 0 {
                return Ok(keys.into_iter().collect());
            }
            if listed > MAX_SITES {
                break;
            }
        }
        Err(StoreError::Unavailable {
            store: self.name.clone(),
            why: "its list of sites has no end".to_owned(),
        })
    }

    pub(super) fn fresh_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Returns the site of a [`SiteKey`].
fn site_of(key: &str) -> Option<SiteKey> {
    let name = key.strip_prefix(KEY_PREFIX)?.strip_prefix(":{")?;
    Some(name.strip_suffix('}')?.into())
}
