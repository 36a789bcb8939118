//! Durations, sizes, numbers and paths on the command line. A plain number keeps the unit of its
//! flag; with a unit it says what it means: `90s`, `1h30m`, `10G`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};

/// The longest duration that a flag may have: a hundred years.
const MAX_SECONDS: f64 = 100.0 * 365.25 * 86_400.0;

/// The units of durations, in seconds.
const DURATION_UNITS: [(&str, f64); 22] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("sec", 1.0),
    ("secs", 1.0),
    ("second", 1.0),
    ("seconds", 1.0),
    ("m", 60.0),
    ("min", 60.0),
    ("mins", 60.0),
    ("minute", 60.0),
    ("minutes", 60.0),
    ("h", 3_600.0),
    ("hr", 3_600.0),
    ("hrs", 3_600.0),
    ("hour", 3_600.0),
    ("hours", 3_600.0),
    ("d", 86_400.0),
    ("day", 86_400.0),
    ("days", 86_400.0),
    ("w", 604_800.0),
    ("week", 604_800.0),
    ("weeks", 604_800.0),
];

/// The units of sizes. `10G` is binary, as for `dd` and `du`; `10GB` is decimal.
const SIZE_UNITS: [(&str, u64); 13] = [
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// Reads a duration; a plain number is in seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let found = parts(text, "s").and_then(|parts| {
        let of_part = |(number, unit): &(f64, String)| Some(number * seconds_of(unit)?);
        parts.iter().map(of_part).sum::<Option<f64>>()
    });
    match found {
        Some(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        Some(_) => Err("longer than a hundred years".to_owned()),
        None => Err(
            "expected a duration such as 90s, 15m, 1h30m or 2d; a plain number is in seconds"
                .to_owned(),
        ),
    }
}

/// Reads a duration and returns its seconds as a text, for settings that are in seconds.
pub(crate) fn seconds_text(text: &str) -> Result<String, String> {
    duration(text).map(|read| read.as_secs_f64().to_string())
}

/// Reads a duration and returns its seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    duration(text).map(|read| read.as_secs_f64())
}

/// Replaces durations with units in the pairs of `--breaker` by their seconds: `HOST=reset:1m`.
/// What is not such a pair stays as it is, and is judged where the flag is read.
pub(crate) fn breaker_pairs(text: &str) -> String {
    let Some((name, pairs)) = text.split_once('=') else {
        return text.to_owned();
    };
    let pairs = pairs.split(',').map(|pair| match pair.split_once(':') {
        Some((key, value)) if is_in_seconds(key) && !is_plain_number(value) => {
            let value = seconds_text(value).unwrap_or_else(|_| value.to_owned());
            format!("{key}:{value}")
        }
        _ => pair.to_owned(),
    });
    format!("{name}={}", pairs.collect::<Vec<_>>().join(","))
}

fn is_in_seconds(key: &str) -> bool {
    let key = key.trim();
    key.ends_with("_s")
        || matches!(
            key,
            "reset" | "reset_ceiling" | "retry_after_cap" | "throttle_block"
        )
}

fn is_plain_number(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}

/// Reads a size; a plain number is in bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    size_in(text, "b", "bytes")
}

/// Reads a size; a plain number is in MiB.
pub(crate) fn size_of_mebibytes(text: &str) -> Result<u64, String> {
    size_in(text, "mib", "MiB")
}

fn size_in(text: &str, unit: &str, unit_name: &str) -> Result<u64, String> {
    let unreadable =
        || format!("expected a size such as 500K, 64M or 10G; a plain number is in {unit_name}");
    let parts = parts(text, unit).ok_or_else(unreadable)?;
    let [(number, unit)] = &parts[..] else {
        return Err(unreadable());
    };
    let wanted = unit.to_ascii_lowercase();
    let unit = SIZE_UNITS.iter().find(|(name, _)| *name == wanted);
    let (_, bytes) = unit.ok_or_else(unreadable)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes below 2^53 bytes are exact, and larger ones are refused"
    )]
    let found = {
        let found = number * *bytes as f64;
        (found < (1_u64 << 53) as f64).then_some(found as u64)
    };
    found.ok_or_else(|| "larger than any disk".to_owned())
}

/// Reads a whole number within a range.
pub(crate) fn number(
    range: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let found = text.trim().parse().ok();
        found.filter(|found| range.contains(found)).ok_or_else(|| {
            if *range.end() == u32::MAX {
                format!("expected a whole number of at least {}", range.start())
            } else {
                format!(
                    "expected a whole number from {} to {}",
                    range.start(),
                    range.end()
                )
            }
        })
    }
}

/// Reads a whole number of any size.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let read = text.trim().parse();
    read.map_err(|_| "expected a whole number".to_owned())
}

/// Reads a year.
pub(crate) fn year(text: &str) -> Result<i32, String> {
    let year = text.trim().parse().ok();
    let year = year.filter(|year| (-9_999..=9_999).contains(year));
    year.ok_or_else(|| "expected a year such as 2020".to_owned())
}

/// Returns the reader of paths of files and directories of this machine.
pub(crate) fn local_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(check_local)
}

/// Refuses the address of a storage service, which would otherwise become a directory of that name.
fn check_local(path: PathBuf) -> Result<PathBuf, String> {
    let text = path.to_string_lossy();
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok(path);
    };
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    match scheme {
        _ if !is_scheme => Ok(path),
        "file" => Err(format!(
            "write the path alone, as /{}",
            rest.trim_start_matches('/')
        )),
        _ => Err(format!(
            "files cannot be written to {scheme}:// addresses; name a directory or file of this machine"
        )),
    }
}

/// Splits a text into numbers and their units; a number without a unit has `plain`, and stands
/// alone.
fn parts(text: &str, plain: &str) -> Option<Vec<(f64, String)>> {
    let mut rest = text.trim();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
        let end = rest.find(|letter| !is_digit(letter)).unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().ok()?;
        rest = rest[end..].trim_start();
        let end = rest.find(is_digit).unwrap_or(rest.len());
        let unit = rest[..end].trim();
        rest = &rest[end..];
        if unit.is_empty() {
            let stands_alone = found.is_empty() && rest.is_empty();
            return stands_alone.then(|| vec![(number, plain.to_owned())]);
        }
        found.push((number, unit.to_owned()));
    }
    (!found.is_empty()).then_some(found)
}

fn seconds_of(unit: &str) -> Option<f64> {
    let unit = unit.to_ascii_lowercase();
    let known = DURATION_UNITS.iter().find(|(name, _)| *name == unit);
    known.map(|(_, seconds)| *seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_a_plain_number_is_in_seconds() {
        for (text, millis) in [
            ("90", 90_000),
            ("0", 0),
            ("1.5", 1_500),
            ("5s", 5_000),
            ("250ms", 250),
            ("15 min", 900_000),
            ("1h", 3_600_000),
            ("1h30m", 5_400_000),
            ("2d 1h", 176_400_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "h", "1x", "1h30", "-5", "5 5", "1e9d", "inf", "nan"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(duration("1000000d").is_err_and(|why| why.contains("hundred years")));
        assert!(duration("soon").is_err_and(|why| why.contains("in seconds")));
    }

    #[test]
    fn sizes_have_units_and_a_plain_number_keeps_its_meaning() {
        for (text, bytes) in [
            ("1024", 1_024),
            ("0", 0),
            ("1.5K", 1_536),
            ("10G", 10 << 30),
            ("10GB", 10_000_000_000),
            ("64 MiB", 64 << 20),
            ("100b", 100),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert_eq!(size_of_mebibytes("64"), Ok(64 << 20));
        assert_eq!(size_of_mebibytes("1G"), Ok(1 << 30));
        for text in ["", "10X", "1G5M", "-1", "99999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert!(size_of_mebibytes("ten").is_err_and(|why| why.contains("in MiB")));
    }

    #[test]
    fn numbers_and_years_are_refused_in_words() {
        assert_eq!(number(1..=5)("5"), Ok(5));
        assert!(number(1..=5)("6").is_err_and(|why| why.contains("from 1 to 5")));
        assert!(number(1..=u32::MAX)("x").is_err_and(|why| why.contains("at least 1")));
        assert!(year("20x").is_err_and(|why| why.contains("such as 2020")));
        assert_eq!(year("1969"), Ok(1969));
    }

    #[test]
    fn durations_of_breakers_may_have_units() {
        assert_eq!(
            breaker_pairs("a.example=fail_max:5,reset:1m,retry_after_cap:1h,window.window_s:10"),
            "a.example=fail_max:5,reset:60,retry_after_cap:3600,window.window_s:10"
        );
        assert_eq!(
            breaker_pairs("a.example=reset:soon"),
            "a.example=reset:soon"
        );
    }

    #[test]
    fn addresses_are_not_paths() {
        for address in ["s3://bucket/x", "gs://b", "https://a.example/x"] {
            assert!(
                check_local(address.into()).is_err_and(|why| why.contains("://")),
                "{address}"
            );
        }
        assert!(check_local("file:///tmp/x".into()).is_err_and(|why| why.contains("/tmp/x")));
        for path in ["papers", "/tmp/a b", "C:papers", "a:/b", "./s3://x"] {
            assert!(check_local(path.into()).is_ok(), "{path}");
        }
    }
}
