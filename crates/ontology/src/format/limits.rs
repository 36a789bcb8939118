//! Limits on the cost of reading a file, and other options of readers.

use std::sync::Arc;

/// Limits on the input of a reader and on the memory that it uses.
///
/// The defaults accept every real ontology, and keep the memory of [`validate`](super::validate())
/// below 256 MiB. The most expensive known input, an XML literal with many small elements, uses 200
/// MiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatLimits {
    /// Maximum length of the unpacked input, in bytes.
    pub max_bytes: u64,
    /// Maximum length of a JSON-LD file that may have its keys in any order, in bytes. The reader
    /// uses about seventy times as much memory. A larger file must have its keys in the order for
    /// streaming.
    pub max_unstreamed_bytes: u64,
    /// Maximum nesting of elements, collections and objects.
    pub max_depth: usize,
    /// Maximum length of a line, tag, text or literal, in bytes.
    pub max_token_bytes: usize,
    /// Maximum length of the value of one XML entity with its nested entities expanded, in bytes.
    pub max_entity_bytes: usize,
    /// Maximum size of a file after prefixes and entities are expanded, as a multiple of its size.
    /// An expansion to 64 MiB is always allowed.
    pub max_expansion_ratio: u64,
    /// Maximum number of problems that are listed; further problems are only counted.
    pub max_problems: usize,
    /// Maximum number of terms that are counted as distinct. Above this number, each declaration
    /// counts, even if it repeats a term.
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
    /// Returns the maximum size to which `bytes` of input may expand.
    pub(crate) fn expansion_allowed(&self, bytes: u64) -> u64 {
        bytes
            .saturating_mul(self.max_expansion_ratio)
            .saturating_add(64 << 20)
    }
}

/// Loads remote JSON-LD contexts. If a reader has no loader, its report lists the contexts as not
/// loaded.
pub trait ContextLoader: Send + Sync {
    /// Returns the document at `url`.
    ///
    /// # Errors
    /// A sentence that says why the document is not available.
    fn load(&self, url: &str) -> Result<Vec<u8>, String>;
}

/// Options of a reader.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// The [`FormatLimits`] of the reader.
    pub limits: FormatLimits,
    /// The base address of relative IRIs; usually the address of the download.
    pub base_iri: Option<String>,
    /// The [`ContextLoader`] for remote JSON-LD contexts.
    pub contexts: Option<Arc<dyn ContextLoader>>,
    /// Number of threads that hash statements; 0 for one thread per core, at most 4.
    pub threads: usize,
}

impl ReadOptions {
    /// Returns the default options with a base address.
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
