//! Scripted origins for tests and demos: limits, outages and faults, and a ledger of what arrived
//! when.
//!
//! The same [`Origin`] runs in process under virtual time ([`Simulation`], [`SimTransport`]), so
//! that an hour of traffic takes a second, or on real loopback sockets ([`Listener`]). What counts
//! is the [`Ledger`]: the origin's own view.

mod faulty;
pub mod hostile;
mod ledger;
mod listener;
pub mod ontologies;
mod origin;
pub mod pdf;
mod reply;
pub mod scholarly;
mod simulation;
mod transport;

pub use faulty::FaultyTransport;
pub use ledger::{Arrival, Ledger};
pub use listener::{Listener, Security};
pub use origin::{Origin, Outage, Throttle, Web};
pub use reply::{Framing, Piece, Reply};
pub use simulation::{Process, Simulation};
pub use transport::SimTransport;
