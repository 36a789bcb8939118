//! Tells other processes how a run stands: once a second, by a small file in its directory.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::run_process::RunProcess;
use docstokg_bulk::run_snapshot::{
    HostQueue, LiveProgress, RunOutcome, RunSnapshot, SnapshotWriter,
};
use docstokg_hub::clock::{BootInstant, Clock, Timestamp};
use docstokg_telemetry::RunIdentity;
use parking_lot::Mutex;

use super::hosts::{HostLine, HostObserver};
use super::waits::LONG_QUEUE;
use crate::run_registry;

/// The time between two snapshots.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// The time in which the pace is measured.
const PACE_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest time that makes a pace.
const MIN_PACE_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum hosts that are published.
const MAX_HOSTS: usize = 20;

/// The whole commands that continue a run.
#[derive(Default)]
pub(crate) struct ResumeCommands {
    /// Once its inputs have been read.
    pub(crate) without_inputs: Option<String>,
    /// Before that.
    pub(crate) with_inputs: Option<String>,
}

/// Tells other processes how a run stands.
pub(crate) struct StatusPublisher {
    /// The parts that do not change.
    base: RunSnapshot,
    resume: ResumeCommands,
    writer: SnapshotWriter,
    pace: Mutex<RunPace>,
}

/// The work done, by time.
#[derive(Default)]
struct RunPace {
    samples: VecDeque<PaceSample>,
    next: BootInstant,
}

/// The work done by an instant.
#[derive(Clone, Copy)]
struct PaceSample {
    at: BootInstant,
    ended: u64,
    bytes: u64,
}

/// The directories and files of a run.
pub(crate) struct RunPlaces {
    pub(crate) directory: PathBuf,
    pub(crate) state_directory: PathBuf,
    pub(crate) telemetry: Option<PathBuf>,
}

impl StatusPublisher {
    /// Describes a run. Nothing is written yet.
    pub(crate) fn new(run: &RunIdentity, places: RunPlaces, resume: ResumeCommands) -> Self {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let base = RunSnapshot {
            run_id: run.id.clone(),
            command: run.command.clone(),
            directory: absolute(places.directory),
            state_directory: absolute(places.state_directory),
            telemetry: places.telemetry.map(absolute),
            process: RunProcess::current(),
            started_at: run.started,
            updated_at: run.started,
            end: None,
            continue_with: resume.with_inputs.clone(),
            working_directory: std::env::current_dir().ok(),
            progress: LiveProgress::default(),
            hosts: Vec::new(),
            queues: Vec::new(),
        };
        Self {
            base,
            resume,
            writer: SnapshotWriter::start(),
            pace: Mutex::default(),
        }
    }

    /// Writes how the run stands, if it is time to. The first time the run is remembered, too.
    pub(super) fn publish(&self, progress: &RunProgress, hosts: &HostObserver, clock: &dyn Clock) {
        let now = clock.boot();
        let is_first = {
            let mut pace = self.pace.lock();
            if now < pace.next {
                return;
            }
            let is_first = pace.samples.is_empty();
            pace.next = now + PUBLISH_INTERVAL;
            is_first
        };
        let mut snapshot = self.snapshot(progress, &hosts.lines(now, MAX_HOSTS), now, clock.wall());
        snapshot.progress.running = hosts.in_flight();
        if is_first {
            run_registry::remember(&snapshot);
        }
        self.writer.push(snapshot);
    }

    fn snapshot(
        &self,
        progress: &RunProgress,
        hosts: &[HostLine],
        now: BootInstant,
        wall: Timestamp,
    ) -> RunSnapshot {
        let counters = progress.counters();
        let sample = PaceSample {
            at: now,
            ended: (counters.done + counters.failed).saturating_sub(counters.already),
            bytes: counters.bytes,
        };
        let (per_minute, bytes_per_second) = self.pace.lock().add(sample);
        let queue = |line: &HostLine| {
            line.long_wait(LONG_QUEUE).map(|wait| HostQueue {
                host: wait.host.to_owned(),
                until: wall + wait.left,
                why: wait.why,
                hint: wait.hint,
            })
        };
        RunSnapshot {
            updated_at: wall,
            continue_with: if counters.all_read {
                self.resume.without_inputs.clone()
            } else {
                self.resume.with_inputs.clone()
            },
            progress: LiveProgress {
                all_read: counters.all_read,
                running: 0,
                files: counters.files,
                bytes: counters.bytes,
                bad_lines: counters.bad_lines,
                duplicates: counters.duplicates,
                per_minute,
                bytes_per_second,
                left_s: progress.remaining_time(wall).map(|left| left.as_secs_f64()),
            },
            hosts: hosts.iter().map(HostLine::activity).collect(),
            queues: hosts.iter().filter_map(queue).collect(),
            ..self.base.clone()
        }
    }

    /// Waits until nothing is written any more.
    pub(crate) fn stop(self, progress: &RunProgress, clock: &dyn Clock) -> RunSnapshot {
        let snapshot = self.snapshot(progress, &[], clock.boot(), clock.wall());
        drop(self.writer);
        snapshot
    }
}

/// Writes how a run ended. The directory may be gone or full: the run has ended all the same.
pub(crate) fn publish_end(mut snapshot: RunSnapshot, end: RunOutcome) {
    snapshot.end = Some(end);
    let _ = snapshot.write();
    run_registry::remember(&snapshot);
}

impl RunPace {
    /// Adds a sample, and returns the items per minute and the bytes per second of the last minute.
    #[expect(clippy::cast_precision_loss, reason = "counts fit")]
    fn add(&mut self, sample: PaceSample) -> (Option<f64>, Option<f64>) {
        self.samples.push_back(sample);
        let is_old = |first: &PaceSample| sample.at.since(first.at) > PACE_INTERVAL;
        while self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        let Some(first) = self.samples.front() else {
            return (None, None);
        };
        let span = sample.at.since(first.at);
        if span < MIN_PACE_INTERVAL {
            return (None, None);
        }
        let per_second = |amount: u64| amount as f64 / span.as_secs_f64();
        let ended = per_second(sample.ended.saturating_sub(first.ended));
        let bytes = per_second(sample.bytes.saturating_sub(first.bytes));
        (Some(ended * 60.0), Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_the_last_minute() {
        let mut pace = RunPace::default();
        let sample = |second: u64, ended: u64| PaceSample {
            at: BootInstant::from_micros(second * 1_000_000),
            ended,
            bytes: ended * 1_000,
        };
        assert_eq!(pace.add(sample(0, 0)), (None, None));
        assert_eq!(pace.add(sample(2, 20)), (None, None));
        assert_eq!(pace.add(sample(10, 100)), (Some(600.0), Some(10_000.0)));
        for second in 11..=100 {
            pace.add(sample(second, 100));
        }
        assert_eq!(pace.add(sample(101, 100)), (Some(0.0), Some(0.0)));
    }
}
