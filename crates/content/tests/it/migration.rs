//! Directories of runs that an earlier version began.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use docstokg_bulk::job::{JobState as _, NextStep};
use docstokg_bulk::lane::WorkLaneKey;
use docstokg_bulk::queue::{CommitMode, WorkQueue};
use docstokg_content::reason::Reason;
use docstokg_content::resolver::order::ResolverChoice;
use docstokg_content::run::earlier_reasons;
use docstokg_content::work_state::{ArtifactKind, Goals, WorkState, WorkStep};
use docstokg_hub::Role;
use docstokg_hub::clock::Timestamp;
use rusqlite::Connection;
use tempfile::TempDir;

fn open(path: &std::path::Path) -> WorkQueue {
    WorkQueue::open(path, CommitMode::Inline, &earlier_reasons()).unwrap()
}

fn at(seconds: f64) -> Timestamp {
    Timestamp::from_secs_f64(seconds)
}

/// Makes a queue as version 8 left it: a failed work, one that is deferred, and
/// records of both.
fn earlier(directory: &TempDir) -> std::path::PathBuf {
    let path = directory.path().join("manifest.sqlite3");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(include_str!("fixtures/queue_version_9.sql"))
        .unwrap();
    let progress = r#"{"work":{"typed":"doi:10.5555/b","identifiers":{"doi":"10.5555/b"},"title":null,"year":null,"failed_urls":[]},
        "asked":[{"resolver":"unpaywall","again_at":null,"answers":1,"refusals":0}],"places":[],"got":[],"begun":1.0,"attempts":1,
        "last":{"reason":"bot_wall","detail":"pub.example keeps robots out"}}"#;
    database
        .execute_batch(&format!(
            "INSERT INTO items VALUES (1, zeroblob(16), 'doi:10.5555/a', 'list', 1, 0, 'failed', 'start', 0, 3, NULL, 'resolver_not_found', 'x', 1.0);
             INSERT INTO items VALUES (2, x'00112233445566778899aabbccddeeff', 'doi:10.5555/b', 'list', 2, 0, 'queued', 'start', 99.0, 1, '{progress}', NULL, NULL, 1.0);
             INSERT INTO manifests VALUES (1, 1.0, 'r', 1, 'doi:10.5555/a', 'miss', 'resolver_not_found', NULL, NULL, NULL, NULL,
                '{{\"record_type\":\"manifest\",\"reason\":\"resolver_not_found\"}}');
             INSERT INTO attempts VALUES (1, 1.0, 'r', 'doi:10.5555/b', 'landing_page', NULL, 'error', 403, 'bot-wall',
                '{{\"record_type\":\"attempt\",\"reason\":\"bot-wall\"}}');
             INSERT INTO attempts VALUES (2, 1.0, 'r', 'doi:10.5555/b', 'crossref', NULL, 'error', 500, 'http-error',
                '{{\"record_type\":\"attempt\",\"reason\":\"http-error\"}}');
             PRAGMA user_version = 8;"
        ))
        .unwrap();
    path
}

/// Runs a future that never waits for anything outside.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

#[test]
fn reasons_of_an_earlier_version_get_their_one_spelling() {
    let directory = TempDir::new().unwrap();
    let queue = open(&earlier(&directory));
    let totals = run(queue.totals()).unwrap();
    assert_eq!(
        totals.reasons.into_iter().collect::<Vec<_>>(),
        [("not_found".to_owned(), 1)]
    );
    assert_eq!(
        totals.errors.into_iter().collect::<Vec<_>>(),
        [
            ("bot_challenge".to_owned(), 1),
            ("http_status".to_owned(), 1)
        ]
    );
    let records = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let side = std::sync::Arc::clone(&records);
    run(queue.each_record(move |record| side.lock().unwrap().push(record.to_owned()))).unwrap();
    let text = records.lock().unwrap().join("\n");
    assert!(
        text.contains(r#""reason":"not_found""#)
            && text.contains(r#""reason":"bot_challenge""#)
            && !text.contains("bot-wall"),
        "{text}"
    );
}

#[test]
fn failed_and_deferred_works_of_an_earlier_version_are_taken_up() {
    let directory = TempDir::new().unwrap();
    let queue = open(&earlier(&directory));
    assert_eq!(run(queue.retry_failed()).unwrap(), 1);
    let due = run(queue.claim_due(at(100.0), 10)).unwrap();
    let state = WorkState::decode(due[0].saved_state.as_deref().unwrap()).unwrap();
    assert_eq!(state.decisive().reason, Reason::BotChallenge);
}

/// A work as version 9 persisted it between steps: one place is deferred, and a resolver too.
const STATE_OF_VERSION_9: &str = r#"{"work":{"typed":"doi:10.5555/b","identifiers":{"doi":"10.5555/b"},"title":null,"year":null,"failed_urls":[]},
    "asked":[{"resolver":"unpaywall","again_at":1763280099.5000004,"answers":1,"refusals":2,"setback":{"reason":"breaker_open","detail":"paused"},"waits_since":1763280000.25}],
    "places":[{"location":{"url":"https://arxiv.org/pdf/1","offers":"pdf","resolver":"unpaywall"},"state":{"Later":[1763280050.125,1]},
        "setback":{"reason":"rate_limited","detail":"arxiv.org asked to wait","http_status":429,"stage":"file"}}],
    "got":[],"begun":1763280000.25,"attempts":1,"last":null,"ended_by":null,
    "deferral":{"host":"arxiv.org","until":1763280050.125,"why":"the host asked for fewer requests"}}"#;

#[test]
fn the_state_of_a_work_of_version_9_is_read() {
    let mut state = WorkState::decode(STATE_OF_VERSION_9).unwrap();
    assert_eq!(state.begun, Some(at(1_763_280_000.25)));
    let deferral = state.deferral().clone().unwrap();
    assert_eq!(
        (deferral.host.as_str(), deferral.until),
        ("arxiv.org", at(1_763_280_050.125))
    );
    let goals = Goals {
        kinds: [ArtifactKind::Pdf].into(),
        choice: ResolverChoice::default(),
        max_attempts: 20,
        deadline: None,
    };
    // Without resolvers only the place is left: it waits until its time, and not longer.
    let until = deferral.until;
    assert_eq!(
        state.next(&goals, &[], at(1_763_280_049.0)),
        NextStep::Wait(until)
    );
    assert_eq!(
        state.next(&goals, &[], until),
        NextStep::Run(WorkStep::Fetch(0))
    );
    // It is written in the present form, and reads back as the same.
    let text = state.encode().unwrap();
    assert!(
        text.contains(r#""candidates":[{"#) && text.contains("1763280050.125"),
        "{text}"
    );
    assert_eq!(WorkState::decode(&text), Some(state));
}

/// Lanes of version 9 are parsed once, and works are found in them again.
#[test]
fn works_of_version_9_stand_in_their_lanes() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("manifest.sqlite3");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(include_str!("fixtures/queue_version_9.sql"))
        .unwrap();
    for (id, lane, state) in [
        (1, "start", "queued"),
        (2, "input needed", "queued"),
        (3, "site:arxiv|artifact", "queued"),
        (4, "site:arxiv|artifact", "leased"),
        (5, "pub.example|landing", "queued"),
        (6, "resolver openalex", "queued"),
        (7, "landing of 10.5555", "queued"),
        (8, "resolver openalex", "done"),
    ] {
        let item = "INSERT INTO items (id, key_hash, work_id, source, line, state, lane, updated_at) VALUES (?1, randomblob(16), ?1, 'list', 1, ?3, ?2, 1.0)";
        database.execute(item, (id, lane, state)).unwrap();
    }
    database.pragma_update(None, "user_version", 9).unwrap();
    drop(database);
    let queue = open(&path);
    let backlog = run(queue.backlog(None, 10)).unwrap();
    let site = |site: &str, role| WorkLaneKey::Site {
        site: site.into(),
        role,
    };
    let lanes: Vec<_> = backlog
        .into_iter()
        .map(|found| (found.lane, found.items))
        .collect();
    assert_eq!(
        lanes,
        [
            (WorkLaneKey::Landing("10.5555".into()), 1),
            (WorkLaneKey::MissingInput, 1),
            (site("site:arxiv", Role::Artifact), 2),
            (site("pub.example", Role::Landing), 1),
            (WorkLaneKey::Source("openalex".into()), 1),
            (WorkLaneKey::Start, 1),
        ]
    );
    let after = run(queue.backlog(Some(WorkLaneKey::MissingInput), 1)).unwrap();
    assert_eq!(after[0].lane, site("site:arxiv", Role::Artifact));
    assert_eq!(
        run(queue.claim(site("site:arxiv", Role::Artifact), 10))
            .unwrap()
            .len(),
        2
    );
    // Opened again, it is of the present version already.
    drop(queue);
    let version: i64 = Connection::open(&path)
        .unwrap()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(version, 12);
    let counts = run(open(&path).line_counts()).unwrap();
    assert_eq!(counts.named, counts.items, "every item is a line");
    assert!(counts.named > 0);
}

#[test]
fn a_queue_of_version_11_gets_the_tables_of_lines_and_metadata() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("manifest.sqlite3");
    drop(open(&path));
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "DROP TABLE sources; DROP TABLE lines; DROP TABLE metadata; PRAGMA user_version = 11;
             INSERT INTO settings VALUES ('job', '{}');
             INSERT INTO items (key_hash, work_id, source, line, state, lane, updated_at, untrusted)
             VALUES (x'01', 'doi:10.5555/a', 'list', 1, 'failed', 'start', 1.0, 1),
             (x'02', 'doi:10.5555/b', 'list', 1, 'failed', 'start', 1.0, NULL);",
        )
        .unwrap();
    drop(database);
    let queue = open(&path);
    let lines = run(queue.line_counts()).unwrap();
    assert_eq!((lines.named, lines.items, lines.unrecognised), (2, 2, 0));
    assert!(run(queue.metadata_of(1)).unwrap().is_empty());
    drop(queue);
    let kept: (i64, i64) = Connection::open(&path)
        .unwrap()
        .query_row(
            "SELECT (SELECT count(*) FROM settings), (SELECT count(*) FROM items WHERE untrusted)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(kept, (1, 1));
}
