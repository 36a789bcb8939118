//! The simulated scholarly web, used by a hub in virtual time and over a socket.

// A hub that knows the limits is never throttled.
mod polite_client;
// The same web on loopback.
mod sockets;
