//! Directories of runs that an earlier version began.

use docstokg_content::queue::{Mode, Queue};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::script::run;

/// Makes a queue as the version before this one left it: a failed work, one that is deferred, and
/// records of both.
fn earlier(directory: &TempDir) -> std::path::PathBuf {
    let path = directory.path().join("manifest.sqlite3");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(include_str!("../../src/queue/schema.sql"))
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

#[test]
fn reasons_of_an_earlier_version_get_their_one_spelling() {
    let directory = TempDir::new().unwrap();
    let queue = Queue::open(&earlier(&directory), Mode::Inline).unwrap();
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
    let queue = Queue::open(&earlier(&directory), Mode::Inline).unwrap();
    assert_eq!(run(queue.retry_failed("start".to_owned())).unwrap(), 1);
    let due = run(queue.take_due(100.0, 10)).unwrap();
    let progress = due[0].progress.as_deref().unwrap();
    let pursuit: docstokg_content::pursuit::Pursuit = serde_json::from_str(progress).unwrap();
    assert_eq!(
        pursuit.decisive().reason,
        docstokg_content::reason::Reason::BotChallenge
    );
}
