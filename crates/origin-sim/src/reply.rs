//! Scripted responses of an origin, including their faults.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;

/// A piece of a response's body, or an event in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the body.
    Bytes(Bytes),
    /// A pause before the next piece.
    Pause(Duration),
    /// The same bytes repeatedly with a pause between, until the client closes the connection.
    Endless(Bytes, Duration),
    /// The connection is closed.
    Cut,
    /// The connection is reset.
    Reset,
}

/// The declaration of the length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// A true `Content-Length`.
    Length,
    /// A `Content-Length` of this value, true or not.
    Claimed(u64),
    /// Chunked transfer coding.
    Chunked,
    /// No framing: the pieces are the whole response from its status line on, and the connection is
    /// closed after them.
    Verbatim,
}

/// A scripted response: head, body and faults.
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
    /// The status of the response.
    pub status: u16,
    /// The headers, without those of the framing.
    pub headers: Vec<(String, String)>,
    /// The body, in [`Piece`]s.
    pub pieces: Vec<Piece>,
    /// The [`BodyFraming`] of the body.
    pub framing: BodyFraming,
    /// The time before the response begins, in addition to the origin's latency.
    pub delay: Duration,
    /// The fault that breaks the connection before the response begins.
    pub dead: Option<Piece>,
}

impl ScriptedReply {
    /// Creates a response with a status and no body.
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

    /// Creates a response with status 200 and a body.
    #[must_use]
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::status(200).body(body)
    }

    /// Creates a redirect to an address.
    #[must_use]
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::status(status).header("location", to)
    }

    /// Creates a response that breaks the connection: [`Piece::Cut`] or [`Piece::Reset`].
    #[must_use]
    pub fn dead(how: Piece) -> Self {
        Self {
            dead: Some(how),
            ..Self::status(200)
        }
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers
            .push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Sets the body of the response.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.pieces = vec![Piece::Bytes(body.into())];
        self
    }

    /// Sets the body, in [`Piece`]s.
    #[must_use]
    pub fn pieces(mut self, pieces: impl IntoIterator<Item = Piece>) -> Self {
        self.pieces = pieces.into_iter().collect();
        self
    }

    /// Sends the body slowly: `size` bytes, then a pause, and so on.
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

    /// Declares a length, true or not.
    #[must_use]
    pub fn claiming(mut self, length: u64) -> Self {
        self.framing = BodyFraming::Claimed(length);
        self
    }

    /// Sends exactly these bytes, from the status line on, on a real connection. In process, the
    /// response is a broken connection.
    #[must_use]
    pub fn verbatim(status: u16, pieces: impl IntoIterator<Item = Piece>) -> Self {
        Self {
            framing: BodyFraming::Verbatim,
            ..Self::status(status).pieces(pieces)
        }
    }

    /// Compresses a body with gzip and declares the encoding.
    #[must_use]
    pub fn gzip(self, body: &[u8]) -> Self {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let written = writer.write_all(body).and_then(|()| writer.finish());
        // Writing to memory cannot fail.
        self.header("content-encoding", "gzip")
            .body(written.unwrap_or_default())
    }

    /// Sets a delay before the response begins.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Returns the number of bytes in the [`Piece`]s.
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

    /// Returns the value of the `Content-Length` header, if there is one.
    #[must_use]
    pub fn content_length(&self) -> Option<u64> {
        match self.framing {
            BodyFraming::Length => Some(self.length()),
            BodyFraming::Claimed(length) => Some(length),
            BodyFraming::Chunked | BodyFraming::Verbatim => None,
        }
    }
}
