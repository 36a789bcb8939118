//! Reading a body within limits of time and size. The body is decoded and, if wanted, stored in the
//! cache.

mod pace;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use docstokg_policy::classify::Fault;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Method, StatusCode};

use self::pace::MinimumPace;
use crate::cache::{Coding, StoringResponse};
use crate::clock::{BootInstant, Runtime, before};
use crate::config::TransportConfig;
use crate::decode::{DecodeCaps, DecodeError, DecodeStep, Decoder};
use crate::response::ResponseHead;
use crate::transport::{Body, SendError};

/// Maximum time for which a body is decoded without letting other tasks run.
const DECODE_SLICE: Duration = Duration::from_millis(2);

/// Maximum memory that is reserved in advance for a body with an announced length, in bytes.
const MAX_RESERVED: u64 = 8 << 20;

/// Lets other tasks run once, and then continues.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The reason why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The origin or the network failed.
    Fault(Fault, String),
    /// The body is larger than the allowed number of bytes, which is the value.
    TooLarge(u64),
    /// The body cannot be decoded.
    Decode(String),
    /// The deadline of the caller passed.
    Deadline,
    /// The transport refused to continue the request.
    Unsendable(String),
}

impl BodyError {
    fn timeout(message: String) -> Self {
        Self::Fault(Fault::Timeout, message)
    }
}

impl From<SendError> for BodyError {
    /// Converts an error that occurred in the middle of a response. An error of the origin then
    /// means that the response broke off.
    fn from(error: SendError) -> Self {
        match error {
            SendError::Fault { fault, message } | SendError::Closed { fault, message } => {
                Self::Fault(fault, message)
            }
            SendError::Unprocessed { message } => Self::Fault(Fault::Read, message),
            other => Self::Unsendable(other.to_string()),
        }
    }
}

/// The limits within which a body is read: its size, time and encodings.
#[derive(Clone, Copy)]
pub(crate) struct ReadLimits<'a> {
    /// The maximum number of decoded bytes.
    pub(crate) cap: u64,
    pub(crate) deadline: BootInstant,
    /// The settings for timeouts, the minimum throughput and the maximum decode ratio.
    pub(crate) config: &'a TransportConfig,
    /// [`Coding::Decoded`] if the reader must decode the body.
    pub(crate) coding: Coding,
}

/// A body that is being read.
pub(crate) struct BodyReader {
    body: Box<dyn Body>,
    decoder: Option<Decoder>,
    /// `true` if the headers name more encodings than the hub decodes, so that the body is refused.
    is_refused: bool,
    runtime: Arc<dyn Runtime>,
    pace: MinimumPace,
    deadline: BootInstant,
    cap: u64,
    expected: Option<u64>,
    received: u64,
    delivered: u64,
    ended: bool,
    /// The result of reading beyond the last piece, if that happened before the piece was returned.
    end: Option<Result<Option<Bytes>, BodyError>>,
    /// The cache entry in which the body is stored while it is read; `None` if it is not stored.
    keeping: Option<Box<StoringResponse>>,
    is_stored: bool,
}

impl BodyReader {
    pub(crate) fn new(
        body: Box<dyn Body>,
        method: &Method,
        head: &ResponseHead,
        limits: ReadLimits<'_>,
        runtime: &Arc<dyn Runtime>,
    ) -> Self {
        let ReadLimits {
            cap,
            deadline,
            config,
            coding,
        } = limits;
        let headers = &head.headers;
        let bodiless = is_bodiless(method, head.status);
        let caps = DecodeCaps {
            bytes: cap,
            ratio: config.max_decode_ratio,
        };
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.trim().parse().ok());
        let expected = length.filter(|_| !bodiless && !headers.contains_key(TRANSFER_ENCODING));
        let pace = MinimumPace {
            idle: config.idle_timeout,
            least: config.min_throughput,
            window: config.throughput_window,
            since: runtime.boot(),
            bytes: 0,
        };
        let decoder = if bodiless || coding == Coding::AsSent {
            Ok(None)
        } else {
            Decoder::of(headers, caps)
        };
        let is_refused = decoder.is_err();
        let decoder = decoder.unwrap_or_default();
        Self {
            body,
            decoder,
            is_refused,
            runtime: Arc::clone(runtime),
            pace,
            deadline,
            cap,
            expected,
            received: 0,
            delivered: 0,
            ended: false,
            end: None,
            keeping: None,
            is_stored: false,
        }
    }

    /// Stores the body in the cache while it is read.
    pub(crate) fn keep(&mut self, keeping: StoringResponse) {
        self.keeping = Some(Box::new(keeping));
    }

    /// Returns whether the cache receives the body while it is read.
    pub(crate) fn is_being_stored(&self) -> bool {
        self.keeping.is_some()
    }

    /// Returns whether the cache has stored the body.
    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Returns the [`Coding`] of the pieces that the reader returns.
    pub(crate) fn coding(&self) -> Coding {
        match self.decoder {
            Some(_) => Coding::Decoded,
            None => Coding::AsSent,
        }
    }

    /// Returns the number of bytes received over the wire so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the announced length of the body in bytes, if known.
    pub(crate) fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Refuses a body whose announced length exceeds the cap, before any of it is read.
    ///
    /// # Errors
    /// Returns [`BodyError::TooLarge`] in that case.
    pub(crate) fn check_announced(&mut self) -> Result<(), BodyError> {
        match self.expected {
            Some(length) if self.decoder.is_none() && length > self.cap => {
                Err(BodyError::TooLarge(self.cap))
            }
            _ => Ok(()),
        }
    }

    /// Returns the next piece, decoded if necessary; `None` at the end of the body.
    ///
    /// # Errors
    /// Returns the [`BodyError`] because of which the body cannot be read further.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        if let Some(end) = self.end.take() {
            return end;
        }
        let piece = self.next_piece().await;
        if self.keeping.is_none() {
            return piece;
        }
        self.pass_on(&piece).await;
        let is_last = self.decoder.is_none() && self.expected == Some(self.received);
        if is_last && matches!(piece, Ok(Some(_))) {
            // The end is read before the last piece is returned, so that the response is stored by
            // then. The reader's next request then finds it in the cache.
            let end = self.next_piece().await;
            self.pass_on(&end).await;
            self.end = Some(end);
        }
        piece
    }

    /// Passes a piece, or the end of the body, to the cache. A body that breaks off is not stored.
    async fn pass_on(&mut self, piece: &Result<Option<Bytes>, BodyError>) {
        match piece {
            Ok(Some(piece)) => {
                if let Some(keeping) = &mut self.keeping {
                    keeping.write(piece).await;
                }
            }
            Ok(None) => {
                if let Some(keeping) = self.keeping.take() {
                    self.is_stored = keeping.commit().await;
                }
            }
            Err(_) => {
                if let Some(keeping) = self.keeping.take() {
                    keeping.fail();
                }
            }
        }
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.is_refused {
            return Err(self.decode_error(DecodeError::TooMany));
        }
        loop {
            if let Some(plain) = self.decode().await? {
                return Ok(Some(plain));
            }
            if self.ended {
                return Ok(None);
            }
            let Some(chunk) = self.receive_chunk().await? else {
                self.end()?;
                continue;
            };
            match &mut self.decoder {
                Some(decoder) => decoder.push(&chunk),
                None => {
                    if let Some(plain) = self.deliver(chunk)? {
                        return Ok(Some(plain));
                    }
                }
            }
        }
    }

    /// Waits for the next chunk from the wire, within the deadline and the [`MinimumPace`].
    async fn receive_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        let patience = (self.runtime.boot() + self.pace.idle).min(self.deadline);
        let chunk = before(&*self.runtime, patience, self.body.chunk()).await;
        let now = self.runtime.boot();
        let chunk = match chunk {
            Some(Ok(Some(chunk))) => chunk,
            Some(Ok(None)) => return Ok(None),
            Some(Err(error)) => return Err(error.into()),
            None if now >= self.deadline => return Err(BodyError::Deadline),
            None => {
                let idle = self.pace.idle.as_secs_f64();
                return Err(BodyError::timeout(format!("no bytes for {idle} s")));
            }
        };
        self.received += chunk.len() as u64;
        if self.pace.is_too_slow(chunk.len() as u64, now) {
            let least = self.pace.least;
            return Err(BodyError::timeout(format!(
                "less than {least} bytes a second"
            )));
        }
        Ok(Some(chunk))
    }

    /// Decodes the received bytes up to the next piece. During long decoding, checks the deadline
    /// and lets other tasks run.
    async fn decode(&mut self) -> Result<Option<Bytes>, BodyError> {
        let mut begun = self.runtime.boot();
        while let Some(decoder) = &mut self.decoder {
            match decoder.step() {
                Ok(DecodeStep::Plain(plain)) => {
                    if let Some(plain) = self.deliver(plain.into())? {
                        return Ok(Some(plain));
                    }
                }
                Ok(DecodeStep::Working) => {}
                Ok(DecodeStep::Idle) => return Ok(None),
                Err(error) => return Err(self.decode_error(error)),
            }
            let now = self.runtime.boot();
            if now >= self.deadline {
                return Err(BodyError::Deadline);
            }
            if now.since(begun) >= DECODE_SLICE {
                yield_now().await;
                begun = self.runtime.boot();
            }
        }
        Ok(None)
    }

    fn end(&mut self) -> Result<(), BodyError> {
        self.ended = true;
        if let Some(expected) = self.expected.filter(|expected| *expected != self.received) {
            let received = self.received;
            return Err(BodyError::Fault(
                Fault::Read,
                format!("the body ended after {received} of {expected} bytes"),
            ));
        }
        if let Some(decoder) = &mut self.decoder {
            decoder.finish();
        }
        Ok(())
    }

    fn deliver(&mut self, plain: Bytes) -> Result<Option<Bytes>, BodyError> {
        self.delivered += plain.len() as u64;
        if self.delivered > self.cap {
            return Err(BodyError::TooLarge(self.cap));
        }
        Ok((!plain.is_empty()).then_some(plain))
    }

    fn decode_error(&self, error: DecodeError) -> BodyError {
        match error {
            DecodeError::TooLarge => BodyError::TooLarge(self.cap),
            DecodeError::Bomb { ratio } => {
                BodyError::Decode(format!("it grows to more than {ratio} times what was sent"))
            }
            DecodeError::TooMany => {
                BodyError::Decode("it names more than three content encodings".to_owned())
            }
            DecodeError::Malformed(why) => BodyError::Decode(why),
        }
    }

    /// Reads the whole body into memory.
    pub(crate) async fn collect(&mut self) -> Result<Bytes, BodyError> {
        let Some(first) = self.next().await? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.next().await? else {
            return Ok(first);
        };
        // Reserved memory takes no physical memory until it is written. A vector that grows instead
        // would leave its earlier allocations behind.
        let announced = self.expected.filter(|_| self.decoder.is_none());
        let announced = announced.unwrap_or(0).min(MAX_RESERVED).min(self.cap);
        let announced = usize::try_from(announced).unwrap_or(0);
        let mut all = Vec::with_capacity(announced.max(first.len() + second.len()));
        all.extend_from_slice(&first);
        all.extend_from_slice(&second);
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }

    /// Reads up to `most` bytes of a response that no longer matters, and drops the rest.
    pub(crate) async fn preview(&mut self, most: usize) -> Result<Bytes, BodyError> {
        let mut kept = Vec::new();
        while kept.len() < most {
            match self.next().await {
                Ok(Some(piece)) => {
                    kept.extend_from_slice(&piece[..piece.len().min(most - kept.len())]);
                }
                Ok(None) => break,
                Err(BodyError::Deadline) => return Err(BodyError::Deadline),
                Err(_) if !kept.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(kept.into())
    }
}

/// Returns whether a response has no body, regardless of its Content-Length (RFC 9110 section
/// 6.4.1).
fn is_bodiless(method: &Method, status: StatusCode) -> bool {
    method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}
