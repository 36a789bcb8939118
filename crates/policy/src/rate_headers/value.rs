//! The values of single fields: counts, resets, intervals and texts.
//!
//! No specification covers these fields, so the parser accepts variants. Counts may have a fraction
//! (Reddit), a window (Docker Hub) or a comment (the RFC drafts), and resets have four forms.

use std::time::Duration;

use http::HeaderValue;

use super::{MIN_WINDOW, RateHeaderReader, ResetForm};
use crate::rate::Window;
use crate::retry_after::http_date;
use crate::time::Timestamp;

/// The longest field that is parsed, in bytes over all its lines.
const MAX_FIELD_BYTES: usize = 4_096;
/// The largest number of members of a field.
pub(super) const MAX_MEMBERS: usize = 16;
/// The longest partition in bytes.
pub(super) const MAX_PARTITION_BYTES: usize = 256;

/// The first number that means seconds since 1970 instead of seconds until the reset.
const FIRST_EPOCH_SECONDS: u64 = 100_000_000;
/// The first number that means milliseconds since 1970.
const FIRST_EPOCH_MILLISECONDS: u64 = FIRST_EPOCH_SECONDS * 1_000;
/// The first number without a known meaning.
const FIRST_UNKNOWN: u64 = FIRST_EPOCH_MILLISECONDS * 1_000;

/// A number that is not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) whole: u64,
    /// The fraction in millionths, rounded up.
    millionths: u32,
}

impl Number {
    pub(super) const fn of(whole: u64) -> Self {
        Self {
            whole,
            millionths: 0,
        }
    }

    /// Parses digits, with or without a fraction. A number that overflows becomes the largest one.
    fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if !digits(whole) || !digits(fraction) {
            return None;
        }
        let (kept, cut) = fraction.split_at(fraction.len().min(6));
        let kept: u32 = format!("{kept:0<6}").parse().ok()?;
        let up = u32::from(cut.bytes().any(|byte| byte != b'0'));
        Some(Self {
            whole: whole.parse().unwrap_or(u64::MAX),
            millionths: kept + up,
        })
    }

    fn as_seconds(self) -> Duration {
        Duration::from_secs(self.whole)
            .saturating_add(Duration::from_micros(self.millionths.into()))
    }

    /// Returns the time from `sent` until the reset that the number declares.
    pub(super) fn as_reset(self, form: ResetForm, sent: Timestamp) -> Option<Duration> {
        let form = match form {
            ResetForm::Recognise if self.whole < FIRST_EPOCH_SECONDS => ResetForm::SecondsLeft,
            ResetForm::Recognise if self.whole < FIRST_EPOCH_MILLISECONDS => {
                ResetForm::EpochSeconds
            }
            ResetForm::Recognise if self.whole < FIRST_UNKNOWN => ResetForm::EpochMilliseconds,
            ResetForm::Recognise => return None,
            stated => stated,
        };
        let since_epoch = match form {
            ResetForm::EpochMilliseconds => Duration::from_millis(self.whole),
            ResetForm::EpochSeconds => self.as_seconds(),
            ResetForm::Recognise | ResetForm::SecondsLeft => return Some(self.as_seconds()),
        };
        Some((Timestamp::EPOCH + since_epoch).since(sent))
    }
}

/// A count with an optional window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowedCount {
    pub(super) number: Number,
    pub(super) window: Option<Duration>,
}

impl WindowedCount {
    /// Parses `100`, `59.0` or `100;w=60;comment="sliding window"`.
    fn parse(member: &str) -> Option<Self> {
        let mut parts = split_outside_quotes(member, b';');
        let number = Number::parse(parts.next()?.trim())?;
        let mut window = None;
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if matches!(name.trim(), "w" | "window") {
                let seconds = Number::parse(value.trim())?.as_seconds();
                window = Some(Some(seconds).filter(|seconds| *seconds >= MIN_WINDOW)?);
            }
        }
        Some(Self { number, window })
    }
}

impl RateHeaderReader<'_> {
    /// Returns all lines of a structured field as one (RFC 9651 section 4.2).
    pub(super) fn joined(&mut self, name: &str) -> Option<String> {
        let lines = self.lines(name)?;
        Some(lines.join(", "))
    }

    /// Parses the counts of a field. A malformed [`WindowedCount`] invalidates the whole field.
    /// Returns `None` if there are no counts.
    pub(super) fn counts(&mut self, name: &str) -> Option<Vec<WindowedCount>> {
        let lines = self.lines(name)?;
        let members = lines
            .iter()
            .flat_map(|line| split_outside_quotes(line, b','));
        let counts: Option<Vec<_>> = members.map(WindowedCount::parse).collect();
        self.bounded(counts)
    }

    /// Parses the resets of a field: numbers in a [`ResetForm`], or HTTP dates.
    pub(super) fn resets(&mut self, name: &str, form: ResetForm) -> Option<Vec<Duration>> {
        let sent = self.sent;
        let lines = self.lines(name)?;
        let resets: Option<Vec<_>> = lines
            .iter()
            .flat_map(|line| match http_date(line) {
                Some(date) => vec![Some(date.since(sent))],
                None => split_outside_quotes(line, b',')
                    .map(|member| WindowedCount::parse(member)?.number.as_reset(form, sent))
                    .collect(),
            })
            .collect();
        self.bounded(resets)
    }

    /// Parses an interval such as Crossref's `1s`. A number without a unit is in seconds.
    pub(super) fn interval(&mut self, name: &str) -> Option<Duration> {
        let text = self.single(name)?;
        let interval = match Number::parse(&text) {
            Some(number) => Some(number.as_seconds()),
            None => format!("1/{text}")
                .parse()
                .ok()
                .map(|window: Window| window.per),
        };
        let interval = interval.filter(|interval| *interval >= MIN_WINDOW);
        if interval.is_none() {
            self.count_malformed();
        }
        interval
    }

    /// Parses the name of a partition.
    pub(super) fn partition(&mut self, name: &str) -> Option<Box<str>> {
        let text = self.single(name)?;
        if text.is_empty() || text.len() > MAX_PARTITION_BYTES {
            self.count_malformed();
            return None;
        }
        Some(text.into())
    }

    /// Returns the value of a field whose lines are all equal.
    fn single(&mut self, name: &str) -> Option<String> {
        let lines = self.lines(name)?;
        let first = lines.first()?.to_string();
        if lines.iter().any(|line| *line != first) {
            self.count_malformed();
            return None;
        }
        Some(first)
    }

    fn lines(&mut self, name: &str) -> Option<Vec<&str>> {
        let values: Vec<&HeaderValue> = self.headers.get_all(name).iter().collect();
        if values.is_empty() {
            return None;
        }
        let length: usize = values.iter().map(|value| value.len() + ", ".len()).sum();
        let lines: Option<Vec<&str>> = values
            .iter()
            .map(|value| Some(value.to_str().ok()?.trim()))
            .collect();
        if lines.is_none() || length > MAX_FIELD_BYTES {
            self.count_malformed();
            return None;
        }
        lines
    }

    /// Returns the members of a field. Counts the field as malformed if a member is invalid, or if
    /// there are no members or too many.
    pub(super) fn bounded<T>(&mut self, members: Option<Vec<T>>) -> Option<Vec<T>> {
        let members = members.filter(|members| (1..=MAX_MEMBERS).contains(&members.len()));
        if members.is_none() {
            self.count_malformed();
        }
        members
    }
}

/// Splits a text at a separator outside of quotation marks.
fn split_outside_quotes(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character: char| {
        quoted ^= character == '"';
        !quoted && character == char::from(separator)
    })
}
