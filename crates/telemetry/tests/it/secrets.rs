use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use docstokg_telemetry::sink::sqlite::open_to_read;
use http::header::AUTHORIZATION;

use crate::support::{Ended, World, get};

const PLANTED: [&str; 7] = [
    "QUERYKEY",
    "PATHTOKEN",
    "HEADERKEY",
    "REDIRECTKEY",
    "aB3dE5fG7hI9jK1lM3nO5",
    "USERNAME",
    "PASSWORD",
];

/// A run whose URLs and headers hold the planted secrets.
fn run_with_secrets() -> Ended {
    let origin = OriginScript::new("a.example")
        .route("/token/PATHTOKEN/file", [ScriptedReply::status(404)])
        .route("/d/aB3dE5fG7hI9jK1lM3nO5", [ScriptedReply::status(500)])
        .route(
            "/go",
            [ScriptedReply::redirect(
                302,
                "http://b.example/x?signature=REDIRECTKEY",
            )],
        );
    let world = World::new(
        [
            origin,
            OriginScript::new("b.example").route("/x", [ScriptedReply::status(403)]),
        ],
        CommandLineFlags::default(),
    );
    for url in [
        "http://a.example/works?api_key=QUERYKEY&mailto=me@QUERYKEY.org",
        "http://a.example/token/PATHTOKEN/file",
        "http://a.example/d/aB3dE5fG7hI9jK1lM3nO5",
        "http://USERNAME:PASSWORD@a.example/",
    ] {
        world.fetch(get(url));
    }
    world.fetch(
        get("http://a.example/go")
            .secret_header(AUTHORIZATION, "Bearer HEADERKEY".parse().expect("a value")),
    );
    world.end()
}

#[test]
fn planted_secrets_are_in_no_output() {
    let ended = run_with_secrets();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let page = docstokg_telemetry::report::page(&database, &ended.summary()).expect("a page");
    let text = docstokg_telemetry::summary::text(&ended.summary(), &[]);
    database
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("a checkpoint");
    let mut outputs: Vec<(String, Vec<u8>)> =
        vec![("page".into(), page.into()), ("text".into(), text.into())];
    for entry in std::fs::read_dir(ended.directory.path()).expect("a directory") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file");
        outputs.push((path.display().to_string(), bytes));
    }
    outputs.push(("metrics".into(), ended.metrics.lock().text().into()));
    assert!(outputs.len() >= 6);
    for (output, bytes) in &outputs {
        for secret in PLANTED {
            let mut windows = bytes.windows(secret.len());
            assert!(
                !windows.any(|window| window == secret.as_bytes()),
                "{secret} is in {output}"
            );
        }
    }
}
