//! What an origin answers, down to the faults.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;

/// A piece of an answer's body, or what happens in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Bytes(Bytes),
    /// A pause.
    Pause(Duration),
    /// The same bytes again and again, with a pause after each time, until the client hangs up.
    Endless(Bytes, Duration),
    /// The connection is closed.
    Cut,
    /// The connection is reset.
    Reset,
}

/// How the length of the body is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// With a true Content-Length.
    Length,
    /// With a Content-Length that says this, true or not.
    Claimed(u64),
    /// In chunks.
    Chunked,
    /// Not at all: the pieces are the whole answer from its status line on, sent as they are, and
    /// the connection is closed.
    Verbatim,
}

/// An answer.
///
/// ```
/// use docstokg_origin_sim::ScriptedReply;
///
/// let reply = ScriptedReply::ok("0123456789").header("Content-Type", "text/plain");
/// assert_eq!((reply.status, reply.length()), (200, 10));
/// let moved = ScriptedReply::redirect(302, "/new");
/// assert_eq!(moved.headers, [("location".to_owned(), "/new".to_owned())]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedReply {
    /// The status.
    pub status: u16,
    /// The headers, without those of the framing.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub pieces: Vec<Piece>,
    /// Its framing.
    pub framing: BodyFraming,
    /// How long it takes before it begins, beside the origin's own latency.
    pub delay: Duration,
    /// The connection breaks before any of it is sent.
    pub dead: Option<Piece>,
}

impl ScriptedReply {
    /// Answers with a status and no body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            pieces: Vec::new(),
            framing: BodyFraming::Length,
            delay: Duration::ZERO,
            dead: None,
        }
    }

    /// Answers 200 with a body.
    #[must_use]
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::status(200).body(body)
    }

    /// Redirects.
    #[must_use]
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("location", to)
    }

    /// Breaks the connection instead of answering: closed or reset.
    #[must_use]
    pub fn dead(how: Piece) -> Self {
        Self {
            dead: Some(how),
            ..Self::status(200)
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.pieces = vec![Piece::Bytes(body.into())];
        self
    }

    /// Sets the body piece by piece.
    #[must_use]
    pub fn pieces(mut self, pieces: impl IntoIterator<Item = Piece>) -> Self {
        self.pieces = pieces.into_iter().collect();
        self
    }

    /// Sends the body drop by drop: `size` bytes, then a pause, and so on.
    #[must_use]
    pub fn drip(self, body: &[u8], size: usize, pause: Duration) -> Self {
        let drops = body.chunks(size).flat_map(|drop| {
            [
                Piece::Bytes(Bytes::copy_from_slice(drop)),
                Piece::Pause(pause),
            ]
        });
        self.pieces(drops)
    }

    /// Sends the body in chunks.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.framing = BodyFraming::Chunked;
        self
    }

    /// Claims a length, true or not.
    #[must_use]
    pub fn claiming(mut self, length: u64) -> Self {
        self.framing = BodyFraming::Claimed(length);
        self
    }

    /// Sends exactly these bytes, from the status line on, on a real connection. In process it is a
    /// broken one.
    #[must_use]
    pub fn verbatim(status: u16, pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self {
            framing: BodyFraming::Verbatim,
            ..Self::status(status).pieces(pieces)
        }
    }

    /// Compresses a body with gzip and says so.
    #[must_use]
    pub fn gzip(self, body: &[u8]) -> Self {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let written = writer.write_all(body).and_then(|()| writer.finish());
        // Writing to memory cannot fail.
        self.header("content-encoding", "gzip")
            .body(written.unwrap_or_default())
    }

    /// Waits before it begins.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Returns the number of bytes in the pieces.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.pieces
            .iter()
            .map(|piece| {
                if let Piece::Bytes(bytes) = piece {
                    bytes.len() as u64
                } else {
                    0
                }
            })
            .sum()
    }

    /// Returns what the Content-Length header says, if there is one.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        match self.framing {
            BodyFraming::Length => Some(self.length()),
            BodyFraming::Claimed(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::Verbatim => None,
        }
    }
}
