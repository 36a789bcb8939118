//! Flight leases: they decide which process fetches a key while others wait for its response. The
//! decisions are pure; the stores keep the records.

use std::time::Duration;

use docstokg_policy::time::{BootInstant, micros};

/// A party that may lead flights, which means to fetch a key for others: usually a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(pub(super) u64);

impl Holder {
    /// Creates a holder that differs from those of all other processes, and from earlier ones of
    /// this process.
    #[must_use]
    pub fn unique() -> Self {
        Self(crate::process::first_name())
    }
}

/// The result of a claim of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The claimant leads: it fetches, stores and releases the key, and renews the lease meanwhile.
    Leader,
    /// Another holder leads until `until` at the latest. When the change count of the key changes,
    /// look the key up again, and claim again.
    Held {
        /// The instant at which the lease expires, unless it is renewed.
        until: BootInstant,
    },
    /// The response for this key was not storable, so there is no flight and every request is sent.
    Uncacheable {
        /// The instant until which this applies.
        until: BootInstant,
    },
}

/// The longest lease. A record further ahead was written on another clock, and is ignored.
pub const MAX_LEASE: Duration = Duration::from_secs(3_600);
/// The longest time for which a response is recorded as not storable.
pub const MAX_UNCACHEABLE: Duration = Duration::from_secs(86_400);

/// The record for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseRecord {
    /// The leader; `None` for a key that is not storable.
    pub(super) holder: Option<Holder>,
    pub(super) until: BootInstant,
}

impl LeaseRecord {
    /// Creates the lease of a holder until `until`, for at most [`MAX_LEASE`].
    pub(super) fn flight(holder: Holder, until: BootInstant, now: BootInstant) -> Self {
        Self {
            holder: Some(holder),
            until: until.min(now.plus_micros(micros(MAX_LEASE))),
        }
    }

    /// Creates the record that a key is not storable. The record is valid until `until`, for at
    /// most [`MAX_UNCACHEABLE`].
    pub(super) fn uncacheable(until: BootInstant, now: BootInstant) -> Self {
        Self {
            holder: None,
            until: until.min(now.plus_micros(micros(MAX_UNCACHEABLE))),
        }
    }

    /// Returns whether the record is valid at `now`.
    pub(super) fn is_live(&self, now: BootInstant) -> bool {
        let longest = match self.holder {
            Some(_) => MAX_LEASE,
            None => MAX_UNCACHEABLE,
        };
        now < self.until && self.until <= now.plus_micros(micros(longest))
    }
}

/// Decides a claim by the [`LeaseRecord`].
pub(super) fn claim(recorded: Option<LeaseRecord>, holder: Holder, now: BootInstant) -> Claim {
    match recorded.filter(|lease| lease.is_live(now)) {
        Some(LeaseRecord {
            holder: None,
            until,
        }) => Claim::Uncacheable { until },
        Some(LeaseRecord {
            holder: Some(other),
            until,
        }) if other != holder => Claim::Held { until },
        _ => Claim::Leader,
    }
}

/// Returns whether a [`Holder`] still leads.
pub(super) fn is_held(recorded: Option<LeaseRecord>, holder: Holder, now: BootInstant) -> bool {
    recorded.is_some_and(|lease| lease.holder == Some(holder) && lease.is_live(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_lease_excludes_others_until_it_expires() {
        let (mine, other) = (Holder(1), Holder(2));
        let lease = Some(LeaseRecord::flight(other, at(20), at(10)));
        assert_eq!(claim(None, mine, at(10)), Claim::Leader);
        assert_eq!(claim(lease, mine, at(19)), Claim::Held { until: at(20) });
        assert_eq!(claim(lease, other, at(19)), Claim::Leader);
        assert_eq!(claim(lease, mine, at(20)), Claim::Leader);
        assert!(is_held(lease, other, at(19)) && !is_held(lease, other, at(20)));
        assert!(!is_held(lease, mine, at(19)));
    }

    #[test]
    fn uncacheable_keys_have_no_leader_and_instants_of_another_clock_do_not_count() {
        let record = Some(LeaseRecord::uncacheable(at(60), at(10)));
        let expected = Claim::Uncacheable { until: at(60) };
        assert_eq!(claim(record, Holder(1), at(11)), expected);
        assert_eq!(claim(record, Holder(1), at(60)), Claim::Leader);
        let far = Some(LeaseRecord {
            holder: Some(Holder(2)),
            until: at(1_000_000),
        });
        assert_eq!(claim(far, Holder(1), at(10)), Claim::Leader);
        let clamped = LeaseRecord::flight(Holder(2), BootInstant::FAR, at(10));
        assert_eq!(clamped.until, at(3_610));
    }
}
