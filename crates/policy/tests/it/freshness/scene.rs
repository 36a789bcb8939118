//! Generated exchanges as structured statements, and the text of their fields in varying spelling.

use std::time::Duration;

use docstokg_policy::freshness::{CacheMode, FreshnessRules, Heuristic, Overrides};
use docstokg_policy::retry_after::format_http_date;
use docstokg_policy::time::Timestamp;
use http::{HeaderMap, HeaderValue, header};
use proptest::prelude::*;

/// A whole second.
const START: i64 = 1_794_830_400;

/// The argument of a directive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    None,
    Seconds(u64),
    /// A token that is no count of seconds.
    Wrong,
    /// Not even a token.
    Broken,
    /// The name of a field that the cache does not need.
    Field,
}

/// A directive and its spelling.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) name: &'static str,
    pub(crate) argument: Argument,
    pub(crate) loud: bool,
    pub(crate) quoted: bool,
    pub(crate) own_line: bool,
}

/// An exchange, and a later request.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, generated one by one"
)]
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) shared: bool,
    pub(crate) status: u16,
    pub(crate) credentials: bool,
    pub(crate) answered: Vec<Directive>,
    /// `max-age` of a valid `CDN-Cache-Control`.
    pub(crate) targeted: Option<u64>,
    /// Seconds from the arrival; none inside is an invalid date.
    pub(crate) expires: Option<Option<i64>>,
    pub(crate) date: Option<Option<i64>>,
    pub(crate) modified: Option<i64>,
    pub(crate) age: Option<u64>,
    pub(crate) tagged: bool,
    pub(crate) delay: u64,
    pub(crate) percent: Option<u8>,
    pub(crate) ttl: Option<u64>,
    pub(crate) asked: Vec<Directive>,
    pub(crate) pragma: bool,
    pub(crate) later: u64,
}

fn directive(names: &'static [&'static str]) -> impl Strategy<Value = Directive> {
    let argument = prop_oneof![
        3 => Just(Argument::None),
        8 => (0_u64..200).prop_map(Argument::Seconds),
        1 => Just(Argument::Seconds(99_999_999_999)),
        1 => Just(Argument::Wrong),
        1 => Just(Argument::Broken),
        1 => Just(Argument::Field),
    ];
    (
        prop::sample::select(names),
        argument,
        any::<(bool, bool, bool)>(),
    )
        .prop_map(|(name, argument, (loud, quoted, own_line))| {
            let is_number = name.contains("age") || name.contains("stale") || name == "min-fresh";
            let takes = match argument {
                Argument::None | Argument::Broken => true,
                Argument::Seconds(_) | Argument::Wrong => is_number,
                Argument::Field => matches!(name, "no-cache" | "private"),
            };
            let argument = if takes { argument } else { Argument::None };
            Directive {
                name,
                argument,
                loud,
                quoted,
                own_line,
            }
        })
}

const ANSWERED: &[&str] = &[
    "max-age",
    "max-age",
    "max-age",
    "s-maxage",
    "stale-while-revalidate",
    "stale-if-error",
    "no-store",
    "no-cache",
    "private",
    "public",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "immutable",
    "extension",
];
const ASKED: &[&str] = &[
    "max-age",
    "min-fresh",
    "max-stale",
    "stale-if-error",
    "no-cache",
    "no-store",
    "extension",
];

prop_compose! {
    pub(crate) fn scenes()(
        (shared, credentials, tagged) in any::<(bool, bool, bool)>(),
        status in prop::sample::select(&[200_u16, 200, 200, 404, 301, 302, 299, 503, 206, 429][..]),
        answered in prop::collection::vec(directive(ANSWERED), 0..4),
        targeted in prop::option::weighted(0.1, 0_u64..100),
        expires in prop::option::weighted(0.4, prop::option::weighted(0.8, -50_i64..200)),
        date in prop::option::weighted(0.6, prop::option::weighted(0.8, -60_i64..60)),
        modified in prop::option::weighted(0.3, -2000_i64..10),
        (age, delay) in (prop::option::weighted(0.3, prop_oneof![0_u64..150, Just(9_999_999_999)]), 0_u64..4),
        percent in prop::option::weighted(0.3, 0_u8..150),
        ttl in prop::option::weighted(0.2, 0_u64..100),
        asked in prop::collection::vec(directive(ASKED), 0..3),
        pragma in prop::bool::weighted(0.1),
        later in 0_u64..250,
    ) -> Scene {
        Scene {
            shared, status, credentials, answered, targeted, expires, date, modified, age, tagged,
            delay, percent, ttl, asked, pragma, later,
        }
    }
}

impl Scene {
    pub(crate) fn rules(&self) -> FreshnessRules {
        let mode = if self.shared {
            CacheMode::Shared
        } else {
            CacheMode::Private
        };
        FreshnessRules {
            heuristic: self.percent.map(|percent| Heuristic {
                percent,
                at_most: Duration::from_secs(60),
            }),
            overrides: Overrides {
                ttl: self.ttl.map(Duration::from_secs),
                ..Overrides::default()
            },
            ..FreshnessRules::new(mode)
        }
    }

    pub(crate) fn response_headers(&self) -> HeaderMap {
        let mut headers = spelled(&self.answered);
        let date = |at: i64| format_http_date(Timestamp::from_micros((START + at) * 1_000_000));
        let dated = |at: Option<i64>| at.map_or_else(|| "0".to_owned(), date);
        let mut add = |name: header::HeaderName, value: Option<String>| {
            if let Some(value) = value {
                headers.append(name, HeaderValue::from_str(&value).expect("a value"));
            }
        };
        add(header::EXPIRES, self.expires.map(dated));
        add(header::DATE, self.date.map(dated));
        add(header::LAST_MODIFIED, self.modified.map(date));
        add(header::AGE, self.age.map(|age| age.to_string()));
        add(header::ETAG, self.tagged.then(|| "\"a\"".to_owned()));
        let name = header::HeaderName::from_static("cdn-cache-control");
        add(
            name,
            self.targeted.map(|seconds| format!("max-age={seconds}, x")),
        );
        headers
    }

    /// The fields of the first request, and of the later one.
    pub(crate) fn request_headers(&self) -> (HeaderMap, HeaderMap) {
        let mut first = HeaderMap::new();
        if self.credentials {
            first.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        }
        let mut later = spelled(&self.asked);
        later.extend(first.clone());
        if self.pragma {
            later.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
        }
        (first, later)
    }

    pub(crate) fn received() -> Timestamp {
        Timestamp::from_micros(START * 1_000_000)
    }
}

fn spelled(directives: &[Directive]) -> HeaderMap {
    let mut lines: Vec<String> = Vec::new();
    for one in directives {
        let name = if one.loud {
            one.name.to_uppercase()
        } else {
            one.name.to_owned()
        };
        let text = match &one.argument {
            Argument::None => name,
            Argument::Seconds(seconds) if one.quoted => format!("{name}=\"{seconds}\""),
            Argument::Seconds(seconds) => format!("{name}={seconds}"),
            Argument::Wrong => format!("{name}=1.5"),
            Argument::Broken => format!("{name}= 60"),
            Argument::Field => format!("{name}=\"x-a, x-b\""),
        };
        match lines.last_mut() {
            Some(line) if !one.own_line => line.push_str(&format!(" ,,{text}")),
            _ => lines.push(text),
        }
    }
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(
            header::CACHE_CONTROL,
            HeaderValue::from_str(&line).expect("a value"),
        );
    }
    headers
}
