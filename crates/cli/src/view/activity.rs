//! One line for the figures of a host: the same in the progress of a run and in its status.

use docstokg_bulk::run_snapshot::HostActivity;

use super::waits::shortened;

/// Formats the figures of a host for a terminal of this width.
pub(super) fn activity_text(host: &HostActivity, width: usize) -> String {
    let columns = width.saturating_sub(40).clamp(12, 34);
    let name = shortened(&host.host, columns);
    let mut text = format!("{name:<columns$} {:>5.1}/s", host.rate);
    if let Some(limited_to) = &host.limited_to {
        text.push_str(&format!(", {limited_to}"));
    }
    if let Some(open_s) = host.open_s {
        text.push_str(&format!("  paused, retry in {:.0} s", open_s.ceil()));
    } else if host.waits_s > 0.0 {
        text.push_str(&format!("  queue {:.0} s", host.waits_s.ceil()));
    }
    if host.status_429 > 0 {
        text.push_str(&format!("  {} x 429", host.status_429));
    }
    shortened(&text, width)
}
