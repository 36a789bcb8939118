//! Cache directives (RFC 9111 section 5.2, RFC 5861, RFC 8246).
//!
//! A value that cannot be parsed counts as the most restrictive one: a lifetime of zero, no stale
//! responses. If a directive has several values, section 4.2.1 allows a cache to use the first or
//! to treat the response as stale. Here, values that differ make the response stale.

use std::time::Duration;

use http::{HeaderMap, HeaderName, header};

use super::members::{Member, Members};
use super::{CacheMode, MAX_DELTA, targeted};

/// A directive without an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum DirectiveFlag {
    NoStore = 1,
    Public = 2,
    MustRevalidate = 4,
    ProxyRevalidate = 8,
    MustUnderstand = 16,
    Immutable = 32,
    NoCache = 64,
    OnlyIfCached = 128,
}

/// A set of [`DirectiveFlag`] values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectiveFlags(u16);

impl DirectiveFlags {
    pub(super) fn set(&mut self, flag: DirectiveFlag) {
        self.0 |= flag as u16;
    }

    pub(super) fn has(self, flag: DirectiveFlag) -> bool {
        self.0 & flag as u16 != 0
    }
}

/// The part of a response to which `no-cache` or `private` applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum DirectiveScope {
    #[default]
    Nothing,
    /// Only the named fields.
    Fields(Vec<HeaderName>),
    Everything,
}

impl DirectiveScope {
    /// Adds an occurrence of the directive with its argument.
    pub(super) fn extend(&mut self, argument: Option<&[u8]>) {
        match (&mut *self, argument.and_then(field_names)) {
            (Self::Everything, _) => {}
            (_, None) => *self = Self::Everything,
            (Self::Nothing, Some(names)) => *self = Self::Fields(names),
            (Self::Fields(known), Some(names)) => known.extend(names),
        }
    }

    pub(super) fn fields(&self) -> &[HeaderName] {
        match self {
            Self::Fields(names) => names,
            Self::Nothing | Self::Everything => &[],
        }
    }
}

/// Parses the field names of `no-cache="a, b"`. Returns `None` if the list is empty or malformed,
/// or names a field that the cache needs. The directive then applies to the whole response.
fn field_names(argument: &[u8]) -> Option<Vec<HeaderName>> {
    let names = argument
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|name| !name.is_empty())
        .map(|name| {
            HeaderName::from_bytes(name)
                .ok()
                .filter(|name| !is_needed(name))
        })
        .collect::<Option<Vec<_>>>()?;
    (!names.is_empty()).then_some(names)
}

/// Returns whether the cache needs a field to decide about reuse, so that no other field may
/// require its removal.
pub(super) fn is_needed(name: &HeaderName) -> bool {
    [
        header::CACHE_CONTROL,
        header::EXPIRES,
        header::DATE,
        header::AGE,
        header::VARY,
        header::ETAG,
        header::LAST_MODIFIED,
        header::CONTENT_ENCODING,
        header::CONTENT_RANGE,
        header::PRAGMA,
        targeted::CDN_CACHE_CONTROL,
    ]
    .contains(name)
}

/// The directives of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseDirectives {
    pub(super) flags: DirectiveFlags,
    pub(super) no_cache: DirectiveScope,
    pub(super) private: DirectiveScope,
    pub(super) max_age: Option<Duration>,
    pub(super) s_maxage: Option<Duration>,
    pub(super) stale_while_revalidate: Option<Duration>,
    pub(super) stale_if_error: Option<Duration>,
    /// Set if the directives come from a targeted field (RFC 9213), so that `Expires` is ignored.
    pub(super) targeted: bool,
}

impl ResponseDirectives {
    /// Parses the directives for a cache of a [`CacheMode`].
    pub(super) fn of(headers: &HeaderMap, mode: CacheMode) -> Self {
        // RFC 9213 section 2.2: a valid targeted field replaces Cache-Control and Expires.
        let targeted = match mode {
            CacheMode::Shared => targeted::directives(headers),
            CacheMode::Private => None,
        };
        let mut directives = targeted.unwrap_or_else(|| Self::cache_control(headers));
        if mode == CacheMode::Private {
            // RFC 9111 section 5.2.2.10: s-maxage is for shared caches.
            directives.s_maxage = None;
        }
        directives
    }

    fn cache_control(headers: &HeaderMap) -> Self {
        let members = Members::read(headers, &header::CACHE_CONTROL);
        let mut directives = Self::default();
        for member in &members.list {
            directives.add(member);
        }
        if members.malformed {
            // RFC 9111 section 4.2.1: invalid freshness information makes a response stale.
            directives.max_age = Some(Duration::ZERO);
            directives.s_maxage = directives.s_maxage.map(|_| Duration::ZERO);
            directives.stale_while_revalidate = None;
            directives.stale_if_error = None;
        }
        directives
    }

    fn add(&mut self, member: &Member) {
        let argument = member.argument.as_deref();
        match member.name.as_str() {
            "no-store" => self.flags.set(DirectiveFlag::NoStore),
            "public" => self.flags.set(DirectiveFlag::Public),
            "must-revalidate" => self.flags.set(DirectiveFlag::MustRevalidate),
            "proxy-revalidate" => self.flags.set(DirectiveFlag::ProxyRevalidate),
            "must-understand" => self.flags.set(DirectiveFlag::MustUnderstand),
            "immutable" => self.flags.set(DirectiveFlag::Immutable),
            "no-cache" => self.no_cache.extend(argument),
            "private" => self.private.extend(argument),
            "max-age" => single(&mut self.max_age, argument),
            "s-maxage" => single(&mut self.s_maxage, argument),
            "stale-while-revalidate" => single(&mut self.stale_while_revalidate, argument),
            "stale-if-error" => single(&mut self.stale_if_error, argument),
            // RFC 9111 section 5.2.3: unknown directives are ignored.
            _ => {}
        }
    }

    /// Returns whether the directives forbid a stale response (RFC 9111 section 4.2.4).
    pub(super) fn forbid_stale(&self, mode: CacheMode) -> bool {
        let for_shared = self.flags.has(DirectiveFlag::ProxyRevalidate) || self.s_maxage.is_some();
        self.flags.has(DirectiveFlag::MustRevalidate)
            || self.no_cache == DirectiveScope::Everything
            || (mode == CacheMode::Shared && for_shared)
    }
}

/// Sets the value of a directive with a single value. An invalid value, or a second value that
/// differs, results in zero.
fn single(slot: &mut Option<Duration>, argument: Option<&[u8]>) {
    let value = argument.and_then(delta_seconds).unwrap_or_default();
    *slot = Some(match *slot {
        Some(earlier) if earlier != value => Duration::ZERO,
        _ => value,
    });
}

/// Parses delta-seconds (RFC 9111 section 1.2.2): digits only, and at most [`MAX_DELTA`].
pub(super) fn delta_seconds(text: &[u8]) -> Option<Duration> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = std::str::from_utf8(text).ok()?;
    let seconds = digits.parse().unwrap_or(u64::MAX);
    Some(Duration::from_secs(seconds).min(MAX_DELTA))
}

/// The directives of a request (RFC 9111 section 5.2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestDirectives {
    pub(super) flags: DirectiveFlags,
    pub(super) max_age: Option<Duration>,
    pub(super) min_fresh: Option<Duration>,
    /// The accepted staleness; [`Duration::MAX`] if the request accepts any staleness.
    pub(super) max_stale: Option<Duration>,
    pub(super) stale_if_error: Option<Duration>,
}

impl RequestDirectives {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut directives = Self::default();
        let members = Members::read(headers, &header::CACHE_CONTROL);
        for member in &members.list {
            directives.add(member);
        }
        if members.malformed {
            // A malformed directive permits no stale response.
            directives.max_stale = directives.max_stale.map(|_| Duration::ZERO);
            directives.stale_if_error = directives.stale_if_error.map(|_| Duration::ZERO);
        }
        // RFC 9111 section 5.4: Pragma replaces an absent Cache-Control.
        let pragma = Members::read(headers, &header::PRAGMA).list;
        if !headers.contains_key(header::CACHE_CONTROL)
            && pragma.iter().any(|member| member.name == "no-cache")
        {
            directives.flags.set(DirectiveFlag::NoCache);
        }
        directives
    }

    fn add(&mut self, member: &Member) {
        let argument = member.argument.as_deref();
        let value = argument.and_then(delta_seconds);
        let least =
            |slot: Option<Duration>, value: Duration| Some(slot.unwrap_or(value).min(value));
        match member.name.as_str() {
            "no-cache" => self.flags.set(DirectiveFlag::NoCache),
            "no-store" => self.flags.set(DirectiveFlag::NoStore),
            "only-if-cached" => self.flags.set(DirectiveFlag::OnlyIfCached),
            "max-age" => self.max_age = least(self.max_age, value.unwrap_or_default()),
            // No stored response satisfies a malformed condition.
            "min-fresh" => {
                self.min_fresh = self.min_fresh.max(Some(value.unwrap_or(Duration::MAX)));
            }
            // RFC 9111 section 5.2.1.2: without an argument, any staleness.
            "max-stale" => {
                let any = argument.map_or(Duration::MAX, |_| Duration::ZERO);
                self.max_stale = least(self.max_stale, value.unwrap_or(any));
            }
            "stale-if-error" => {
                self.stale_if_error = least(self.stale_if_error, value.unwrap_or_default());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn lines(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_str(value).expect("a value");
            headers.append(header::CACHE_CONTROL, value);
        }
        headers
    }

    #[test]
    fn a_lifetime_that_is_malformed_or_contradicted_is_zero() {
        for (values, expected) in [
            (&["max-age=3600"][..], Some(3600)),
            (&["MAX-AGE=\"3600\""], Some(3600)),
            (&["max-age=003600"], Some(3600)),
            (&["max-age=60", "max-age=60"], Some(60)),
            (&["max-age=60, max-age=61"], Some(0)),
            (&["max-age=99999999999999999999999"], Some(1 << 31)),
            (&["max-age=-1"], Some(0)),
            (&["max-age=1.0"], Some(0)),
            (&["max-age='60'"], Some(0)),
            (&["max-age"], Some(0)),
            (&["max-age= 60"], Some(0)),
            (&["max-age =60"], Some(0)),
            (&["max-age=60, x=\"open"], Some(0)),
            (&["x=\"max-age=60\""], None),
            (&["max-age=60", ""], Some(60)),
        ] {
            let directives = ResponseDirectives::of(&lines(values), CacheMode::Private);
            let expected = expected.map(Duration::from_secs);
            assert_eq!(directives.max_age, expected, "{values:?}");
        }
    }

    #[test]
    fn no_cache_and_private_name_fields_or_mean_everything() {
        let scope =
            |value: &str| ResponseDirectives::of(&lines(&[value]), CacheMode::Shared).no_cache;
        let fields = |names: &[&'static str]| {
            DirectiveScope::Fields(
                names
                    .iter()
                    .map(|name| HeaderName::from_static(name))
                    .collect(),
            )
        };
        assert_eq!(scope("no-cache=\"A, b\""), fields(&["a", "b"]));
        assert_eq!(scope("no-cache=a, no-cache=\"b\""), fields(&["a", "b"]));
        for value in [
            "No-Cache",
            "no-cache=\"a\", no-cache",
            "no-cache=\"\"",
            "no-cache=\"a b\"",
            "no-cache=\"vary\"",
        ] {
            assert_eq!(scope(value), DirectiveScope::Everything, "{value}");
        }
    }

    #[test]
    fn requests_ask_for_the_least_that_they_state() {
        let read = |values: &[&str]| RequestDirectives::of(&lines(values));
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(read(&["max-age=9, max-age=3"]).max_age, seconds(3));
        assert_eq!(read(&["max-age=x"]).max_age, seconds(0));
        assert_eq!(read(&["min-fresh=x"]).min_fresh, Some(Duration::MAX));
        assert_eq!(read(&["min-fresh=3, min-fresh=9"]).min_fresh, seconds(9));
        assert_eq!(read(&["max-stale"]).max_stale, Some(Duration::MAX));
        assert_eq!(read(&["max-stale=x"]).max_stale, seconds(0));
        assert_eq!(read(&["max-stale= 5"]).max_stale, seconds(0));
        assert_eq!(read(&["max-stale, max-stale=5"]).max_stale, seconds(5));
    }

    #[test]
    fn pragma_counts_only_without_cache_control() {
        let mut headers = HeaderMap::new();
        headers.insert(header::PRAGMA, HeaderValue::from_static("x, No-Cache"));
        assert!(
            RequestDirectives::of(&headers)
                .flags
                .has(DirectiveFlag::NoCache)
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=5"));
        assert!(
            !RequestDirectives::of(&headers)
                .flags
                .has(DirectiveFlag::NoCache)
        );
    }
}
