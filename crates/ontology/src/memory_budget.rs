//! Limits the memory for all files that are read at the same time.
//!
//! [`FormatLimits`] limit the memory for a single file. Many small files are read at the same time,
//! but a large file uses the whole budget and is read alone.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::format::{FormatLimits, OntologyFormat, Packing};

/// Memory of all files that are read at once, in bytes.
const MEMORY_BUDGET_BYTES: u64 = 128 << 20;
/// Memory to read any file, in bytes: buffers, batches and threads.
const BASE_FILE_BYTES: u64 = 8 << 20;
/// Assumed memory per byte of a file, for batches, sorted lines and terms.
const PER_BYTE: u64 = 4;
/// Assumed memory per byte of a JSON-LD file that is not streamed.
const PER_UNSTREAMED_BYTE: u64 = 70;
/// Assumed growth of a compressed file; real files grow by 4 to 24.
const UNPACK_FACTOR: u64 = 20;

/// The memory that is still available for reading files. Cheap to clone; clones share the memory.
#[derive(Clone)]
pub(crate) struct MemoryBudget(Arc<RemainingMemory>);

struct RemainingMemory {
    bytes: Mutex<u64>,
    freed: Condvar,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self(Arc::new(RemainingMemory {
            bytes: Mutex::new(MEMORY_BUDGET_BYTES),
            freed: Condvar::new(),
        }))
    }
}

/// A part of the [`MemoryBudget`], returned when it is dropped.
pub(crate) struct MemoryShare {
    budget: MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    /// Blocks the thread until the memory for a file is available, and reserves it.
    pub(crate) fn wait_for(&self, bytes: u64) -> MemoryShare {
        let bytes = bytes.min(MEMORY_BUDGET_BYTES);
        let mut left = self.0.bytes.lock();
        while *left < bytes {
            self.0.freed.wait(&mut left);
        }
        *left -= bytes;
        MemoryShare {
            budget: self.clone(),
            bytes,
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        *self.budget.0.bytes.lock() += self.bytes;
        self.budget.0.freed.notify_all();
    }
}

/// Estimates the memory to read a file, in bytes.
pub(crate) fn estimate(
    bytes: u64,
    format: OntologyFormat,
    packing: Option<Packing>,
    limits: &FormatLimits,
) -> u64 {
    let bytes = match packing {
        Some(_) => bytes.saturating_mul(UNPACK_FACTOR),
        None => bytes,
    };
    let unstreamed = match format {
        OntologyFormat::JsonLd => bytes.min(limits.max_unstreamed_bytes) * PER_UNSTREAMED_BYTE,
        _ => 0,
    };
    BASE_FILE_BYTES
        .saturating_add(bytes.saturating_mul(PER_BYTE))
        .max(unstreamed)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn small_files_are_read_together_and_large_ones_alone() {
        let limits = FormatLimits::default();
        let small = estimate(100 << 10, OntologyFormat::Obo, None, &limits);
        let large = estimate(1 << 30, OntologyFormat::RdfXml, None, &limits);
        let packed = estimate(17 << 20, OntologyFormat::Obo, Some(Packing::Gzip), &limits);
        let json = estimate(2 << 20, OntologyFormat::JsonLd, None, &limits);
        assert!(small * 8 < MEMORY_BUDGET_BYTES);
        assert!(
            large >= MEMORY_BUDGET_BYTES
                && packed >= MEMORY_BUDGET_BYTES
                && json >= MEMORY_BUDGET_BYTES
        );

        let budget = MemoryBudget::default();
        let held = budget.wait_for(small);
        let reading = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let alone = scope.spawn(|| {
                let _share = budget.wait_for(large);
                assert_eq!(reading.load(Ordering::SeqCst), 0, "another file is read");
            });
            reading.store(1, Ordering::SeqCst);
            drop(budget.wait_for(small));
            reading.store(0, Ordering::SeqCst);
            drop(held);
            alone.join().unwrap();
        });
        // The wait for the whole budget succeeds only if all shares were returned.
        drop(budget.wait_for(u64::MAX));
    }
}
