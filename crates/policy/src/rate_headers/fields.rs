//! Limits in separate fields: `RateLimit-Limit`, `-Remaining` and `-Reset` of the RFC drafts up to
//! 6. `X-RateLimit-*` and `X-Rate-Limit-*` have no specification.
//!
//! Some services add fields:
//!
//! - Crossref: an interval and a limit of concurrent requests.
//! - GitHub: the used amount and the name of the resource.
//! - OpenAlex: credits and the cost of a request.
//! - Discord: a reset in seconds, beside the reset since 1970.

use std::time::Duration;

use super::value::WindowedCount;
use super::{DeclaredQuota, RateHeaderFamily, RateHeaderReader, ResetForm, Unit, to_u32};

/// The names of the separate fields, in one of their spellings.
struct FieldFamily {
    source: RateHeaderFamily,
    limit: &'static str,
    remaining: &'static str,
    used: &'static str,
    reset: &'static str,
    reset_after: &'static str,
    interval: &'static str,
    resource: &'static str,
}

macro_rules! family {
    ($prefix:literal, $source:expr) => {
        FieldFamily {
            source: $source,
            limit: concat!($prefix, "limit"),
            remaining: concat!($prefix, "remaining"),
            used: concat!($prefix, "used"),
            reset: concat!($prefix, "reset"),
            reset_after: concat!($prefix, "reset-after"),
            interval: concat!($prefix, "interval"),
            resource: concat!($prefix, "resource"),
        }
    };
}

const STANDARD: FieldFamily = family!("ratelimit-", RateHeaderFamily::RateLimitFields);
const EXTENSIONS: [FieldFamily; 2] = [
    family!("x-ratelimit-", RateHeaderFamily::XRateLimit),
    family!("x-rate-limit-", RateHeaderFamily::XRateLimit),
];
const CREDITS: [&str; 2] = ["x-ratelimit-credits-required", "x-ratelimit-credits-used"];

/// Parses `RateLimit-Limit` and its sibling fields, beside policies that are already known.
pub(super) fn read_standard(
    reader: &mut RateHeaderReader<'_>,
    statements: &mut Vec<DeclaredQuota>,
) {
    let currents = STANDARD.read(reader, statements);
    for current in currents {
        attach(statements, current);
    }
}

/// Parses `X-RateLimit-*` and `X-Rate-Limit-*`.
pub(super) fn read_extensions(
    reader: &mut RateHeaderReader<'_>,
    statements: &mut Vec<DeclaredQuota>,
) {
    let counts_credits = CREDITS
        .iter()
        .any(|name| reader.headers.contains_key(*name));
    for family in &EXTENSIONS {
        let mut stated = Vec::new();
        for current in family.read(reader, &mut stated) {
            attach(&mut stated, current);
        }
        if counts_credits {
            for statement in &mut stated {
                statement.unit = Unit::Credits;
            }
        }
        statements.append(&mut stated);
    }
}

/// Parses Crossref's `X-Concurrency-Limit`, and returns its lowest value.
pub(super) fn read_concurrency(reader: &mut RateHeaderReader<'_>) -> Option<u32> {
    let limits = reader.counts("x-concurrency-limit")?;
    limits.iter().map(|limit| to_u32(limit.number.whole)).min()
}

/// Parses the cost of a request in credits (OpenAlex). A refused request used no credits, and its
/// response declares the required ones.
pub(super) fn read_cost(reader: &mut RateHeaderReader<'_>) -> Option<u32> {
    let costs = CREDITS.map(|name| reader.counts(name).unwrap_or_default());
    let costs = costs.iter().flatten();
    costs.map(|cost| to_u32(cost.number.whole)).max()
}

impl FieldFamily {
    /// Returns the current limits. Further limits in `-Limit` are added to `policies`.
    fn read(
        &self,
        reader: &mut RateHeaderReader<'_>,
        policies: &mut Vec<DeclaredQuota>,
    ) -> Vec<DeclaredQuota> {
        let values = FamilyValues {
            limits: reader.counts(self.limit).unwrap_or_default(),
            remaining: reader.counts(self.remaining).unwrap_or_default(),
            used: reader.counts(self.used).unwrap_or_default(),
            resets: self.read_resets(reader),
        };
        let common = DeclaredQuota {
            window: reader.interval(self.interval),
            partition: reader.partition(self.resource),
            ..DeclaredQuota::new(self.source)
        };
        if values.limits.len() > 1 && values.limits.len() == values.remaining.len() {
            return values.side_by_side(&common);
        }
        policies.extend(values.policies(&common));
        values.current(common).into_iter().collect()
    }

    /// Parses the resets. `-Reset-After` has only one meaning, so it takes precedence over
    /// `-Reset`.
    fn read_resets(&self, reader: &mut RateHeaderReader<'_>) -> Vec<Duration> {
        let form = reader.hints.reset;
        let after = reader.resets(self.reset_after, ResetForm::SecondsLeft);
        let at = reader.resets(self.reset, form);
        after.or(at).unwrap_or_default()
    }
}

/// The values of a [`FieldFamily`].
struct FamilyValues {
    limits: Vec<WindowedCount>,
    remaining: Vec<WindowedCount>,
    used: Vec<WindowedCount>,
    resets: Vec<Duration>,
}

impl FamilyValues {
    /// Returns one [`DeclaredQuota`] for each pair of limit and remainder.
    fn side_by_side(&self, common: &DeclaredQuota) -> Vec<DeclaredQuota> {
        let reset_of = |index| {
            if self.resets.len() == self.limits.len() {
                self.resets.get(index).copied()
            } else {
                self.resets.iter().max().copied()
            }
        };
        (self.limits.iter().zip(&self.remaining).enumerate())
            .map(|(index, (limit, remaining))| DeclaredQuota {
                window: limit.window.or(remaining.window).or(common.window),
                limit: Some(limit.number.whole),
                remaining: Some(remaining.number.whole),
                resets_in: reset_of(index),
                ..common.clone()
            })
            .collect()
    }

    /// Returns the policies: all limits after the first (drafts up to 3).
    fn policies(&self, common: &DeclaredQuota) -> impl Iterator<Item = DeclaredQuota> {
        self.limits.iter().skip(1).map(|limit| DeclaredQuota {
            window: limit.window.or(common.window),
            limit: Some(limit.number.whole),
            ..common.clone()
        })
    }

    /// Returns the current limit, which is the first one. Of several remainders and resets, the
    /// strictest applies.
    fn current(&self, common: DeclaredQuota) -> Option<DeclaredQuota> {
        let mut stated = self.limits.first().into_iter().chain(&self.remaining);
        let window = stated.find_map(|count| count.window);
        let limit = self.limits.first().map(|count| count.number.whole);
        let remaining = self.remaining.iter().map(|count| count.number.whole).min();
        let used = self.used.iter().map(|count| count.number.whole).max();
        let unused = || Some(limit?.saturating_sub(used?));
        let statement = DeclaredQuota {
            window: window.or(common.window),
            limit,
            remaining: remaining.or_else(unused),
            resets_in: self.resets.iter().max().copied(),
            ..common
        };
        (statement.limit.is_some() || statement.remaining.is_some()).then_some(statement)
    }
}

/// Adds the current limit to its policy. Candidates are policies with the same limit; of several,
/// the one with the shortest window that contains the reset is chosen. Without a policy, the limit
/// becomes a quota itself.
pub(super) fn attach(statements: &mut Vec<DeclaredQuota>, current: DeclaredQuota) {
    let resets_in = current.resets_in.unwrap_or_default();
    let policy = statements
        .iter_mut()
        .filter(|policy| current.window.is_none() && is_policy_of(policy, &current))
        .min_by_key(|policy| {
            let window = policy.window.unwrap_or_default();
            let missing = resets_in.saturating_sub(window);
            (missing, window, policy.limit)
        });
    match policy {
        Some(policy) => {
            policy.remaining = current.remaining;
            policy.resets_in = current.resets_in;
            policy.source = current.source;
        }
        None => statements.push(current),
    }
}

fn is_policy_of(policy: &DeclaredQuota, current: &DeclaredQuota) -> bool {
    policy.unit == current.unit
        && policy.window.is_some()
        && policy.remaining.is_none()
        && (current.limit.is_none() || policy.limit == current.limit)
}
