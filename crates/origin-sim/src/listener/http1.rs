//! A minimal HTTP/1.1 server that can send every kind of faulty response.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_policy::retry_after::format_http_date;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Connection, pause};
use crate::ledger::Arrival;
use crate::origin::SimulatedWeb;
use crate::reply::{BodyFraming, Piece, ScriptedReply};

/// Maximum size of a request head, in bytes.
const HEAD_LIMIT: usize = 64 << 10;
/// Minimum size of a piece of a body that is sent without copying it first, in bytes.
const LARGE_PIECE_BYTES: usize = 1 << 20;

pub(super) async fn serve_connection(
    mut stream: impl Connection,
    web: SimulatedWeb,
    address: SocketAddr,
) -> io::Result<()> {
    let clock = SystemClock;
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await? {
        let named = request.header("host").unwrap_or_default().to_owned();
        let host = web.host_for(&named).unwrap_or_else(|| address.to_string());
        let arrival = Arrival {
            host,
            at: clock.boot(),
            ..request
        };
        let is_head = arrival.method == "HEAD";
        let closes = arrival
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let Some(served) = web.serve(arrival, clock.wall()) else {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                .await?;
            continue;
        };
        pause(served.latency).await;
        let finished = write_reply(&mut stream, &served.reply, is_head, clock).await;
        web.ledger().ended(served.number, clock.boot());
        if !finished? || closes {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads a request head and its body; returns `None` if the client has closed the connection.
async fn read_request(
    stream: &mut impl Connection,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Arrival>> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if buffer.len() > HEAD_LIMIT {
            return Err(io::Error::other("the request head is too large"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (
        first.next().unwrap_or_default().to_owned(),
        first.next().unwrap_or_default().to_owned(),
    );
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    buffer.drain(..end);
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    buffer.drain(..length);
    Ok(Some(Arrival {
        host: String::new(),
        method,
        path,
        headers,
        at: docstokg_policy::time::BootInstant::ZERO,
        status: 0,
        ended: None,
        retry_not_before: None,
    }))
}

/// Writes a [`ScriptedReply`]. Returns true if the connection can be reused.
async fn write_reply(
    stream: &mut impl Connection,
    reply: &ScriptedReply,
    is_head: bool,
    clock: SystemClock,
) -> io::Result<bool> {
    if let Some(how) = &reply.dead {
        return end_badly(stream, how).await;
    }
    let mut out = if reply.framing == BodyFraming::Verbatim {
        Vec::new()
    } else {
        head_of(reply, clock)
    };
    for piece in reply.pieces.iter().filter(|_| !is_head) {
        match piece {
            Piece::Bytes(bytes) if reply.framing == BodyFraming::Chunked => chunk(bytes, &mut out),
            // Do not copy large pieces, because a body may have gigabytes.
            Piece::Bytes(bytes) if bytes.len() >= LARGE_PIECE_BYTES => {
                stream.write_all(&std::mem::take(&mut out)).await?;
                stream.write_all(bytes).await?;
            }
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Pause(length) => {
                stream.write_all(&std::mem::take(&mut out)).await?;
                stream.flush().await?;
                pause(*length).await;
            }
            Piece::Endless(bytes, length) => {
                let mut again = Vec::new();
                if reply.framing == BodyFraming::Chunked {
                    chunk(bytes, &mut again);
                } else {
                    again.extend_from_slice(bytes);
                }
                stream.write_all(&std::mem::take(&mut out)).await?;
                return write_without_end(stream, &again, *length).await;
            }
            Piece::Cut | Piece::Reset => {
                stream.write_all(&std::mem::take(&mut out)).await?;
                return end_badly(stream, piece).await;
            }
        }
    }
    if reply.framing == BodyFraming::Chunked && !is_head {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    stream.write_all(&out).await?;
    stream.flush().await?;
    // If the declared length was wrong, the connection cannot be reused.
    Ok(match reply.framing {
        BodyFraming::Claimed(length) => length == reply.length(),
        BodyFraming::Verbatim => false,
        BodyFraming::Length | BodyFraming::Chunked => true,
    })
}

/// Writes the same bytes again and again, until the client closes the connection.
async fn write_without_end(
    stream: &mut impl Connection,
    bytes: &[u8],
    interval: Duration,
) -> io::Result<bool> {
    loop {
        stream.write_all(bytes).await?;
        stream.flush().await?;
        pause(interval).await;
    }
}

fn chunk(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes the status line and the headers.
fn head_of(reply: &ScriptedReply, clock: SystemClock) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(reply.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Status");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", reply.status);
    if !reply.headers.iter().any(|(name, _)| name == "date") {
        head.push_str(&format!("date: {}\r\n", format_http_date(clock.wall())));
    }
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match reply.content_length() {
        Some(length) => head.push_str(&format!("content-length: {length}\r\n\r\n")),
        None => head.push_str("transfer-encoding: chunked\r\n\r\n"),
    }
    head.into_bytes()
}

async fn end_badly(stream: &mut impl Connection, how: &Piece) -> io::Result<bool> {
    if *how == Piece::Reset {
        stream.arm_reset();
    } else {
        // Close without a TLS alert, as most servers do.
        stream.flush().await?;
    }
    Ok(false)
}
