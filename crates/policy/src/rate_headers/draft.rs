//! `RateLimit` and `RateLimit-Policy`, the structured fields of
//! draft-ietf-httpapi-ratelimit-headers.
//!
//! - Drafts 8 and later name their policies: `"default";q=100;w=10` in one field and
//!   `"default";r=50;t=30` in the other, joined by name and partition key.
//! - Drafts 4 to 7 have policies without a name: `100;w=10`.
//! - Draft 7 has a dictionary: `limit=100, remaining=50, reset=5`.

use std::time::Duration;

use super::fields::attach;
use super::value::{MAX_PARTITION_BYTES, Number};
use super::{DeclaredQuota, RateHeaderFamily, RateHeaderReader, ResetForm, Unit};
use crate::structured::{BareValue, StructuredItem, parse_dictionary, parse_list};

/// Parses both fields.
pub(super) fn read(reader: &mut RateHeaderReader<'_>) -> Vec<DeclaredQuota> {
    let policies = read_policies(reader);
    match read_service_limits(reader) {
        ServiceLimits::Named(service_limits) => join(policies, service_limits),
        ServiceLimits::Single(current) => {
            let mut statements = policies;
            attach(&mut statements, current);
            statements
        }
    }
}

/// The content of the field `RateLimit`.
enum ServiceLimits {
    /// The service limits of named policies.
    Named(Vec<DeclaredQuota>),
    /// The single service limit of draft 7.
    Single(DeclaredQuota),
}

fn read_policies(reader: &mut RateHeaderReader<'_>) -> Vec<DeclaredQuota> {
    let Some(text) = reader.joined("ratelimit-policy") else {
        return Vec::new();
    };
    let items = reader.bounded(parse_list(&text)).unwrap_or_default();
    read_each(reader, &items, read_policy)
}

fn read_service_limits(reader: &mut RateHeaderReader<'_>) -> ServiceLimits {
    let Some(text) = reader.joined("ratelimit") else {
        return ServiceLimits::Named(Vec::new());
    };
    if parse_list(&text).is_none()
        && let Some(members) = parse_dictionary(&text)
        && let Some(single) = read_single(reader, &members)
    {
        return ServiceLimits::Single(single);
    }
    let items = reader.bounded(parse_list(&text)).unwrap_or_default();
    ServiceLimits::Named(read_each(reader, &items, read_service_limit))
}

/// Parses items, and counts malformed ones.
fn read_each(
    reader: &mut RateHeaderReader<'_>,
    items: &[StructuredItem],
    read: fn(&RateHeaderReader<'_>, &StructuredItem) -> Option<DeclaredQuota>,
) -> Vec<DeclaredQuota> {
    let mut statements = Vec::with_capacity(items.len());
    for item in items {
        match read(reader, item) {
            Some(statement) => statements.push(statement),
            None => reader.count_malformed(),
        }
    }
    statements
}

/// Parses `"name";q=100;w=60;qu="requests";pk=:a2V5:`, or `100;w=60` of the earlier drafts.
fn read_policy(_: &RateHeaderReader<'_>, item: &StructuredItem) -> Option<DeclaredQuota> {
    let (name, limit, source) = match &item.value {
        BareValue::Text(name) => (
            Some(name.clone()),
            item.parameter("q")?,
            RateHeaderFamily::RateLimit,
        ),
        limit => (None, limit, RateHeaderFamily::RateLimitFields),
    };
    Some(DeclaredQuota {
        name,
        unit: read_unit(item)?,
        window: read_window(item)?,
        limit: Some(limit.as_count()?),
        partition: read_partition(item)?,
        ..DeclaredQuota::new(source)
    })
}

/// Parses `"name";r=50;t=30;pk=:a2V5:`.
///
/// The draft requires `r`, but its own examples omit it.
fn read_service_limit(
    reader: &RateHeaderReader<'_>,
    item: &StructuredItem,
) -> Option<DeclaredQuota> {
    let count = |name| match item.parameter(name) {
        Some(value) => value.as_count().map(Some),
        None => Some(None),
    };
    let (remaining, reset) = (count("r")?, count("t")?);
    if remaining.is_none() && reset.is_none() {
        return None;
    }
    Some(DeclaredQuota {
        name: Some(item.value.as_text()?.into()),
        remaining,
        resets_in: match reset {
            Some(reset) => Some(as_reset(reader, reset)?),
            None => None,
        },
        partition: read_partition(item)?,
        ..DeclaredQuota::new(RateHeaderFamily::RateLimit)
    })
}

/// Parses `limit=100, remaining=50, reset=5`. Other members are comments.
fn read_single(
    reader: &RateHeaderReader<'_>,
    members: &[(Box<str>, StructuredItem)],
) -> Option<DeclaredQuota> {
    let mut statement = DeclaredQuota::new(RateHeaderFamily::RateLimitSingle);
    for (key, item) in members {
        let value = || item.value.as_count();
        match &**key {
            "limit" => statement.limit = Some(value()?),
            "remaining" => statement.remaining = Some(value()?),
            "reset" => statement.resets_in = Some(as_reset(reader, value()?)?),
            _ => {}
        }
    }
    (statement.limit.is_some() || statement.remaining.is_some()).then_some(statement)
}

/// Returns the time until a reset. The draft requires seconds until the reset; larger numbers are
/// the times of day that some servers send by mistake.
fn as_reset(reader: &RateHeaderReader<'_>, reset: u64) -> Option<Duration> {
    Number::of(reset).as_reset(ResetForm::Recognise, reader.sent)
}

fn read_unit(item: &StructuredItem) -> Option<Unit> {
    let Some(unit) = item.parameter("qu") else {
        return Some(Unit::Requests);
    };
    Some(match unit.as_text()? {
        "requests" | "request" => Unit::Requests,
        "content-bytes" | "bytes" => Unit::ContentBytes,
        "concurrent-requests" | "concurrency" => Unit::ConcurrentRequests,
        _ => Unit::Other,
    })
}

fn read_window(item: &StructuredItem) -> Option<Option<Duration>> {
    let Some(window) = item.parameter("w") else {
        return Some(None);
    };
    let seconds = window.as_count().filter(|seconds| *seconds > 0)?;
    Some(Some(Duration::from_secs(seconds)))
}

fn read_partition(item: &StructuredItem) -> Option<Option<Box<str>>> {
    match item.parameter("pk") {
        None => Some(None),
        Some(BareValue::Bytes(key) | BareValue::Text(key)) if key.len() <= MAX_PARTITION_BYTES => {
            Some(Some(key.clone()))
        }
        Some(_) => None,
    }
}

/// Joins each service limit with the policies of its name and partition.
fn join(policies: Vec<DeclaredQuota>, service_limits: Vec<DeclaredQuota>) -> Vec<DeclaredQuota> {
    let mut used = vec![false; policies.len()];
    let mut statements = Vec::new();
    for mut service_limit in service_limits {
        let mut joined = false;
        // A service limit counts in the unit of the policy with its name, even if that policy is
        // for another partition.
        let of_that_name = policies
            .iter()
            .filter(|policy| policy.name == service_limit.name);
        if let Some(unit) = of_that_name.map(|policy| policy.unit).min() {
            service_limit.unit = unit;
        }
        for (policy, used) in policies.iter().zip(&mut used) {
            if !belongs(policy, &service_limit) {
                continue;
            }
            (joined, *used) = (true, true);
            statements.push(DeclaredQuota {
                remaining: service_limit.remaining,
                resets_in: service_limit.resets_in,
                partition: policy.partition.clone().or(service_limit.partition.clone()),
                ..policy.clone()
            });
        }
        if !joined {
            statements.push(service_limit);
        }
    }
    let unused = policies.into_iter().zip(used).filter(|(_, used)| !used);
    statements.extend(unused.map(|(policy, _)| policy));
    statements
}

/// Returns whether a service limit belongs to a policy. If only one of the two fields names a
/// partition key, the key applies to both.
fn belongs(policy: &DeclaredQuota, service_limit: &DeclaredQuota) -> bool {
    let same_partition = match (&policy.partition, &service_limit.partition) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    policy.name.is_some() && policy.name == service_limit.name && same_partition
}
