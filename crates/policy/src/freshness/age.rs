//! The age of a response (RFC 9111 sections 4.2.3 and 5.1).

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};

use super::ExchangeTimes;
use super::date::FieldDate;
use super::directives::delta_seconds;

/// Returns `corrected_initial_age`: the age of a response at its arrival.
pub(super) fn initial(headers: &HeaderMap, times: ExchangeTimes) -> Duration {
    let date = FieldDate::read(headers, &header::DATE).valid();
    // Without a valid date, the arrival counts as the origin's date (RFC 9110 section 6.6.1).
    let date = date.unwrap_or(times.received);
    let apparent = times.received.since(date);
    let delay = times.received.since(times.sent);
    apparent.max(field(headers) + delay)
}

/// Parses `Age` as in RFC 9111 section 5.1: the first of several values; an invalid value is
/// ignored.
fn field(headers: &HeaderMap) -> Duration {
    let first = headers.get(header::AGE).map(HeaderValue::as_bytes);
    let first = first.and_then(|line| line.split(|byte| *byte == b',').next());
    first
        .and_then(|value| delta_seconds(value.trim_ascii()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry_after::format_http_date;
    use crate::time::Timestamp;

    const NOON: Timestamp = Timestamp::from_micros(1_794_830_400_000_000);

    fn seconds(age: Option<&str>, date: Option<i64>, delay: u64) -> u64 {
        let mut headers = HeaderMap::new();
        if let Some(age) = age {
            headers.insert(header::AGE, HeaderValue::from_str(age).expect("a value"));
        }
        let received = NOON + Duration::from_secs(delay);
        if let Some(seconds) = date {
            let at = Timestamp::from_micros(received.as_micros() + seconds * 1_000_000);
            let at = HeaderValue::from_str(&format_http_date(at)).expect("a value");
            headers.insert(header::DATE, at);
        }
        let sent = NOON;
        initial(&headers, ExchangeTimes { sent, received }).as_secs()
    }

    #[test]
    fn the_age_is_the_greater_of_what_date_and_age_say() {
        assert_eq!(seconds(None, None, 0), 0);
        assert_eq!(seconds(Some("30"), None, 5), 35);
        assert_eq!(seconds(Some("30"), Some(-100), 5), 100);
        assert_eq!(seconds(Some("300"), Some(-100), 0), 300);
        assert_eq!(seconds(None, Some(500), 0), 0, "a date in the future");
        assert_eq!(seconds(None, Some(500), 7), 7, "the delay counts");
    }

    #[test]
    fn the_first_value_counts_and_malformed_ones_do_not() {
        for (value, expected) in [
            ("7200, 0", 7200),
            ("0, 7200", 0),
            ("2147483649", 1 << 31),
            ("abc", 0),
            ("-1", 0),
            ("1.5", 0),
            ("7200;a=b", 0),
            ("", 0),
        ] {
            assert_eq!(seconds(Some(value), None, 0), expected, "{value}");
        }
    }
}
