//! Progress of a run on stderr.
//!
//! - On a terminal, an overall bar and a line per busy host.
//! - Elsewhere, plain lines; with `--json`, JSON lines; with `--quiet`, nothing.

mod activity;
mod files;
mod hosts;
mod other_limits;
mod publisher;
mod screen;
pub(crate) mod status;
pub(crate) mod text;
mod waits;

use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::progress::{Counters, RunProgress};
use docstokg_hub::Hub;
use docstokg_hub::clock::{BootInstant, Clock, Runtime, TokioRuntime};
use docstokg_hub::config::Config;
use docstokg_hub::event::Observer;
use serde_json::{Value, json};

use crate::arguments::GlobalArguments;
use crate::{output, program};
use files::LargeFiles;
use hosts::HostObserver;
pub(crate) use publisher::{ResumeCommands, RunPlaces, StatusPublisher, publish_end};
use screen::TerminalScreen;
pub(crate) use screen::{terminal_height, terminal_width};
pub(crate) use text::{clock_time, length, plural};
use waits::WaitLine;

/// The interval between two drawings of a terminal.
const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The interval between two plain lines.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// The interval at which notices are taken from the run.
const NOTICE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of hosts with a line.
const MAX_HOST_LINES: usize = 8;
/// Maximum number of waits that plain output lists.
const MAX_PLAIN_WAITS: usize = 5;

/// The format of progress.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgressFormat {
    Terminal,
    Plain,
    Json,
    Quiet,
}

/// Displays the progress of a run.
pub(crate) struct ProgressView {
    format: ProgressFormat,
    hosts: Arc<HostObserver>,
    files: LargeFiles,
    clock: TokioRuntime,
    /// Tells other processes how the run stands.
    publisher: Option<StatusPublisher>,
}

impl ProgressView {
    /// Creates a view without progress.
    pub(crate) fn new(global: &GlobalArguments, config: &Config) -> Self {
        let format = match () {
            () if global.quiet => ProgressFormat::Quiet,
            () if global.json => ProgressFormat::Json,
            () if std::io::stderr().is_terminal() => ProgressFormat::Terminal,
            () => ProgressFormat::Plain,
        };
        Self {
            format,
            hosts: Arc::new(HostObserver::new(config)),
            files: LargeFiles::default(),
            clock: TokioRuntime::default(),
            publisher: None,
        }
    }

    /// Tells other processes as well how the run stands.
    pub(crate) fn publishing(self, publisher: Option<StatusPublisher>) -> Self {
        Self { publisher, ..self }
    }

    /// Takes the publisher out, so that it can be ended.
    pub(crate) fn take_publisher(&mut self) -> Option<StatusPublisher> {
        self.publisher.take()
    }

    /// Returns the [`Observer`] to register with the hub, unless nothing is displayed.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        let is_watched = self.format != ProgressFormat::Quiet || self.publisher.is_some();
        is_watched.then(|| Arc::clone(&self.hosts) as Arc<dyn Observer>)
    }

    /// Displays progress until the run ends, or until `enough` ends.
    pub(crate) async fn show<T>(
        &self,
        hub: &Hub,
        progress: &Arc<RunProgress>,
        work: impl Future<Output = T>,
        enough: impl Future<Output = ()>,
    ) -> Option<T> {
        let started = self.clock.boot();
        let mut screen = (self.format == ProgressFormat::Terminal).then(TerminalScreen::new);
        let mut work = std::pin::pin!(work);
        let mut enough = std::pin::pin!(enough);
        let mut watch = std::pin::pin!(other_limits::watch(hub, &self.hosts, progress));
        let interval = if self.format == ProgressFormat::Terminal {
            DRAW_INTERVAL
        } else {
            PLAIN_INTERVAL
        };
        let (mut next_draw, mut was_waiting) = (started + interval, false);
        self.publish(progress);
        let outcome = loop {
            let wake = (self.clock.boot() + NOTICE_INTERVAL).min(next_draw);
            tokio::select! {
                outcome = &mut work => break Some(outcome),
                () = &mut enough => break None,
                () = &mut watch, if self.format != ProgressFormat::Quiet => {}
                () = self.clock.sleep_until(wake) => {
                    self.tell_notices(progress, screen.as_ref());
                    self.publish(progress);
                    if self.format == ProgressFormat::Plain {
                        self.files.news(progress).iter().for_each(|line| output::print_note(line));
                    }
                    // The start of a wait for paused hosts is shown at once.
                    let only_waits = progress.is_only_waiting();
                    let is_news = only_waits && !was_waiting;
                    was_waiting = only_waits;
                    if wake >= next_draw || is_news {
                        next_draw = self.clock.boot() + interval;
                        self.draw(progress, started, screen.as_mut());
                    }
                }
            }
        };
        if let Some(screen) = screen.take() {
            screen.end();
        }
        self.tell_notices(progress, None);
        outcome
    }

    fn tell_notices(&self, progress: &RunProgress, screen: Option<&TerminalScreen>) {
        for text in progress.notices() {
            let text = format!("{}: {text}", program::running().name);
            match screen {
                _ if self.format == ProgressFormat::Quiet => {}
                Some(screen) => screen.tell(&text),
                None => output::tell(&text),
            }
        }
    }

    /// Tells other processes how the run stands, if it is time to.
    fn publish(&self, progress: &RunProgress) {
        if let Some(publisher) = &self.publisher {
            publisher.publish(progress, &self.hosts, &self.clock);
        }
    }

    fn draw(
        &self,
        progress: &RunProgress,
        started: BootInstant,
        screen: Option<&mut TerminalScreen>,
    ) {
        let now = self.clock.boot();
        let hosts = self.hosts.lines(now, MAX_HOST_LINES);
        let wall = self.clock.wall();
        let state = ViewState {
            counters: progress.counters(),
            elapsed: now.since(started),
            left: progress.remaining_time(wall),
            waits: waits::of(progress, &hosts, wall),
            files: files::lines(progress),
        };
        match (self.format, screen) {
            (ProgressFormat::Terminal, Some(screen)) => screen.draw(&state, &hosts),
            (ProgressFormat::Plain, _) => {
                output::tell(&text::plain(&state));
                for wait in state.waits.iter().take(MAX_PLAIN_WAITS) {
                    output::print_note(&wait.sentence());
                }
            }
            (ProgressFormat::Json, _) => {
                output::tell(&progress_json(&state, progress, &hosts).to_string());
            }
            _ => {}
        }
    }
}

fn progress_json(state: &ViewState, progress: &RunProgress, hosts: &[hosts::HostLine]) -> Value {
    let counters = &state.counters;
    let waiting = progress.waiting();
    let waiting = waiting.iter().map(|wait| {
        json!({
            "host": wait.host,
            (program::running().items()): wait.items,
            "until": wait.until.as_secs_f64(),
            "why": wait.why,
        })
    });
    json!({
        "event": "progress",
        (program::running().items()): counters.items,
        "all_read": counters.all_read,
        "done": counters.done,
        "failed": counters.failed,
        "parked": counters.deferred,
        "files": counters.files,
        "bytes": counters.bytes,
        "elapsed_s": state.elapsed.as_secs_f64(),
        "left_s": state.left.map(|left| left.as_secs_f64()),
        "waiting": waiting.collect::<Vec<_>>(),
        "hosts": hosts.iter().map(hosts::HostLine::json).collect::<Vec<_>>(),
        "large_files": progress
            .files()
            .iter()
            .take(MAX_HOST_LINES)
            .map(|file| {
                json!({
                    "name": file.name,
                    "phase": file.phase(),
                    "received": file.transfer.received(),
                    "expected": file.transfer.expected(),
                })
            })
            .collect::<Vec<_>>(),
    })
}

/// The displayed progress.
struct ViewState {
    counters: Counters,
    elapsed: Duration,
    /// The remaining time, if known.
    left: Option<Duration>,
    /// The waits of the run.
    waits: Vec<WaitLine>,
    /// The largest active files.
    files: Vec<String>,
}
