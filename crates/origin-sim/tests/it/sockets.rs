use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::scholarly::{LibraryPlan, TruthFileKind, WorkLibrary};
use docstokg_origin_sim::{Listener, Security, SimulatedWeb};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn files_come_in_parts_over_a_socket() {
    let library = WorkLibrary::generate(&LibraryPlan {
        works: 30,
        file_bytes: 2000..4000,
        ..LibraryPlan::default()
    });
    let web = SimulatedWeb::new(library.origins(), SystemClock.boot());
    let listener = Listener::start(&web, Security::Plain).await.unwrap();
    let mut pdfs = library
        .truth()
        .iter()
        .flat_map(|truth| truth.of_kind(TruthFileKind::Pdf));
    let copy = pdfs
        .find(|copy| copy.url.contains("amazonaws.com"))
        .unwrap();
    let (host, path) = copy
        .url
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut stream = TcpStream::connect(listener.address).await.unwrap();
    let request = format!(
        "GET /{path} HTTP/1.1\r\nhost: {host}\r\nrange: bytes=0-7\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.starts_with("HTTP/1.1 206 ") && answer.ends_with("\r\n\r\n%PDF-1.7"),
        "{answer}"
    );
    assert!(
        answer.contains(&format!("content-range: bytes 0-7/{}\r\n", copy.bytes)),
        "{answer}"
    );
}
