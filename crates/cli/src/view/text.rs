//! Progress, counts and times as text.

use std::time::Duration;

use docstokg_hub::clock::Timestamp;
use docstokg_telemetry::summary::bytes;

use super::ViewState;
use crate::program;

/// Formats a count: `1 work`, `2 works`.
pub(crate) fn plural(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Formats a time of day, UTC.
pub(crate) fn clock_time(at: Timestamp) -> String {
    let of_day = at.since(Timestamp::EPOCH).as_secs() % 86_400;
    format!("{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60)
}

/// Formats the progress for a wide terminal and for plain lines.
pub(super) fn progress(state: &ViewState) -> String {
    let counters = &state.counters;
    let left = match state.left {
        Some(left) => format!(", about {} left", length(left)),
        None if !counters.all_read => ", reading inputs".to_owned(),
        None => ", remaining time unknown".to_owned(),
    };
    let deferred = if counters.deferred > 0 {
        format!(", {} waiting (retry later)", counters.deferred)
    } else {
        String::new()
    };
    let files = format!(
        "{}, {}",
        plural(counters.files, "file"),
        bytes(counters.bytes)
    );
    format!("{files}{deferred}, {} elapsed{left}", length(state.elapsed))
}

/// Formats the progress for a narrow terminal.
pub(super) fn brief(state: &ViewState) -> String {
    let left = state
        .left
        .map(|left| format!(", {} left", length(left)))
        .unwrap_or_default();
    let deferred = if state.counters.deferred > 0 {
        format!(", {} waiting", state.counters.deferred)
    } else {
        String::new()
    };
    format!(
        "{}{deferred}, {}{left}",
        plural(state.counters.files, "file"),
        length(state.elapsed)
    )
}

/// Formats a plain line.
pub(super) fn plain(state: &ViewState) -> String {
    let counters = &state.counters;
    let more = if counters.all_read { "" } else { " so far" };
    format!(
        "{}: {} of {}{more} {}, {}",
        program::running().name,
        counters.done + counters.failed,
        counters.items,
        program::running().items(),
        progress(state)
    )
}

/// Formats a duration, rounded up to seconds or down to minutes.
pub(crate) fn length(length: Duration) -> String {
    let seconds = length.as_secs_f64().ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a length in seconds fits"
    )]
    let seconds = seconds as u64;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}
