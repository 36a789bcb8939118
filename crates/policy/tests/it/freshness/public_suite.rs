//! The tests of http-tests/cache-tests against the pure functions.
//!
//! The suite sorts its tests: `required` by the RFC, `optimal` (allowed and useful) and `check`
//! (either way is allowed). The snapshots list every test that is answered otherwise than the suite
//! wishes, for these reasons:
//!
//! - Values that differ or are malformed make an answer stale (`freshness-max-age-two-*`,
//!   `-decimal-*`, `-a100`, `-100a`); a malformed `Age` is ignored (`age-parse-*parameter`), and a
//!   structured field with upper-case keys (`cdn-max-age-case-insensitive`).
//! - Lifetimes are not guessed (`heuristic-*`), unless the rules ask for it, nor from `Pragma`.
//! - Stale answers need a permission (`stale-close`, `stale-503`), there is no `Warning`, and what
//!   is of no use is not stored (`ccreq-max-stale-age`).
//! - `Set-Cookie` is stripped unless the rules keep it.
//! - Malformed entity tags match nothing and are not repaired (`conditional-etag-*quoted*`,
//!   `-lowercase`, `-backslash`, `-omit-slash`); tags of other variants are not tried
//!   (`-vary-headers-mismatch`); a 304 with another tag is about another answer
//!   (`304-*-ETag`), and one never changes what describes the body (`-Content-Encoding`, `-Range`).
//! - A response without `Last-Modified` is as new as its `Date` (`conditional-lm-fresh-no-lm`).
//! - The order of languages matters to origins (`vary-normalise-lang-*`).
//! - Neither partial content nor answers to POST are stored (`partial-store-partial-*`,
//!   `method-POST`), and HEAD passes what the origin says (`head-200-retain`, `head-410-update`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use docstokg_policy::freshness::{FreshnessRules, Heuristic, SetCookie};
use docstokg_policy::time::Timestamp;
use http::{HeaderMap, HeaderValue};
use url::Url;

use super::suite::{Case, Seen, SuiteOrigin, SuiteStep, field, read_suite};
use super::world::{Ask, Cache, CachedReply};
use super::{NOON, PRIVATE, SHARED};

/// Runs a test. The error says what differs from the suite's wish.
fn run(case: &Case<'_>, rules: FreshnessRules) -> Result<(), String> {
    let mut cache = Cache::new(rules);
    let mut origin = SuiteOrigin {
        steps: &case.steps,
        seen: Vec::new(),
        sent: BTreeMap::new(),
    };
    let mut now = NOON;
    let mut previous = NOON;
    for (index, step) in case.steps.iter().enumerate() {
        let url = format!("http://cache.example/test/{}{}", case.id, step.path);
        let url = Url::parse(&url).expect("a URL");
        let mut headers = HeaderMap::new();
        headers.append(
            "cache-control",
            HeaderValue::from_static("nothing-to-see-here"),
        );
        headers.append("pragma", HeaderValue::from_static("foo"));
        for part in step.all("send") {
            let (name, value) = field(part, previous, &url);
            headers.append(name, value);
        }
        headers.insert("req-num", HeaderValue::from(index + 1));
        let ask = Ask {
            method: step.method.parse().expect("a method"),
            url,
            headers,
        };
        let reply = cache.fetch(&ask, &mut origin, &mut now);
        check(step, index + 1, &reply, &origin)
            .map_err(|why| format!("request {}: {why}", index + 1))?;
        previous = server_now(&reply).unwrap_or(previous);
        if step.part("pause").is_some() {
            now = now + Duration::from_secs(3);
        }
    }
    Ok(())
}

fn server_now(reply: &CachedReply) -> Option<Timestamp> {
    let text = reply.headers.get("server-now")?.to_str().ok()?;
    text.parse().ok().map(Timestamp::from_micros)
}

fn check(
    step: &SuiteStep<'_>,
    number: usize,
    reply: &CachedReply,
    origin: &SuiteOrigin<'_>,
) -> Result<(), String> {
    let count = reply.headers.get("server-request-count");
    let count: Option<usize> = count.and_then(|text| text.to_str().ok()?.parse().ok());
    let seen = origin.seen.iter().rfind(|seen| seen.number == number);
    let kind = step.part("type");
    match kind {
        Some("cached") if count.is_none() && reply.status == 304 => {}
        Some("cached") if count.is_none_or(|count| count >= number) => {
            return Err("not from the cache".to_owned());
        }
        Some("not_cached") if count != Some(number) => return Err("from the cache".to_owned()),
        _ => {}
    }
    let stated = step.part("status").unwrap_or("200");
    let expected = step.part("expect-status").unwrap_or(stated);
    if expected != "any" && reply.status.as_str() != expected {
        return Err(format!("status {}, not {expected}", reply.status.as_u16()));
    }
    check_fields(step, reply)?;
    if let Some(text) = step.part("expect-body")
        && reply.body != text.as_bytes()
    {
        return Err(format!("body {:?}", String::from_utf8_lossy(&reply.body)));
    }
    match (kind, seen) {
        (Some("cached"), _) | (None, None) => Ok(()),
        (_, Some(seen)) => check_exchange(step, seen, reply),
        (Some(kind), None) => Err(format!("{kind}: no request reached the origin")),
    }
}

/// Compares the fields of a reply with what is expected of them.
fn check_fields(step: &SuiteStep<'_>, reply: &CachedReply) -> Result<(), String> {
    let now = server_now(reply).unwrap_or(NOON);
    let nowhere = Url::parse("http://cache.example/").expect("a URL");
    for part in step.all("expect-field") {
        let present = if part.contains(':') {
            let (name, value) = field(part, now, &nowhere);
            reply.headers.get(name) == Some(&value)
        } else {
            reply.headers.contains_key(part)
        };
        if !present {
            return Err(format!("no field {part}"));
        }
    }
    for part in step.all("expect-more") {
        let (name, least) = part.split_once(": ").expect("a field");
        let value = reply
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let least: u64 = least.parse().expect("a number");
        if value.is_none_or(|value: u64| value <= least) {
            return Err(format!("{name} is {value:?}, not more than {least}"));
        }
    }
    for part in step.all("expect-no-field") {
        let name = part.split(':').next().expect("a name");
        if reply.headers.contains_key(name) {
            return Err(format!("field {name}"));
        }
    }
    Ok(())
}

/// Compares what the origin saw and said with what is expected, and with the reply.
fn check_exchange(step: &SuiteStep<'_>, seen: &Seen, reply: &CachedReply) -> Result<(), String> {
    let condition = match step.part("type") {
        Some("etag_validated") => Some("if-none-match"),
        Some("lm_validated") => Some("if-modified-since"),
        _ => None,
    };
    if let Some(condition) = condition.filter(|name| !seen.headers.contains_key(*name)) {
        return Err(format!("sent without {condition}"));
    }
    let nowhere = Url::parse("http://cache.example/").expect("a URL");
    for part in step.all("expect-sent") {
        let sent = if part.contains(": ") {
            let (name, value) = field(part, NOON, &nowhere);
            seen.headers.get_all(name).iter().any(|sent| *sent == value)
        } else {
            seen.headers.contains_key(part)
        };
        if !sent {
            return Err(format!("sent without {part}"));
        }
    }
    if let Some(method) = step
        .part("expect-method")
        .filter(|method| seen.method != *method)
    {
        return Err(format!("sent as {}, not {method}", seen.method));
    }
    for (name, value) in &seen.checked {
        if !reply.headers.get_all(name).iter().any(|own| own == value) {
            return Err(format!(
                "{name} is {:?}, not {value:?}",
                reply.headers.get(name)
            ));
        }
    }
    Ok(())
}

/// Runs all tests for the rules: counts, and each test that is answered otherwise.
fn results(rules: FreshnessRules) -> String {
    let mut differing = BTreeMap::<&str, String>::new();
    let mut counts = BTreeMap::<&str, (u32, u32)>::new();
    let cases = read_suite();
    assert_eq!(cases.len(), 370, "the whole suite is read");
    for case in cases
        .iter()
        .filter(|case| case.only.is_none_or(|mode| mode == rules.mode))
    {
        let (passed, all) = counts.entry(case.kind).or_default();
        *all += 1;
        match run(case, rules) {
            Ok(()) => *passed += 1,
            Err(why) => {
                let list = differing.entry(case.kind).or_default();
                let _ = writeln!(list, "  {}: {why}", case.id);
            }
        }
    }
    let mut text = String::new();
    for (kind, (passed, all)) in counts {
        let _ = writeln!(text, "{kind}: {passed} of {all}");
        text.push_str(differing.get(kind).map_or("", String::as_str));
    }
    text
}

#[test]
fn the_public_suite_in_shared_mode() {
    insta::assert_snapshot!(results(SHARED));
}

#[test]
fn the_public_suite_in_private_mode() {
    insta::assert_snapshot!(results(PRIVATE));
}

#[test]
fn the_public_suite_with_heuristics_and_cookies() {
    insta::assert_snapshot!(results(FreshnessRules {
        heuristic: Some(Heuristic {
            percent: 10,
            at_most: Duration::from_secs(86_400),
        }),
        set_cookie: SetCookie::Keep,
        ..SHARED
    }));
}
