//! The job of a directory: a stopped and resumed one equals the uninterrupted one, options are
//! remembered, contradictions are refused, and an untrusted input stays untrusted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use docstokg_origin_sim::{Arrival, OriginScript, ScriptedReply};
use url::Url;

use crate::download_world::{DownloadWorld, pdf, sha256, text};
use crate::support::program;

/// A server on loopback that gives a PDF for every path, and notes the paths.
struct LoopbackServer {
    port: u16,
    paths: Arc<Mutex<Vec<String>>>,
}

impl LoopbackServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let paths: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&paths);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut header = String::new();
                while reader.read_line(&mut header).is_ok_and(|length| length > 2) {
                    header.clear();
                }
                let is_file = is_pdf(&path);
                let body = docstokg_origin_sim::pdf::carrying(&[b'x'; 3_000]);
                let (status, body) = if is_file {
                    ("200 OK", body)
                } else {
                    ("404 Not Found", Vec::new())
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/pdf\r\nContent-Length: {}\r\n\
                     Connection: close\r\n\r\n",
                    body.len()
                );
                noted.lock().expect("a list").push(path);
                let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        Self { port, paths }
    }

    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}.pdf", self.port)
    }

    fn paths(&self) -> Vec<String> {
        self.paths.lock().expect("a list").clone()
    }
}

/// Tells whether a path is that of a PDF.
fn is_pdf(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|ending| ending == "pdf")
}

/// Tells whether an arrival asks for a file.
fn is_file(arrival: &Arrival) -> bool {
    ["/oa/", "/up/", "/page/"]
        .iter()
        .any(|start| arrival.path.starts_with(start))
}

/// The works that a request to the stand-in of OpenAlex names.
fn records(path: &str) -> String {
    let url = Url::parse(&format!("http://a.example{path}")).expect("a URL");
    let of_query = |name: &str| {
        let mut pairs = url.query_pairs();
        pairs
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    };
    let record = |number: usize| {
        format!(
            r#"{{"id":"https://openalex.org/W{number}","doi":"https://doi.org/10.1000/w{number}","best_oa_location":{{"is_oa":true,"pdf_url":"http://a.example/oa/{number}.pdf"}}}}"#
        )
    };
    if let Some(cursor) = of_query("cursor") {
        let (from, next) = if cursor == "*" {
            (100, "\"second\"")
        } else {
            (110, "null")
        };
        let works: Vec<String> = (from..from + 10).map(record).collect();
        return format!(
            r#"{{"meta":{{"next_cursor":{next}}},"results":[{}]}}"#,
            works.join(",")
        );
    }
    let asked = of_query("filter").unwrap_or_else(|| url.path().to_owned());
    let numbers = asked.split("/w").skip(1).filter_map(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    let works: Vec<String> = numbers.map(record).collect();
    if of_query("filter").is_none() {
        return works.first().cloned().unwrap_or_default();
    }
    format!(
        r#"{{"meta":{{"next_cursor":null}},"results":[{}]}}"#,
        works.join(",")
    )
}

/// Every file has another size, so that a minimum takes some of them.
fn sized_pdf(path: &str) -> ScriptedReply {
    let number = path
        .chars()
        .filter(char::is_ascii_digit)
        .collect::<String>();
    let is_large = number.parse::<usize>().is_ok_and(|number| number % 2 == 0);
    let padding = if is_large {
        " ".repeat(9_000)
    } else {
        String::new()
    };
    pdf(&format!("{path}{padding}")).after(Duration::from_millis(40))
}

/// Stand-ins for OpenAlex and Unpaywall, files, pages and a robots.txt on one host.
fn job_world() -> DownloadWorld {
    let origin = OriginScript::new("a.example").handler(|arrival, _| {
        let path = arrival.path.split('?').next().unwrap_or_default();
        match path {
            "/robots.txt" => ScriptedReply::ok("User-agent: *\nDisallow: /oa/3\n")
                .header("content-type", "text/plain"),
            _ if path.starts_with("/works") => ScriptedReply::ok(records(&arrival.path))
                .header("content-type", "application/json"),
            _ if path.starts_with("/v2/") => {
                let number = path.rsplit('w').next().unwrap_or_default();
                ScriptedReply::ok(format!(
                    r#"{{"doi":"10.1000/w{number}","best_oa_location":{{"url_for_pdf":"http://a.example/up/{number}.pdf"}}}}"#
                ))
                .header("content-type", "application/json")
            }
            "/oa/7.pdf" => ScriptedReply::status(404),
            _ if is_pdf(path) => sized_pdf(path),
            _ if path.starts_with("/page/") => {
                let body = format!("<html><head><title>{path}</title></head><body>{}</body></html>", "text ".repeat(500));
                ScriptedReply::ok(body)
                    .header("content-type", "text/html")
                    .after(Duration::from_millis(40))
            }
            _ => ScriptedReply::status(404),
        }
    });
    let config = "version: 1\n\
        resolvers:\n  endpoints: { openalex: \"http://a.example\", unpaywall: \"http://a.example/v2\" }\n  \
        disable: [arxiv, pmc, crossref, europe_pmc, zenodo, figshare, osf, hal, doaj, landing_page, wayback]\n\
        limits: { defaults: { artifact: { rates: [], max_concurrent: 2 }, landing: { rates: [] }, \
        metadata: { rates: [], max_concurrent: 2 } } }\n";
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], config);
    let dois: Vec<String> = (1..=16)
        .map(|number| format!("10.1000/w{number}"))
        .collect();
    std::fs::write(world.path("dois.txt"), dois.join("\n")).expect("a list");
    let pages: Vec<String> = (1..=16)
        .map(|number| format!("http://a.example/page/{number}"))
        .collect();
    std::fs::write(world.path("pages.txt"), pages.join("\n")).expect("a list");
    world
}

/// How a run is stopped.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Interrupt,
    Kill,
}

/// Returns every file of a directory that is one of a work, with its checksum.
fn files(out: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut directories: Vec<_> = ["pdf", "xml", "html", "other", "sha256"]
        .map(|name| out.join(name))
        .into();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path
                .strip_prefix(out)
                .expect("below it")
                .display()
                .to_string();
            found.insert(name, sha256(&path));
        }
    }
    found
}

fn count_files(world: &DownloadWorld) -> usize {
    world
        .web
        .ledger()
        .arrivals()
        .iter()
        .filter(|arrival| is_file(arrival))
        .count()
}

/// Starts a job, and stops it when it has asked for a few files. Returns its exit code.
fn start_and_stop(world: &DownloadWorld, arguments: &[&str], stop: Stop) -> Option<i32> {
    let before = count_files(world);
    let mut child = world
        .command(&[arguments, &["--quiet"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    while count_files(world) < before + 4 {
        assert_eq!(
            child.try_wait().expect("a status"),
            None,
            "{arguments:?} ended early"
        );
        std::thread::park_timeout(Duration::from_millis(2));
    }
    match stop {
        Stop::Kill => child.kill().expect("killed"),
        Stop::Interrupt => interrupt(child.id()),
    }
    child.wait().expect("an end").code()
}

fn interrupt(process: u32) {
    let process = process.to_string();
    let sent = Command::new("kill").args(["-INT", &process]).status();
    assert!(sent.expect("kill").success());
}

/// Compares a job that was stopped and resumed with one that was not, for one set of options.
fn compare(world: &DownloadWorld, number: usize, arguments: &[&str], stop: Stop) {
    let path = |name: &str| world.path(name).display().to_string();
    let whole = path(&format!("whole-{number}-{stop:?}"));
    let resumed = path(&format!("resumed-{number}-{stop:?}"));
    let ended = world.run(&[arguments, &["--quiet", "--out", &whole]].concat());
    let ended = ended.status.code();
    let stopped = start_and_stop(world, &[arguments, &["--out", &resumed]].concat(), stop);
    assert_eq!(
        stopped,
        matches!(stop, Stop::Interrupt).then_some(130),
        "{arguments:?}"
    );
    let again = world.run(&["--resume", "--out", &resumed]);
    assert_eq!(
        again.status.code(),
        ended,
        "{arguments:?}: {}",
        text(&again.stderr)
    );
    let (whole, resumed) = (files(Path::new(&whole)), files(Path::new(&resumed)));
    assert!(!whole.is_empty(), "{arguments:?}");
    assert_eq!(
        resumed,
        whole,
        "{arguments:?} {stop:?}: {}",
        text(&again.stderr)
    );
}

fn compare_all(stop: Stop) {
    let world = job_world();
    let loopback = LoopbackServer::start();
    let (dois, pages) = (world.path("dois.txt"), world.path("pages.txt"));
    let (dois, pages) = (dois.display().to_string(), pages.display().to_string());
    let urls = (1..=12).map(|number| format!("http://a.example/oa/{number}.pdf"));
    let urls: Vec<String> = urls
        .chain((1..=3).map(|number| loopback.url(&format!("u{number}"))))
        .collect();
    std::fs::write(world.path("mixed.txt"), urls.join("\n")).expect("a list");
    let mixed = world.path("mixed.txt").display().to_string();
    let sets: [&[&str]; 13] = [
        &[&dois],
        &[
            &dois,
            "--disable",
            "openalex",
            "--mailto",
            "jane@library.edu",
        ],
        &[
            &dois,
            "--resolver-order",
            "unpaywall",
            "--mailto",
            "jane@library.edu",
        ],
        &[
            &dois,
            "--resolver-preset",
            "fast",
            "--enable",
            "unpaywall",
            "--mailto",
            "jane@library.edu",
        ],
        &[&dois, "--content-addressed"],
        &[&dois, "--min-pdf-bytes", "8K"],
        &[&dois, "--ignore-robots"],
        &[&dois, "--max-attempts", "2", "--mailto", "jane@library.edu"],
        &[
            &dois,
            "--role",
            "metadata",
            "--item-deadline",
            "10m",
            "--max-wait",
            "30s",
        ],
        &[&pages, "--kinds", "html"],
        &[&pages, "--kinds", "pdf,html", "--content-addressed"],
        &[&mixed, "--untrusted-input"],
        &[
            "--filter",
            "type:article",
            "--year-start",
            "2015",
            "--max",
            "17",
        ],
    ];
    for (number, arguments) in sets.iter().enumerate() {
        compare(&world, number, arguments, stop);
    }
    assert_eq!(
        loopback.paths(),
        Vec::<String>::new(),
        "nothing led into the private network"
    );
}

#[test]
fn an_interrupted_and_resumed_job_of_every_kind_equals_the_uninterrupted_one() {
    compare_all(Stop::Interrupt);
}

#[test]
fn a_killed_and_resumed_job_of_every_kind_equals_the_uninterrupted_one() {
    compare_all(Stop::Kill);
}

#[test]
fn an_untrusted_input_stays_untrusted_in_every_later_run() {
    let (world, loopback) = (job_world(), LoopbackServer::start());
    let untrusted = format!(
        "http://a.example/oa/2.pdf\n{}\n{}\n",
        loopback.url("u1"),
        loopback.url("u2")
    );
    std::fs::write(world.path("untrusted.txt"), untrusted).expect("a list");
    let untrusted = world.path("untrusted.txt").display().to_string();
    let first = [
        &*untrusted,
        "--untrusted-input",
        "--workers",
        "1",
        "--max-bytes",
        "1",
    ];
    // One file is enough: the others are left for a later run.
    assert_eq!(world.run(&first).status.code(), Some(1));
    for again in [
        &["--resume"][..],
        &["--retry-failed"],
        &["--resume", "--retry-failed", "--verify"],
    ] {
        let ran = world.run(again);
        assert_eq!(
            ran.status.code(),
            Some(1),
            "{again:?}: {}",
            text(&ran.stderr)
        );
        assert_eq!(loopback.paths(), Vec::<String>::new(), "{again:?}");
    }
    let ran = world.run(&[&untrusted]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("untrusted.txt was given with --untrusted-input"),
        "{said}"
    );
    // Works of a trusted list are trusted, and no others.
    let list = format!("{}\n{}\n", loopback.url("t1"), loopback.url("u2"));
    std::fs::write(world.path("trusted.txt"), list).expect("a list");
    let trusted = world.path("trusted.txt").display().to_string();
    world.run(&[&trusted, "--retry-failed"]);
    let asked: Vec<String> = loopback
        .paths()
        .into_iter()
        .filter(|path| is_pdf(path))
        .collect();
    assert_eq!(asked, ["/t1.pdf"]);
}

#[test]
fn a_directory_of_an_earlier_version_is_continued_and_that_is_said() {
    let (world, loopback) = (job_world(), LoopbackServer::start());
    let url = loopback.url("u1");
    let first = [
        "http://a.example/oa/2.pdf",
        &url,
        "--untrusted-input",
        "--workers",
        "1",
        "--max-bytes",
        "1",
    ];
    assert_eq!(world.run(&first).status.code(), Some(1));
    let database = rusqlite::Connection::open(world.path("out/manifest.sqlite3")).expect("a queue");
    database
        .execute_batch(
            "DROP TABLE settings; DROP TABLE sources; DROP TABLE lines; DROP TABLE metadata;
             ALTER TABLE items DROP COLUMN untrusted; PRAGMA user_version = 10;",
        )
        .expect("an earlier version");
    drop(database);
    let ran = world.run(&["--resume", "--untrusted-input"]);
    let said = text(&ran.stderr);
    assert!(
        said.contains("an earlier version began") && said.contains("did not store its options"),
        "{said}"
    );
    assert_eq!(loopback.paths(), Vec::<String>::new());
    let ran = world.run(&["--retry-failed"]);
    assert!(
        !text(&ran.stderr).contains("an earlier version"),
        "{}",
        text(&ran.stderr)
    );
    assert_eq!(loopback.paths(), Vec::<String>::new());
}

#[test]
fn what_contradicts_a_job_is_refused_and_other_changes_are_said() {
    let world = job_world();
    let page = "http://a.example/page/1";
    let ran = world.run(&[
        page,
        "--kinds",
        "html",
        "--content-addressed",
        "--max-wait",
        "5",
    ]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let before = world.web.ledger().len();
    for (arguments, sentence) in [
        (
            &["--resume", "--kinds", "pdf"][..],
            "begun with --kinds html, and this command has --kinds pdf",
        ),
        (
            &[page, "--kinds", "html,xml"][..],
            "leave --kinds out to continue that job, or choose another --out",
        ),
        (
            &["--retry-failed", "--content-addressed=false"][..],
            "begun with --content-addressed true",
        ),
    ] {
        let ran = world.run(arguments);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
    assert_eq!(world.web.ledger().len(), before);
    let ran = world.run(&[
        "--resume",
        "--kinds",
        "html",
        "--mailto",
        "jane@library.edu",
        "--max-wait",
        "1h",
    ]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(
        said.contains("--mailto is now jane@library.edu; it was not set")
            && said.contains("--max-wait is now 3600s; it was 5s")
            && said.contains("continues with --content-addressed true"),
        "{said}"
    );
    let ran = world.run(&["--resume"]);
    let said = text(&ran.stderr);
    assert!(
        said.contains("--mailto jane@library.edu") && !said.contains("is now"),
        "{said}"
    );
}

#[test]
fn a_list_that_was_not_read_to_its_end_is_read_again() {
    let world = job_world();
    let list = world.path("list.txt");
    std::fs::write(&list, "http://a.example/page/1\n").expect("a list");
    assert!(
        world
            .run(&[&list.display().to_string(), "--kinds", "html"])
            .status
            .success()
    );
    let database = rusqlite::Connection::open(world.path("out/manifest.sqlite3")).expect("a queue");
    let unread = database.execute("INSERT INTO cursors VALUES ('inputs', NULL, 0, 0)", []);
    assert_eq!(unread.expect("written"), 1);
    drop(database);
    std::fs::write(&list, "http://a.example/page/1\nhttp://a.example/page/2\n").expect("a list");
    let ran = world.run(&["--resume"]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(
        said.contains("reading again what was not read to its end") && said.contains("list.txt"),
        "{said}"
    );
    assert_eq!(files(&world.path("out")).len(), 2);
}

/// Runs a printed command as a user who pastes it.
fn paste(command: &str) -> std::process::Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_docstokg"))
        .parent()
        .expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("PATH", format!("{}:{path}", bin.display()));
    shell
        .env_remove("DOCSTOKG_STATE_DIR")
        .env_remove("DOCSTOKG_CONFIG");
    // What is not named in the command is not found.
    shell.env("XDG_STATE_HOME", "/nonexistent/state");
    shell.output().expect("a shell")
}

/// Returns what follows a word in the output of a run.
fn command_after<'a>(said: &'a str, word: &str) -> &'a str {
    let rest = said
        .split_once(word)
        .unwrap_or_else(|| panic!("no {word} in {said}"))
        .1;
    rest.lines().next().unwrap_or_default()
}

#[test]
fn commands_that_are_printed_can_be_pasted() {
    let world = job_world();
    let out = world.path("it's a dir").display().to_string();
    let pages = world.path("pages.txt").display().to_string();
    let child = world
        .command(&[&pages, "--kinds", "html", "--out", &out])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    while count_files(&world) < 3 {
        std::thread::park_timeout(Duration::from_millis(2));
    }
    interrupt(child.id());
    let ended = child.wait_with_output().expect("an end");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    let again = paste(command_after(&said, "continue with: "));
    let said = text(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{said}");
    assert_eq!(files(Path::new(&out)).len(), 16);
    let details = paste(command_after(&said, "details: "));
    assert_eq!(details.status.code(), Some(0), "{}", text(&details.stderr));
    assert!(text(&details.stdout).contains("downloaded 16 of 16 works"));
    // The directory knows where its run is recorded.
    let found = program()
        .args(["summary", &out])
        .output()
        .expect("the program");
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
}

#[test]
fn a_second_run_says_how_to_retry_what_failed() {
    let world = job_world();
    let works = [
        "http://a.example/page/1",
        "http://a.example/nowhere",
        "--kinds",
        "html",
    ];
    let first = world.run(&works);
    assert!(
        !text(&first.stderr).contains("--retry-failed"),
        "{}",
        text(&first.stderr)
    );
    let again = world.run(&works);
    let said = text(&again.stderr);
    assert!(
        said.contains("1 work failed in an earlier run; try again with: "),
        "{said}"
    );
    let retried = paste(command_after(&said, "try again with: "));
    let said = text(&retried.stderr);
    assert!(said.contains("trying 1 work again that failed"), "{said}");
}
