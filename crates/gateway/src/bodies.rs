//! The memory of request bodies while they are read and sent. This module does no I/O.
//!
//! A body uses memory for the bytes that have arrived, not for its announced length. So a client
//! that announces much and sends little uses little. A part of the memory is reserved for short
//! bodies. A client of another machine gets at most half of the memory, so that others can send
//! bodies as well.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::client::ClientAddress;

/// Maximum size of the bodies of all requests together, in bytes.
const MAX_TOTAL: usize = 256 << 20;
/// The memory that is reserved for short bodies, in bytes.
const FOR_SHORT: usize = 32 << 20;
/// Maximum size of a short body, in bytes.
const MAX_SHORT: usize = 64 << 10;
/// Maximum size of the bodies of one client of another machine, in bytes.
const MAX_OF_CLIENT: usize = 128 << 20;
/// The number of bytes that each body uses in addition to its own, for the data of its request.
const BODY_OVERHEAD_BYTES: usize = 1 << 10;

/// The error of a body for which no memory is left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSpace;

/// The memory that request bodies use, in total and by client.
#[derive(Debug, Default)]
pub(crate) struct BodyMemory {
    total: usize,
    of_clients: HashMap<ClientAddress, usize>,
}

impl BodyMemory {
    /// Reserves memory for `piece` more bytes of a body that has reserved `there` bytes already.
    ///
    /// # Errors
    /// Returns [`NoSpace`] if the memory or the client's part of it is used up.
    fn take(&mut self, client: ClientAddress, there: usize, piece: usize) -> Result<(), NoSpace> {
        let most = if there + piece <= MAX_SHORT + BODY_OVERHEAD_BYTES {
            MAX_TOTAL
        } else {
            MAX_TOTAL - FOR_SHORT
        };
        let own = self.of_clients.get(&client).copied().unwrap_or(0);
        let is_bounded = !client.is_local() && own + piece > MAX_OF_CLIENT;
        if is_bounded || self.total + piece > most {
            return Err(NoSpace);
        }
        self.total += piece;
        self.of_clients.insert(client, own + piece);
        Ok(())
    }

    fn give_back(&mut self, client: ClientAddress, bytes: usize) {
        self.total = self.total.saturating_sub(bytes);
        if let Some(own) = self.of_clients.get_mut(&client) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                self.of_clients.remove(&client);
            }
        }
    }
}

/// The memory that one body uses. Dropping it frees the memory.
pub(crate) struct BodySpace {
    memory: Arc<Mutex<BodyMemory>>,
    client: ClientAddress,
    taken: usize,
}

impl BodySpace {
    /// Creates the reservation of a body, without any memory yet.
    pub(crate) fn new(memory: &Arc<Mutex<BodyMemory>>, client: ClientAddress) -> Self {
        Self {
            memory: Arc::clone(memory),
            client,
            taken: 0,
        }
    }

    /// Reserves memory for `piece` bytes that have arrived.
    ///
    /// # Errors
    /// Returns [`NoSpace`] if no memory is left for this client, or for a body of this length.
    pub(crate) fn grow(&mut self, piece: usize) -> Result<(), NoSpace> {
        let bytes = piece
            + if self.taken == 0 {
                BODY_OVERHEAD_BYTES
            } else {
                0
            };
        self.memory.lock().take(self.client, self.taken, bytes)?;
        self.taken += bytes;
        Ok(())
    }
}

impl Drop for BodySpace {
    fn drop(&mut self) {
        self.memory.lock().give_back(self.client, self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn client(last: u8) -> ClientAddress {
        ClientAddress::of([10, 0, 0, last].into())
    }

    fn full(memory: &Arc<Mutex<BodyMemory>>, client: ClientAddress) -> Vec<BodySpace> {
        let mut bodies = Vec::new();
        loop {
            let mut body = BodySpace::new(memory, client);
            if body.grow(MIB).is_err() {
                return bodies;
            }
            bodies.push(body);
        }
    }

    #[test]
    fn body_reserves_memory_for_received_bytes_only() {
        let memory = Arc::default();
        let bodies: Vec<BodySpace> = (0..1000)
            .map(|_| {
                let mut body = BodySpace::new(&memory, client(1));
                body.grow(1).unwrap();
                body
            })
            .collect();
        assert!(BodySpace::new(&memory, client(1)).grow(100 * MIB).is_ok());
        drop(bodies);
        assert_eq!(memory.lock().total, 0);
        assert!(memory.lock().of_clients.is_empty());
    }

    #[test]
    fn large_bodies_leave_a_place_for_short_ones_and_for_other_clients() {
        let memory = Arc::default();
        let first = full(&memory, client(1));
        assert!((126..=128).contains(&first.len()), "{}", first.len());
        let mut other = BodySpace::new(&memory, client(2));
        assert_eq!(other.grow(16 * MIB), Ok(()));
        let second = full(&memory, client(3));
        while other.grow(1 << 10).is_ok() {}
        let mut large = BodySpace::new(&memory, client(4));
        assert_eq!(large.grow(MIB), Err(NoSpace));
        let mut short = BodySpace::new(&memory, client(4));
        assert_eq!(short.grow(1000), Ok(()));
        assert_eq!(short.grow(MAX_SHORT), Err(NoSpace));
        drop((first, second));
        assert_eq!(large.grow(MIB), Ok(()));
    }

    #[test]
    fn loopback_client_gets_the_whole_body_memory() {
        let memory = Arc::default();
        let own = full(&memory, ClientAddress::of([127, 0, 0, 1].into()));
        assert!(own.len() > 200, "{}", own.len());
        assert!(memory.lock().total <= MAX_TOTAL - FOR_SHORT);
    }
}
