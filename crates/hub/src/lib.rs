//! The networking hub: every request passes its cache, its breaker, its limiter and its retries.
//!
//! No request leaves a [`Hub`] without passing the breaker and the budgets of its site, not even a
//! redirect or a retry. Read `src/fetch.rs` first: it shows the lifecycle of one request from top
//! to bottom.
//!
//! ```no_run
//! use docstokg_hub::{Hub, Request, config};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = config::load::shipped()?;
//! let hub = Hub::builder(config).build()?;
//! let url = "https://api.crossref.org/works/10.5555/12345678".parse()?;
//! let response = hub.fetch(Request::get(url)).await?;
//! println!("{} after {:?}", response.head.status, response.journey.elapsed);
//! # Ok(())
//! # }
//! ```

mod admission;
mod body;
mod builder;
mod cache;
pub mod clock;
pub mod config;
mod cookies;
mod decode;
pub mod diagnosis;
mod download;
mod error;
pub mod event;
mod exchange;
mod fetch;
pub mod files;
mod flight;
pub mod forecast;
mod group;
mod hub;
mod journey;
pub mod json;
mod known_hosts;
mod process_pause;
mod redact;
mod redirect;
mod referer;
mod request;
mod request_headers;
mod response;
mod robots;
mod spool;
pub mod store;
pub mod stream;
mod target;
pub mod transport;
mod watch;

pub use builder::{BuildError, HubBuilder};
pub use config::CacheAccess;
pub use cookies::CookieJar;
pub use docstokg_policy as policy;
pub use docstokg_policy::host::Host;
pub use docstokg_policy::retry::Repeatable;
pub use docstokg_policy::role::Role;
pub use docstokg_policy::site::Patience;
pub use docstokg_stores as stores;
pub use download::{FileEnds, Transfer};
pub use error::{
    Cause, Disposition, ErrorKind, FetchError, RefusedBy, RefusedRequest, RetryLater, StatedBy,
};
pub use group::RequestGroup;
pub use hub::Hub;
pub use journey::{CacheUse, ForwardReason, Journey, StaleReason};
pub use redact::{is_credential, redact, redact_text};
pub use request::{
    IsFinal, Provenance, RateWait, RedirectGate, RedirectPolicy, RelayMode, Request, RobotsPolicy,
};
pub use response::{
    DownloadedResponse, Response, ResponseHead, SavedFile, SpooledResponse, StreamedResponse,
};
pub use spool::SpooledBody;
pub use watch::HostWatch;

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
