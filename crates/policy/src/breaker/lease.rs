//! The leases of probes: taken while half-open, renewed by heartbeats, released by results.

use super::Breaker;
use super::trip::ProbeLease;
use crate::role::Role;
use crate::time::BootInstant;

impl Breaker {
    /// Returns how many probes of a [`Role`] are in flight at `now`.
    #[must_use]
    pub fn leases(&self, role: Role, now: BootInstant) -> usize {
        let leases = self.trip.iter().flat_map(|trip| &trip.leases);
        leases
            .filter(|lease| lease.role == role && lease.expires > now)
            .count()
    }

    /// Takes a `ProbeLease` for the probe `id`, or renews its lease.
    pub fn lease(&mut self, id: u64, role: Role, expires: BootInstant) {
        if let Some(trip) = self.trip.as_deref_mut() {
            match trip.leases.iter_mut().find(|lease| lease.id == id) {
                Some(lease) => lease.expires = expires,
                None => trip.leases.push(ProbeLease { id, role, expires }),
            }
        }
    }

    /// Renews the leases of `ids`.
    pub fn renew(&mut self, ids: &[u64], expires: BootInstant) {
        let leases = self.trip.iter_mut().flat_map(|trip| &mut trip.leases);
        for lease in leases.filter(|lease| ids.contains(&lease.id)) {
            lease.expires = lease.expires.max(expires);
        }
    }

    /// Releases the lease of `id`, and returns whether there was a lease.
    pub fn release(&mut self, id: u64) -> bool {
        let Some(trip) = self.trip.as_deref_mut() else {
            return false;
        };
        let before = trip.leases.len();
        trip.leases.retain(|lease| lease.id != id);
        trip.leases.len() < before
    }
}
