//! An HTTP/2 server: many concurrent requests on one connection, and the faults of HTTP/2.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_policy::retry_after::format_http_date;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderName, HeaderValue, Request, Response};

use super::{Connection, pause};
use crate::ledger::Arrival;
use crate::origin::SimulatedWeb;
use crate::reply::{BodyFraming, Piece, ScriptedReply};

/// Serves a connection until the client closes it, or until `most` requests have arrived. After
/// these, the server sends GOAWAY.
#[expect(
    clippy::disallowed_methods,
    reason = "each stream has a task of its own"
)]
pub(super) async fn serve_connection(
    stream: impl Connection,
    web: SimulatedWeb,
    address: SocketAddr,
    most: u32,
) -> io::Result<()> {
    let mut connection = h2::server::handshake(stream)
        .await
        .map_err(io::Error::other)?;
    let mut seen = 0;
    while let Some(incoming) = connection.accept().await {
        let (request, respond) = incoming.map_err(io::Error::other)?;
        let arrival = arrival(&request, &web, address);
        let web = web.clone();
        tokio::spawn(async move {
            // The client may have cancelled the stream; the ledger has recorded the request
            // already.
            let _ = answer(arrival, respond, &web).await;
        });
        seen += 1;
        if seen == most {
            connection.graceful_shutdown();
        }
    }
    Ok(())
}

fn arrival(request: &Request<h2::RecvStream>, web: &SimulatedWeb, address: SocketAddr) -> Arrival {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let authority = request
        .uri()
        .authority()
        .map(ToString::to_string)
        .unwrap_or_default();
    Arrival {
        host: web
            .host_for(&authority)
            .unwrap_or_else(|| address.to_string()),
        method: request.method().to_string(),
        path: request
            .uri()
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default(),
        headers: request
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        at: SystemClock.boot(),
        status: 0,
        ended: None,
        retry_not_before: None,
    }
}

async fn answer(
    arrival: Arrival,
    mut respond: SendResponse<Bytes>,
    web: &SimulatedWeb,
) -> Result<(), h2::Error> {
    let is_head = arrival.method == "HEAD";
    let Some(served) = web.serve(arrival, SystemClock.wall()) else {
        respond.send_response(head(&ScriptedReply::status(404)), true)?;
        return Ok(());
    };
    pause(served.latency).await;
    let finished = write_reply(&mut respond, &served.reply, is_head).await;
    web.ledger().ended(served.number, SystemClock.boot());
    finished
}

async fn write_reply(
    respond: &mut SendResponse<Bytes>,
    reply: &ScriptedReply,
    is_head: bool,
) -> Result<(), h2::Error> {
    let broken = (reply.framing == BodyFraming::Verbatim).then_some(&Piece::Reset);
    if let Some(how) = reply.dead.as_ref().or(broken) {
        respond.send_reset(reason(how));
        return Ok(());
    }
    let mut stream = respond.send_response(head(reply), is_head || reply.pieces.is_empty())?;
    if is_head || reply.pieces.is_empty() {
        return Ok(());
    }
    for piece in &reply.pieces {
        match piece {
            Piece::Bytes(bytes) => send(&mut stream, bytes.clone()).await?,
            Piece::Pause(length) => pause(*length).await,
            Piece::Endless(bytes, length) => loop {
                send(&mut stream, bytes.clone()).await?;
                pause(*length).await;
            },
            Piece::Cut | Piece::Reset => {
                stream.send_reset(reason(piece));
                return Ok(());
            }
        }
    }
    stream.send_data(Bytes::new(), true)
}

/// Returns the HTTP/2 error for a fault. [`Piece::Cut`] tells the client that the request was not
/// processed, and [`Piece::Reset`] that the response failed.
fn reason(how: &Piece) -> Reason {
    if *how == Piece::Cut {
        Reason::REFUSED_STREAM
    } else {
        Reason::INTERNAL_ERROR
    }
}

fn head(reply: &ScriptedReply) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = http::StatusCode::from_u16(reply.status).unwrap_or_default();
    let mut set = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            response.headers_mut().append(name, value);
        }
    };
    if !reply.headers.iter().any(|(name, _)| name == "date") {
        set("date", &format_http_date(SystemClock.wall()));
    }
    for (name, value) in &reply.headers {
        set(name, value);
    }
    if let Some(length) = reply.content_length() {
        set("content-length", &length.to_string());
    }
    response
}

/// Sends bytes as flow control allows.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = std::future::poll_fn(|context| stream.poll_capacity(context))
            .await
            .ok_or(Reason::CANCEL)??;
        stream.send_data(bytes.split_to(room.min(bytes.len())), false)?;
    }
    Ok(())
}
