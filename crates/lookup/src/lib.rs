//! Look-ups with sources: services and registries that know where files are.
//!
//! A source describes itself by a [`SourceSpec`](source_spec::SourceSpec), and a look-up with it is
//! a [`LookupStep`](step::LookupStep): the next request together with the function that reads its
//! response, or the result. Steps are pure values. The [`driver`] runs them to their end, and a
//! [`HubSender`](hub_sender::HubSender) sends their requests through the hub. What is looked up,
//! and what the result looks like, belongs to the user of this crate.

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
