//! Dates of responses, as RFC 9111 section 4.2 parses them.

use http::{HeaderMap, HeaderName};

use crate::retry_after::http_date;
use crate::time::Timestamp;

/// The value of a field that contains one date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldDate {
    Absent,
    At(Timestamp),
    /// The value is not a date, or the lines of the field differ.
    Invalid,
}

impl FieldDate {
    pub(super) fn read(headers: &HeaderMap, field: &HeaderName) -> Self {
        let mut lines = headers.get_all(field).iter();
        let Some(first) = lines.next() else {
            return Self::Absent;
        };
        if lines.any(|line| line != first) {
            return Self::Invalid;
        }
        parse(first.as_bytes()).map_or(Self::Invalid, Self::At)
    }

    pub(super) fn valid(self) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(at),
            Self::Absent | Self::Invalid => None,
        }
    }
}

/// Parses a date in any case (RFC 9111 section 4.2: caches match dates case-insensitively).
pub(super) fn parse(bytes: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let mut cased = String::with_capacity(text.len());
    for character in text.chars() {
        let starts_word = !cased.ends_with(|last: char| last.is_ascii_alphabetic());
        cased.push(if starts_word {
            character.to_ascii_uppercase()
        } else {
            character.to_ascii_lowercase()
        });
    }
    if let Some(date) = cased.strip_suffix(" Gmt") {
        cased = format!("{date} GMT");
    }
    http_date(&cased).or_else(|| with_other_weekday(&cased))
}

/// Parses a date with a wrong weekday, because the rest of the date is sufficient.
fn with_other_weekday(text: &str) -> Option<Timestamp> {
    const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let (weekday, rest) = (text.get(..3)?, text.get(3..)?);
    let is_weekday = WEEKDAYS.contains(&weekday);
    let mut others = WEEKDAYS.iter().filter(|_| is_weekday);
    others.find_map(|other| http_date(&format!("{other}{rest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_any_case_and_only_in_the_forms_of_the_rfc() {
        let at = parse(b"Thu, 18 Aug 2050 02:01:18 GMT");
        assert!(at.is_some());
        for text in [
            "THU, 18 AUG 2050 02:01:18 gMT",
            "thursday, 18-aug-50 02:01:18 gmt",
            "thu aug 18 02:01:18 2050",
            "Mon, 18 Aug 2050 02:01:18 GMT",
            "Mon Aug 18 02:01:18 2050",
        ] {
            assert_eq!(parse(text.as_bytes()), at, "{text}");
        }
        for text in [
            "0",
            "",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "\u{fc}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
