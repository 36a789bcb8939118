//! Windows in words, with the same wording in every message: `2 a second, 500 an hour`.

use std::time::Duration;

use super::Window;

/// Describes a [`Window`]: `500 an hour`, `20 in 5 s`, `one every 7.2 s`.
#[must_use]
pub fn window_in_words(window: &Window) -> String {
    let unit = match window.per.as_millis() {
        1_000 => "a second",
        60_000 => "a minute",
        3_600_000 => "an hour",
        86_400_000 => "a day",
        _ if window.limit.get() == 1 => return format!("one every {}", time_in_words(window.per)),
        _ => return format!("{} in {}", window.limit, time_in_words(window.per)),
    };
    format!("{} {unit}", window.limit)
}

/// Describes windows that apply together: `2 a second, 500 an hour`. An empty list is `no limit`.
#[must_use]
pub fn rates_in_words(windows: &[Window]) -> String {
    if windows.is_empty() {
        return "no limit".to_owned();
    }
    let windows: Vec<String> = windows.iter().map(window_in_words).collect();
    windows.join(", ")
}

/// The source of a limit that delays requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitBasis {
    /// The configuration.
    Configured,
    /// The even [`Spacing`](crate::pacing::Spacing) of this configured limit.
    Spacing(Window),
    /// The robots.txt of the host.
    CrawlDelay,
    /// The rate headers of the host.
    Stated,
    /// The refusals of the host.
    Learned,
    /// The rate headers or the refusals of the host.
    StatedOrLearned,
}

impl LimitBasis {
    /// Returns whether the configuration can change the limit.
    #[must_use]
    pub const fn is_configured(self) -> bool {
        matches!(self, Self::Configured | Self::Spacing(_))
    }
}

/// Describes the limit that delays a request. Examples:
///
/// - `500 an hour`
/// - `2 a second, spread evenly: one every 0.5 s`
/// - `learned limit, about 4 a second`
#[must_use]
pub fn limit_in_words(window: &Window, basis: LimitBasis) -> String {
    let words = window_in_words(window);
    match basis {
        LimitBasis::Configured => words,
        LimitBasis::Spacing(limit) => {
            let distance = time_in_words(window.per / window.limit.get());
            let limit = window_in_words(&limit);
            format!("{limit}, spread evenly: one every {distance}")
        }
        LimitBasis::CrawlDelay => format!("asked for by its robots.txt: {words}"),
        LimitBasis::Stated => format!("stated by the host: {words}"),
        LimitBasis::Learned => format!("learned limit, about {words}"),
        LimitBasis::StatedOrLearned => format!("stated by the host or learned, about {words}"),
    }
}

/// Formats a length of time exactly to a millisecond, without needless digits: `7.2 s`, `10 min`.
fn time_in_words(length: Duration) -> String {
    let millis = length.as_millis();
    for (unit, size) in [("days", 86_400_000), ("h", 3_600_000), ("min", 60_000)] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{} {unit}", millis / size);
        }
    }
    let seconds = format!("{:.3}", length.as_secs_f64());
    format!("{} s", seconds.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::parse_rates;

    #[test]
    fn windows_are_described_as_people_say_them() {
        for (rates, words) in [
            ("2/SECOND+500/HOUR", "2 a second, 500 an hour"),
            ("30/MINUTE+100000/DAY", "30 a minute, 100000 a day"),
            ("1/SECOND", "1 a second"),
            ("1/3SECOND", "one every 3 s"),
            ("1/7200ms", "one every 7.2 s"),
            ("20/5SECOND", "20 in 5 s"),
            ("100/10MINUTE+7/2HOUR", "100 in 10 min, 7 in 2 h"),
        ] {
            assert_eq!(rates_in_words(&parse_rates(rates).unwrap()), words);
        }
        assert_eq!(rates_in_words(&[]), "no limit");
    }

    #[test]
    fn a_limit_is_described_with_its_basis() {
        let read = |text: &str| text.parse::<Window>().unwrap();
        for (window, basis, words) in [
            (
                "1/7200ms",
                LimitBasis::Spacing(read("500/HOUR")),
                "500 an hour, spread evenly: one every 7.2 s",
            ),
            (
                "4/20ms",
                LimitBasis::Spacing(read("200/SECOND")),
                "200 a second, spread evenly: one every 0.005 s",
            ),
            ("500/HOUR", LimitBasis::Configured, "500 an hour"),
            (
                "1/5SECOND",
                LimitBasis::CrawlDelay,
                "asked for by its robots.txt: one every 5 s",
            ),
            (
                "7/60s",
                LimitBasis::Stated,
                "stated by the host: 7 a minute",
            ),
            (
                "4/SECOND",
                LimitBasis::Learned,
                "learned limit, about 4 a second",
            ),
            (
                "1/3SECOND",
                LimitBasis::StatedOrLearned,
                "stated by the host or learned, about one every 3 s",
            ),
        ] {
            assert_eq!(limit_in_words(&read(window), basis), words);
        }
    }
}
