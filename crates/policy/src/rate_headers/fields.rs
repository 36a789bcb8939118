//! Limits in three fields: `RateLimit-Limit`, `-Remaining` and `-Reset` of the RFC drafts up to 6,
//! and `X-RateLimit-*` or `X-Rate-Limit-*`, which no specification covers.
//!
//! With what services add to them: Crossref an interval and a concurrency limit, GitHub what is
//! used and the name of the resource, OpenAlex credits and what a request costs, Discord a reset in
//! seconds beside that in the epoch.

use std::time::Duration;

use super::value::WindowedCount;
use super::{DeclaredQuota, RateHeaderFamily, RateHeaderReader, ResetForm, Unit, to_u32};

/// The fields of one spelling.
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

/// Reads `RateLimit-Limit` and its siblings, beside the policies that are already known.
pub(super) fn read_standard(
    reader: &mut RateHeaderReader<'_>,
    statements: &mut Vec<DeclaredQuota>,
) {
    let currents = STANDARD.read(reader, statements);
    for current in currents {
        attach(statements, current);
    }
}

/// Reads `X-RateLimit-*` and `X-Rate-Limit-*`.
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

/// Reads Crossref's `X-Concurrency-Limit`: the least of what it states.
pub(super) fn read_concurrency(reader: &mut RateHeaderReader<'_>) -> Option<u32> {
    let limits = reader.counts("x-concurrency-limit")?;
    limits.iter().map(|limit| to_u32(limit.number.whole)).min()
}

/// Reads what a request costs in credits (OpenAlex). A refused one used nothing, and says what it
/// requires.
pub(super) fn read_cost(reader: &mut RateHeaderReader<'_>) -> Option<u32> {
    let costs = CREDITS.map(|name| reader.counts(name).unwrap_or_default());
    let costs = costs.iter().flatten();
    costs.map(|cost| to_u32(cost.number.whole)).max()
}

impl FieldFamily {
    /// Returns the current limits. Those that `-Limit` has besides go to `policies`.
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

    /// `-Reset-After` cannot be misread, so it goes before `-Reset`.
    fn read_resets(&self, reader: &mut RateHeaderReader<'_>) -> Vec<Duration> {
        let form = reader.hints.reset;
        let after = reader.resets(self.reset_after, ResetForm::SecondsLeft);
        let at = reader.resets(self.reset, form);
        after.or(at).unwrap_or_default()
    }
}

/// The values of a family.
struct FamilyValues {
    limits: Vec<WindowedCount>,
    remaining: Vec<WindowedCount>,
    used: Vec<WindowedCount>,
    resets: Vec<Duration>,
}

impl FamilyValues {
    /// As many limits as remainders are so many quotas.
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

    /// The limits after the first are policies (drafts up to 3).
    fn policies(&self, common: &DeclaredQuota) -> impl Iterator<Item = DeclaredQuota> {
        self.limits.iter().skip(1).map(|limit| DeclaredQuota {
            window: limit.window.or(common.window),
            limit: Some(limit.number.whole),
            ..common.clone()
        })
    }

    /// The first limit is the current one. Of several remainders and resets the strictest counts.
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

/// Adds the current limit to the policy that it belongs to: the one with its limit and, of several,
/// the one with the shortest window that the reset fits into. Without one it stands alone.
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
