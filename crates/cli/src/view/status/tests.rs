//! The page of a status at several widths.

use std::path::PathBuf;

use docstokg_bulk::run_snapshot::{HostActivity, LiveProgress};
use docstokg_content::results::ResultStatus;
use docstokg_content::run_status::{ReasonCount, StatusRun};
use docstokg_hub::StatedBy;

use super::*;

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_secs_f64(1_763_540_000.0 + seconds)
}

fn advice(text: &str, command: &str) -> StatusAdvice {
    StatusAdvice {
        text: text.to_owned(),
        command: Some(command.to_owned()),
    }
}

fn progress() -> LiveProgress {
    LiveProgress {
        all_read: true,
        running: 20,
        per_minute: Some(32.4),
        bytes_per_second: Some(1_258_291.0),
        left_s: Some(2_820.0),
        ..LiveProgress::default()
    }
}

fn host() -> HostActivity {
    HostActivity {
        host: "a-publisher-with-a-long-name.example".to_owned(),
        role: "artifact".to_owned(),
        rate: 0.2,
        allowed: None,
        limit: None,
        window: None,
        limited_to: Some("limit 500 an hour".to_owned()),
        waits_s: 140.0,
        open_s: None,
        status_429: 3,
    }
}

fn wait() -> StatusWait {
    StatusWait {
        host: Some("hours.example".to_owned()),
        works: Some(5),
        until: at(7_080.0),
        why: "the site's robots.txt could not be read".to_owned(),
        set_by: Some(StatedBy::Server),
        resolver: None,
        advice: Some(advice(
            "the host declared this pause, so it is polite to wait; to try again at once",
            "docstokg breaker close hours.example",
        )),
    }
}

fn running() -> RunStatus {
    RunStatus {
        directory: PathBuf::from("papers"),
        state: RunState::Running,
        at: at(0.0),
        run: Some(StatusRun {
            run_id: "20261119T081320Z-4f9c1a".to_owned(),
            command: "download".to_owned(),
            pid: Some(4_711),
            process: None,
            started_at: Some(at(-720.0)),
            updated_at: at(-1.0),
            end: None,
            state_directory: None,
            telemetry: None,
            continue_with: None,
            working_directory: None,
        }),
        works: WorkCounts {
            all: 1_000,
            all_read: true,
            downloaded: 412,
            known: 38,
            without_file: 21,
            not_open: 12,
            blocked: 4,
            failed: 5,
            waiting: 7,
            queued: 540,
            running: 20,
        },
        reasons: vec![ReasonCount {
            reason: "not_found".to_owned(),
            meaning: "no open copy found".to_owned(),
            standing: ResultStatus::NotOpen,
            works: 12,
        }],
        files: 412,
        bytes: 126_248_550,
        progress: Some(progress()),
        waits: vec![wait()],
        hosts: vec![host()],
        advice: vec![advice(
            "why a work has no file (missing.csv has the ids)",
            "docstokg why ID papers",
        )],
    }
}

#[test]
fn a_status_says_who_waits_for_whom_until_when_and_why() {
    let lines = lines(&running(), None);
    assert_eq!(
        lines,
        [
            "papers: running for 12 min (process 4711), about 47 min left",
            "  downloaded 412 of 1000 works (38 known from an earlier run); 120.4 MiB",
            "  21 without a file: 12 not openly available, 4 blocked, 5 failed",
            "  7 waiting, 540 queued, 20 running",
            "  32.4 works a minute, 1.2 MiB a second",
            "    12: no open copy found (not_found)",
            "hosts",
            "  a-publisher-with-a-long-name.exam\u{2026}   0.2/s, limit 500 an hour  queue 140 s  3 x 429",
            "waiting",
            "  hours.example until 10:11 UTC (in 118 min; 5 works): the site's robots.txt could not be read",
            "    the host declared this pause, so it is polite to wait; to try again at once:",
            "      docstokg breaker close hours.example",
            "next",
            "  why a work has no file (missing.csv has the ids):",
            "    docstokg why ID papers",
        ]
    );
}

/// Only commands may be longer than a line, so that they can be copied.
#[test]
fn lines_fit_terminals_of_40_80_and_140_columns() {
    for width in [40, 80, 140] {
        for line in lines(&running(), Some(width)) {
            let is_command = line.trim_start().starts_with("docstokg ");
            let length = line.chars().count();
            assert!(length <= width || is_command, "{width}: {line}");
        }
    }
    let narrow = lines(&running(), Some(40)).join(" ");
    let words: Vec<&str> = narrow.split_whitespace().collect();
    let reason = "the site's robots.txt could not be read";
    assert!(words.join(" ").contains(reason), "{narrow}");
}

#[test]
fn every_end_of_a_run_has_its_sentence() {
    let ended = |state, end| {
        let mut status = running();
        status.state = state;
        if let Some(run) = &mut status.run {
            (run.end, run.updated_at) = (end, at(-600.0));
        }
        lines(&status, None).swap_remove(0)
    };
    let killed = ended(RunState::Killed, None);
    assert_eq!(
        killed,
        "papers: killed after 2 min, last heard of at 08:03 UTC (10 min ago)"
    );
    let stopped = ended(RunState::Ended, Some(RunOutcome::Stopped));
    assert!(stopped.starts_with("papers: stopped at 08:03 UTC (10 min ago), after "));
    let waiting = ended(RunState::Ended, Some(RunOutcome::Waiting));
    assert!(waiting.starts_with("papers: ended while works wait at "));
}

#[test]
fn a_time_of_another_day_has_its_date() {
    assert_eq!(moment(at(60.0), at(0.0)), "08:14 UTC");
    assert_eq!(moment(at(-90_000.0), at(0.0)), "2025-11-18 07:13 UTC");
}
