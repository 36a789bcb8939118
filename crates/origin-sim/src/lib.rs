//! Scripted origins for tests and demos: limits, outages and faults, and a ledger of all arrivals.
//!
//! The same [`OriginScript`] runs in process under virtual time (`Simulation`, `SimTransport`),
//! where an hour of traffic takes a second, or on real loopback sockets ([`Listener`]). The
//! [`Ledger`] is the origin's own view, so tests judge by the ledger.
//!
//! The feature `test-util` has the parts for tests: virtual time, TLS, HTTP/2 and `hostile`
//! responses. The shipped program has the other parts, for `docstokg demo`.

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
