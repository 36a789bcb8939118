//! The section `cache`.

use std::num::NonZeroU32;

use docstokg_config::{NamedSections, section};

use super::limits::ByHost;
use crate::config::values::LookUps;

section! {
    /// Reuse of answers (RFC 9111), beyond what origins state where the operator asks for it.
    CacheSettings {
        /// Whether answers are stored and reused; the program does, a library does not
        enabled: bool = false => "true in docstokg, false in the library",
        /// The directory of the cache
        directory: String => "cache in the state directory",
        /// The most bytes that stored answers take
        max_bytes: u64 = 1_073_741_824,
        /// The most bytes of them that a process keeps in memory
        memory_bytes: u64 = 67_108_864,
        /// How many stale answers are validated in the background at once
        background: NonZeroU32 = 8,
        @defaults: CacheHostSettings,
        @hosts: NamedSections<ByHost, CacheHostSettings>,
    }
}

section! {
    /// What holds for the answers of a host in all roles, and in one. Files (role artifact) are
    /// not cached.
    CacheHostSettings {
        ..all: CacheRuleSettings,
        @metadata: CacheRuleSettings,
        @landing: CacheRuleSettings,
    }
}

section! {
    /// What holds for some answers.
    CacheRuleSettings {
        /// How long an answer 200 is fresh at least, in seconds; no-store and no-cache hold
        /// nevertheless
        ttl_s: f64 => "as the origin states",
        /// The same for 404
        negative_ttl_s: f64 => "as the origin states",
        /// How long a stale answer is served when the origin fails, in seconds
        stale_if_error_s: f64 => "as the origin states",
        /// Whether the cache is not used
        bypass: bool => "false",
        /// The look-ups that `ttl_s` and `negative_ttl_s` hold for: `PATH` or
        /// `PATH?PARAMETER=VALUE`, each the beginning of what is requested. Pages of a list
        /// (parameters such as cursor, offset or page) are never among them
        lookups: LookUps => "all",
    }
}
