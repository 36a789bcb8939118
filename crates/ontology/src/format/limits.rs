//! What reading a file may cost, and what else a reader needs to know.

use std::sync::Arc;

/// Bounds on the input and on the memory that reading it takes.
///
/// The defaults are meant to read every real ontology, and to keep the memory of
/// [`validate`](super::validate()) below 256 MiB: the worst input that is known, an XML literal of
/// small elements, takes 200 MiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatLimits {
    /// Largest input, unpacked, in bytes.
    pub max_bytes: u64,
    /// Largest JSON-LD that is read with its keys in any order, in bytes. It takes about seventy
    /// times its size in memory; larger files need the order of keys that streaming demands.
    pub max_unstreamed_bytes: u64,
    /// Deepest nesting of elements, collections and objects.
    pub max_depth: usize,
    /// Longest line, tag, text or literal, in bytes.
    pub max_token_bytes: usize,
    /// Longest value of one XML entity after the entities within it are expanded, in bytes.
    pub max_entity_bytes: usize,
    /// How many times its own size a file may grow to when prefixes and entities are expanded.
    /// 64 MiB are always allowed.
    pub max_expansion_ratio: u64,
    /// Problems that are listed one by one; the others are counted.
    pub max_problems: usize,
    /// Distinct terms that are told apart; beyond that declarations are counted.
    pub max_distinct_terms: usize,
}

impl Default for FormatLimits {
    fn default() -> Self {
        Self {
            max_bytes: 64 << 30,
            max_unstreamed_bytes: 2 << 20,
            max_depth: 4096,
            max_token_bytes: 8 << 20,
            max_entity_bytes: 64 << 10,
            max_expansion_ratio: 100,
            max_problems: 100,
            max_distinct_terms: 3_500_000,
        }
    }
}

impl FormatLimits {
    /// The most that `bytes` of input may expand to.
    pub(crate) fn expansion_allowed(&self, bytes: u64) -> u64 {
        bytes
            .saturating_mul(self.max_expansion_ratio)
            .saturating_add(64 << 20)
    }
}

/// Loads remote JSON-LD contexts. Without one they are reported as not loaded.
pub trait ContextLoader: Send + Sync {
    /// Fetches the document at `url` as bytes.
    ///
    /// # Errors
    /// A sentence that says why the document is not available.
    fn load(&self, url: &str) -> Result<Vec<u8>, String>;
}

/// How to read a file.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// The bounds.
    pub limits: FormatLimits,
    /// The address that relative IRIs are resolved against; usually that of the download.
    pub base_iri: Option<String>,
    /// Where remote JSON-LD contexts come from.
    pub contexts: Option<Arc<dyn ContextLoader>>,
    /// Threads that hash statements; 0 takes as many as the machine has cores, at most 4.
    pub threads: usize,
}

impl ReadOptions {
    /// The options with a base address.
    #[must_use]
    pub fn with_base(base_iri: impl Into<String>) -> Self {
        Self {
            base_iri: Some(base_iri.into()),
            ..Self::default()
        }
    }

    pub(crate) fn worker_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get().min(4)),
            n => n.min(16),
        }
    }
}
