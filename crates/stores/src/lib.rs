//! Stores for the hub's shared state.
//!
//! A [`StateStore`] returns one [`SiteHandle`] per site. Each operation of a handle is a single
//! atomic step: it runs the pure functions of `docstokg_policy::site` inside its critical section,
//! with a `now` read there. There is no get-then-set. [`conformance`] is the contract of every
//! store, as functions.

pub mod cache;
pub mod clock;
pub mod conformance;
mod error;
pub mod fallback;
mod handle;
mod hash;
pub mod memory;
pub mod multiprocess;
mod peers;
pub mod private;
pub mod process;
mod record_copy;
pub mod redis;
pub mod split;
pub mod sqlite;

pub use error::StoreError;
pub use handle::{
    Availability, BudgetKey, HeartbeatObserver, OwnShare, ReplyFuture, SiteHandle, SiteKey,
    SiteView, StateStore, StoreReply,
};

/// The time for which a shared store keeps a site after its last permit: the longest window and a
/// day.
pub(crate) const SITE_RETENTION: std::time::Duration =
    std::time::Duration::from_secs(docstokg_policy::rate::MAX_WINDOW.as_secs() + 86_400);

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
