//! The availability of the shared store, as this process last checked.
//!
//! Every switch of stores is a risk: the earlier permits of other processes are unknown after it,
//! and these processes switch slightly later. Therefore no process treats the store as lost for
//! longer than two seconds without a check. A process that switches sends no request for those two
//! seconds and one window.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;

use super::AvailabilityNotice;
use crate::error::StoreError;
use crate::handle::{PendingStoreReply, SiteHandle, SiteKey, StateStore};

/// The time between two checks of a store that does not respond.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The time for which a check that found the store lost is valid.
pub(super) const LOSS_VALID: Duration = Duration::from_secs(2);
/// The additional time for which a check is valid, if the store cannot be used until an operator
/// acts.
const UNUSABLE_EXTRA: Duration = Duration::from_secs(10);

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreCheck {
    /// The store responds.
    Present,
    /// The store does not respond.
    Lost,
    /// The last check found the store lost, but is too old: a new check is needed.
    Unknown,
}

/// A switch between the shared and the own store, with its number and instant.
#[derive(Clone, Copy, Default)]
pub(super) struct StoreSwitch {
    pub(super) number: u64,
    pub(super) at: BootInstant,
}

/// The availability of the shared store, as this process last found it.
pub(super) struct StoreWatch {
    pub(super) clock: Arc<dyn Clock>,
    lost: AtomicBool,
    /// The number of outages so far.
    outages: AtomicU64,
    /// The number of processes among which the limits are divided since the store was lost.
    peers: AtomicU32,
    /// The rank of this process among the processes that share the limits, from 0.
    rank: AtomicU32,
    /// The assumed number of processes if this process never counted them.
    assumed_peers: u32,
    /// The number of the last switch, readable without the lock.
    switches: AtomicU64,
    switched: Mutex<StoreSwitch>,
    checking: Mutex<CheckState>,
    /// The blocks that this process knows, by site.
    blocks: Mutex<HashMap<SiteKey, KnownBlock>>,
    notice: AvailabilityNotice,
}

/// A block that is sent to the store when the store is back.
struct KnownBlock {
    site: Arc<dyn SiteHandle>,
    until: BootInstant,
    reason: OpenReason,
}

#[derive(Default)]
struct CheckState {
    /// The latest instant at which the store did not respond.
    lost_at: BootInstant,
    /// The additional time for which the result of that check is valid.
    longer: Duration,
    /// The check in progress, with its start.
    question: Option<(BootInstant, PendingStoreReply<()>)>,
}

impl StoreWatch {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        notice: AvailabilityNotice,
        assumed_peers: u32,
    ) -> Self {
        Self {
            clock,
            lost: AtomicBool::new(false),
            outages: AtomicU64::new(0),
            peers: AtomicU32::new(1),
            rank: AtomicU32::new(0),
            assumed_peers: assumed_peers.max(1),
            switches: AtomicU64::new(0),
            switched: Mutex::default(),
            checking: Mutex::default(),
            blocks: Mutex::default(),
            notice,
        }
    }

    /// Returns whether the store was lost at the last check.
    pub(super) fn was_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(super) fn outages(&self) -> u64 {
        self.outages.load(Ordering::Acquire)
    }

    /// Returns the number of processes that share the limits while the store is lost.
    pub(super) fn peers(&self) -> u32 {
        self.peers.load(Ordering::Acquire)
    }

    /// Returns the rank of this process among those that share the limits, from 0.
    pub(super) fn rank(&self) -> u32 {
        self.rank.load(Ordering::Acquire)
    }

    /// Returns the last [`StoreSwitch`], if any.
    #[inline]
    pub(super) fn last_switch(&self) -> Option<StoreSwitch> {
        (self.switches.load(Ordering::Acquire) > 0).then(|| *self.switched.lock())
    }

    fn switch(&self, now: BootInstant) {
        let mut switched = self.switched.lock();
        *switched = StoreSwitch {
            number: switched.number + 1,
            at: now,
        };
        self.switches.store(switched.number, Ordering::Release);
    }

    /// Records that the [`StateStore`] does not respond.
    pub(super) fn lose(&self, error: &StoreError, store: &dyn StateStore) {
        let (known, rank) = (store.peers(), store.rank());
        // A recent count may miss processes that have just begun, so the assumed number is its
        // minimum.
        let peers = known.map_or(self.assumed_peers, |count| {
            if store.has_settled_peers() {
                count
            } else {
                count.max(self.assumed_peers)
            }
        });
        {
            // The lock ensures that no request uses the own store before the share and the switch
            // are set.
            let mut checking = self.checking.lock();
            if self.was_lost() {
                return;
            }
            let now = self.clock.boot();
            // A full disk, or a store of another version, remains until an operator acts.
            let longer = if matches!(error, StoreError::Unusable { .. }) {
                UNUSABLE_EXTRA
            } else {
                Duration::ZERO
            };
            *checking = CheckState {
                lost_at: now,
                longer,
                question: None,
            };
            self.peers.store(peers, Ordering::Release);
            // A process that never reached the store has no rank, so a random rank is used.
            self.rank.store(
                if known.is_some() {
                    rank
                } else {
                    fastrand::u32(..peers)
                },
                Ordering::Release,
            );
            self.outages.fetch_add(1, Ordering::AcqRel);
            self.switch(now);
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

    /// Returns the [`StoreCheck`] of the [`StateStore`]. A store that was lost is checked again if
    /// the last check is too old.
    #[inline]
    pub(super) fn find(&self, shared: &dyn StateStore) -> StoreCheck {
        if self.was_lost() {
            self.look(shared)
        } else {
            StoreCheck::Present
        }
    }

    #[cold]
    fn look(&self, shared: &dyn StateStore) -> StoreCheck {
        let mut checking = self.checking.lock();
        let now = self.clock.boot();
        // A completed check may have begun long ago. The second iteration then begins another
        // check.
        for _ in 0..2 {
            if !self.was_lost() {
                return StoreCheck::Present;
            }
            if checking.question.is_none() {
                if now < checking.lost_at + CHECK_INTERVAL + checking.longer {
                    return StoreCheck::Lost;
                }
                checking.question = Some((now, shared.check().into_future()));
            }
            let Some((asked, question)) = &mut checking.question else {
                break;
            };
            let asked = *asked;
            match Pin::new(question).poll(&mut Context::from_waker(Waker::noop())) {
                // The check began earlier, and the store has not responded so far.
                Poll::Pending if asked < now => {
                    checking.lost_at = now;
                    return StoreCheck::Lost;
                }
                Poll::Pending => break,
                Poll::Ready(result) => {
                    checking.question = None;
                    self.apply_check(&mut checking, &result, asked, now);
                }
            }
        }
        if now < checking.lost_at + LOSS_VALID + checking.longer {
            StoreCheck::Lost
        } else {
            StoreCheck::Unknown
        }
    }

    /// Records a block, to be sent when the store is back. The store may have lost the block, or
    /// never received it.
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
        let known = KnownBlock {
            site: Arc::clone(site),
            until,
            reason: reason.clone(),
        };
        let later = blocks.get(key).is_none_or(|earlier| earlier.until < until);
        if later {
            blocks.insert(Arc::clone(key), known);
        }
    }

    /// Drops a block that has ended.
    pub(super) fn forget_block(&self, key: &SiteKey) {
        self.blocks.lock().remove(key);
    }

    /// Sends all known blocks to the store. The operations complete although their replies are
    /// dropped.
    fn send_blocks(&self) {
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

    /// Records the result of a heartbeat that began at an instant. While the store is lost, the
    /// result shows if it is back.
    pub(super) fn heartbeat(&self, began: BootInstant, result: &Result<(), StoreError>) {
        let mut checking = self.checking.lock();
        // A heartbeat that was in progress when the store was lost proves nothing.
        if self.was_lost() && (result.is_err() || began >= checking.lost_at) {
            self.apply_check(&mut checking, result, began, self.clock.boot());
        }
    }

    /// Records the result of a check.
    pub(super) fn note_check(&self, result: &Result<(), StoreError>) {
        let mut checking = self.checking.lock();
        let now = self.clock.boot();
        if self.was_lost() {
            self.apply_check(&mut checking, result, now, now);
        }
    }

    fn apply_check(
        &self,
        checking: &mut CheckState,
        result: &Result<(), StoreError>,
        as_of: BootInstant,
        now: BootInstant,
    ) {
        if result.is_err() {
            checking.lost_at = checking.lost_at.max(as_of);
            return;
        }
        // Blocks must arrive before any other operation.
        self.send_blocks();
        self.switch(now);
        self.lost.store(false, Ordering::Release);
        (self.notice)("the shared state is back; its limits hold again");
    }
}
