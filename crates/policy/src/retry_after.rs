//! The `Retry-After` header (RFC 9110 section 10.2.3), read with the server's own clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::time::Timestamp;

/// The longest wait: a century. Longer waits are cut to it.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Parses a `Retry-After` value: the time from now for which the server wants no requests.
///
/// The value is delta-seconds, or one of the three date forms of RFC 9110. A date is compared with
/// the `Date` of the response if present, so that a wrong clock on either side has no effect;
/// otherwise with `now`. A date in the past is a wait of zero. Fractions of a second are rounded
/// up. Returns `None` for any other value.
///
/// ```
/// use std::time::Duration;
/// use docstokg_policy::retry_after::parse_retry_after;
/// use docstokg_policy::time::Timestamp;
///
/// let now = Timestamp::from_micros(0);
/// assert_eq!(parse_retry_after("120", None, now), Some(Duration::from_secs(120)));
/// // The date of the response decides, whatever the local clock says.
/// let (until, date) = ("Sun, 06 Nov 1994 08:50:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT");
/// assert_eq!(parse_retry_after(until, Some(date), now), Some(Duration::from_secs(60)));
/// assert_eq!(parse_retry_after("soon", None, now), None);
/// ```
#[must_use]
pub fn parse_retry_after(value: &str, date: Option<&str>, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits that overflow mean a very long time; they are not malformed.
        return Some(
            value
                .parse()
                .map_or(MAX_RETRY_AFTER, Duration::from_secs)
                .min(MAX_RETRY_AFTER),
        );
    }
    if let Some((whole, fraction)) = value.split_once('.')
        && [whole, fraction]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let up = u64::from(fraction.bytes().any(|byte| byte != b'0'));
        return Some(
            whole
                .parse::<u64>()
                .map_or(MAX_RETRY_AFTER, |whole| {
                    Duration::from_secs(whole.saturating_add(up))
                })
                .min(MAX_RETRY_AFTER),
        );
    }
    let until = http_date(value)?;
    let from = date.and_then(http_date).unwrap_or(now);
    Some(
        Duration::from_micros(u64::try_from(until.micros_after(from)).unwrap_or(0))
            .min(MAX_RETRY_AFTER),
    )
}

/// Parses an HTTP date in any of its three forms.
#[must_use]
pub fn http_date(text: &str) -> Option<Timestamp> {
    let time = httpdate::parse_http_date(text.trim()).ok()?;
    let micros = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).ok()?,
        Err(before) => -i64::try_from(before.duration().as_micros()).ok()?,
    };
    Some(Timestamp::from_micros(micros))
}

/// The last second that an HTTP date can represent, the end of the year 9999, since 1970.
const LAST_HTTP_DATE: Duration = Duration::from_secs(253_402_300_799);

/// Writes an HTTP date with whole seconds. Times before 1970 or after 9999 become the nearest time
/// that a date can represent.
///
/// ```
/// use docstokg_policy::retry_after::{format_http_date, http_date};
/// use docstokg_policy::time::Timestamp;
///
/// let text = format_http_date(Timestamp::from_micros(784_111_777_000_000));
/// assert_eq!(text, "Sun, 06 Nov 1994 08:49:37 GMT");
/// assert_eq!(http_date(&text), Some(Timestamp::from_micros(784_111_777_000_000)));
/// ```
#[must_use]
pub fn format_http_date(at: Timestamp) -> String {
    let since = Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0));
    let since = since.min(LAST_HTTP_DATE);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The instant of the examples in the RFC: 1994-11-06T08:49:37Z.
    const NOW: Timestamp = Timestamp::from_micros(784_111_777_000_000);

    fn seconds(value: &str, date: Option<&str>) -> Option<u64> {
        parse_retry_after(value, date, NOW).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_are_read_and_garbage_is_no_statement() {
        for (value, wait) in [
            ("4", Some(4)),
            (" 120 ", Some(120)),
            ("0", Some(0)),
            ("1.5", Some(2)),
            ("2.0", Some(2)),
            ("57539", Some(57_539)),
            ("-5", None),
            ("", None),
            ("soon", None),
            ("1e3", None),
            ("12 seconds", None),
            (".5", None),
            (
                "99999999999999999999999999",
                Some(MAX_RETRY_AFTER.as_secs()),
            ),
        ] {
            assert_eq!(seconds(value, None), wait, "{value:?}");
        }
    }

    #[test]
    fn all_three_date_forms_are_read() {
        for value in [
            "Sun, 06 Nov 1994 08:50:37 GMT",
            "Sunday, 06-Nov-94 08:50:37 GMT",
            "Sun Nov  6 08:50:37 1994",
        ] {
            assert_eq!(seconds(value, None), Some(60), "{value}");
        }
        assert_eq!(
            seconds("Sun, 06 Nov 1994 08:00:00 GMT", None),
            Some(0),
            "a date that has passed"
        );
    }

    #[test]
    fn a_date_is_measured_by_the_servers_own_clock() {
        let date = Some("Sun, 06 Nov 1994 09:49:37 GMT");
        assert_eq!(
            seconds("Sun, 06 Nov 1994 09:49:47 GMT", date),
            Some(10),
            "server an hour ahead"
        );
        assert_eq!(
            seconds("Sun, 06 Nov 1994 08:49:47 GMT", Some("not a date")),
            Some(10)
        );
    }

    #[test]
    fn times_that_no_date_can_name_are_written_as_the_nearest() {
        let far = Timestamp::from_micros(i64::MAX);
        assert_eq!(format_http_date(far), "Fri, 31 Dec 9999 23:59:59 GMT");
        let early = Timestamp::from_micros(i64::MIN);
        assert_eq!(format_http_date(early), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    proptest! {
        #[test]
        fn parse_retry_after_reads_any_text_without_a_panic(value in ".{0,40}", date in proptest::option::of(".{0,40}")) {
            let _ = parse_retry_after(&value, date.as_deref(), NOW);
        }

        #[test]
        fn dates_written_are_read_back(seconds in 0i64..4_000_000_000) {
            let at = Timestamp::from_micros(seconds * 1_000_000);
            prop_assert_eq!(http_date(&format_http_date(at)), Some(at));
        }
    }
}
