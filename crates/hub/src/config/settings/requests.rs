//! The sections `sites`, `retry`, `transport` and `identity`.

use std::num::NonZeroU32;

use docstokg_config::section;

use super::limits::SharedSettings;
use crate::config::values::HostList;
use crate::config::words::{Contact, Durability};

section! {
    /// Hosts joined under one operator's limit.
    SiteSettings {
        /// The hosts
        hosts: HostList => "none",
        @common: SharedSettings,
    }
}

section! {
    /// How requests are tried again.
    RetrySettings {
        /// Attempts in all, the first included
        attempts: NonZeroU32 = 4,
        /// The first backoff after a transient fault, in milliseconds; doubles each time
        transient_base_ms: u64 = 200,
        /// The least backoff after a 429 that states no Retry-After, in milliseconds; where limits are learned, the learned wait takes its place
        throttled_base_ms: u64 = 1_000,
        /// The longest backoff of our own, in milliseconds; Retry-After is never cut to it
        ceiling_ms: u64 = 30_000,
    }
}

section! {
    /// Connections, timeouts and caps.
    TransportSettings {
        /// The longest that a connection may take, TLS included, in seconds
        connect_timeout_s: f64 = 10,
        /// The longest from a connection to the headers of the answer, in seconds
        header_timeout_s: f64 = 30,
        /// The longest between two chunks of a body, in seconds
        idle_timeout_s: f64 = 30,
        /// The fewest bytes a second that a body may come in; 0 for any
        min_throughput_bytes_s: u64 = 64,
        /// The time over which the throughput is measured, in seconds
        throughput_window_s: f64 = 30,
        /// How long the reader of a stream may pause, in seconds
        consumer_timeout_s: f64 = 60,
        /// The largest body kept in memory, decoded
        max_body_bytes: u64 = 67_108_864,
        /// The largest file written
        max_file_bytes: u64 = 17_179_869_184,
        /// The most by which a decoded body may exceed what was sent
        max_decode_ratio: NonZeroU32 = 200,
        /// Redirects followed at most
        max_redirects: u32 = 10,
        /// Whether a redirect may lead from https to http
        allow_downgrade: bool = false,
        /// Whether URLs found in answers may lead to loopback, private and link-local addresses
        allow_internal: bool = false,
        /// The deadline of a request, in seconds; 0 for none
        deadline_s: f64 = 120,
        /// What has reached the disk before a file appears: `batched` (contents and name, many
        /// files in one go) or `none`
        durability: Durability = "batched",
    }
}

section! {
    /// Who is asking: the User-Agent.
    IdentitySettings {
        /// An e-mail address at which operators can reach you; several services serve you better
        /// with one
        mailto: String => "none",
        /// A page about your project
        url: String => "none",
        /// Which hosts receive the e-mail address: `services` (those asked for metadata) or
        /// `everywhere`
        contact: Contact = "services",
    }
}
