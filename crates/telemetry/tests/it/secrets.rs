use docstokg_hub::config::flags::Flags;
use docstokg_origin_sim::{Origin, Reply};
use docstokg_telemetry::sink::sqlite::open_to_read;
use http::header::AUTHORIZATION;

use crate::support::{World, get};

#[test]
fn what_is_planted_comes_out_nowhere() {
    let planted = [
        "QUERYKEY",
        "PATHTOKEN",
        "HEADERKEY",
        "REDIRECTKEY",
        "aB3dE5fG7hI9jK1lM3nO5",
        "USERNAME",
        "PASSWORD",
    ];
    let origin = Origin::new("a.example")
        .route("/token/PATHTOKEN/file", [Reply::status(404)])
        .route("/d/aB3dE5fG7hI9jK1lM3nO5", [Reply::status(500)])
        .route(
            "/go",
            [Reply::redirect(
                302,
                "http://b.example/x?signature=REDIRECTKEY",
            )],
        );
    let world = World::new(
        [
            origin,
            Origin::new("b.example").route("/x", [Reply::status(403)]),
        ],
        Flags::default(),
    );
    world.fetch(get(
        "http://a.example/works?api_key=QUERYKEY&mailto=me@QUERYKEY.org",
    ));
    world.fetch(get("http://a.example/token/PATHTOKEN/file"));
    world.fetch(get("http://a.example/d/aB3dE5fG7hI9jK1lM3nO5"));
    world.fetch(
        get("http://a.example/go")
            .secret_header(AUTHORIZATION, "Bearer HEADERKEY".parse().expect("a value")),
    );
    world.fetch(get("http://USERNAME:PASSWORD@a.example/"));
    let ended = world.end();
    let database = open_to_read(&ended.path("telemetry.sqlite3")).expect("a database");
    let page = docstokg_telemetry::report::page(&database, &ended.summary()).expect("a page");
    let text = docstokg_telemetry::summary::text(&ended.summary(), &[]);
    database
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .expect("a checkpoint");
    let mut written: Vec<(String, Vec<u8>)> =
        vec![("page".into(), page.into()), ("text".into(), text.into())];
    for entry in std::fs::read_dir(ended.directory.path()).expect("a directory") {
        let path = entry.expect("an entry").path();
        written.push((
            path.display().to_string(),
            std::fs::read(&path).expect("a file"),
        ));
    }
    written.push(("metrics".into(), ended.metrics.lock().text().into()));
    assert!(written.len() >= 6);
    for (place, bytes) in &written {
        for secret in planted {
            assert!(
                !bytes
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes()),
                "{secret} is in {place}"
            );
        }
    }
}
