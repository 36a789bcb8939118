//! Answers that are made to harm, and odd ones that other clients take: a server that says exactly
//! these bytes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use crate::support::{Ran, program, run};

/// Says one answer to every request of a path, and closes.
fn serve(answers: Vec<(&'static str, Vec<u8>)>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = answers.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let path = line
                    .split_ascii_whitespace()
                    .nth(1)
                    .unwrap_or_default()
                    .to_owned();
                let mut header = String::new();
                while reader.read_line(&mut header).is_ok_and(|length| length > 2) {
                    header.clear();
                }
                let nothing =
                    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                        .to_vec();
                let answer = answers
                    .iter()
                    .find(|(known, _)| *known == path)
                    .map_or(nothing, |(_, answer)| answer.clone());
                let mut stream = stream;
                // A client that has had enough hangs up.
                let _ = stream.write_all(&answer).and_then(|()| stream.flush());
            });
        }
    });
    port
}

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{head}\r\nConnection: close\r\n\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn fetch(port: u16, path: &str, more: &[&str]) -> Ran {
    let url = format!("http://127.0.0.1:{port}{path}");
    run(&[&["fetch", url.as_str()], more].concat())
}

#[test]
fn thousands_of_encodings_are_one_refused_answer() {
    let encodings = vec!["gzip"; 5_000].join(",");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: {encodings}");
    let port = serve(vec![
        ("/bomb", answer(&head, b"abc")),
        (
            "/fine",
            answer("HTTP/1.1 200 OK\r\nContent-Length: 4", b"fine"),
        ),
    ]);
    let ran = fetch(port, "/bomb", &[]);
    assert!(
        ran.code == 1 && ran.err.contains("more than three content encodings"),
        "{} {}",
        ran.code,
        ran.err
    );
    assert_eq!(fetch(port, "/fine", &[]).out, "fine");
}

#[test]
fn a_part_that_was_not_asked_for_is_no_file_and_a_204_has_no_body() {
    let fragment = answer(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\nContent-Range: bytes 5-7/100",
        b"abc",
    );
    let port = serve(vec![
        ("/part", fragment),
        (
            "/empty",
            answer("HTTP/1.1 204 No Content\r\nContent-Length: 10", b""),
        ),
    ]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("paper.pdf");
    let ran = fetch(
        port,
        "/part",
        &["-o", &file.display().to_string(), "--deadline", "5"],
    );
    assert!(
        ran.code != 0 && ran.err.contains("206"),
        "{} {}",
        ran.code,
        ran.err
    );
    assert_eq!(
        std::fs::read_dir(directory.path())
            .expect("a directory")
            .count(),
        0,
        "nothing was written"
    );
    let ran = fetch(port, "/empty", &["--json"]);
    assert!(
        ran.code == 0 && ran.out.contains("204"),
        "{} {} {}",
        ran.code,
        ran.out,
        ran.err
    );
}

#[test]
fn header_lines_of_old_servers_are_read_as_other_clients_read_them() {
    let folded = b"HTTP/1.1 200 OK\r\nX-Long: one\r\n two\r\n\
        Content-Length: 4\r\nConnection: close\r\n\r\nfine"
        .to_vec();
    let invalid = b"HTTP/1.1 200 OK\r\nBad Name: x\r\n(odd): y\r\n\
        Content-Length: 4\r\nConnection: close\r\n\r\nfine"
        .to_vec();
    let spaced =
        b"HTTP/1.1 200 OK\r\nX-Spaced : x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine"
            .to_vec();
    let port = serve(vec![
        ("/folded", folded),
        ("/invalid", invalid),
        ("/spaced", spaced),
    ]);
    for path in ["/folded", "/invalid", "/spaced"] {
        let ran = fetch(port, path, &[]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (0, "fine"),
            "{path}: {}",
            ran.err
        );
    }
}

#[test]
fn discovered_urls_do_not_lead_into_the_private_network() {
    let body = docstokg_origin_sim::pdf::carrying(&[b'x'; 3_000]);
    let port = serve(vec![(
        "/a.pdf",
        answer(
            &format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: {}",
                body.len()
            ),
            &body,
        ),
    )]);
    let directory = tempfile::tempdir().expect("a directory");
    let download = |name: &str, more: &[&str]| -> (Ran, usize) {
        let out = directory.path().join(name);
        let ran = program()
            .args([
                "download",
                &format!("http://127.0.0.1:{port}/a.pdf"),
                "--quiet",
                "--out",
            ])
            .arg(&out)
            .args(more)
            .output();
        (
            ran.expect("the program").into(),
            std::fs::read_dir(out.join("pdf"))
                .into_iter()
                .flatten()
                .count(),
        )
    };
    let (ran, files) = download("trusted", &[]);
    assert_eq!((ran.code, files), (0, 1), "{}", ran.err);
    let (ran, files) = download("untrusted", &["--untrusted-input"]);
    assert_eq!((ran.code, files), (1, 0), "{}", ran.err);
}
