use std::sync::Arc;

use docstokg_hub::clock::SystemClock;
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::config::settings::Settings;
use docstokg_origin_sim::{OriginScript, Simulation};
use docstokg_telemetry::config::TelemetryConfig;
use docstokg_telemetry::record::TimedRecord;
use docstokg_telemetry::sink::sqlite::{DatabaseError, SqliteSink, open_to_read};
use docstokg_telemetry::sink::{Sink, WriteFailure};
use docstokg_telemetry::summary::{self, RunChoice};
use docstokg_telemetry::{Recorder, RunIdentity};
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::support::{World, get};

#[test]
fn a_locked_database_delays_no_request_and_its_records_are_written_later() {
    let world = World::new(
        [OriginScript::new("a.example")],
        CommandLineFlags::default(),
    );
    let path = world.directory.path().join("telemetry.sqlite3");
    let other = rusqlite::Connection::open(&path).expect("the database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("the lock");
    for _ in 0..5 {
        world.fetch(get("http://a.example/"));
    }
    assert_eq!(
        world.web.ledger().arrivals().len(),
        5,
        "requests are not affected"
    );
    // The lock is held while the recorder tries to write at least once.
    let before = std::fs::metadata(&path).expect("the database").len();
    other.execute_batch("COMMIT").expect("the end of the lock");
    let ended = world.end();
    assert!(ended.recorded.lost.is_empty(), "{:?}", ended.recorded);
    assert_eq!(ended.summary().totals.attempts, 5);
    assert!(before > 0);
}

struct Broken(Arc<Mutex<u64>>);

impl Sink for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn write(&mut self, batch: &[TimedRecord], _: usize, _: u64) -> Result<(), WriteFailure> {
        *self.0.lock() += batch.len() as u64;
        Err(WriteFailure {
            lost: batch.len() as u64,
            why: "there is no room".into(),
        })
    }

    fn close(&mut self, _: u64) -> Result<(), WriteFailure> {
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_is_reported_once_and_its_losses_are_counted() {
    let (config, settings) = load(&ConfigSources::default()).expect("a configuration");
    let simulation = Simulation::new();
    let web = docstokg_origin_sim::SimulatedWeb::new(
        [OriginScript::new("a.example")],
        docstokg_hub::clock::Clock::boot(&simulation),
    );
    let notices = Arc::new(Mutex::new(Vec::<String>::new()));
    let seen = Arc::new(Mutex::new(0));
    let sink = Arc::clone(&notices);
    let run = Arc::new(RunIdentity::begin("test", &settings, &SystemClock));
    let notice = Arc::new(move |text: &str| sink.lock().push(text.to_owned()));
    let recorder = Recorder::start(
        run,
        Arc::new(config.clone()),
        &TelemetryConfig::default(),
        vec![Box::new(Broken(Arc::clone(&seen)))],
        notice,
    )
    .expect("a recorder");
    let hub = docstokg_hub::Hub::builder(config)
        .runtime(simulation.runtime())
        .transport(docstokg_origin_sim::SimTransport::new(&simulation, &web))
        .observer(recorder.observer())
        .build()
        .expect("a hub");
    for _ in 0..3 {
        let hub = hub.clone();
        assert!(
            simulation
                .block_on(async move { hub.fetch(get("http://a.example/")).await })
                .is_ok()
        );
    }
    let outcome = recorder.close();
    let seen = *seen.lock();
    assert!(seen > 0);
    assert_eq!(outcome.lost, vec![("broken", seen)]);
    let notices = notices.lock();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("there is no room") && notices[0].contains("not affected"));
}

#[test]
fn a_full_queue_drops_and_counts_and_the_summary_says_so() {
    let (config, settings) = load(&ConfigSources::default()).expect("a configuration");
    let telemetry = TelemetryConfig {
        queue: 8,
        ..TelemetryConfig::default()
    };
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("t.sqlite3");
    let run = Arc::new(RunIdentity::begin("test", &settings, &SystemClock));
    let sink =
        SqliteSink::open(&path, Arc::clone(&run), None, Arc::new(SystemClock)).expect("a database");
    let recorder = Recorder::start(
        run,
        Arc::new(config),
        &telemetry,
        vec![Box::new(sink)],
        Arc::new(|_: &str| {}),
    )
    .expect("a recorder");
    let observer = recorder.observer();
    let host = docstokg_hub::Host::parse("a.example").expect("a host");
    for request in 0..100_000 {
        observer.note(&docstokg_hub::event::Event {
            at: docstokg_hub::clock::BootInstant::ZERO,
            request,
            host: host.clone(),
            role: docstokg_hub::Role::Metadata,
            what: docstokg_hub::event::EventKind::HeadSkipped,
        });
    }
    let dropped = recorder.close().dropped;
    assert!(dropped > 0);
    let database = open_to_read(&path).expect("a database");
    assert_eq!(
        summary::load(&database, &RunChoice::Latest)
            .expect("a summary")
            .totals
            .telemetry_lost,
        dropped
    );
}

#[test]
fn a_database_of_another_version_and_a_corrupt_one_are_refused_in_a_sentence() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("t.sqlite3");
    let run = || {
        Arc::new(RunIdentity::begin(
            "test",
            &Settings::default(),
            &SystemClock,
        ))
    };
    let open = || SqliteSink::open(&path, run(), None, Arc::new(SystemClock)).map(|_| ());
    rusqlite::Connection::open(&path)
        .expect("a file")
        .execute_batch("PRAGMA user_version = 99")
        .expect("a version");
    let error = open().expect_err("another version");
    assert!(
        matches!(error, DatabaseError::Version { found: 99, .. })
            && error.to_string().contains("move the file away"),
        "{error}"
    );
    std::fs::write(
        &path,
        "this is not a database, and it is long enough to be opened as one by a reader",
    )
    .expect("a file");
    assert!(
        open()
            .expect_err("no database")
            .to_string()
            .contains("t.sqlite3")
    );
    let missing = open_to_read(&directory.path().join("nothing"))
        .expect_err("nothing")
        .to_string();
    assert!(missing.contains("there is no telemetry"), "{missing}");
}

#[test]
fn old_runs_are_deleted_and_recent_ones_kept() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("t.sqlite3");
    let keep = Some(std::time::Duration::from_secs(86_400));
    let begin = || {
        let run = Arc::new(RunIdentity::begin(
            "test",
            &Settings::default(),
            &SystemClock,
        ));
        let mut sink = SqliteSink::open(&path, Arc::clone(&run), keep, Arc::new(SystemClock))
            .expect("a database");
        sink.close(0).expect("closed");
        run.id.clone()
    };
    let (old, young) = (begin(), begin());
    let database = open_to_read(&path).expect("a database");
    database
        .execute(
            "UPDATE run_summary SET updated_at = updated_at - 90000 WHERE run_id = ?1",
            [&old],
        )
        .expect("an older run");
    let third = begin();
    let left = summary::runs(&database).expect("runs");
    assert!(
        !left.contains(&old) && left.contains(&young) && left.contains(&third),
        "{left:?}"
    );
}
