//! The keys of the sections `sites`, `retry`, `transport` and `identity`.

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
    /// The backoff and number of retries, resolved to a
    /// [`RetryPolicy`](docstokg_policy::retry::RetryPolicy).
    RetrySettings {
        /// Attempts in all, the first included
        attempts: NonZeroU32 = 4,
        /// The first backoff after a transient fault, in milliseconds; doubles each time
        transient_base_ms: u64 = 200,
        /// The shortest backoff after a 429 without Retry-After, in milliseconds; if limits are
        /// learned, the learned wait replaces it
        throttled_base_ms: u64 = 1_000,
        /// The longest backoff without Retry-After, in milliseconds; Retry-After is never cut to it
        ceiling_ms: u64 = 30_000,
    }
}

section! {
    /// Connections, timeouts and caps.
    TransportSettings {
        /// The longest time for a connection, TLS included, in seconds
        connect_timeout_s: f64 = 10,
        /// The longest time from a connection to the headers of the response, in seconds
        header_timeout_s: f64 = 30,
        /// The longest time between two chunks of a body, in seconds
        idle_timeout_s: f64 = 30,
        /// The lowest rate of a body, in bytes a second; 0 for any
        min_throughput_bytes_s: u64 = 64,
        /// The time over which the throughput is measured, in seconds
        throughput_window_s: f64 = 30,
        /// The longest pause of the reader of a stream, in seconds
        consumer_timeout_s: f64 = 60,
        /// The largest body in memory, decoded, in bytes
        max_body_bytes: u64 = 67_108_864,
        /// The largest file, in bytes
        max_file_bytes: u64 = 17_179_869_184,
        /// The largest ratio of a decoded body to the received bytes
        max_decode_ratio: NonZeroU32 = 200,
        /// The largest number of redirects that are followed
        max_redirects: u32 = 10,
        /// Allows redirects from https to http
        allow_downgrade: bool = false,
        /// Allows URLs found in responses to lead to loopback, private and link-local addresses
        allow_internal: bool = false,
        /// The deadline of a request, in seconds; 0 for none
        deadline_s: f64 = 120,
        /// The data that must be on the disk before a file appears: `batched` (contents and name,
        /// for many files together) or `none`
        durability: Durability = "batched",
    }
}

section! {
    /// The identity of the client: the content of the User-Agent.
    IdentitySettings {
        /// An e-mail address at which operators can reach you; several services serve you better
        /// with one
        mailto: String => "none",
        /// A page about your project
        url: String => "none",
        /// The hosts that receive the e-mail address: `services` (those that are queried for
        /// metadata) or `everywhere`
        contact: Contact = "services",
    }
}
