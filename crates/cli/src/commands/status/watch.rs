//! `docstokg status --watch`: the status again and again until no run works any more. A terminal is
//! drawn again in place; elsewhere there is a line for every change.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use docstokg_content::run_status::{RunState, RunStatus};
use docstokg_hub::clock::{Clock, Runtime, TokioRuntime};
use docstokg_hub::json::escape_controls;
use serde_json::json;

use crate::arguments::GlobalArguments;
use crate::exit::{CommandFailure, EXIT_INTERRUPTED};
use crate::interrupts::Interrupts;
use crate::output;
use crate::session::{TaskThreads, start_runtime};
use crate::view::status::{brief, left, lines};
use crate::view::{terminal_height, terminal_width};

/// The time between two readings of the status.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Shows the status until no run works any more. An interrupt ends the output, and no run.
pub(super) fn watch(
    global: &GlobalArguments,
    read: impl Fn() -> Result<Vec<RunStatus>, CommandFailure>,
) -> Result<ExitCode, CommandFailure> {
    let runtime = start_runtime(TaskThreads::Caller)?;
    let mut interrupts = Interrupts::take()?;
    let mut output = if global.json {
        WatchOutput::Json(None)
    } else if std::io::stdout().is_terminal() {
        WatchOutput::Terminal(DrawnLines::default())
    } else {
        WatchOutput::Lines(None)
    };
    let clock = TokioRuntime::default();
    runtime.block_on(async {
        loop {
            let found = read()?;
            output.show(&found)?;
            let is_running = |status: &RunStatus| status.state == RunState::Running;
            if !found.iter().any(is_running) {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                _ = interrupts.next() => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
                () = clock.sleep_until(clock.boot() + READ_INTERVAL) => {}
            }
        }
    })
}

/// The output of the status.
enum WatchOutput {
    /// A terminal, which is drawn again.
    Terminal(DrawnLines),
    /// Lines, with the latest one.
    Lines(Option<String>),
    /// Lines of JSON, with what the latest one was about.
    Json(Option<String>),
}

impl WatchOutput {
    fn show(&mut self, statuses: &[RunStatus]) -> Result<(), CommandFailure> {
        match self {
            Self::Terminal(drawn) => drawn.draw(statuses),
            Self::Lines(latest) => {
                for status in statuses {
                    let news = describe(status);
                    if latest.as_ref() != Some(&news) {
                        output::line(&stamped(status, &news));
                        *latest = Some(news);
                    }
                }
                Ok(())
            }
            Self::Json(latest) => {
                for status in statuses {
                    let news = describe(status);
                    if latest.as_ref() != Some(&news) {
                        output::data(
                            format!("{}\n", escape_controls(json!(status).to_string())).as_bytes(),
                        );
                        *latest = Some(news);
                    }
                }
                Ok(())
            }
        }
    }
}

/// Describes what a line is printed for when it changes.
fn describe(status: &RunStatus) -> String {
    if status.state == RunState::Running {
        return brief(status);
    }
    let headline = lines(status, None).into_iter().next().unwrap_or_default();
    format!("{}; {headline}", brief(status))
}

/// Formats a line with the time, and the remaining time of a run that works.
fn stamped(status: &RunStatus, news: &str) -> String {
    let at: String = status.at.to_string().chars().take(19).collect();
    let at = at.replace('T', " ");
    match status.state {
        RunState::Running => format!("{at} UTC  {news}; {}", left(status)),
        _ => format!("{at} UTC  {news}"),
    }
}

/// The lines that stand on the terminal.
#[derive(Default)]
struct DrawnLines {
    lines: usize,
    width: Option<usize>,
}

impl DrawnLines {
    /// Draws the status over what was drawn before. Lines that do not fit the screen are left out:
    /// what has scrolled away cannot be drawn over.
    fn draw(&mut self, statuses: &[RunStatus]) -> Result<(), CommandFailure> {
        let stdout = std::io::stdout();
        let width = terminal_width(&stdout);
        let mut text = String::new();
        if width != self.width && self.lines > 0 {
            // The terminal has broken the lines at other places.
            text.push_str("\x1b[2J\x1b[H");
        } else if self.lines > 0 {
            text.push_str(&format!("\x1b[{}A\x1b[J", self.lines));
        }
        let shown = statuses.iter().map(|status| lines(status, width));
        let mut shown: Vec<String> = shown.flatten().collect();
        let most = terminal_height(&stdout).saturating_sub(1);
        while rows(&shown, width) > most {
            shown.pop();
        }
        self.lines = rows(&shown, width);
        self.width = width;
        for line in shown {
            text.push_str(&output::plain(&line));
            text.push('\n');
        }
        let mut stdout = stdout.lock();
        let written = stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush());
        written.map_err(|error| CommandFailure::Failed(error.into()))
    }
}

/// Counts the rows that lines take on a terminal: commands may be longer than its width.
fn rows(lines: &[String], width: Option<usize>) -> usize {
    let width = width.unwrap_or(usize::MAX).max(1);
    let of_line = |line: &String| line.chars().count().div_ceil(width).max(1);
    lines.iter().map(of_line).sum()
}
