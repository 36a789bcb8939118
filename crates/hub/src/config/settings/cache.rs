//! The keys of the `cache` section.

use std::num::NonZeroU32;

use docstokg_config::{NamedSections, section};

use super::limits::ByHost;
use crate::config::values::LookUps;

section! {
    /// Reuse of responses (RFC 9111), extended by lifetimes that the operator configures.
    CacheSettings {
        /// Stores and reuses responses; the program does so, a library does not
        enabled: bool = false => "true in docstokg, false in the library",
        /// The directory of the cache
        directory: String => "cache in the state directory",
        /// The largest size of all stored responses, in bytes
        max_bytes: u64 = 1_073_741_824,
        /// The largest size of stored responses in the memory of a process, in bytes
        memory_bytes: u64 = 67_108_864,
        /// The largest number of stale responses that are validated in the background at once
        background: NonZeroU32 = 8,
        @defaults: CacheHostSettings,
        @hosts: NamedSections<ByHost, CacheHostSettings>,
    }
}

section! {
    /// The cache keys of a host: for all roles, and for single roles. Files (role artifact) are
    /// never cached.
    CacheHostSettings {
        ..all: CacheRuleSettings,
        @metadata: CacheRuleSettings,
        @landing: CacheRuleSettings,
    }
}

section! {
    /// The cache keys that apply to a group of responses.
    CacheRuleSettings {
        /// The shortest lifetime of a response 200, in seconds; no-store and no-cache apply
        /// nevertheless
        ttl_s: f64 => "as the origin states",
        /// The shortest lifetime of a response 404, in seconds
        negative_ttl_s: f64 => "as the origin states",
        /// The time for which a stale response is served when the origin fails, in seconds
        stale_if_error_s: f64 => "as the origin states",
        /// Bypasses the cache
        bypass: bool => "false",
        /// The look-ups that `ttl_s` and `negative_ttl_s` apply to: `PATH` or
        /// `PATH?PARAMETER=VALUE`, each the beginning of a requested URL. Pages of a list
        /// (parameters such as cursor, offset or page) are never look-ups
        lookups: LookUps => "all",
    }
}
