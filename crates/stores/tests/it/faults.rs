//! What goes wrong with stores: each has a sentence, and nothing is granted too much.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::Outcome;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{Entry, RefusalReason, Report};
use docstokg_policy::time::{BootInstant, Clock, Timestamp};
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;
use docstokg_stores::conformance::wrapper::{Treatment, Wrapped};
use docstokg_stores::fallback::Fallback;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{Answer, BudgetKey, SiteHandle, SiteKey, StateStore, StoreError};
use parking_lot::Mutex;

use crate::server::Server;
use crate::worker::Client;

/// A clock with both hands free to move.
#[derive(Default)]
struct Hands {
    boot: AtomicU64,
    wall: AtomicI64,
}

impl Clock for Hands {
    fn boot(&self) -> BootInstant {
        BootInstant::from_micros(self.boot.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(self.wall.load(Ordering::SeqCst))
    }
}

const HOUR: i64 = 3_600_000_000;

fn hands(boot: u64, wall: i64) -> Arc<Hands> {
    Arc::new(Hands {
        boot: AtomicU64::new(boot),
        wall: AtomicI64::new(wall),
    })
}

/// Wraps a store that does not answer while `away` is set.
fn losing(store: Arc<dyn StateStore>, away: &Arc<AtomicBool>) -> Arc<dyn StateStore> {
    let away = Arc::clone(away);
    Arc::new(Wrapped::new(store, move |_| {
        let error = StoreError::Unavailable {
            store: "the store".to_owned(),
            why: "a test".to_owned(),
        };
        if away.load(Ordering::SeqCst) {
            Treatment::Fail(error)
        } else {
            Treatment::Forward
        }
    }))
}

fn redis(server: &Server) -> RedisStore {
    RedisStore::open(&server.dsn(), Arc::new(SystemClock)).expect("a store")
}

fn command(server: &Server, words: &str) {
    let mut connection =
        std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    write!(connection, "{words}\r\n").expect("it listens");
    let mut answer = String::new();
    BufReader::new(connection)
        .read_line(&mut answer)
        .expect("an answer");
    assert!(answer.starts_with(['+', ':']), "{answer}");
}

/// Lets a process look whether the store is back, as its heartbeat does.
fn look(client: &Client) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _ = runtime.block_on(async { client.site.renew(&[], Duration::from_secs(1)).await });
}

/// Lets time pass for a process that looks now and then.
fn permit(clock: &Hands, client: &Client, millis: u64) {
    for _ in 0..millis / 500 {
        clock.boot.fetch_add(500_000, Ordering::SeqCst);
        look(client);
    }
}

fn is_go(client: &Client) -> bool {
    matches!(client.enter(), Entry::Go(_))
}

fn sentence<T>(opened: Result<T, StoreError>) -> String {
    match opened {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn redis_forgets_its_scripts_and_is_told_them_again() {
    let server = Server::start();
    let store = redis(&server);
    let client = Client::new(&store, "flush", "3/HOUR", None);
    assert!(is_go(&client));
    command(&server, "SCRIPT FLUSH");
    assert!(
        is_go(&client) && is_go(&client) && !is_go(&client),
        "the history is still there"
    );
}

#[test]
fn redis_closes_every_connection_and_nobody_notices() {
    let server = Server::start();
    let store = redis(&server);
    let client = Client::new(&store, "reset", "3/HOUR", None);
    assert!(is_go(&client));
    command(&server, "CLIENT KILL TYPE normal SKIPME yes");
    assert!(is_go(&client));
}

#[test]
fn redis_pauses_for_two_seconds_and_is_waited_for() {
    let server = Server::start();
    let store = redis(&server);
    let client = Client::new(&store, "pause", "2/HOUR", None);
    assert!(is_go(&client));
    command(&server, "CLIENT PAUSE 2000 ALL");
    assert!(is_go(&client) && !is_go(&client));
}

#[test]
fn a_redis_server_that_has_forgotten_what_was_used_is_told_apart_from_a_new_one() {
    let mut server = Server::start();
    let store = redis(&server);
    let client = Client::new(&store, "restart", "3/HOUR", None);
    let enter = || {
        let answer = client.site.enter(&client.ask(BootInstant::ZERO));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            answer
                .await
                .map(|entered| matches!(entered.entry, Entry::Go(_)))
        })
    };
    assert!(enter().expect("an answer") && enter().expect("an answer"));
    server.restart();
    let said = enter()
        .expect_err("what it knew is gone with it")
        .to_string();
    assert!(said.contains("has lost its data"), "{said}");
    assert!(
        enter().expect("an answer"),
        "to those who know it is a new one"
    );
    command(&server, "FLUSHALL");
    // Somebody else was first on the emptied server: whoever knows the old site is still told.
    let other = redis(&server);
    assert!(is_go(&Client::new(&other, "restart", "3/HOUR", None)));
    assert!(enter().is_err());
}

#[test]
fn when_a_redis_server_is_emptied_nobody_sends_for_a_window() {
    let server = Server::start();
    let clock = Arc::new(SystemClock);
    let stores = [(), ()].map(|()| {
        Fallback::new(
            Arc::new(redis(&server)),
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(|_: &str| ()),
            2,
        )
    });
    let clients = stores
        .each_ref()
        .map(|store| Client::new(store, "emptied", "2/MINUTE", None));
    assert!(clients.iter().all(is_go));
    command(&server, "FLUSHALL");
    for _ in 0..3 {
        assert!(
            !clients.iter().any(is_go),
            "two were granted a moment ago, whatever the server knows"
        );
        clients.iter().for_each(look);
    }
}

#[test]
fn what_the_first_layout_remembers_on_redis_counts_and_an_unknown_one_is_refused_with_a_sentence() {
    let server = Server::start();
    let store = redis(&server);
    // As the first version wrote it: a map of breakers and budgets, whose grants are a string of
    // little-endian words.
    let script = "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] \
        local budget = { cap = 3, g = struct.pack('<I8I8', now - 2000000, now - 1000000), c = {}, t = {}, s = {}, m = 1000, w = {} } \
        redis.call('SET', KEYS[1], cmsgpack.pack({ b = { e = 7, f = 1 }, i = {}, u = { ['a.example metadata'] = budget } })) return 1";
    let say = |words: &[&str]| {
        let lines: Vec<String> = words
            .iter()
            .map(|word| format!("${}\r\n{word}\r\n", word.len()))
            .collect();
        command(
            &server,
            &format!("*{}\r\n{}", words.len(), lines.concat().trim_end()),
        );
    };
    say(&["EVAL", script, "1", "docstokg:{old}"]);
    let client = Client::new(&store, "old", "3/HOUR", None);
    let Entry::Go(permit) = client.enter() else {
        panic!("there was room for one more")
    };
    assert_eq!(
        (permit.generation, permit.clean),
        (7, false),
        "the breaker is the one that was written"
    );
    assert!(!is_go(&client), "two of three were granted before");
    say(&["SETRANGE", "docstokg:{x}", "0", "\u{4}later"]);
    let said = wait_for(&store);
    assert!(
        said.contains("its layout is version 4, this one reads 3")
            && said.contains("run the version that wrote it"),
        "{said}"
    );
}

#[test]
fn a_client_whose_clock_is_an_hour_off_shares_the_same_windows() {
    let server = Server::start();
    let right = redis(&server);
    let early = RedisStore::open(&server.dsn(), hands(1, -HOUR)).expect("a store");
    let late = RedisStore::open(&server.dsn(), hands(7_200_000_000_000, HOUR)).expect("a store");
    let clients = [&right, &early, &late].map(|store| Client::new(store, "skew", "3/HOUR", None));
    assert!(clients.iter().all(is_go));
    for client in &clients {
        let Entry::Refused(refusal) = client.enter() else {
            panic!("a fourth")
        };
        let here = [
            SystemClock.boot(),
            BootInstant::from_micros(1),
            BootInstant::from_micros(7_200_000_000_000),
        ];
        let left = here
            .map(|now| refusal.until.since(now))
            .into_iter()
            .find(|left| *left > Duration::from_secs(3_500) && *left < Duration::from_secs(3_601));
        assert!(
            left.is_some(),
            "told on the caller's own clock: {refusal:?}"
        );
    }
}

#[test]
fn a_password_is_used_and_never_said() {
    let server = Server::with_password(Some("SECRET"));
    let dsn = format!("redis://:SECRET@127.0.0.1:{}/0", server.port);
    let store = RedisStore::open(&dsn, Arc::new(SystemClock)).expect("a store");
    assert!(is_go(&Client::new(&store, "password", "1/HOUR", None)));
    let wrong = RedisStore::open(
        &dsn.replace("SECRET", "WRONG-SECRET"),
        Arc::new(SystemClock),
    )
    .expect("a store");
    let said = wait_for(&wrong);
    assert!(
        !said.contains("SECRET") && said.contains("redis://***@127.0.0.1"),
        "{said}"
    );
    assert!(
        !sentence(RedisStore::open("redis://:SECRET@[", Arc::new(SystemClock))).contains("SECRET")
    );
}

fn wait_for(store: &dyn StateStore) -> String {
    let answer = store.site(&"x".into()).view();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async { answer.await.expect_err("away").to_string() })
}

#[test]
fn a_server_that_is_not_there_is_said_so() {
    let mut server = Server::start();
    server.kill();
    let said = wait_for(&redis(&server));
    assert!(
        said.contains(&format!(
            "the redis server redis://127.0.0.1:{}/0 does not answer",
            server.port
        )),
        "{said}"
    );
}

#[test]
fn while_the_store_is_away_the_process_goes_on_with_its_share_and_says_so_once() {
    let away = Arc::new(AtomicBool::new(false));
    let clock = hands(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> =
        Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let notice = {
        let said = Arc::clone(&said);
        Arc::new(move |text: &str| said.lock().push(text.to_owned()))
    };
    let store = Fallback::new(
        losing(shared, &away),
        Arc::clone(&clock) as Arc<dyn Clock>,
        notice,
        4,
    );
    let client = Client::new(&store, "a.example", "2/SECOND+5/HOUR", None);
    assert!(is_go(&client) && is_go(&client) && !is_go(&client));
    away.store(true, Ordering::SeqCst);
    assert!(
        matches!(client.enter(), Entry::Wait(_)),
        "the short window counts as full, and is waited for"
    );
    permit(&clock, &client, 6_000);
    assert!(is_go(&client), "and is free again in its time");
    permit(&clock, &client, 5_000);
    assert!(
        is_go(&client),
        "what filled the short window does not count in the long one"
    );
    permit(&clock, &client, 5_000);
    assert!(is_go(&client), "the fifth in this hour");
    permit(&clock, &client, 5_000);
    assert!(
        !is_go(&client),
        "what was granted before the outage counts in the long one"
    );
    assert_eq!(said.lock().len(), 1, "{:?}", said.lock());
    assert!(said.lock()[0].contains("the store does not answer: a test"));
    away.store(false, Ordering::SeqCst);
    clock.boot.fetch_add(1_000_000, Ordering::SeqCst);
    assert!(
        !is_go(&client),
        "others may not have noticed: nothing is sent for a look and a window"
    );
    clock.boot.fetch_add(2_900_000, Ordering::SeqCst);
    assert!(!is_go(&client));
    clock.boot.fetch_add(100_000, Ordering::SeqCst);
    assert!(is_go(&client), "then the shared window has room");
    assert_eq!(said.lock().len(), 2, "{:?}", said.lock());
    assert!(said.lock()[1].contains("back"));
}

/// A store that so many processes share, of which this one is the first.
struct Crowded(Arc<dyn StateStore>, u32);

impl StateStore for Crowded {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        self.0.site(key)
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        self.0.list()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn flush(&self) -> Answer<()> {
        self.0.flush()
    }

    fn peers(&self) -> Option<u32> {
        Some(self.1)
    }
}

#[test]
fn an_hour_among_many_processes_is_not_waited_for() {
    let away = Arc::new(AtomicBool::new(false));
    let clock = hands(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> =
        Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let store = Crowded(losing(shared, &away), 6);
    let store = Fallback::new(
        Arc::new(store),
        Arc::clone(&clock) as Arc<dyn Clock>,
        Arc::new(|_: &str| ()),
        4,
    );
    let client = Client::new(&store, "a.example", "2/SECOND+500/HOUR", None);
    assert!(is_go(&client));
    away.store(true, Ordering::SeqCst);
    let (mut sent, begun) = (Vec::new(), clock.boot.load(Ordering::SeqCst));
    // Its turn comes round every few seconds, and is met by looking often enough.
    for _ in 0..1_500 {
        clock.boot.fetch_add(20_000, Ordering::SeqCst);
        clock.wall.fetch_add(20_000, Ordering::SeqCst);
        look(&client);
        if is_go(&client) {
            sent.push((clock.boot.load(Ordering::SeqCst) - begun) / 1_000);
        }
    }
    assert!(
        sent.first().is_some_and(|first| *first < 10_000) && sent.len() >= 5,
        "one sixth of two a second, after a pause: {sent:?}"
    );
    assert!(
        sent.windows(2).all(|two| two[1] - two[0] >= 3_000),
        "{sent:?}"
    );
}

#[test]
fn a_block_is_obeyed_while_the_store_is_away() {
    let away = Arc::new(AtomicBool::new(false));
    let shared: Arc<dyn StateStore> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let store = Fallback::new(
        losing(Arc::clone(&shared), &away),
        Arc::new(SystemClock),
        Arc::new(|_: &str| ()),
        4,
    );
    let client = Client::new(&store, "a.example", "1000/HOUR", None);
    arrive(shared.site(&"a.example".into()).block(
        Duration::from_secs(60),
        &OpenReason::Operator("lunch".into()),
    ));
    assert!(!is_go(&client));
    away.store(true, Ordering::SeqCst);
    let Entry::Refused(refusal) = client.enter() else {
        panic!("sent to a blocked host")
    };
    assert!(matches!(
        refusal.reason,
        RefusalReason::Open {
            reason: OpenReason::Operator(_),
            ..
        }
    ));
}

#[test]
fn what_a_server_asked_for_during_an_outage_is_told_when_the_store_is_back() {
    let away = Arc::new(AtomicBool::new(true));
    let clock = hands(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> =
        Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let store = Fallback::new(
        losing(Arc::clone(&shared), &away),
        Arc::clone(&clock) as Arc<dyn Clock>,
        Arc::new(|_: &str| ()),
        4,
    );
    let (client, other) = (
        Client::new(&store, "a.example", "1000/HOUR", None),
        Client::new(&*shared, "a.example", "1000/HOUR", None),
    );
    let Entry::Go(permit) = client.enter() else {
        panic!("it goes on alone")
    };
    let report = Report {
        outcome: Outcome::Throttled,
        retry_after: Some(Duration::from_secs(600)),
        sent: permit.at,
    };
    arrive(
        client
            .site
            .settle(&client.ask(BootInstant::ZERO), &permit, &report),
    );
    away.store(false, Ordering::SeqCst);
    clock.boot.fetch_add(2_000_000, Ordering::SeqCst);
    for client in [&client, &other] {
        let Entry::Refused(refusal) = client.enter() else {
            panic!("asked again before Retry-After")
        };
        assert!(
            matches!(
                refusal.reason,
                RefusalReason::Open {
                    reason: OpenReason::RetryAfter,
                    ..
                }
            ),
            "{refusal:?}"
        );
        assert_eq!(
            refusal.until.as_micros(),
            1_000_000_000 + 600_000_000,
            "to the moment that the server named"
        );
    }
}

#[test]
fn every_budget_counts_as_full_when_the_store_goes_away() {
    let away = Arc::new(AtomicBool::new(false));
    let clock = hands(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> =
        Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
    let store = Fallback::new(
        losing(shared, &away),
        Arc::clone(&clock) as Arc<dyn Clock>,
        Arc::new(|_: &str| ()),
        1,
    );
    let metadata = Client::new(&store, "a.example", "8/SECOND", None);
    let mut artifact = Client::new(&store, "a.example", "8/SECOND", None);
    artifact.site = Arc::clone(&metadata.site);
    artifact.costs[0].budget = artifact.site.budget(&BudgetKey::Role(
        Host::parse("a.example").expect("a host"),
        Role::Artifact,
    ));
    away.store(true, Ordering::SeqCst);
    assert!(
        !is_go(&metadata) && !is_go(&artifact),
        "neither knows what others were granted a moment ago"
    );
    clock.boot.fetch_add(2_100_000, Ordering::SeqCst);
    assert!(
        !is_go(&metadata),
        "others may lose the store a moment later"
    );
    clock.boot.fetch_add(1_000_000, Ordering::SeqCst);
    let Entry::Go(_) = metadata.enter() else {
        panic!("it waits behind nobody")
    };
    assert!(is_go(&artifact), "and both are free again in their time");
    // Nobody asks for a while. The store has been back since, and others go by it.
    away.store(false, Ordering::SeqCst);
    clock.boot.fetch_add(60_000_000, Ordering::SeqCst);
    assert!(
        !is_go(&metadata),
        "what was last seen a minute ago is not believed"
    );
}

#[test]
fn the_wall_clock_may_be_set_as_it_likes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let now = SystemClock.boot().as_micros();
    for step in [0, HOUR, -HOUR] {
        let clock = hands(now, 1_700_000_000_000_000 + step);
        let store = SqliteStore::open(&path, clock).expect("a store");
        let client = Client::new(&store, "wall", "2/HOUR", None);
        assert_eq!(
            is_go(&client),
            step != -HOUR,
            "two an hour, whatever the wall clock says"
        );
    }
}

#[test]
fn another_start_of_the_machine_goes_on_by_wall_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, database) = (
        directory.path().join("limits.shm"),
        directory.path().join("state.sqlite"),
    );
    let open = |clock: Arc<Hands>, boot: &str| -> [Arc<dyn StateStore>; 2] {
        [
            Arc::new(
                MultiprocessStore::open_after_boot(
                    &file,
                    Arc::clone(&clock) as Arc<dyn Clock>,
                    boot,
                )
                .expect("a store"),
            ),
            Arc::new(SqliteStore::open_after_boot(&database, clock, boot).expect("a store")),
        ]
    };
    // As the system's clock does, these have room before the start of the machine.
    let day = 86_400_000_000;
    for store in open(hands(day + 9_000_000_000, 0), "first") {
        let client = Client::new(&*store, "quota", "2/HOUR", None);
        assert!(is_go(&client) && is_go(&client));
        let blocked = store.site(&"blocked".into());
        arrive(blocked.block(
            Duration::from_secs(3_600),
            &OpenReason::Operator("test".into()),
        ));
    }
    // The machine starts again twenty minutes later: its clock counts from nothing.
    for store in open(hands(day + 5_000_000, HOUR / 3), "second") {
        let client = Client::new(&*store, "quota", "2/HOUR", None);
        assert!(!is_go(&client), "the quota is remembered");
        let view = arrive(store.site(&"blocked".into()).view());
        let (until, _) = view.open_until().expect("still blocked");
        assert_eq!(
            until.since(view.now),
            Duration::from_secs(2_400),
            "and so is the block"
        );
    }
    for store in open(hands(day + 1_000_000, HOUR + HOUR / 60), "third") {
        assert!(
            is_go(&Client::new(&*store, "quota", "2/HOUR", None)),
            "in its time it is free again"
        );
    }
}

#[test]
fn an_operator_reads_cooldowns_with_plain_sql() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let store = SqliteStore::open(&path, Arc::new(SystemClock)).expect("a store");
    arrive(store.site(&"a.example".into()).block(
        Duration::from_secs(90),
        &OpenReason::Operator("lunch".into()),
    ));
    arrive(store.site(&"b.example".into()).view());
    let connection = rusqlite::Connection::open(&path).expect("the database");
    let query = "SELECT host, until_wall - unixepoch('subsec'), reason, updated_at > 0 FROM breaker_cooldowns";
    let rows: Vec<(String, f64, String, bool)> = connection
        .prepare(query)
        .and_then(|mut query| {
            query
                .query_map([], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?
                .collect()
        })
        .expect("rows");
    let [(host, left, reason, updated)] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(
        (host.as_str(), reason.as_str(), *updated),
        ("a.example", "cli-open:lunch", true)
    );
    assert!((80.0..=90.1).contains(left), "{left}");
    arrive(store.site(&"a.example".into()).unblock());
    let count: i64 = connection
        .query_row("SELECT count(*) FROM breaker_cooldowns", [], |row| {
            row.get(0)
        })
        .expect("a count");
    assert_eq!(count, 0);
}

#[test]
fn files_that_are_not_ours_are_refused_with_a_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let clock = || Arc::new(SystemClock);
    let map = |path: &Path| MultiprocessStore::open(path, clock());
    let base = |path: &Path| SqliteStore::open(path, clock());

    std::fs::write(at("garbage.shm"), [7; 100]).expect("a file");
    assert!(
        sentence(map(&at("garbage.shm"))).contains("remove the file"),
        "garbage"
    );
    std::fs::write(at("long.shm"), vec![7; 1 << 20]).expect("a file");
    assert!(
        sentence(map(&at("long.shm"))).contains("it is something else"),
        "long garbage"
    );
    drop(map(&at("cut.shm")).expect("a store"));
    std::fs::OpenOptions::new()
        .write(true)
        .open(at("cut.shm"))
        .and_then(|file| file.set_len(5_000))
        .expect("cut");
    assert!(
        sentence(map(&at("cut.shm"))).contains("it has been cut"),
        "cut"
    );
    drop(map(&at("old.shm")).expect("a store"));
    let mut bytes = std::fs::read(at("old.shm")).expect("a file");
    bytes[8] = 0;
    std::fs::write(at("old.shm"), bytes).expect("a file");
    assert!(
        sentence(map(&at("old.shm"))).contains("layout is version 0, this one reads 4"),
        "older"
    );
    assert!(
        sentence(map(Path::new("/proc/nowhere/limits.shm")))
            .contains("make it and its directory writable"),
        "read-only"
    );

    std::fs::write(at("garbage.sqlite"), [7; 5_000]).expect("a file");
    assert!(
        sentence(base(&at("garbage.sqlite"))).contains("not a database"),
        "garbage"
    );
    drop(base(&at("old.sqlite")).expect("a store"));
    rusqlite::Connection::open(at("old.sqlite"))
        .and_then(|old| old.pragma_update(None, "user_version", 99))
        .expect("another version");
    assert!(
        sentence(base(&at("old.sqlite"))).contains("tables are version 99, this one reads 2"),
        "another version"
    );
    assert!(
        sentence(base(Path::new("/proc/nowhere/state.sqlite")))
            .contains("can be written with --state-dir"),
        "read-only"
    );
}

#[test]
fn a_garbled_record_is_an_error_and_no_panic() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let store = SqliteStore::open(&path, Arc::new(SystemClock)).expect("a store");
    assert!(is_go(&Client::new(&store, "a.example", "2/HOUR", None)));
    let garble = "UPDATE sites SET head = x'ffffffffffffffffffff', head_no = head_no + 1";
    rusqlite::Connection::open(&path)
        .and_then(|connection| connection.execute(garble, []))
        .expect("garbled");
    let said = wait_for_view(&store, "a.example");
    assert!(
        said.contains("garbled") && said.contains("move the file away"),
        "{said}"
    );
}

fn wait_for_view(store: &dyn StateStore, key: &str) -> String {
    let answer = store.site(&key.into()).view();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async { answer.await.expect_err("garbled").to_string() })
}
