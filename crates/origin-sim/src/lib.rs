//! Scripted origins for tests and demos: limits, outages and faults, and a ledger of what arrived
//! when.
//!
//! The same [`OriginScript`] runs in process under virtual time (`Simulation`, `SimTransport`), so
//! that an hour of traffic takes a second, or on real loopback sockets ([`Listener`]). What counts
//! is the [`Ledger`]: the origin's own view.
//!
//! What tests alone need has the feature `test-util`: virtual time, TLS, HTTP/2 and `hostile`
//! responses. The shipped program has the rest, for `docstokg demo`.

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
