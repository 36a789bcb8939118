//! The facts of http-tests/cache-tests, and its origin.

use std::collections::BTreeMap;
use std::time::Duration;

use docstokg_policy::freshness::CacheMode;
use docstokg_policy::retry_after::format_http_date;
use docstokg_policy::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use super::NOON;
use super::world::{Ask, CachedReply, Origin};

const SUITE: &str = include_str!("cache-tests.txt");
/// The body of answers without one of their own: as long as the suite's.
const BODY: &str = "0d9f5a1c-77b2-4c1e-9a53-2f6e8b40c7d1";

/// One test of the suite.
pub(crate) struct Case<'a> {
    pub(crate) id: &'a str,
    pub(crate) kind: &'a str,
    /// The mode that it is for, where it is for one only.
    pub(crate) only: Option<CacheMode>,
    pub(crate) steps: Vec<SuiteStep<'a>>,
}

/// One request of a test, the origin's answer to it, and what is expected.
#[derive(Clone, Default)]
pub(crate) struct SuiteStep<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) parts: Vec<(&'a str, &'a str)>,
}

impl<'a> SuiteStep<'a> {
    pub(crate) fn part(&self, key: &str) -> Option<&'a str> {
        self.all(key).next()
    }

    pub(crate) fn all(&self, key: &str) -> impl Iterator<Item = &'a str> {
        let named = self.parts.iter().filter(move |(known, _)| *known == key);
        named.map(|(_, value)| *value)
    }
}

pub(crate) fn read_suite() -> Vec<Case<'static>> {
    let mut cases: Vec<Case<'static>> = Vec::new();
    for line in SUITE.lines().filter(|line| !line.starts_with('#')) {
        if let Some(step) = line.strip_prefix("   ") {
            let mut parts = step.split(" | ");
            let mut words = parts.next().expect("a request").split(' ');
            let step = SuiteStep {
                method: words.next().expect("a method"),
                path: words.next().unwrap_or_default(),
                parts: parts
                    .map(|part| part.split_once(' ').unwrap_or((part, "")))
                    .collect(),
            };
            cases.last_mut().expect("a test").steps.push(step);
        } else {
            let mut words = line.split(' ').skip(1);
            cases.push(Case {
                id: words.next().expect("an id"),
                kind: words.next().expect("a kind"),
                only: words.next().map(|mode| match mode {
                    "private" => CacheMode::Private,
                    _ => CacheMode::Shared,
                }),
                steps: Vec::new(),
            });
        }
    }
    cases
}

/// What the origin saw and said.
pub(crate) struct Seen {
    pub(crate) number: usize,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) checked: Vec<(HeaderName, HeaderValue)>,
}

/// The origin of the suite for one test.
pub(crate) struct SuiteOrigin<'a> {
    pub(crate) steps: &'a [SuiteStep<'a>],
    pub(crate) seen: Vec<Seen>,
    /// The fields that the origin sent with each step, for validations.
    pub(crate) sent: BTreeMap<usize, HeaderMap>,
}

impl Origin for SuiteOrigin<'_> {
    fn respond(&mut self, ask: &Ask, now: &mut Timestamp) -> Option<CachedReply> {
        let number = ask.headers["req-num"]
            .to_str()
            .expect("text")
            .parse()
            .expect("a number");
        let step: &SuiteStep<'_> = &self.steps[number - 1];
        let delay = step
            .part("delay")
            .map_or(0, |text| text.parse().expect("seconds"));
        *now = *now + Duration::from_secs(delay);
        let (mut headers, checked) = fields_of(step, *now, &ask.url);
        let status = self.status(step, ask, number);
        let body = body_of(step, status, &headers);
        let count = (self.seen.len() + 1).to_string();
        self.sent.insert(number, headers.clone());
        self.seen.push(Seen {
            number,
            method: ask.method.clone(),
            headers: ask.headers.clone(),
            checked,
        });
        for (name, value) in [
            ("server-request-count", count),
            ("client-request-count", number.to_string()),
            ("server-now", now.as_micros().to_string()),
        ] {
            headers.insert(name, HeaderValue::from_str(&value).expect("a value"));
        }
        if !headers.contains_key("date") {
            headers.insert(
                "date",
                HeaderValue::from_str(&format_http_date(*now)).expect("a date"),
            );
        }
        (step.part("disconnect").is_none()).then(|| CachedReply {
            status: StatusCode::from_u16(status).expect("a status"),
            headers,
            body,
        })
    }
}

impl SuiteOrigin<'_> {
    fn status(&self, step: &SuiteStep<'_>, ask: &Ask, number: usize) -> u16 {
        let stated = step
            .part("status")
            .map_or(200, |text| text.parse().expect("a status"));
        if !step
            .part("type")
            .is_some_and(|kind| kind.ends_with("validated"))
        {
            return stated;
        }
        // A step that the cache answered by itself has fields too: what it would have been sent.
        let before = self.sent.get(&(number - 1)).cloned().unwrap_or_else(|| {
            let parts = self.steps[number - 2].all("field");
            parts.map(|part| field(part, NOON, &ask.url)).collect()
        });
        let matches = |condition: &str, validator: &str| {
            let own = before.get(validator);
            own.is_some() && ask.headers.get(condition) == own
        };
        let is_current =
            matches("if-none-match", "etag") || matches("if-modified-since", "last-modified");
        if is_current { 304 } else { 999 }
    }
}

/// Returns the fields that a step answers with, and those of them that the client must receive.
fn fields_of(
    step: &SuiteStep<'_>,
    now: Timestamp,
    url: &Url,
) -> (HeaderMap, Vec<(HeaderName, HeaderValue)>) {
    let mut headers = HeaderMap::new();
    let mut checked = Vec::new();
    for (key, part) in &step.parts {
        if !["field", "unchecked"].contains(key) {
            continue;
        }
        let (name, value) = field(part, now, url);
        headers.append(&name, value.clone());
        // Dates differ from answer to answer, so that the suite does not compare them.
        if *key == "field" && name != "date" {
            checked.push((name, value));
        }
    }
    (headers, checked)
}

/// Returns the body of an answer, as long as its `Content-Length` says.
fn body_of(step: &SuiteStep<'_>, status: u16, headers: &HeaderMap) -> Vec<u8> {
    if status == 204 || status == 304 {
        return Vec::new();
    }
    let mut body = step.part("body").unwrap_or(BODY).as_bytes().to_vec();
    let length = headers.get("content-length");
    if let Some(length) = length.and_then(|length| length.to_str().ok()?.parse().ok()) {
        body.truncate(length);
    }
    body
}

/// Reads `name: value` with the suite's relative dates and locations.
pub(crate) fn field(part: &str, now: Timestamp, url: &Url) -> (HeaderName, HeaderValue) {
    let (name, value) = part.split_once(':').expect("a field");
    let value = value.trim();
    let text = if let Some(seconds) = value.strip_prefix("@@") {
        rfc_850(&date(now, seconds))
    } else if let Some(seconds) = value.strip_prefix('@') {
        date(now, seconds)
    } else if let Some(below) = value.strip_prefix('^') {
        let slash = if below.is_empty() { "" } else { "/" };
        format!("{}{slash}{below}", url.path())
    } else {
        value.to_owned()
    };
    let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
    (
        name,
        HeaderValue::from_bytes(text.as_bytes()).expect("a value"),
    )
}

fn date(now: Timestamp, seconds: &str) -> String {
    let seconds: i64 = seconds.parse().expect("seconds");
    format_http_date(Timestamp::from_micros(
        now.as_micros() + seconds * 1_000_000,
    ))
}

fn rfc_850(date: &str) -> String {
    let days = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let day = days
        .iter()
        .find(|day| day.starts_with(&date[..3]))
        .expect("a day");
    format!(
        "{day}, {}-{}-{} {}",
        &date[5..7],
        &date[8..11],
        &date[14..16],
        &date[17..]
    )
}
