//! How a run stands, put together from what is known about its directory. Pure.

use std::path::Path;

use docstokg_bulk::queue::{ItemState, StoredFailures};
use docstokg_bulk::run_process::ProcessLife;
use docstokg_bulk::run_snapshot::{LiveProgress, RunSnapshot};
use docstokg_hub::StatedBy;
use docstokg_hub::clock::Timestamp;

use super::{
    ReasonCount, RunState, RunStatus, StatusAdvice, StatusFacts, StatusRun, StatusWait, WorkCounts,
};
use crate::reason::{Reason, sentence};
use crate::results::ResultStatus;

impl RunStatus {
    /// Puts together how a run stands.
    #[must_use]
    pub fn of(directory: &Path, facts: StatusFacts, now: Timestamp) -> Self {
        let state = state(&facts);
        let is_running = state == RunState::Running || state == RunState::Elsewhere;
        let reasons: Vec<ReasonCount> = facts.failures.iter().map(reason_count).collect();
        let works = counts(&facts, &reasons, is_running);
        let waits = waits(&facts, is_running, now);
        let snapshot = facts.snapshot;
        let hosts = snapshot.as_ref().filter(|_| is_running);
        let hosts = hosts.map(|snapshot| snapshot.hosts.clone());
        let progress = snapshot.as_ref().map(|snapshot| LiveProgress {
            left_s: snapshot
                .progress
                .left_s
                .filter(|_| is_running)
                .map(|left_s| {
                    // The snapshot is a little older than this.
                    (left_s - now.since(snapshot.updated_at).as_secs_f64()).max(0.0)
                }),
            per_minute: snapshot.progress.per_minute.filter(|_| is_running),
            bytes_per_second: snapshot.progress.bytes_per_second.filter(|_| is_running),
            running: works.running,
            ..snapshot.progress
        });
        Self {
            directory: directory.to_owned(),
            state,
            at: now,
            run: snapshot
                .map(StatusRun::of)
                .or_else(|| facts.last_summary.map(StatusRun::summed_up)),
            works,
            reasons: joined(reasons),
            files: facts.files.0,
            bytes: facts.files.1,
            progress,
            waits,
            hosts: hosts.unwrap_or_default(),
            advice: Vec::new(),
        }
    }

    /// Returns how long the run has worked, or did until it ended or was last heard of.
    #[must_use]
    pub fn elapsed(&self) -> Option<std::time::Duration> {
        let run = self.run.as_ref()?;
        let until = match self.state {
            RunState::Running => self.at,
            _ => run.updated_at,
        };
        Some(until.since(run.started_at?))
    }
}

impl StatusRun {
    fn of(snapshot: RunSnapshot) -> Self {
        Self {
            run_id: snapshot.run_id,
            command: snapshot.command,
            pid: Some(snapshot.process.pid),
            process: Some(snapshot.process.signature),
            started_at: Some(snapshot.started_at),
            updated_at: snapshot.updated_at,
            end: snapshot.end,
            state_directory: Some(snapshot.state_directory),
            telemetry: snapshot.telemetry,
            continue_with: snapshot.continue_with,
            working_directory: snapshot.working_directory,
        }
    }

    /// Describes a run of which only its summary is known.
    fn summed_up((run_id, at): (String, Timestamp)) -> Self {
        Self {
            run_id,
            command: String::new(),
            pid: None,
            process: None,
            started_at: None,
            updated_at: at,
            end: None,
            state_directory: None,
            telemetry: None,
            continue_with: None,
            working_directory: None,
        }
    }
}

fn state(facts: &StatusFacts) -> RunState {
    let has_ended = facts
        .snapshot
        .as_ref()
        .is_some_and(|snapshot| snapshot.end.is_some());
    match facts.life {
        _ if has_ended => RunState::Ended,
        Some(ProcessLife::Running) => RunState::Running,
        Some(ProcessLife::Elsewhere) => RunState::Elsewhere,
        // The lock of a run that ended is removed.
        Some(ProcessLife::Ended) => RunState::Killed,
        None => RunState::Idle,
    }
}

fn reason_count(failures: &StoredFailures) -> ReasonCount {
    let reason = Reason::read(&failures.reason);
    let status = failures.http_status;
    ReasonCount {
        reason: failures.reason.clone(),
        meaning: reason.map_or_else(
            || "no reason was recorded".to_owned(),
            |reason| sentence(reason, status),
        ),
        standing: ResultStatus::of_work(ItemState::Failed, reason, status),
        works: failures.items,
    }
}

/// Joins entries with the same reason and meaning, and puts the most frequent first.
fn joined(reasons: Vec<ReasonCount>) -> Vec<ReasonCount> {
    let mut all: Vec<ReasonCount> = Vec::new();
    for reason in reasons {
        let is_same = |known: &&mut ReasonCount| {
            known.reason == reason.reason && known.meaning == reason.meaning
        };
        match all.iter_mut().find(is_same) {
            Some(known) => known.works += reason.works,
            None => all.push(reason),
        }
    }
    all.sort_by(|a, b| b.works.cmp(&a.works).then_with(|| a.reason.cmp(&b.reason)));
    all
}

fn counts(facts: &StatusFacts, reasons: &[ReasonCount], is_running: bool) -> WorkCounts {
    let counts = facts.counts;
    let progress = facts.snapshot.as_ref().map(|snapshot| snapshot.progress);
    let of = |standing| {
        let reasons = reasons.iter().filter(|reason| reason.standing == standing);
        reasons.map(|reason| reason.works).sum::<u64>()
    };
    let running = progress
        .filter(|_| is_running)
        .map_or(0, |progress| progress.running);
    let running = running.min(counts.claimed);
    WorkCounts {
        all: counts.done + counts.failed + counts.deferred + counts.claimed + counts.queued,
        all_read: progress.is_none_or(|progress| progress.all_read),
        downloaded: counts.done,
        known: counts.done_before,
        without_file: counts.failed,
        not_open: of(ResultStatus::NotOpen),
        blocked: of(ResultStatus::Blocked),
        failed: of(ResultStatus::Failed),
        waiting: counts.deferred,
        queued: counts.queued + counts.claimed - running,
        running,
    }
}

/// Lists what works wait for, and then long waits in line.
fn waits(facts: &StatusFacts, is_running: bool, now: Timestamp) -> Vec<StatusWait> {
    let deferred = facts.waits.iter().map(|wait| {
        let deferral = wait.deferral.as_ref();
        StatusWait {
            host: deferral.map(|deferral| deferral.host.clone()),
            works: Some(wait.items),
            until: wait.until,
            why: deferral.map_or_else(|| "retry later".to_owned(), |deferral| deferral.why.clone()),
            set_by: deferral.and_then(|deferral| deferral.set_by),
            resolver: deferral.and_then(|deferral| deferral.resolver.clone()),
            advice: None,
        }
    });
    let snapshot = facts.snapshot.as_ref().filter(|_| is_running);
    let queues = snapshot.into_iter().flat_map(|snapshot| &snapshot.queues);
    let in_line = queues
        .filter(|queue| queue.until > now)
        .map(|queue| StatusWait {
            host: Some(queue.host.clone()),
            works: None,
            until: queue.until,
            why: queue.why.clone(),
            set_by: Some(StatedBy::Quota),
            resolver: None,
            advice: queue.hint.clone().map(|text| StatusAdvice {
                text,
                command: None,
            }),
        });
    deferred.chain(in_line).collect()
}

#[cfg(test)]
mod tests {
    use docstokg_bulk::queue::StoredCounts;

    use super::*;

    fn failures(reason: &str, http_status: Option<u16>, items: u64) -> StoredFailures {
        StoredFailures {
            reason: reason.to_owned(),
            http_status,
            items,
        }
    }

    #[test]
    fn works_add_up_and_those_without_a_file_have_three_kinds() {
        let facts = StatusFacts {
            counts: StoredCounts {
                done: 40,
                done_before: 30,
                failed: 12,
                deferred: 5,
                claimed: 6,
                queued: 37,
            },
            failures: vec![
                failures("not_found", None, 4),
                failures("http_status", Some(403), 1),
                failures("http_status", Some(404), 2),
                failures("http_status", Some(503), 1),
                failures("robots_disallowed", None, 3),
                failures("words of a later version", None, 1),
            ],
            ..StatusFacts::default()
        };
        let status = RunStatus::of(Path::new("out"), facts, Timestamp::EPOCH);
        let works = status.works;
        assert_eq!(status.state, RunState::Idle);
        assert_eq!((works.all, works.downloaded, works.known), (100, 40, 30));
        assert_eq!((works.not_open, works.blocked, works.failed), (5, 3, 4));
        assert_eq!(
            works.without_file,
            works.not_open + works.blocked + works.failed
        );
        // No process works on the items that a killed one had claimed.
        assert_eq!((works.waiting, works.queued, works.running), (5, 43, 0));
        let sum = works.downloaded + works.without_file + works.waiting + works.queued;
        assert_eq!(sum + works.running, works.all);
        assert_eq!(status.reasons[0].meaning, "no open copy found");
        assert_eq!(status.reasons.len(), 6);
    }
}
