//! Look-ups with sources: services and registries that know the locations of files.
//!
//! A source describes itself by a [`SourceSpec`](source_spec::SourceSpec). A look-up with a source
//! is a [`LookupStep`](step::LookupStep): the next request with the reader of its response, or the
//! result. Steps are pure values. The [`driver`] runs them to their end, and a
//! [`HubSender`](hub_sender::HubSender) sends their requests through the hub. The user of this
//! crate defines subjects and results.

pub mod catalogue;
pub mod credentials;
pub mod driver;
pub mod endpoints;
pub mod hub_sender;
pub mod licence;
pub mod message;
pub mod shared_responses;
pub mod source_spec;
pub mod step;

/// The example of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
