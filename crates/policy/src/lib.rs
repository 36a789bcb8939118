//! Pure decisions of the networking hub: no async, no I/O, no unsafe.
//!
//! Every function that depends on time takes `now`. Read [`site`] first: it joins the breaker and
//! the budgets of one origin into the one step that every attempt passes.
//!
//! - [`budget`] and [`ring`]: exact windows; [`breaker`]: the states of a breaker.
//! - [`host_model`]: the known limits of a host itself.
//! - [`classify`], [`retry`] and [`retry_after`]: the meaning of a response, and the next action.
//! - [`freshness`]: the responses that a cache may store and serve.
//! - [`robots`]: the URLs that a site allows robots to request.
//! - [`host`] and [`canonical`]: canonical names.

pub mod adaptive;
pub mod breaker;
pub mod budget;
pub mod canonical;
pub mod classify;
pub mod extension;
pub mod freshness;
pub mod host;
pub mod host_model;
pub mod pacing;
pub mod rate;
pub mod rate_headers;
pub mod retry;
pub mod retry_after;
pub mod retry_budget;
pub mod ring;
pub mod robots;
pub mod role;
pub mod site;
mod structured;
pub mod time;
pub mod windows;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
