//! The ledger of the origins: every arrival, its time and its response. Tests check politeness
//! here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

/// A request as its origin saw it, in the [`Ledger`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The host that the request was for.
    pub host: String,
    /// The method of the request.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The instant of the arrival.
    pub at: BootInstant,
    /// The status of the response.
    pub status: u16,
    /// The instant at which the last byte of the response was sent.
    pub ended: Option<BootInstant>,
    /// The earliest instant of the next request, from a `Retry-After` of the response.
    pub retry_not_before: Option<BootInstant>,
}

impl Arrival {
    /// Creates a GET request without headers and without a response yet.
    #[must_use]
    pub fn get(host: &str, path: &str, at: BootInstant) -> Self {
        Self {
            host: host.to_owned(),
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            at,
            status: 0,
            ended: None,
            retry_not_before: None,
        }
    }

    /// Adds a header to the [`Arrival`].
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The shared record of all [`Arrival`]s.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Vec<Arrival>>>);

impl Ledger {
    /// Records an [`Arrival`] and returns its number.
    pub(crate) fn arrived(&self, arrival: Arrival) -> usize {
        let mut arrivals = self.0.lock();
        arrivals.push(arrival);
        arrivals.len() - 1
    }

    /// Records the end of a response.
    pub(crate) fn ended(&self, number: usize, at: BootInstant) {
        if let Some(arrival) = self.0.lock().get_mut(number) {
            arrival.ended = Some(at);
        }
    }

    /// Returns all [`Arrival`]s, in order.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.0.lock().clone()
    }

    /// Returns the [`Arrival`]s at one host, in order.
    #[must_use]
    pub fn at(&self, host: &str) -> Vec<Arrival> {
        let mut arrivals: Vec<Arrival> = self
            .0
            .lock()
            .iter()
            .filter(|arrival| arrival.host == host)
            .cloned()
            .collect();
        arrivals.sort_by_key(|arrival| arrival.at);
        arrivals
    }

    /// Returns the number of arrivals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Returns true if there were no arrivals.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the responses by status.
    #[must_use]
    pub fn statuses(&self) -> BTreeMap<u16, usize> {
        self.0
            .lock()
            .iter()
            .fold(BTreeMap::new(), |mut counts, arrival| {
                *counts.entry(arrival.status).or_default() += 1;
                counts
            })
    }

    /// Checks that no interval of length `per` has more than `limit` arrivals.
    ///
    /// ```
    /// use std::time::Duration;
    /// use docstokg_origin_sim::{Arrival, OriginScript, SimulatedWeb};
    /// use docstokg_policy::time::{BootInstant, Timestamp};
    ///
    /// let at = |second: u64| BootInstant::from_micros(second * 1_000_000);
    /// let web = SimulatedWeb::new([OriginScript::new("a.example")], at(0));
    /// for second in [0, 4, 5] {
    ///     web.ask(Arrival::get("a.example", "/", at(second)), Timestamp::from_micros(0));
    /// }
    /// let ledger = web.ledger();
    /// assert!(ledger.no_window_exceeded("a.example", 2, Duration::from_secs(5)).is_ok());
    /// assert!(ledger.no_window_exceeded("a.example", 1, Duration::from_secs(3)).is_err());
    /// ```
    ///
    /// # Errors
    /// A sentence that names the first interval with more arrivals.
    pub fn no_window_exceeded(
        &self,
        host: &str,
        limit: usize,
        per: Duration,
    ) -> Result<(), String> {
        let arrivals = self.at(host);
        match arrivals
            .windows(limit + 1)
            .find(|window| window[limit].at.since(window[0].at) < per)
        {
            None => Ok(()),
            Some(window) => Err(format!(
                "{host}: {} requests within {:?}, from {:?} after the first on, \
                 at a limit of {limit} per {per:?}",
                limit + 1,
                window[limit].at.since(window[0].at),
                window[0].at.since(arrivals[0].at)
            )),
        }
    }

    /// Checks that no request arrived before the [`Arrival::retry_not_before`] of an earlier
    /// response.
    ///
    /// # Errors
    /// A sentence that names the first such arrival.
    pub fn nothing_before_retry_after(&self, host: &str) -> Result<(), String> {
        let arrivals = self.at(host);
        for told in &arrivals {
            let (Some(until), Some(from)) = (told.retry_not_before, told.ended) else {
                continue;
            };
            if let Some(early) = arrivals
                .iter()
                .find(|arrival| arrival.at > from && arrival.at < until)
            {
                return Err(format!(
                    "{host}: {} arrived {:?} before the Retry-After was over",
                    early.path,
                    until.since(early.at)
                ));
            }
        }
        Ok(())
    }

    /// Checks that no more than `most` requests were in flight at once.
    ///
    /// # Errors
    /// A sentence that names the instant at which there were more.
    pub fn at_most_in_flight(&self, host: &str, most: usize) -> Result<(), String> {
        let mut edges: Vec<(BootInstant, i64)> = Vec::new();
        for arrival in self.at(host) {
            edges.push((arrival.at, 1));
            if let Some(ended) = arrival.ended {
                edges.push((ended, -1));
            }
        }
        edges.sort();
        let mut under_way = 0;
        for (at, step) in edges {
            under_way += step;
            if under_way > i64::try_from(most).unwrap_or(i64::MAX) {
                return Err(format!(
                    "{host}: {under_way} requests at once at {at:?}, allowed are {most}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the share of the rate that was used: the window, divided by the mean distance of
    /// arrivals `i` and `i + limit`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of a test run")]
    pub fn rate_used(&self, host: &str, limit: usize, per: Duration) -> f64 {
        let arrivals = self.at(host);
        let distances: Vec<f64> = arrivals
            .windows(limit + 1)
            .map(|window| window[limit].at.since(window[0].at).as_secs_f64())
            .collect();
        let mean = distances.iter().sum::<f64>() / distances.len().max(1) as f64;
        per.as_secs_f64() / mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(arrivals: &[(u64, u64, Option<u64>)]) -> Ledger {
        let ledger = Ledger::default();
        for (at, ended, until) in arrivals {
            ledger.arrived(Arrival {
                host: "a".to_owned(),
                method: "GET".to_owned(),
                path: "/".to_owned(),
                headers: Vec::new(),
                at: BootInstant::from_micros(*at),
                status: 200,
                ended: Some(BootInstant::from_micros(*ended)),
                retry_not_before: until.map(BootInstant::from_micros),
            });
        }
        ledger
    }

    #[test]
    fn ledger_checks_report_a_violation() {
        let crowded = ledger(&[(0, 5, None), (10, 15, None), (90, 95, None)]);
        assert!(
            crowded
                .no_window_exceeded("a", 2, Duration::from_micros(100))
                .is_err()
        );
        assert!(
            crowded
                .no_window_exceeded("a", 2, Duration::from_micros(90))
                .is_ok()
        );
        let impatient = ledger(&[(0, 10, Some(100)), (5, 12, None), (99, 100, None)]);
        assert!(impatient.nothing_before_retry_after("a").is_err());
        let patient = ledger(&[(0, 10, Some(100)), (5, 12, None), (100, 101, None)]);
        assert!(patient.nothing_before_retry_after("a").is_ok());
        let busy = ledger(&[(0, 10, None), (5, 12, None), (11, 20, None)]);
        assert!(busy.at_most_in_flight("a", 1).is_err());
        assert!(busy.at_most_in_flight("a", 2).is_ok());
        assert!(
            (ledger(&[(0, 1, None), (100, 1, None), (200, 1, None)]).rate_used(
                "a",
                1,
                Duration::from_micros(98)
            ) - 0.98)
                .abs()
                < 1e-9
        );
    }
}
