//! The ledgers of the servers, and the figures of each limiter.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

use anyhow::Context;

use super::{LimitKnowledge, Limiter};
use crate::process::say;

/// Maximum time of a searching run, in least times of the limiter.
const MAX_TIME_RATIO: f64 = 1.3;

/// Maximum refusals of a run, per limiter and on average.
const MAX_MEAN_REFUSALS: usize = 2;

/// A request, as its server recorded it.
struct LoggedRequest {
    /// Seconds since 1970.
    at: f64,
    status: u16,
    path: String,
}

/// The requests of all servers, by limiter.
pub(super) struct LimiterLedger(BTreeMap<String, Vec<LoggedRequest>>);

impl LimiterLedger {
    /// Reads every ledger of a directory.
    pub(super) fn read(directory: &Path) -> anyhow::Result<Self> {
        let mut requests: BTreeMap<String, Vec<LoggedRequest>> = BTreeMap::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("ledger")) {
                for line in std::fs::read_to_string(&path)?.lines() {
                    let (name, request) =
                        read_line(line).with_context(|| format!("a ledger has '{line}'"))?;
                    requests.entry(name.to_owned()).or_default().push(request);
                }
            }
        }
        Ok(Self(requests))
    }

    /// Prints the table of a run. Returns the demands that are missed.
    pub(super) fn report(&self, known: LimitKnowledge, limiters: &[&Limiter]) -> Vec<String> {
        // The wait for HAProxy is in its ledger, without a path.
        let is_request = |request: &&LoggedRequest| request.path.starts_with('/');
        let requests = self.0.values().flatten().filter(is_request);
        let start = requests.map(|request| request.at).fold(f64::MAX, f64::min);
        say(&format!(
            "\n{}\n{:<20} {:>23} {:>9} {:>8} {:>7} {:>7} {:>6}",
            known.title(),
            "limiter",
            "limit",
            "files",
            "refusals",
            "least s",
            "took s",
            "ratio"
        ));
        let mut missed = Vec::new();
        let mut refusals = 0;
        for limiter in limiters {
            let own = self.0.get(limiter.name).map_or(&[][..], Vec::as_slice);
            let found = LedgerFigures::new(own, start);
            say(&found.line(limiter));
            refusals += found.refusals;
            if found.files < limiter.files {
                missed.push(format!("{known:?}: {} lacks files", limiter.name));
            }
            let is_slow = found.seconds > limiter.least_seconds() * MAX_TIME_RATIO;
            if is_slow && known != LimitKnowledge::Shipped {
                missed.push(format!("{known:?}: {} takes long", limiter.name));
            }
        }
        say(&format!("{refusals} refusals together"));
        if refusals > limiters.len() * MAX_MEAN_REFUSALS {
            missed.push(format!("{known:?}: {refusals} refusals"));
        }
        missed
    }
}

/// The figures of one limiter, from its ledger.
struct LedgerFigures {
    files: usize,
    refusals: usize,
    /// Seconds from the start of the run to the last file.
    seconds: f64,
}

impl LedgerFigures {
    fn new(requests: &[LoggedRequest], start: f64) -> Self {
        let is_file =
            |request: &&LoggedRequest| request.status == 200 && request.path.starts_with("/item/");
        let files = || requests.iter().filter(is_file);
        let paths: BTreeSet<&str> = files().map(|request| request.path.as_str()).collect();
        let refused = requests
            .iter()
            .filter(|request| matches!(request.status, 429 | 503));
        Self {
            files: paths.len(),
            refusals: refused.count(),
            seconds: files().map(|request| request.at).fold(start, f64::max) - start,
        }
    }

    fn line(&self, limiter: &Limiter) -> String {
        let window = |(limit, seconds): &(usize, u32)| format!("{limit} per {seconds} s");
        let limits: Vec<String> = limiter.windows().iter().map(window).collect();
        let least = limiter.least_seconds();
        format!(
            "{:<20} {:>23} {:>9} {:>8} {least:>7.1} {:>7.1} {:>6.2}",
            limiter.name,
            limits.join(", "),
            format!("{}/{}", self.files, limiter.files),
            self.refusals,
            self.seconds,
            self.seconds / least
        )
    }
}

/// Reads `NAME ARRIVAL STATUS PATH` into a [`LoggedRequest`].
fn read_line(line: &str) -> Option<(&str, LoggedRequest)> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let at = words.next()?;
    // HAProxy writes milliseconds.
    let unit = if at.contains('.') { 1.0 } else { 1_000.0 };
    let request = LoggedRequest {
        at: at.parse::<f64>().ok()? / unit,
        status: words.next()?.parse().ok()?,
        path: words.next()?.to_owned(),
    };
    Some((name, request))
}
