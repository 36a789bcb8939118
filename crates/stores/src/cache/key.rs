//! The identifiers of a stored response, and the input for storing a response.

use bytes::Bytes;

/// The name of a resource: a hash of the method class and the canonical URL, computed by the
/// caller. The store keeps only the hash, so that a URL with secrets never reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// Creates a key from a hash, whose first eight bytes must be evenly distributed.
    #[must_use]
    pub const fn new(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Returns the hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the bucket of this key in a table of `count` buckets.
    pub(super) fn bucket(&self, count: usize) -> usize {
        let [a, b, c, d, ..] = self.0;
        u32::from_le_bytes([a, b, c, d]) as usize % count
    }
}

/// The name of a variant: a hash of the request values that `Vary` names (RFC 9111, section 4.1),
/// computed by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariantHash([u8; 32]);

impl VariantHash {
    /// Creates a variant from a hash.
    #[must_use]
    pub const fn new(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Returns the hash.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The state of a key's invalidations. The caller reads the stamp before a request is sent. If the
/// key is invalidated after that, the response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidationStamp {
    pub(super) invalidations: u64,
    pub(super) purges: u64,
}

/// A response to store, without its body.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// The name of the resource.
    pub key: CacheKey,
    /// The name of the variant; an older entry of the same variant is replaced.
    pub variant: VariantHash,
    /// The status, headers and times, as the caller encodes them; at most [`MAX_METADATA`] bytes.
    pub metadata: Bytes,
    /// The URL for display, from which the caller has removed credentials.
    pub url: String,
    /// The host, for display and purging.
    pub host: String,
    /// The [`InvalidationStamp`] of the key from before the request was sent.
    pub since: InvalidationStamp,
}

/// The maximum size of metadata in bytes.
pub const MAX_METADATA: usize = 256 * 1024;
/// The maximum length in bytes of a URL for display; longer URLs are cut.
pub(super) const MAX_URL: usize = 8 * 1024;
/// The maximum number of variants of a key; the oldest are dropped.
pub const MAX_VARIANTS: usize = 32;
/// The estimated bytes of an entry beside its body, metadata and URL: rows and index pages.
const ENTRY_OVERHEAD_BYTES: u64 = 512;

impl NewEntry {
    /// Cuts the URL to [`MAX_URL`].
    pub(super) fn cut(mut self) -> Self {
        if self.url.len() > MAX_URL {
            let end = (0..=MAX_URL)
                .rev()
                .find(|end| self.url.is_char_boundary(*end));
            self.url.truncate(end.unwrap_or(0));
        }
        self
    }
}

/// Returns the size of an entry for the size limit, in bytes.
pub(super) fn size_of(length: u64, metadata: &[u8], url: &str, host: &str) -> u64 {
    let beside = metadata.len() + url.len() + host.len();
    length + beside as u64 + ENTRY_OVERHEAD_BYTES
}
