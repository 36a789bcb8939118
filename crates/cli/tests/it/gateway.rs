//! `docstokg serve`: curl, Python and plain sockets on one side, nginx and scripted origins on the
//! other. What needs no process of its own is tested in `crates/gateway`.

// A client as plain as possible.
#[allow(dead_code, reason = "the tests of the gateway use more of it")]
#[path = "../../../gateway/tests/it/client.rs"]
mod client;
// Programs of other people through the gateway: curl, httpx, requests.
mod clients;
// Signals, and an operator's commands.
mod operation;
// Processes that share a cache: one request for many.
mod many;
// Starting a gateway, and asking it.
mod running;

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use docstokg_hub::clock::{Clock as _, SystemClock};

use self::running::GatewayProcess;
use crate::support::{Served, sharing};

/// Starts a gateway before a served host.
fn before(served: &Served, state: &Path, arguments: &[&str]) -> GatewayProcess {
    let mapping = format!("a.example:80={}", served.address);
    GatewayProcess::start(
        state,
        &[&["--connect-to", mapping.as_str()], arguments].concat(),
    )
}

fn state() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn the_gateway_shows_its_state_and_how_it_is_used() {
    let (served, directory) = (crate::support::fine(), state());
    let gateway = before(&served, directory.path(), &[]);
    let health = gateway.page("/-/health");
    assert_eq!(
        (health.status, health.body),
        (200, b"{\"ok\":true}\n".to_vec())
    );
    assert_eq!(gateway.get("http://a.example/").body, b"fine");
    // Events are counted by a thread of their own.
    let until = SystemClock.boot() + running::PATIENCE;
    let counted = || {
        let metrics = gateway.page("/-/metrics").body;
        String::from_utf8_lossy(&metrics).contains("host=\"a.example\"")
    };
    while !counted() {
        assert!(SystemClock.boot() < until, "the request is not counted");
    }
    let help = String::from_utf8(gateway.page("/").body).expect("text");
    assert!(help.contains("/https://HOST/PATH"), "{help}");
    // A program that uses the gateway as its proxy sends the whole URL.
    let own = format!("http://{}/-/health", gateway.address);
    assert_eq!(gateway.get(&own).status, 200);
    assert_eq!(gateway.page("/-/other").status, 404);
}

#[test]
fn the_table_at_the_start_has_the_limits_of_a_gateway() {
    let directory = state();
    let mut child = sharing(directory.path())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args([
            "--rate",
            "a.example:landing=rates:3/SECOND,count_head:false",
        ])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program");
    let lines = BufReader::new(child.stderr.take().expect("its errors")).lines();
    let lines = lines.map_while(Result::ok);
    let table: Vec<String> = lines
        .take_while(|line| !line.contains("listening on"))
        .collect();
    child.kill().expect("a living process");
    child.wait().expect("its end");
    let row = |host: &str, role: &str| -> Vec<&str> {
        let rows = table.iter().map(|line| line.split_whitespace().collect());
        let mut rows = rows.filter(|row: &Vec<&str>| row.starts_with(&[host, role]));
        rows.next().unwrap_or_else(|| panic!("{table:#?}"))
    };
    let names = row("host", "role");
    let place = |name: &str| names.iter().position(|other| *other == name).expect(name);
    let (head, pacing, learn) = (place("count_head"), place("pacing"), place("learn"));
    let others = row("*", "landing");
    assert_eq!(
        [others[head], others[pacing], others[learn]],
        ["true", "even", "tighten"]
    );
    assert_eq!(row("a.example", "landing")[head], "false");
}

#[test]
fn beyond_loopback_a_token_is_needed() {
    let directory = state();
    let open = sharing(directory.path())
        .args(["serve", "--listen", "0.0.0.0:0"])
        .output()
        .expect("the program");
    assert_eq!(open.status.code(), Some(2));
    let said = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(said.contains("--token-file"), "{said}");

    let served = crate::support::fine();
    let file = directory.path().join("token");
    std::fs::write(&file, "s3cret\n").expect("a file");
    let mapping = format!("a.example:80={}", served.address);
    let file = file.display().to_string();
    let more = ["--connect-to", &mapping, "--token-file", &file];
    let gateway = GatewayProcess::start_at(directory.path(), "0.0.0.0:0", &more);
    let refused = gateway.get("http://a.example/");
    assert_eq!(refused.status, 407);
    assert!(refused.header("proxy-authenticate").is_some());
    let with = |line: &str| {
        let head = format!("GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n{line}");
        gateway.ask(&head).status
    };
    assert_eq!(with("Docstokg-Token: s3cret"), 200);
    assert_eq!(with("Proxy-Authorization: Basic eDpzM2NyZXQ="), 200);
    assert_eq!(with("Docstokg-Token: other"), 407);
    assert_eq!(gateway.page("/-/health").status, 200);
    assert_eq!(gateway.page("/-/metrics").status, 407);
    for arrival in served.web.ledger().arrivals() {
        let told = arrival
            .headers
            .iter()
            .any(|(_, value)| value.contains("s3cret"));
        assert!(!told, "the origin got the token");
    }
}
