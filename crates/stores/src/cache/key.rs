//! What names a stored response, and what a caller hands over to store one.

use bytes::Bytes;

/// Names a resource: a hash of the method class and the canonical URL, computed by the caller. The
/// store keeps the hash, so that a URL with secrets in it never reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// Makes a key of a hash. Its first eight bytes have to be evenly distributed.
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

/// Names a variant of a resource: a hash of the request values that `Vary` names (RFC 9111,
/// section 4.1), computed by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariantHash([u8; 32]);

impl VariantHash {
    /// Makes a key of a hash.
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

/// The state of a key's invalidations. A response whose request left before an invalidation is not
/// stored after it: take the stamp before the request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidationStamp {
    pub(super) invalidations: u64,
    pub(super) purges: u64,
}

/// A response to store, without its body.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// Names the resource.
    pub key: CacheKey,
    /// Names the variant; an older entry of the same variant is replaced.
    pub variant: VariantHash,
    /// Status, headers and times, as the caller encodes them; at most [`MAX_METADATA`] bytes.
    pub metadata: Bytes,
    /// The URL for display, without credentials: the caller redacts it.
    pub url: String,
    /// The host, for display and purging.
    pub host: String,
    /// The stamp of the key, taken before the request was sent.
    pub since: InvalidationStamp,
}

/// The most bytes of metadata that an entry has.
pub const MAX_METADATA: usize = 256 * 1024;
/// The most bytes of a URL for display that an entry has; longer ones are cut.
pub(super) const MAX_URL: usize = 8 * 1024;
/// The most variants of a key; the oldest are dropped.
pub const MAX_VARIANTS: usize = 32;
/// The bytes that an entry counts for beside its body, metadata and URL: rows and index pages.
const ENTRY_OVERHEAD_BYTES: u64 = 512;

impl NewEntry {
    /// Cuts the URL to its longest length.
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

/// Returns the bytes that an entry counts for against the cap.
pub(super) fn size_of(length: u64, metadata: &[u8], url: &str, host: &str) -> u64 {
    let beside = metadata.len() + url.len() + host.len();
    length + beside as u64 + ENTRY_OVERHEAD_BYTES
}
