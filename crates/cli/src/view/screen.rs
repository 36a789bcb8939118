//! Progress on a terminal.

use std::os::fd::AsFd;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::ViewState;
use super::hosts::HostLine;
use super::text::{brief, progress};
use super::waits::shortened;

/// Maximum number of waits that a terminal shows.
const MAX_WAITS: usize = 3;
/// The number of columns of the bar and the gap before the message.
const BAR_COLUMNS: usize = 17;

/// A terminal with a bar and lines that are redrawn.
pub(super) struct TerminalScreen {
    all: MultiProgress,
    overall: ProgressBar,
    lines: Vec<ProgressBar>,
    /// The number of columns of the terminal at the last drawing.
    width: usize,
}

impl TerminalScreen {
    pub(super) fn new() -> Self {
        let all = MultiProgress::new();
        let overall = all.add(ProgressBar::new(0));
        // The templates are valid constants. An invalid template would leave the default style.
        if let Ok(style) = ProgressStyle::with_template("{bar:14} {pos}/{len} {msg}") {
            overall.set_style(style.progress_chars("=> "));
        }
        Self {
            all,
            overall,
            lines: Vec::new(),
            width: usize::from(console_width()),
        }
    }

    pub(super) fn draw(&mut self, state: &ViewState, hosts: &[HostLine]) {
        // The width may change at any time. A line longer than the terminal would wrap and corrupt
        // the next drawing.
        let width = usize::from(console_width());
        let is_resized = width != self.width;
        if is_resized {
            // A change of one line redraws all lines, and some are still too long for the new
            // width. So nothing is drawn until all lines are set.
            self.width = width;
            let _ = self.all.clear();
            self.all.set_draw_target(ProgressDrawTarget::hidden());
        }
        self.overall.set_length(state.counters.items);
        self.overall
            .set_position(state.counters.done + state.counters.failed);
        let free = width.saturating_sub(BAR_COLUMNS + 2 * state.counters.items.to_string().len());
        let texts = [progress(state), brief(state)];
        let message = texts
            .iter()
            .find(|text| text.chars().count() <= free)
            .cloned()
            .unwrap_or_else(|| shortened(&texts[1], free));
        self.overall.set_message(message);
        let waits = state
            .waits
            .iter()
            .take(MAX_WAITS)
            .map(|wait| wait.within(width.saturating_sub(3)));
        let texts: Vec<String> = hosts
            .iter()
            .map(|line| line.text(width.saturating_sub(3)))
            .chain(
                state
                    .files
                    .iter()
                    .map(|file| shortened(file, width.saturating_sub(3))),
            )
            .chain(waits)
            .collect();
        while self.lines.len() < texts.len() {
            let line = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("  {msg}") {
                line.set_style(style);
            }
            self.lines.push(line);
        }
        for (index, line) in self.lines.iter().enumerate() {
            line.set_message(texts.get(index).cloned().unwrap_or_default());
            line.tick();
        }
        if is_resized {
            self.all.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Writes a line above the bar.
    pub(super) fn tell(&self, text: &str) {
        // If the terminal is closed, the run continues without display.
        let _ = self.all.println(text);
    }

    /// Removes the bar and the lines.
    pub(super) fn end(self) {
        let _ = self.all.clear();
    }
}

/// Returns the columns of the terminal of stderr.
fn console_width() -> u16 {
    let width = terminal_width(&std::io::stderr());
    width
        .and_then(|width| u16::try_from(width).ok())
        .unwrap_or(80)
}

/// Returns the columns of a terminal; `None` if the output is not one.
pub(crate) fn terminal_width(output: &impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(output).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Returns the rows of a terminal.
pub(crate) fn terminal_height(output: &impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(output);
    let rows = size.map_or(0, |size| usize::from(size.ws_row));
    if rows > 0 { rows } else { 24 }
}
