//! The handle of a site in the mapped file.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use docstokg_policy::site::{Site, SiteOperation, SiteResult};
use docstokg_policy::time::{BootInstant, Clock};

use super::arena::{Arena, ArenaError, LOCK_TIMEOUT, block};
use super::explain;
use super::record::MappedRecord;
use super::sys::{PerProcess, SpinLock, truncation};
use crate::SITE_RETENTION;
use crate::error::StoreError;
use crate::handle::{BudgetKey, SiteHandle, SiteKey, SiteView, StoreReply};
use crate::record_copy::{BudgetNames, CorruptRecord, Replica};

/// The number of segments from which idle sites are dropped before another segment is added.
const SWEEP_FROM: usize = 64;

/// The state that a process keeps for a site.
struct LocalState {
    replica: Replica,
    /// The offset of the block, and the generation of the block at its look-up.
    block: Option<(u64, u64)>,
}

impl LocalState {
    fn new(names: &BudgetNames) -> Self {
        Self {
            replica: Replica::naming(names),
            block: None,
        }
    }
}

/// The handle of a site in the file.
pub(super) struct MultiprocessSite {
    arena: Arc<Arena>,
    clock: Arc<dyn Clock>,
    key: SiteKey,
    local: PerProcess<SpinLock<LocalState>>,
    names: BudgetNames,
}

impl MultiprocessSite {
    pub(super) fn new(arena: &Arc<Arena>, clock: &Arc<dyn Clock>, key: &SiteKey) -> Self {
        let names = BudgetNames::default();
        let inherited = Arc::clone(&names);
        Self {
            arena: Arc::clone(arena),
            clock: Arc::clone(clock),
            key: Arc::clone(key),
            local: PerProcess::new(SpinLock::new(LocalState::new(&names)), move || {
                SpinLock::new(LocalState::new(&inherited))
            }),
            names,
        }
    }

    #[cold]
    fn explain(&self, error: ArenaError) -> StoreError {
        explain(self.arena.path(), error)
    }

    /// Runs one step under the site's lock, with the time read inside it.
    #[inline]
    fn try_step<T>(
        &self,
        local: &mut LocalState,
        step: impl FnOnce(&mut Site, BootInstant) -> T,
    ) -> Result<T, ArenaError> {
        loop {
            let (offset, generation) = match local.block {
                Some(block) => block,
                None => self.look_up(local)?,
            };
            let (segment, base) = self.arena.at(offset)?;
            let guard = segment.mutex(base, block::LOCK).lock(LOCK_TIMEOUT)?;
            if segment
                .word(base + block::GENERATION)
                .load(Ordering::Relaxed)
                != generation
            {
                drop(guard);
                local.block = None;
                local.replica.distrust();
                continue;
            }
            let now = self.clock.boot();
            let done = local.replica.run(
                &mut MappedRecord::new(&self.arena, segment, base, now),
                |site| step(site, now),
            );
            if truncation::was_seen() {
                local.replica.distrust();
                return Err(ArenaError::Damaged("it was cut short while it was in use"));
            }
            return done;
        }
    }

    #[cold]
    fn look_up(&self, local: &mut LocalState) -> Result<(u64, u64), ArenaError> {
        let _directory = self.arena.lock()?;
        let offset = if let Some(offset) = self.arena.find(&self.key)? {
            offset
        } else {
            let used = self.arena.segments_used()?;
            if used >= SWEEP_FROM && used.is_power_of_two() {
                let now = self.clock.boot();
                self.arena
                    .sweep((now - SITE_RETENTION).as_micros(), now.as_micros())?;
            }
            self.arena.add(&self.key)?
        };
        let (segment, base) = self.arena.at(offset)?;
        let block = (
            offset,
            segment
                .word(base + block::GENERATION)
                .load(Ordering::Relaxed),
        );
        local.block = Some(block);
        Ok(block)
    }
}

impl SiteHandle for MultiprocessSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.local
            .get()
            .lock()
            .replica
            .name(&self.names, &key.to_string())
    }

    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        let mut local = self.local.get().lock();
        // The reply is written to its final location at once, because moves through results cost
        // time.
        let mut answer = None;
        match self.try_step(&mut local, |site, now| {
            answer = Some(StoreReply::now(site.apply(operation, now)));
        }) {
            Ok(()) => {
                answer.unwrap_or_else(|| StoreReply::Ready(Err(self.explain(CorruptRecord.into()))))
            }
            Err(error) => StoreReply::Ready(Err(self.explain(error))),
        }
    }

    fn view(&self) -> StoreReply<SiteView> {
        let mut local = self.local.get().lock();
        let now = self
            .try_step(&mut local, |_, now| now)
            .map_err(|error| self.explain(error));
        StoreReply::Ready(now.map(|now| local.replica.view(now)))
    }
}
