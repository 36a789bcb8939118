//! A connection with bounded replies.
//!
//! The library accepts any size that a server announces. A line that announces a billion values
//! reserves memory for them, and a string without an end is read until memory is exhausted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest reply in bytes. The reply of `view` contains every ring of a site, and stays far
/// below.
pub(super) const MAX_ANSWER: u64 = 8 << 20;
/// The longest line in bytes: the length of a value, a number, or an error with a part of the
/// script.
const MAX_LINE: u64 = 64 << 10;
/// The number of values that a reply may announce, at all depths together. `SCAN` requests a
/// thousand.
const MAX_VALUES: u64 = 64 << 10;
/// The largest depth of nested values. The replies of the script are flat, and those of `SCAN` have
/// one more level.
const MAX_DEPTH: usize = 16;

/// A parser for the framing of replies, without their content.
#[derive(Default)]
struct ReplyFraming {
    /// The number of bytes of this reply so far.
    bytes: u64,
    values: u64,
    /// The number of missing values at each depth.
    missing: Vec<u64>,
    at: BytePosition,
}

/// The position of the next byte in a reply.
#[derive(Clone, Copy, Default)]
enum BytePosition {
    /// The byte that defines the kind of the next value.
    #[default]
    Kind,
    /// The line after that byte.
    Line {
        kind: u8,
        length: u64,
        number: Option<u64>,
        negative: bool,
    },
    /// A string with `left` remaining bytes, including the end of its line.
    Text { left: u64 },
}

impl ReplyFraming {
    /// Parses the bytes that arrived.
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while let Some((first, rest)) = bytes.split_first() {
            match self.at {
                BytePosition::Kind => {
                    self.at = BytePosition::Line {
                        kind: *first,
                        length: 0,
                        number: Some(0),
                        negative: false,
                    };
                    self.count(1)?;
                    bytes = rest;
                }
                BytePosition::Line {
                    kind,
                    length,
                    number,
                    negative,
                } => {
                    if length >= MAX_LINE {
                        return Err("a line of its answer is too long");
                    }
                    self.count(1)?;
                    bytes = rest;
                    if *first == b'\n' {
                        self.line_ended(kind, number.filter(|_| !negative))?;
                    } else {
                        let (number, negative) = match first {
                            b'0'..=b'9' => (
                                number.and_then(|number| {
                                    number.checked_mul(10)?.checked_add(u64::from(first - b'0'))
                                }),
                                negative,
                            ),
                            b'-' => (number, true),
                            _ => (number, negative),
                        };
                        self.at = BytePosition::Line {
                            kind,
                            length: length + 1,
                            number,
                            negative,
                        };
                    }
                }
                BytePosition::Text { left } => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    self.count(taken as u64)?;
                    bytes = &bytes[taken..];
                    match left - taken as u64 {
                        0 => self.value_ended(),
                        left => self.at = BytePosition::Text { left },
                    }
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> Result<(), &'static str> {
        self.bytes += bytes;
        if self.bytes > MAX_ANSWER {
            Err("its answer is too large")
        } else {
            Ok(())
        }
    }

    /// Continues after a line. A negative or missing number means that no content follows.
    fn line_ended(&mut self, kind: u8, number: Option<u64>) -> Result<(), &'static str> {
        match (kind, number) {
            (b'$' | b'!' | b'=', Some(length)) => {
                if length > MAX_ANSWER {
                    return Err("it announces a text that is too long");
                }
                self.at = BytePosition::Text { left: length + 2 };
            }
            (b'*' | b'~' | b'>' | b'%' | b'|', Some(number)) => {
                // A map has two values for each entry; attributes precede the value that they
                // belong to.
                let number = number
                    .saturating_mul(if matches!(kind, b'%' | b'|') { 2 } else { 1 })
                    .saturating_add(u64::from(kind == b'|'));
                self.values = self.values.saturating_add(number);
                if self.values > MAX_VALUES {
                    return Err("it announces too many values");
                }
                if self.missing.len() >= MAX_DEPTH {
                    return Err("the values of its answer are nested too deeply");
                }
                self.at = BytePosition::Kind;
                if number == 0 {
                    self.value_ended();
                } else {
                    self.missing.push(number);
                }
            }
            // The length exceeds the range of numbers.
            (b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' | b'|', None) if !self.is_null() => {
                return Err("it announces a length that is no number");
            }
            _ => self.value_ended(),
        }
        Ok(())
    }

    /// Returns whether the completed line announced a negative length, which means no value.
    fn is_null(&self) -> bool {
        matches!(self.at, BytePosition::Line { negative: true, .. })
    }

    /// Continues after a value: with the enclosing value, or with the next reply.
    fn value_ended(&mut self) {
        self.at = BytePosition::Kind;
        while let Some(missing) = self.missing.last_mut() {
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            self.missing.pop();
        }
        (self.bytes, self.values) = (0, 0);
    }
}

/// A socket of a [`BoundedConnection`], with or without TLS.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

/// A connection that ends when a reply exceeds its limits.
pub(super) struct BoundedConnection {
    socket: Box<dyn Socket>,
    framing: ReplyFraming,
}

impl BoundedConnection {
    pub(super) fn new(socket: impl Socket + 'static) -> Self {
        Self {
            socket: Box::new(socket),
            framing: ReplyFraming::default(),
        }
    }
}

impl AsyncRead for BoundedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        // The error kind of a lost connection makes the library drop the connection. The call is
        // then repeated, or the store is unavailable.
        let refused = |why| io::Error::new(io::ErrorKind::ConnectionAborted, why);
        Poll::Ready(
            self.framing
                .take(&buffer.filled()[before..])
                .map_err(refused),
        )
    }
}

impl AsyncWrite for BoundedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a reply in pieces of several sizes. Returns the error, if any, and whether the reply
    /// has ended.
    fn check(answer: &[u8]) -> (Option<&'static str>, bool) {
        let whole = check_in_pieces(answer, answer.len().max(1));
        for size in [1, 2, 7] {
            assert_eq!(check_in_pieces(answer, size), whole, "in pieces of {size}");
        }
        whole
    }

    fn check_in_pieces(answer: &[u8], size: usize) -> (Option<&'static str>, bool) {
        let mut framing = ReplyFraming::default();
        let wrong = answer
            .chunks(size)
            .find_map(|piece| framing.take(piece).err());
        (
            wrong,
            matches!(framing.at, BytePosition::Kind)
                && framing.missing.is_empty()
                && framing.bytes == 0,
        )
    }

    #[test]
    fn answers_are_followed_to_their_end() {
        for answer in [
            "+OK\r\n",
            ":-17\r\n",
            "-ERR no 99999999999999999999\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "$0\r\n\r\n",
            "$5\r\n*9\r\n:\r\n",
            "*0\r\n",
            "*3\r\n:1\r\n*2\r\n+a\r\n$1\r\nb\r\n*0\r\n",
            "%1\r\n+key\r\n*1\r\n_\r\n",
            "|1\r\n+a\r\n:1\r\n:2\r\n",
            "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n+next\r\n",
        ] {
            assert_eq!(check(answer.as_bytes()), (None, true), "{answer:?}");
            assert!(
                !check(&answer.as_bytes()[..answer.len() - 1]).1,
                "{answer:?}"
            );
        }
    }

    #[test]
    fn what_is_beyond_the_bounds_is_refused() {
        let line = "9".repeat(1 << 17);
        let values = format!("*{}\r\n", MAX_VALUES + 1);
        for (answer, why) in [
            ("$9999999999\r\n", "it announces a text that is too long"),
            (
                "$99999999999999999999999\r\n",
                "it announces a length that is no number",
            ),
            (&values, "it announces too many values"),
            ("*2\r\n*65000\r\n", "nothing yet"),
            ("%9223372036854775807\r\n", "it announces too many values"),
            (&line, "a line of its answer is too long"),
            (
                &"*1\r\n".repeat(17),
                "the values of its answer are nested too deeply",
            ),
        ] {
            assert_eq!(check(answer.as_bytes()).0.unwrap_or("nothing yet"), why);
        }
        let many = format!(
            "*9000\r\n{}",
            format!("$1000\r\n{}\r\n", "x".repeat(1_000)).repeat(9_000)
        );
        assert_eq!(check(many.as_bytes()).0, Some("its answer is too large"));
        let in_parts = format!("*3\r\n{}", "*40000\r\n".repeat(2));
        assert_eq!(
            check(in_parts.as_bytes()).0,
            Some("it announces too many values")
        );
    }
}
