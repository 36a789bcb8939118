//! Streamed bodies, which the caller reads after the attempt. A stream keeps the permits of the
//! attempt until its end, and then settles them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use docstokg_policy::classify::{AttemptMeaning, Fault};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::AttemptResult;
use parking_lot::Mutex;

use crate::admission::HeldPermit;
use crate::body::{BodyError, BodyReader};
use crate::clock::{BootInstant, Runtime};
use crate::event::EventKind;
use crate::exchange::CachedBody;
use crate::journey::RequestTrack;

/// A body that has not been read, with the permits that are settled at its end.
pub(crate) struct OpenBody {
    pub(crate) reader: BodyReader,
    pub(crate) permits: Vec<HeldPermit>,
    /// The result of the attempt to report if the body ends without an error.
    pub(crate) report: AttemptResult,
    pub(crate) host: Host,
    pub(crate) role: Role,
}

/// A body that the caller reads. It occupies the slots of its attempt until it ends, fails or is
/// dropped, which settles the attempt.
///
/// ```
/// use docstokg_hub::Request;
/// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
/// # let simulation = Simulation::exact();
/// # let origin = OriginScript::new("api.example").route("/dump", [ScriptedReply::ok("0123456789")]);
/// # let (hub, _web) = simulation.hub([origin]);
/// # simulation.block_on(async move {
/// let mut streamed = hub.stream(Request::get("http://api.example/dump".parse()?)).await?;
/// let mut bytes = 0;
/// while let Some(piece) = streamed.body.next().await? {
///     bytes += piece.len();
/// }
/// assert_eq!(bytes, 10);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct BodyStream {
    rest: BodyRest,
}

enum BodyRest {
    /// The rest of the body is in memory; `None` if nothing is left.
    Whole(Option<Bytes>),
    /// The body is arriving from the origin.
    Live(Box<LiveStream>),
    /// The body is in the cache.
    Stored(Box<(CachedBody, RequestTrack)>),
}

struct LiveStream {
    reader: BodyReader,
    held: Arc<Mutex<StreamPermits>>,
    track: RequestTrack,
    report: AttemptResult,
    answered: BootInstant,
    host: Host,
    role: Role,
}

/// The permits of a stream. The stream shares them with a task that releases them if the caller
/// does not read.
struct StreamPermits {
    permits: Vec<HeldPermit>,
    /// The instant since which the caller has not read; `None` while the caller waits for a piece.
    paused_since: Option<BootInstant>,
    given_up: bool,
}

impl StreamPermits {
    /// Keeps the permits of a stream, and releases them if the caller does not read for `longest`.
    fn watched(
        permits: Vec<HeldPermit>,
        longest: Duration,
        runtime: &Arc<dyn Runtime>,
    ) -> Arc<Mutex<Self>> {
        let held = Arc::new(Mutex::new(Self {
            permits,
            paused_since: Some(runtime.boot()),
            given_up: false,
        }));
        let (watched, watch) = (Arc::downgrade(&held), Arc::clone(runtime));
        runtime.spawn(Box::pin(async move {
            let mut wake = watch.boot() + longest;
            loop {
                watch.sleep_until(wake).await;
                let Some(held) = watched.upgrade() else {
                    return;
                };
                let mut held = held.lock();
                if held.permits.is_empty() {
                    return;
                }
                let now = watch.boot();
                let since = held.paused_since.unwrap_or(now);
                if since + longest <= now {
                    held.given_up = true;
                    held.permits.clear();
                    return;
                }
                wake = since + longest;
            }
        }));
        held
    }
}

impl std::fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyStream").finish_non_exhaustive()
    }
}

/// The reason why a streamed body broke off.
#[derive(Debug, thiserror::Error)]
#[error("the body broke off: {0}")]
pub struct StreamError(String);

impl BodyStream {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self {
            rest: BodyRest::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
        }
    }

    /// Creates the stream of an [`OpenBody`]. If the caller does not read for `longest`, the stream
    /// fails, and its permits are released.
    pub(crate) fn live(
        open: OpenBody,
        track: RequestTrack,
        longest: Duration,
        runtime: &Arc<dyn Runtime>,
    ) -> Self {
        let live = LiveStream {
            reader: open.reader,
            held: StreamPermits::watched(open.permits, longest, runtime),
            answered: track.now(),
            track,
            report: open.report,
            host: open.host,
            role: open.role,
        };
        Self {
            rest: BodyRest::Live(Box::new(live)),
        }
    }

    /// Creates the stream of a [`CachedBody`], which comes from the cache.
    pub(crate) fn stored(body: CachedBody, track: RequestTrack) -> Self {
        Self {
            rest: BodyRest::Stored(Box::new((body, track))),
        }
    }

    /// Returns whether the body is arriving from the origin, so that the stream occupies slots.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.rest, BodyRest::Live(_))
    }

    /// Returns whether the cache stores the body while it is read.
    #[must_use]
    pub fn is_being_stored(&self) -> bool {
        matches!(&self.rest, BodyRest::Live(live) if live.reader.is_being_stored())
    }

    async fn next_stored(&mut self) -> Result<Option<Bytes>, StreamError> {
        let BodyRest::Stored(stored) = &mut self.rest else {
            return Ok(None);
        };
        let (body, track) = &mut **stored;
        let piece = body.next().await;
        let end = match &piece {
            // Reading ends with the last piece here, because a caller that knows the length does
            // not read further.
            Ok(Some(_)) if !body.is_at_end() => {
                return piece.map_err(|error| StreamError(error.to_string()));
            }
            Ok(_) => None,
            Err(_) => Some("cache"),
        };
        track.end(end);
        self.rest = BodyRest::Whole(None);
        piece.map_err(|error| StreamError(error.to_string()))
    }

    /// Returns the next piece, decoded if necessary; `None` at the end.
    ///
    /// # Errors
    /// Returns a [`StreamError`] in these cases:
    ///
    /// - the origin broke off, was too slow, or sent more than allowed;
    /// - the caller paused for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StreamError> {
        let live = match &mut self.rest {
            BodyRest::Whole(bytes) => return Ok(bytes.take()),
            BodyRest::Stored(_) => return self.next_stored().await,
            BodyRest::Live(live) => live,
        };
        live.held.lock().paused_since = None;
        let piece = if live.held.lock().given_up {
            Err(BodyError::Unsendable(
                "it was not read for too long".to_owned(),
            ))
        } else {
            live.reader.next().await
        };
        live.held.lock().paused_since = Some(live.track.now());
        match piece {
            Ok(Some(piece)) => Ok(Some(piece)),
            Ok(None) => {
                live.note_end(None);
                live.settle(live.report).await;
                live.track.end(None);
                self.rest = BodyRest::Whole(None);
                Ok(None)
            }
            Err(error) => {
                let (class, fault, why) = describe(error);
                live.note_end(fault.map(|fault| (fault, why.as_str())));
                if fault.is_some() {
                    let report = AttemptResult {
                        outcome: AttemptMeaning::Failure,
                        maybe_refused: false,
                        ..live.report
                    };
                    live.settle(report).await;
                }
                live.track.end(Some(class));
                self.rest = BodyRest::Whole(None);
                Err(StreamError(why))
            }
        }
    }
}

/// Returns the class of an error, the [`Fault`] if it is due to the origin, and a sentence.
fn describe(error: BodyError) -> (&'static str, Option<Fault>, String) {
    match error {
        BodyError::Fault(fault, why) => (fault.as_str(), Some(fault), why),
        BodyError::TooLarge(cap) => ("too_large", None, format!("it is larger than {cap} bytes")),
        BodyError::Deadline => ("deadline", None, "the deadline passed".to_owned()),
        BodyError::Decode(why) => ("decode", None, why),
        BodyError::Unsendable(why) => ("unsendable", None, why),
    }
}

impl LiveStream {
    /// Reports the end of the body to the observers, with the fault that caused it, if any.
    fn note_end(&self, fault: Option<(Fault, &str)>) {
        let took = self.track.now().since(self.answered);
        self.track.note(&self.host, self.role, || EventKind::Body {
            received: self.reader.received(),
            took,
        });
        if self.reader.is_stored() {
            self.track
                .note(&self.host, self.role, || EventKind::CacheStored);
        }
        if let Some((fault, message)) = fault {
            self.track.note(&self.host, self.role, || EventKind::Fault {
                fault,
                message: message.to_owned(),
            });
        }
    }

    /// Settles the permits of the stream.
    async fn settle(&mut self, report: AttemptResult) {
        let outcome = report.outcome;
        let permits = std::mem::take(&mut self.held.lock().permits);
        for permit in permits {
            permit.settle(&report, &self.track).await;
        }
        self.track
            .note(&self.host, self.role, || EventKind::Settled { outcome });
    }
}
