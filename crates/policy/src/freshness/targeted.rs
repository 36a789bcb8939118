//! `CDN-Cache-Control`, the targeted cache control of shared caches (RFC 9213).
//!
//! The field is a structured dictionary. `Cache-Control` applies instead if the field is empty,
//! does not parse, or has a known directive with a value of the wrong type.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::MAX_DELTA;
use super::directives::{DirectiveFlag, ResponseDirectives};
use crate::structured::{BareValue, parse_dictionary};

/// The name of the field.
pub(super) const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// Parses the [`ResponseDirectives`] of the field. Returns `None` if the field is absent or
/// ignored.
pub(super) fn directives(headers: &HeaderMap) -> Option<ResponseDirectives> {
    let lines = headers.get_all(CDN_CACHE_CONTROL).iter();
    let lines: Vec<_> = lines
        .map(|line| line.to_str().ok())
        .collect::<Option<_>>()?;
    let members = parse_dictionary(&lines.join(", "))?;
    let mut directives = ResponseDirectives {
        targeted: !members.is_empty(),
        ..ResponseDirectives::default()
    };
    for (at, (name, item)) in members.iter().enumerate() {
        // RFC 9651 section 4.2.2: of several members with one key, the last one applies.
        let is_last = members[at + 1..].iter().all(|(later, _)| later != name);
        if is_last {
            add(&mut directives, name, &item.value)?;
        }
    }
    directives.targeted.then_some(directives)
}

/// Adds a member. Returns `None` if its [`BareValue`] has the wrong type.
fn add(directives: &mut ResponseDirectives, name: &str, value: &BareValue) -> Option<()> {
    let flag = match name {
        "no-store" => DirectiveFlag::NoStore,
        "public" => DirectiveFlag::Public,
        "must-revalidate" => DirectiveFlag::MustRevalidate,
        "proxy-revalidate" => DirectiveFlag::ProxyRevalidate,
        "must-understand" => DirectiveFlag::MustUnderstand,
        "immutable" => DirectiveFlag::Immutable,
        "max-age" => return seconds(&mut directives.max_age, value),
        "s-maxage" => return seconds(&mut directives.s_maxage, value),
        "stale-while-revalidate" => {
            return seconds(&mut directives.stale_while_revalidate, value);
        }
        "stale-if-error" => return seconds(&mut directives.stale_if_error, value),
        "no-cache" | "private" => {
            let scope = match name {
                "no-cache" => &mut directives.no_cache,
                _ => &mut directives.private,
            };
            match value {
                BareValue::Boolean(true) => scope.extend(None),
                BareValue::Boolean(false) => {}
                BareValue::Text(names) => scope.extend(Some(names.as_bytes())),
                _ => return None,
            }
            return Some(());
        }
        _ => return Some(()),
    };
    match value {
        BareValue::Boolean(true) => directives.flags.set(flag),
        BareValue::Boolean(false) => {}
        _ => return None,
    }
    Some(())
}

fn seconds(slot: &mut Option<Duration>, value: &BareValue) -> Option<()> {
    *slot = Some(Duration::from_secs(value.as_count()?).min(MAX_DELTA));
    Some(())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::directives::DirectiveScope;
    use super::*;

    fn read(lines: &[&str]) -> Option<ResponseDirectives> {
        let mut headers = HeaderMap::new();
        for line in lines {
            let line = HeaderValue::from_str(line).expect("a value");
            headers.append(CDN_CACHE_CONTROL, line);
        }
        directives(&headers)
    }

    #[test]
    fn valid_fields_are_read_to_their_last_member() {
        let read = read(&["max-age=10, foo;x=1, no-store", "max-age=20, public=?0"]);
        let directives = read.expect("directives");
        assert_eq!(directives.max_age, Some(Duration::from_secs(20)));
        assert!(directives.flags.has(DirectiveFlag::NoStore));
        assert!(!directives.flags.has(DirectiveFlag::Public));
        let private = self::read(&["private"]).expect("directives").private;
        assert_eq!(private, DirectiveScope::Everything);
    }

    #[test]
    fn fields_that_are_not_dictionaries_of_the_right_types_are_ignored() {
        for line in [
            "",
            "max-age=10, &&&",
            "max-age=\"10\"",
            "max-age=-1",
            "max-age=1.5",
            "max-age",
            "MAX-AGE=10",
            "max-age =10",
            "no-store=1",
            "no-cache=7",
        ] {
            assert_eq!(read(&[line]), None, "{line}");
        }
    }
}
