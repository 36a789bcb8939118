//! Responses that try to harm their readers.
//!
//! Tests measure how much such a response costs a client, and whether the client continues to work
//! for the other hosts of a run.

use std::time::Duration;

use bytes::Bytes;

use crate::reply::{Piece, ScriptedReply};

mod bombs;
mod deep_ontologies;
mod headers;
mod mutations;
mod ontologies;
mod packed_papers;
mod pages;
mod papers;
mod targets;

pub use bombs::bombs;
pub use deep_ontologies::{deep_ontologies, nested, term_chains};
pub use headers::odd_headers;
pub use mutations::mutated;
pub use ontologies::ontologies;
pub use pages::pages;
pub use papers::paper;
pub use targets::{addresses, loopback};

/// Creates faulty PDFs, each with the name of its fault.
#[must_use]
pub fn papers() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = papers::papers();
    all.extend(packed_papers::papers());
    all
}

/// A hostile response, with the name of its fault.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The name of the fault.
    pub name: String,
    /// The [`ScriptedReply`] with the fault.
    pub reply: ScriptedReply,
}

impl Attack {
    fn new(name: impl Into<String>, reply: ScriptedReply) -> Self {
        Self {
            name: name.into(),
            reply,
        }
    }
}

/// The pause between two pieces of a response that arrives slowly.
const DRIP_INTERVAL: Duration = Duration::from_millis(100);

/// Responses that never end, each sent exactly as given: a name, the beginning, the bytes that are
/// repeated, and the pause between repetitions.
const ENDLESS_REPLIES: [(&str, &str, &str, Duration); 10] = [
    (
        "headers that drip",
        "HTTP/1.1 200 OK\r\n",
        "x-a: b\r\n",
        DRIP_INTERVAL,
    ),
    ("a status line that drips", "H", "T", DRIP_INTERVAL),
    (
        "headers without end",
        "HTTP/1.1 200 OK\r\n",
        "x-a: bcdefghijklmnopqrstuvwxyz\r\n",
        Duration::ZERO,
    ),
    (
        "a header line without end",
        "HTTP/1.1 200 OK\r\nx-a: ",
        "aaaaaaaaaaaaaaaa",
        Duration::ZERO,
    ),
    (
        "interim answers without end",
        "",
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n",
        Duration::ZERO,
    ),
    (
        "interim answers that drip",
        "",
        "HTTP/1.1 100 Continue\r\n\r\n",
        DRIP_INTERVAL,
    ),
    (
        "a body that drips",
        "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n%PDF-1.4",
        "x",
        DRIP_INTERVAL,
    ),
    (
        "a chunk size without end",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "00000000",
        Duration::ZERO,
    ),
    (
        "a chunk extension without end",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;",
        "extension",
        Duration::ZERO,
    ),
    (
        "trailers without end",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        "x-a: b\r\n",
        Duration::ZERO,
    ),
];

/// Creates responses that arrive too slowly or never end.
#[must_use]
pub fn without_end() -> Vec<Attack> {
    let verbatim = ENDLESS_REPLIES.map(|(name, first, again, pause)| {
        let first = Piece::Bytes(Bytes::from_static(first.as_bytes()));
        let again = Piece::Endless(Bytes::from_static(again.as_bytes()), pause);
        Attack::new(name, ScriptedReply::verbatim(200, [first, again]))
    });
    let mut attacks = Vec::from(verbatim);
    // Keep this order, because tests use some attacks by their position.
    attacks.insert(
        6,
        Attack::new(
            "no answer",
            ScriptedReply::verbatim(200, [Piece::Pause(Duration::from_secs(60))]),
        ),
    );
    let framed = framed_without_end();
    attacks.splice(8..8, framed);
    attacks
}

/// Creates responses with a correct head whose body stops in the middle or never ends.
fn framed_without_end() -> [Attack; 4] {
    let body = Bytes::from(vec![b'x'; 64 << 10]);
    let pdf = |piece: Piece| {
        ScriptedReply::status(200)
            .header("content-type", "application/pdf")
            .pieces([Piece::Bytes("%PDF-1.4\n".into()), piece])
            .chunked()
    };
    let page = ScriptedReply::status(200)
        .header("content-type", "text/html")
        .pieces([Piece::Endless(body.clone(), Duration::ZERO)])
        .chunked();
    [
        Attack::new(
            "a body that stops",
            pdf(Piece::Pause(Duration::from_secs(60))),
        ),
        Attack::new(
            "a body without end",
            pdf(Piece::Endless(body, Duration::ZERO)),
        ),
        Attack::new("a page without end", page),
        Attack::new(
            "chunks of one byte",
            pdf(Piece::Endless("x".into(), Duration::from_millis(20))),
        ),
    ]
}

/// Creates a redirect that leads to further redirects forever: to the same path, to a path with one
/// more character, or to a much longer path.
#[must_use]
pub fn redirect_without_end(path: &str) -> ScriptedReply {
    match path {
        path if path.contains("/same") => ScriptedReply::redirect(302, path),
        path if path.contains("/longer") && path.len() < 60_000 => {
            ScriptedReply::redirect(301, &format!("{path}{}", "/longer".repeat(path.len() / 7)))
        }
        path => ScriptedReply::redirect(307, &format!("{path}x")),
    }
}
