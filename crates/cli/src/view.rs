//! What a person sees of a run while it goes on: an overall bar and a line per busy host on a terminal, a plain line now
//! and then elsewhere, JSON lines with `--json`, nothing with `--quiet`. All of it goes to stderr.

mod hosts;

use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use docstokg_content::run::{Board, Tally};
use docstokg_hub::clock::{BootInstant, Clock, Runtime, TokioRuntime};
use docstokg_hub::config::Config;
use docstokg_hub::event::Observer;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;

use crate::arguments::Global;
use crate::output;
use hosts::Hosts;

/// How often a terminal is drawn.
const DRAW: Duration = Duration::from_millis(200);
/// How often a plain line is written.
const PLAIN: Duration = Duration::from_secs(10);
/// How many hosts have a line.
const LINES: usize = 8;

/// How a run is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Terminal,
    Plain,
    Json,
    Quiet,
}

/// Shows a run.
pub(crate) struct View {
    manner: Manner,
    hosts: Arc<Hosts>,
    clock: TokioRuntime,
}

impl View {
    /// Starts with nothing to show.
    pub(crate) fn new(global: &Global, config: &Config) -> Self {
        let manner = match () {
            () if global.quiet => Manner::Quiet,
            () if global.json => Manner::Json,
            () if std::io::stderr().is_terminal() => Manner::Terminal,
            () => Manner::Plain,
        };
        Self { manner, hosts: Arc::new(Hosts::new(config)), clock: TokioRuntime::default() }
    }

    /// Returns what watches the hub, where somebody looks.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        matches!(self.manner, Manner::Terminal | Manner::Json).then(|| Arc::clone(&self.hosts) as Arc<dyn Observer>)
    }

    /// Shows the run until it ends, or until whoever watches has had enough.
    pub(crate) async fn show<T>(&self, board: &Arc<Board>, work: impl Future<Output = T>, enough: impl Future<Output = ()>) -> Option<T> {
        let begun = self.clock.boot();
        let mut screen = (self.manner == Manner::Terminal).then(Screen::new);
        let mut work = std::pin::pin!(work);
        let mut enough = std::pin::pin!(enough);
        let interval = if self.manner == Manner::Terminal { DRAW } else { PLAIN };
        let mut next = begun + interval;
        let outcome = loop {
            tokio::select! {
                outcome = &mut work => break Some(outcome),
                () = &mut enough => break None,
                () = self.clock.sleep_until(next) => {
                    next = self.clock.boot() + interval;
                    self.tell_notices(board, screen.as_ref());
                    self.draw(board, begun, screen.as_mut());
                }
            }
        };
        if let Some(screen) = screen.take() {
            screen.end();
        }
        self.tell_notices(board, None);
        outcome
    }

    fn tell_notices(&self, board: &Board, screen: Option<&Screen>) {
        for text in board.notices() {
            let text = format!("docstokg: {text}");
            match screen {
                _ if self.manner == Manner::Quiet => {}
                Some(screen) => screen.tell(&text),
                None => output::tell(&text),
            }
        }
    }

    fn draw(&self, board: &Board, begun: BootInstant, screen: Option<&mut Screen>) {
        let tally = board.tally();
        let now = self.clock.boot();
        let elapsed = now.since(begun);
        match (self.manner, screen) {
            (Manner::Terminal, Some(screen)) => screen.draw(&tally, elapsed, &self.hosts.lines(now, LINES)),
            (Manner::Plain, _) => output::tell(&plain(&tally, elapsed)),
            (Manner::Json, _) => output::tell(
                &json!({ "event": "progress", "works": tally.works, "all_read": tally.all_read, "done": tally.done, "failed": tally.failed,
                         "parked": tally.parked, "files": tally.files, "bytes": tally.bytes, "elapsed_s": elapsed.as_secs_f64(),
                         "hosts": self.hosts.lines(now, LINES).iter().map(hosts::Line::json).collect::<Vec<_>>() })
                .to_string(),
            ),
            _ => {}
        }
    }
}

/// Estimates what is left, from what this run has done so far.
fn left(tally: &Tally, elapsed: Duration) -> Option<Duration> {
    let here = (tally.done + tally.failed).saturating_sub(tally.already);
    let left = tally.works.saturating_sub(tally.done + tally.failed);
    let (here, left) = (u32::try_from(here).ok().filter(|here| *here > 0)?, u32::try_from(left).ok()?);
    (tally.all_read && left > 0).then(|| elapsed.mul_f64(f64::from(left) / f64::from(here)))
}

fn plain(tally: &Tally, elapsed: Duration) -> String {
    let ended = tally.done + tally.failed;
    let more = if tally.all_read { "" } else { " so far" };
    let eta = left(tally, elapsed).map(|left| format!(", about {} left", length(left))).unwrap_or_default();
    let parked = if tally.parked > 0 { format!(", {} put away", tally.parked) } else { String::new() };
    format!(
        "docstokg: {ended} of {}{more} works, {} files, {:.1} MiB{parked}, {} gone{eta}",
        tally.works,
        tally.files,
        mebibytes(tally.bytes),
        length(elapsed)
    )
}

#[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// A terminal.
struct Screen {
    all: MultiProgress,
    overall: ProgressBar,
    lines: Vec<ProgressBar>,
}

impl Screen {
    fn new() -> Self {
        let all = MultiProgress::new();
        let overall = all.add(ProgressBar::new(0));
        // Both are constants that were tried; a broken one would fall back to the default.
        if let Ok(style) = ProgressStyle::with_template("{bar:14} {pos}/{len} {msg}") {
            overall.set_style(style.progress_chars("=> "));
        }
        Self { all, overall, lines: Vec::new() }
    }

    fn draw(&mut self, tally: &Tally, elapsed: Duration, hosts: &[hosts::Line]) {
        self.overall.set_length(tally.works);
        self.overall.set_position(tally.done + tally.failed);
        // No sooner than the longest line is through.
        let longest = hosts.iter().map(hosts::Line::waits).max().unwrap_or_default();
        let eta = match left(tally, elapsed) {
            Some(left) => format!("{} left", length(left.max(longest))),
            None if !tally.all_read => "reading".to_owned(),
            None => String::new(),
        };
        let parked = if tally.parked > 0 { format!(", {} put away", tally.parked) } else { String::new() };
        let files = format!("{} files, {:.1} MiB", tally.files, mebibytes(tally.bytes));
        self.overall.set_message(format!("{files}{parked}, {} gone, {eta}", length(elapsed)));
        while self.lines.len() < hosts.len() {
            let line = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("  {msg}") {
                line.set_style(style);
            }
            self.lines.push(line);
        }
        for (place, line) in self.lines.iter().enumerate() {
            line.set_message(hosts.get(place).map(hosts::Line::text).unwrap_or_default());
            line.tick();
        }
    }

    fn tell(&self, text: &str) {
        // A terminal that is gone has nobody to tell.
        let _ = self.all.println(text);
    }

    fn end(self) {
        let _ = self.all.clear();
    }
}
