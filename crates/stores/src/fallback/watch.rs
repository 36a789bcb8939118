//! Whether the shared store answers, and since when this process believes so.
//!
//! Every change of mind is dangerous: what others were granted before it is not known after it, and
//! they change theirs a little later. So nobody believes for longer than two seconds that the store
//! is lost, and whoever changes its mind sends nothing for those two seconds and one window.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;

use super::Notice;
use crate::error::StoreError;
use crate::handle::{Arriving, SiteHandle, SiteKey, StateStore};

/// How often a store that does not answer is asked whether it is back.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// For how long a look is believed that found the store lost.
pub(super) const BELIEVED: Duration = Duration::from_secs(2);
/// For how much longer one is believed that found a store which cannot be used: somebody has to do
/// something about it.
const UNUSABLE: Duration = Duration::from_secs(10);

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It answers.
    Present,
    /// It does not.
    Lost,
    /// It did not when it was last looked at, too long ago: it has to be asked.
    Unknown,
}

/// A change of mind about the store: which one it is, and when it was.
#[derive(Clone, Copy, Default)]
pub(super) struct Change {
    pub(super) number: u64,
    pub(super) at: BootInstant,
}

/// Whether the shared store is lost.
pub(super) struct Watch {
    pub(super) clock: Arc<dyn Clock>,
    lost: AtomicBool,
    /// Counts how often it was lost.
    outages: AtomicU64,
    /// How many processes shared it when it was lost.
    peers: AtomicU32,
    /// The number of this one among them.
    rank: AtomicU32,
    /// How many are assumed where this process never heard.
    assumed_peers: u32,
    /// The number of the last change, to be read without the lock.
    changes: AtomicU64,
    changed: Mutex<Change>,
    looking: Mutex<Looking>,
    /// The blocks that this process knows of, by site.
    blocks: Mutex<HashMap<SiteKey, Known>>,
    notice: Notice,
}

/// A block that the store should know of.
struct Known {
    site: Arc<dyn SiteHandle>,
    until: BootInstant,
    reason: OpenReason,
}

#[derive(Default)]
struct Looking {
    /// The latest instant at which the store is known not to have answered.
    lost_at: BootInstant,
    /// For how much longer that is believed than usual.
    longer: Duration,
    /// A look that is on its way, and since when.
    question: Option<(BootInstant, Arriving<()>)>,
}

impl Watch {
    pub(super) fn new(clock: Arc<dyn Clock>, notice: Notice, assumed_peers: u32) -> Self {
        Self {
            clock,
            lost: AtomicBool::new(false),
            outages: AtomicU64::new(0),
            peers: AtomicU32::new(1),
            rank: AtomicU32::new(0),
            assumed_peers: assumed_peers.max(1),
            changes: AtomicU64::new(0),
            changed: Mutex::default(),
            looking: Mutex::default(),
            blocks: Mutex::default(),
            notice,
        }
    }

    /// Tells whether the store was lost when last looked at.
    pub(super) fn was_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(super) fn outages(&self) -> u64 {
        self.outages.load(Ordering::Acquire)
    }

    /// Returns how many processes share the limits while the store is lost.
    pub(super) fn peers(&self) -> u32 {
        self.peers.load(Ordering::Acquire)
    }

    /// Returns the number of this process among them.
    pub(super) fn rank(&self) -> u32 {
        self.rank.load(Ordering::Acquire)
    }

    /// Returns the last change of mind, if there was any.
    #[inline]
    pub(super) fn last_change(&self) -> Option<Change> {
        (self.changes.load(Ordering::Acquire) > 0).then(|| *self.changed.lock())
    }

    fn change(&self, now: BootInstant) {
        let mut changed = self.changed.lock();
        *changed = Change {
            number: changed.number + 1,
            at: now,
        };
        self.changes.store(changed.number, Ordering::Release);
    }

    /// Takes note that the store does not answer.
    pub(super) fn lose(&self, error: &StoreError, store: &dyn StateStore) {
        let (known, rank) = (store.peers(), store.rank());
        // A count that has not stood for long may miss processes that have just begun.
        let peers = known.map_or(self.assumed_peers, |count| {
            if store.has_settled_peers() {
                count
            } else {
                count.max(self.assumed_peers)
            }
        });
        {
            // Under the lock, so that nobody decides alone before the share and the change are
            // known.
            let mut looking = self.looking.lock();
            if self.was_lost() {
                return;
            }
            let now = self.clock.boot();
            // A disk that is full, or a store of another version, stays so until an operator acts.
            let longer = if matches!(error, StoreError::Unusable { .. }) {
                UNUSABLE
            } else {
                Duration::ZERO
            };
            *looking = Looking {
                lost_at: now,
                longer,
                question: None,
            };
            self.peers.store(peers, Ordering::Release);
            // One that never reached the store has no number: any is as good as another.
            self.rank.store(
                if known.is_some() {
                    rank
                } else {
                    fastrand::u32(..peers)
                },
                Ordering::Release,
            );
            self.outages.fetch_add(1, Ordering::AcqRel);
            self.change(now);
            self.lost.store(true, Ordering::Release);
        }
        let share = match (peers, known) {
            (1, Some(_)) => "the limits for this process alone".to_owned(),
            (_, Some(_)) => format!("1/{peers} of the limits, since {peers} processes shared it"),
            (_, None) => format!(
                "1/{peers} of the limits, since it was never reached (limits.backend.assumed_peers)"
            ),
        };
        (self.notice)(&format!("{error}; going on with {share} until it is back"));
    }

    /// Tells whether the store is there, after a look if it was lost.
    #[inline]
    pub(super) fn find(&self, shared: &dyn StateStore) -> Found {
        if self.was_lost() {
            self.look(shared)
        } else {
            Found::Present
        }
    }

    #[cold]
    fn look(&self, shared: &dyn StateStore) -> Found {
        let mut looking = self.looking.lock();
        let now = self.clock.boot();
        // One that is answered may be older than what is believed: then another one is begun.
        for _ in 0..2 {
            if !self.was_lost() {
                return Found::Present;
            }
            if looking.question.is_none() {
                if now < looking.lost_at + LOOK_AGAIN + looking.longer {
                    return Found::Lost;
                }
                looking.question = Some((now, shared.check().into_future()));
            }
            let Some((asked, question)) = &mut looking.question else {
                break;
            };
            let asked = *asked;
            match Pin::new(question).poll(&mut Context::from_waker(Waker::noop())) {
                // It has not answered up to now.
                Poll::Pending if asked < now => {
                    looking.lost_at = now;
                    return Found::Lost;
                }
                Poll::Pending => break,
                Poll::Ready(said) => {
                    looking.question = None;
                    self.take(&mut looking, &said, asked, now);
                }
            }
        }
        if now < looking.lost_at + BELIEVED + looking.longer {
            Found::Lost
        } else {
            Found::Unknown
        }
    }

    /// Takes note of a block, to be told when the store is back: it may have forgotten it, or never
    /// heard of it.
    pub(super) fn note_block(
        &self,
        key: &SiteKey,
        site: &Arc<dyn SiteHandle>,
        until: BootInstant,
        reason: &OpenReason,
    ) {
        let mut blocks = self.blocks.lock();
        let now = self.clock.boot();
        blocks.retain(|_, known| known.until > now);
        let known = Known {
            site: Arc::clone(site),
            until,
            reason: reason.clone(),
        };
        let later = blocks.get(key).is_none_or(|earlier| earlier.until < until);
        if later {
            blocks.insert(Arc::clone(key), known);
        }
    }

    /// Forgets a block that is over.
    pub(super) fn forget_block(&self, key: &SiteKey) {
        self.blocks.lock().remove(key);
    }

    /// Tells the store all blocks that are known here. What is begun is done, though nobody waits
    /// for it.
    fn tell_blocks(&self) {
        let now = self.clock.boot();
        for known in self
            .blocks
            .lock()
            .values()
            .filter(|known| known.until > now)
        {
            drop(known.site.block(known.until.since(now), &known.reason));
        }
    }

    /// Takes in what a heartbeat came to that began at an instant: while the store is lost, it says
    /// whether it still is.
    pub(super) fn heartbeat(&self, began: BootInstant, said: &Result<(), StoreError>) {
        let mut looking = self.looking.lock();
        // One that was on its way when the store was lost says nothing.
        if self.was_lost() && (said.is_err() || began >= looking.lost_at) {
            self.take(&mut looking, said, began, self.clock.boot());
        }
    }

    /// Takes in what a check has just found.
    pub(super) fn hear(&self, said: &Result<(), StoreError>) {
        let mut looking = self.looking.lock();
        let now = self.clock.boot();
        if self.was_lost() {
            self.take(&mut looking, said, now, now);
        }
    }

    fn take(
        &self,
        looking: &mut Looking,
        said: &Result<(), StoreError>,
        as_of: BootInstant,
        now: BootInstant,
    ) {
        if said.is_err() {
            looking.lost_at = looking.lost_at.max(as_of);
            return;
        }
        // Before anything else is asked of it.
        self.tell_blocks();
        self.change(now);
        self.lost.store(false, Ordering::Release);
        (self.notice)("the shared state is back; its limits hold again");
    }
}
