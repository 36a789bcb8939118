//! Scripted origins for tests and demos, with limits, outages and faults, and a ledger of all
//! requests that arrive.
//!
//! The same [`OriginScript`] can run in two ways. With `Simulation` and `SimTransport`, it runs
//! within the process under virtual time, where an hour of traffic takes a second. With a
//! [`Listener`], it runs on real loopback sockets. The [`Ledger`] is the view of the origin, so
//! tests check it to judge a client.
//!
//! The feature `test-util` adds the parts that only tests need: virtual time, TLS, HTTP/2 and
//! `hostile` responses. The shipped program contains the other parts, for `docstokg demo`.

#[cfg(feature = "test-util")]
mod faulty;
#[cfg(feature = "test-util")]
pub mod hostile;
mod ledger;
mod listener;
pub mod ontologies;
mod origin;
pub mod pdf;
mod reply;
pub mod scholarly;
#[cfg(feature = "test-util")]
mod simulation;
#[cfg(feature = "test-util")]
mod transport;

#[cfg(feature = "test-util")]
pub use faulty::FaultyTransport;
pub use ledger::{Arrival, Ledger};
#[cfg(feature = "test-util")]
pub use listener::served::ServedWeb;
pub use listener::{Listener, Security};
pub use origin::{OriginScript, Outage, SimulatedWeb, Throttle};
pub use reply::{BodyFraming, Piece, ScriptedReply};
#[cfg(feature = "test-util")]
pub use simulation::{Process, Simulation};
#[cfg(feature = "test-util")]
pub use transport::SimTransport;
