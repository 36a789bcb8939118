//! Ranges of a whole stored body (RFC 9110 section 14).

use http::HeaderMap;
use http::header;

use super::members::split_outside_quotes;

/// Consecutive bytes of a body, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The position of the first byte.
    pub first: u64,
    /// The position of the last byte, included.
    pub last: u64,
}

impl ByteRange {
    /// Returns the number of bytes in the range.
    #[must_use]
    pub fn bytes(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// The part of a body that a `Range` field requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedRange {
    /// The whole body. This covers no range, a malformed range, another unit, and several ranges.
    Whole,
    Part(ByteRange),
    /// A range outside of the body.
    Unsatisfiable,
}

/// Parses the [`RequestedRange`] of a body of `length` bytes.
pub(super) fn wanted(headers: &HeaderMap, length: u64) -> RequestedRange {
    let mut lines = headers.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return RequestedRange::Whole;
    };
    parse(line.as_bytes(), length).unwrap_or(RequestedRange::Whole)
}

fn parse(line: &[u8], length: u64) -> Option<RequestedRange> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let (unit, set) = (&line[..equals], &line[equals + 1..]);
    // RFC 9110 section 14.1: units are compared without case; units other than bytes are ignored.
    if !unit.trim_ascii().eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let specs = split_outside_quotes(set)?
        .into_iter()
        .map(<[u8]>::trim_ascii);
    let mut specs = specs.filter(|spec| !spec.is_empty());
    let (Some(spec), None) = (specs.next(), specs.next()) else {
        return None;
    };
    let dash = spec.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        return suffix(position(last)?, length);
    }
    let first = position(first)?;
    let last = match last {
        [] => u64::MAX,
        digits => position(digits)?,
    };
    // RFC 9110 section 14.1.1: a last position before the first makes the set invalid.
    if last < first {
        return None;
    }
    // RFC 9110 section 14.1.2: a range is satisfiable if its first position is inside the body.
    Some(if first < length {
        let last = last.min(length - 1);
        RequestedRange::Part(ByteRange { first, last })
    } else {
        RequestedRange::Unsatisfiable
    })
}

/// Returns the [`RequestedRange`] of the last `count` bytes, or of the whole body if it has fewer
/// (RFC 9110 section 14.1.2). A suffix of an empty body is satisfiable, but a 206 cannot name its
/// bytes, so `None` selects the whole body.
fn suffix(count: u64, length: u64) -> Option<RequestedRange> {
    if count == 0 {
        return Some(RequestedRange::Unsatisfiable);
    }
    let last = length.checked_sub(1)?;
    let first = length.saturating_sub(count);
    Some(RequestedRange::Part(ByteRange { first, last }))
}

/// Parses a position. A number that does not fit lies beyond every body.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(value: &str, length: u64) -> RequestedRange {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::RANGE,
            HeaderValue::from_str(value).expect("a value"),
        );
        wanted(&headers, length)
    }

    #[test]
    fn one_range_is_cut_to_the_body_and_everything_else_is_the_whole() {
        let part = |first, last| RequestedRange::Part(ByteRange { first, last });
        for (value, length, expected) in [
            ("bytes=0-1", 11, part(0, 1)),
            ("bytes=1-", 11, part(1, 10)),
            ("bytes=-1", 11, part(10, 10)),
            ("bytes=-99", 11, part(0, 10)),
            ("bytes=5-99999999999999999999999", 11, part(5, 10)),
            ("BYTES = 0-0 ,", 11, part(0, 0)),
            ("bytes=11-", 11, RequestedRange::Unsatisfiable),
            ("bytes=-0", 11, RequestedRange::Unsatisfiable),
            ("bytes=0-", 0, RequestedRange::Unsatisfiable),
            (
                "bytes=99999999999999999999999-",
                11,
                RequestedRange::Unsatisfiable,
            ),
            ("bytes=-5", 0, RequestedRange::Whole),
            ("bytes=0-1,3-4", 11, RequestedRange::Whole),
            ("bytes=4-2", 11, RequestedRange::Whole),
            ("bytes=a-b", 11, RequestedRange::Whole),
            ("bytes=-", 11, RequestedRange::Whole),
            ("bytes=", 11, RequestedRange::Whole),
            ("bytes=+1-2", 11, RequestedRange::Whole),
            ("lines=0-1", 11, RequestedRange::Whole),
            ("0-1", 11, RequestedRange::Whole),
        ] {
            assert_eq!(read(value, length), expected, "{value} of {length}");
        }
        assert_eq!(ByteRange { first: 2, last: 4 }.bytes(), 3);
    }
}
