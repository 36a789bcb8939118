//! The simulated scholarly web, asked by a hub in virtual time and over a socket.

// A hub that knows the limits is never told to slow down.
mod polite;
// The same web on loopback.
mod sockets;
