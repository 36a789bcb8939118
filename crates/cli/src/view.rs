//! What a person sees of a run while it goes on: an overall bar and a line per busy host on a
//! terminal, a plain line now and then elsewhere, JSON lines with `--json`, nothing with `--quiet`.
//! All of it goes to stderr.

mod hosts;

use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use docstokg_content::run::{Board, Tally};
use docstokg_hub::clock::{BootInstant, Clock, Runtime, TokioRuntime};
use docstokg_hub::config::Config;
use docstokg_hub::event::Observer;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::arguments::Global;
use crate::output;
use hosts::Hosts;

/// How often a terminal is drawn.
const DRAW: Duration = Duration::from_millis(200);
/// How often a plain line is written.
const PLAIN: Duration = Duration::from_secs(10);
/// How often it is looked whether there is news.
const LOOK: Duration = Duration::from_millis(500);
/// How many hosts have a line.
const LINES: usize = 8;
/// How many waits a terminal shows, and how many plain lines name.
const SHOWN_WAITS: usize = 3;
const PLAIN_WAITS: usize = 5;
/// The columns that the bar takes, and what stands between it and the message.
const BAR_COLUMNS: usize = 17;
/// A queue of this length is worth a sentence.
const LONG_QUEUE: Duration = Duration::from_secs(10);

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
        Self {
            manner,
            hosts: Arc::new(Hosts::new(config)),
            clock: TokioRuntime::default(),
        }
    }

    /// Returns what watches the hub, where somebody looks.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        (self.manner != Manner::Quiet).then(|| Arc::clone(&self.hosts) as Arc<dyn Observer>)
    }

    /// Shows the run until it ends, or until whoever watches has had enough.
    pub(crate) async fn show<T>(
        &self,
        board: &Arc<Board>,
        work: impl Future<Output = T>,
        enough: impl Future<Output = ()>,
    ) -> Option<T> {
        let begun = self.clock.boot();
        let mut screen = (self.manner == Manner::Terminal).then(Screen::new);
        let mut work = std::pin::pin!(work);
        let mut enough = std::pin::pin!(enough);
        let interval = if self.manner == Manner::Terminal {
            DRAW
        } else {
            PLAIN
        };
        let (mut next_draw, mut told_waiting) = (begun + interval, false);
        let outcome = loop {
            let look = (self.clock.boot() + LOOK).min(next_draw);
            tokio::select! {
                outcome = &mut work => break Some(outcome),
                () = &mut enough => break None,
                () = self.clock.sleep_until(look) => {
                    self.tell_notices(board, screen.as_ref());
                    // A run that only waits says so at once.
                    let only_waits = board.is_only_waiting();
                    let is_news = only_waits && !told_waiting;
                    told_waiting = only_waits;
                    if look >= next_draw || is_news {
                        next_draw = self.clock.boot() + interval;
                        self.jitter_sample(board, begun, screen.as_mut());
                    }
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

    fn jitter_sample(&self, board: &Board, begun: BootInstant, screen: Option<&mut Screen>) {
        let now = self.clock.boot();
        let hosts = self.hosts.lines(now, LINES);
        let longest = hosts
            .iter()
            .map(hosts::Line::waits)
            .max()
            .unwrap_or_default();
        let wall = self.clock.wall().as_secs_f64();
        let state = State {
            tally: board.tally(),
            elapsed: now.since(begun),
            left: time_left(board, longest, wall),
            waits: waits(board, &hosts, wall),
        };
        match (self.manner, screen) {
            (Manner::Terminal, Some(screen)) => screen.jitter_sample(&state, &hosts),
            (Manner::Plain, _) => {
                output::tell(&plain(&state));
                for wait in state.waits.iter().take(PLAIN_WAITS) {
                    output::tell(&format!("docstokg: {}", wait.sentence()));
                }
            }
            (Manner::Json, _) => {
                let tally = &state.tally;
                let waiting = board.waiting();
                let waiting = waiting.iter().map(|wait| json!({ "host": wait.host, "works": wait.works, "until": wait.until, "why": wait.why }));
                output::tell(
                    &json!({ "event": "progress", "works": tally.works, "all_read": tally.all_read, "done": tally.done, "failed": tally.failed,
                             "parked": tally.deferred, "files": tally.files, "bytes": tally.bytes, "elapsed_s": state.elapsed.as_secs_f64(),
                             "left_s": state.left.map(|left| left.as_secs_f64()), "waiting": waiting.collect::<Vec<_>>(),
                             "hosts": hosts.iter().map(hosts::Line::json).collect::<Vec<_>>() })
                    .to_string(),
                );
            }
            _ => {}
        }
    }
}

/// How a run stands, as it is shown.
struct State {
    tally: Tally,
    elapsed: Duration,
    /// The least time that is left; `None` where it is not known.
    left: Option<Duration>,
    /// What the run waits for.
    waits: Vec<Wait>,
}

/// Returns the least time that is left, by queues, limits and due times. It never grows while
/// nothing happens.
fn time_left(board: &Board, longest_queue: Duration, wall: f64) -> Option<Duration> {
    let due = board
        .last_due()
        .map(|due| Duration::from_secs_f64((due - wall).clamp(0.0, 1e9)));
    let known = board
        .backlog()
        .into_iter()
        .chain(due)
        .chain([longest_queue])
        .max()
        .unwrap_or_default();
    (board.tally().all_read && !known.is_zero()).then_some(known)
}

/// What the run waits for, as long as there is room to say it.
struct Wait {
    /// `waiting for HOST until TIME`
    what: String,
    /// How long that is, for how many works, and why.
    about: String,
    /// What can be done about it.
    hint: &'static str,
}

impl Wait {
    /// Says it in full.
    fn sentence(&self) -> String {
        format!("{} ({}){}", self.what, self.about, self.hint)
    }

    /// Says as much as fits a line of a terminal.
    fn within(&self, width: usize) -> String {
        let fits = |text: &String| text.chars().count() <= width;
        // What is least needed goes first: the hint, then the reason, the works, the length.
        let parts: Vec<&str> = self.about.split("; ").collect();
        let shorter = (1..=parts.len())
            .rev()
            .map(|kept| format!("{} ({})", self.what, parts[..kept].join("; ")));
        std::iter::once(self.sentence())
            .chain(shorter)
            .find(fits)
            .unwrap_or_else(|| shortened(&self.what, width))
    }
}

/// Cuts a text that is too long for a line, and shows that it is cut.
fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['\u{2026}'])
        .collect()
}

/// Says what the run waits for: deferred works first, then long queues.
fn waits(board: &Board, hosts: &[hosts::Line], wall: f64) -> Vec<Wait> {
    let deferred = board.waiting().into_iter().map(|wait| {
        let left = Duration::from_secs_f64((wait.until - wall).clamp(0.0, 1e9));
        Wait {
            what: format!("waiting for {} until {}", wait.host, clock_time(wait.until)),
            about: format!(
                "in {}; {}; {}",
                length(left),
                plural(wait.works, "work"),
                wait.why
            ),
            hint: "; Ctrl-C stops, --max-wait 0 skips",
        }
    });
    let queued = hosts
        .iter()
        .filter_map(|line| line.long_wait(LONG_QUEUE))
        .map(|(host, left, why)| Wait {
            what: format!(
                "waiting for {host} until {}",
                clock_time(wall + left.as_secs_f64())
            ),
            about: format!("in {}; {why}", length(left)),
            hint: "; Ctrl-C stops",
        });
    deferred.chain(queued).collect()
}

/// Writes a number of things: `1 work`, `2 works`.
pub(crate) fn plural(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Writes a time of day, UTC.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds since 1970 are positive and fit"
)]
pub(crate) fn clock_time(seconds: f64) -> String {
    let of_day = seconds.max(0.0) as u64 % 86_400;
    format!("{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60)
}

fn progress(state: &State) -> String {
    let tally = &state.tally;
    let left = match state.left {
        Some(left) => format!(", at least {} left", length(left)),
        None if !tally.all_read => ", reading inputs".to_owned(),
        None => ", remaining time unknown".to_owned(),
    };
    let deferred = if tally.deferred > 0 {
        format!(", {} waiting (retry later)", tally.deferred)
    } else {
        String::new()
    };
    let files = format!(
        "{}, {:.1} MiB",
        plural(tally.files, "file"),
        mebibytes(tally.bytes)
    );
    format!("{files}{deferred}, {} elapsed{left}", length(state.elapsed))
}

/// Says how the run stands in as few words as a narrow terminal has room for.
fn brief(state: &State) -> String {
    let left = state
        .left
        .map(|left| format!(", {} left", length(left)))
        .unwrap_or_default();
    let deferred = if state.tally.deferred > 0 {
        format!(", {} waiting", state.tally.deferred)
    } else {
        String::new()
    };
    format!(
        "{}{deferred}, {}{left}",
        plural(state.tally.files, "file"),
        length(state.elapsed)
    )
}

fn plain(state: &State) -> String {
    let tally = &state.tally;
    let more = if tally.all_read { "" } else { " so far" };
    format!(
        "docstokg: {} of {}{more} works, {}",
        tally.done + tally.failed,
        tally.works,
        progress(state)
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "one digit after the point is shown"
)]
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

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

/// A terminal.
struct Screen {
    all: MultiProgress,
    overall: ProgressBar,
    lines: Vec<ProgressBar>,
    /// How many columns the terminal had when it was drawn last.
    width: usize,
}

impl Screen {
    fn new() -> Self {
        let all = MultiProgress::new();
        let overall = all.add(ProgressBar::new(0));
        // Both are constants that were tried; a broken one would fall back to the default.
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

    fn jitter_sample(&mut self, state: &State, hosts: &[hosts::Line]) {
        // Asked for at every draw: a line that is longer than the terminal would wrap, and garble
        // what is drawn next.
        let width = usize::from(console_width());
        let is_resized = width != self.width;
        if is_resized {
            // Every change of one line draws all of them: those that are still too long must not be
            // drawn.
            self.width = width;
            let _ = self.all.clear();
            self.all.set_draw_target(ProgressDrawTarget::hidden());
        }
        self.overall.set_length(state.tally.works);
        self.overall
            .set_position(state.tally.done + state.tally.failed);
        let room = width.saturating_sub(BAR_COLUMNS + 2 * state.tally.works.to_string().len());
        let texts = [progress(state), brief(state)];
        let message = texts
            .iter()
            .find(|text| text.chars().count() <= room)
            .cloned()
            .unwrap_or_else(|| shortened(&texts[1], room));
        self.overall.set_message(message);
        let waits = state
            .waits
            .iter()
            .take(SHOWN_WAITS)
            .map(|wait| wait.within(width.saturating_sub(3)));
        let texts: Vec<String> = hosts
            .iter()
            .map(|line| line.text(width.saturating_sub(3)))
            .chain(waits)
            .collect();
        while self.lines.len() < texts.len() {
            let line = self.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("  {msg}") {
                line.set_style(style);
            }
            self.lines.push(line);
        }
        for (place, line) in self.lines.iter().enumerate() {
            line.set_message(texts.get(place).cloned().unwrap_or_default());
            line.tick();
        }
        if is_resized {
            self.all.set_draw_target(ProgressDrawTarget::stderr());
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

/// Returns how many columns the terminal has.
fn console_width() -> u16 {
    rustix::termios::tcgetwinsize(std::io::stderr())
        .map(|size| size.ws_col)
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(80)
}
