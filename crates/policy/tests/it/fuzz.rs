//! Malformed headers, rates, hosts and URLs: read in bounded time, or refused.

use docstokg_policy::canonical::{for_index, for_request};
use docstokg_policy::host::Host;
use docstokg_policy::rate::{format_rates, parse_rates};
use docstokg_policy::retry_after::{format_http_date, http_date, parse_retry_after};
use docstokg_policy::role::Role;
use docstokg_policy::time::Timestamp;
use proptest::prelude::*;
use url::Url;

/// Parts of dates, numbers and rates, in any order.
fn parts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("Fri, ".to_owned()),
        Just("31 Dec 1999 ".to_owned()),
        Just("23:59:60 GMT".to_owned()),
        Just("-".to_owned()),
        Just("/SECOND".to_owned()),
        Just("/3HOUR".to_owned()),
        Just("+".to_owned()),
        Just("\u{0}\u{fc}".to_owned()),
        "[0-9]{1,25}",
        ".{0,4}",
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn waits_and_dates_are_read_or_ignored(
        value in parts(),
        date in prop::option::of(parts()),
        now in -1_000_000_000_000_000_i64..5_000_000_000_000_000,
    ) {
        let now = Timestamp::from_micros(now);
        let _ = parse_retry_after(&value, date.as_deref(), now);
        if let Some(at) = http_date(&value) {
            prop_assert!(http_date(&format_http_date(at)).is_some(), "{value}");
        }
    }

    #[test]
    fn rates_are_read_or_refused_in_a_sentence(text in parts()) {
        match parse_rates(&text) {
            Ok(windows) => {
                let again = parse_rates(&format_rates(&windows)).expect("what was written");
                prop_assert_eq!(again, windows);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn hosts_and_urls_of_any_spelling_have_one_form(
        text in "(https?://)?[a-z0-9.:@%\\[\\]\u{e9}\u{3002}-]{0,30}(/[ -~]{0,20})?",
    ) {
        let _ = Host::parse(&text);
        if let Ok(url) = Url::parse(&text) {
            let _ = (Host::of(&url), for_request(&url, Role::Metadata));
            let once = for_index(&url);
            prop_assert_eq!(for_index(&once), once.clone(), "{}", url);
        }
    }
}
