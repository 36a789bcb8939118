//! Receives a response: classifies and reports its headers, then reads the body in the delivery of
//! the request.
//!
//! The body of an error or a redirect is read only up to [`PREVIEW_BYTES`].

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use docstokg_policy::classify::{AttemptClass, AttemptEnding, AttemptMeaning, Fault};
use docstokg_policy::host::Host;
use docstokg_policy::host_model::quotas::QuotaStatement;
use docstokg_policy::rate_headers;
use docstokg_policy::retry_after::parse_retry_after;
use docstokg_policy::site::AttemptResult;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, LOCATION, RETRY_AFTER, TRANSFER_ENCODING};
use http::{StatusCode, Version};

use super::delivery::{DeliveredBody, Delivery, PREVIEW_BYTES, UnreadAnswer};
use super::{AttemptFinish, AttemptOutcome, HopContext, ReceivedResponse, RequestDeparture, Wire};
use crate::admission::{BodyAhead, Consequence, HealthSign};
use crate::body::{BodyError, BodyReader, ReadLimits};
use crate::cache::Coding;
use crate::clock::{BootInstant, before};
use crate::error::ErrorKind;
use crate::event::EventKind;
use crate::journey::RequestTrack;
use crate::response::ResponseHead;
use crate::transport::{Body, IncomingResponse};

/// Maximum time for reading the body of a response that blocks its site. Its status is sufficient,
/// and its slots are free already.
const LEFTOVER_TIMEOUT: Duration = Duration::from_millis(250);

/// Minimum announced length of a body that is expected to take long, in bytes. The site learns
/// limits from the headers of such a response without waiting for its body.
const LONG_BODY: u64 = 64 << 10;

/// The reason why a body could not be delivered.
pub(crate) enum ReadError {
    Body(BodyError),
    File {
        path: String,
        source: std::io::Error,
    },
}

impl From<BodyError> for ReadError {
    fn from(error: BodyError) -> Self {
        Self::Body(error)
    }
}

/// The result of classifying the headers of a response.
struct HeaderJudgement {
    head: Box<ResponseHead>,
    class: AttemptClass,
    retry_after: Option<Duration>,
    /// The consequence of the attempt, if it was settled by the headers.
    consequence: Consequence,
    answered: BootInstant,
}

impl Wire {
    /// Receives a response after its headers have arrived.
    pub(super) async fn receive<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        incoming: IncomingResponse,
        mut prepared: D::Prepared,
        left: RequestDeparture<'_>,
        track: &mut RequestTrack,
    ) -> AttemptOutcome<D::Received> {
        let head = Box::new(ResponseHead {
            status: incoming.status,
            version: incoming.version,
            headers: incoming.headers,
            url: context.target.url.clone(),
        });
        if let Some(message) = unreadable(&head) {
            return AttemptOutcome::Finished(AttemptFinish::Fault {
                fault: Fault::Read,
                message,
            });
        }
        let judged = self.judge_headers(context, head, left, track).await;
        if let Some(message) = context.delivery.objection(&mut prepared, &judged.head) {
            return AttemptOutcome::Finished(AttemptFinish::Fault {
                fault: Fault::Read,
                message,
            });
        }
        let mut reader = self.reader(context, incoming.body, &judged.head, track.deadline);
        self.start_keeping(context, &judged, left, &mut reader);
        let is_relayed = context.request.relay.is_some();
        let wanted = is_relayed || !(judged.class.transient || is_redirect(&judged.head));
        let wanted = wanted
            && !context
                .plan
                .is_some_and(|plan| plan.is_confirmed_by(&judged.head));
        let delivered = if wanted {
            let answer = UnreadAnswer {
                url: &context.target.url,
                method: &context.hop.method,
                head: &judged.head,
                reader: &mut reader,
            };
            context.delivery.receive(answer, prepared).await
        } else {
            self.preview(&mut reader, judged.consequence.open_until)
                .await
        };
        if !(D::STREAMS && wanted) {
            track.journey.body_time = self.runtime.boot().since(judged.answered);
            track.note(&context.target.host, context.target.role, || {
                EventKind::Body {
                    received: reader.received(),
                    took: track.journey.body_time,
                }
            });
        }
        match delivered {
            Ok(DeliveredBody::Body(body)) => AttemptOutcome::Received(ReceivedResponse {
                head: judged.head,
                body,
                reader,
                outcome: judged.class.outcome,
            }),
            Ok(DeliveredBody::Preview(preview)) => judged.finish(preview, track),
            // The caller does not need the body of this response, so it does not matter that it is
            // broken.
            Err(ReadError::Body(
                BodyError::Fault(..) | BodyError::Decode(_) | BodyError::TooLarge(_),
            )) if !wanted => judged.finish(Bytes::new(), track),
            Err(error) => AttemptOutcome::from_read_error(error, track, &context.target.host),
        }
    }

    /// Also passes the body to the cache, if the cache has a plan for the hop.
    fn start_keeping<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        judged: &HeaderJudgement,
        left: RequestDeparture<'_>,
        reader: &mut BodyReader,
    ) {
        let is_relayed = context.request.relay.is_some();
        let Some(plan) = context
            .plan
            .filter(|_| is_relayed || !judged.class.transient)
        else {
            return;
        };
        self.cache.note_exchange(plan, left.sent, judged.answered);
        if let Some(mut keeping) = self
            .cache
            .keep(plan, context, &judged.head, reader.coding())
        {
            if D::STREAMS {
                // The response is stored when its body has ended, which is after the end of the
                // attempt.
                keeping.lead(plan, reader.expected());
            }
            reader.keep(keeping);
        }
    }

    fn reader<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        body: Box<dyn Body>,
        head: &ResponseHead,
        deadline: BootInstant,
    ) -> BodyReader {
        let config = &self.config.transport;
        let cap = context.target.max_body;
        let limits = ReadLimits {
            cap: cap.unwrap_or_else(|| context.delivery.cap(config)),
            deadline,
            config,
            coding: if context.request.relay.is_some() {
                Coding::AsSent
            } else {
                Coding::Decoded
            },
        };
        BodyReader::new(body, &context.hop.method, head, limits, &self.runtime)
    }

    /// Classifies a response by its headers, and reports everything that must not wait for the
    /// body.
    async fn judge_headers<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        head: Box<ResponseHead>,
        left: RequestDeparture<'_>,
        track: &mut RequestTrack,
    ) -> HeaderJudgement {
        let RequestDeparture {
            permit,
            attempt,
            sent,
        } = left;
        let target = context.target;
        let lane = &target.route.site;
        lane.answers.fetch_add(1, Ordering::Relaxed);
        let answered = self.runtime.boot();
        track.journey.header_time = answered.since(sent);
        let mut class = lane
            .rules
            .classifier
            .classify(AttemptEnding::Status(head.status));
        let is_unavailable = head.status == StatusCode::SERVICE_UNAVAILABLE;
        let learns = lane.rules.policy.learn.is_some();
        class.outcome = lane.site.health.judge(&HealthSign {
            outcome: class.outcome,
            unavailable: (is_unavailable && learns).then(|| lane.distance()),
            sent,
            answered,
        });
        if lane
            .rules
            .classifier
            .is_slow(class.outcome, answered.since(sent))
        {
            class.outcome = AttemptMeaning::Failure;
        }
        permit.state().note_answer(Some(class.outcome));
        let retry_after = self.retry_after(&head, class);
        track.note(&target.host, target.role, || EventKind::Headers {
            status: head.status,
            took: answered.since(sent),
            retry_after,
        });
        let stated = self.state_quotas(context, &head, left, class, retry_after, track);
        if stated.await {
            // The response is not a failure of the host: a declared quota delays such requests, and
            // other requests are not affected.
            class.outcome = AttemptMeaning::Neutral;
        }
        let mut consequence = Consequence::default();
        if retry_after.is_some()
            && matches!(
                class.outcome,
                AttemptMeaning::Failure | AttemptMeaning::Throttled
            )
        {
            permit.state().note_block();
            // Other requests must learn of the block now, because the body may take any time.
            let report = AttemptResult {
                outcome: class.outcome,
                retry_after,
                sent,
                wants_retry: context.wants_retry(&self.config.retry, class, None, attempt),
                maybe_refused: false,
            };
            consequence = permit.settle(&report, track).await;
        } else {
            let ahead = body_ahead(&head);
            permit.settle_headers(class.outcome, ahead, track).await;
        }
        lane.closes.store(closes(&head), Ordering::Relaxed);
        HeaderJudgement {
            head,
            class,
            retry_after,
            consequence,
            answered,
        }
    }

    /// Reports the quotas and limits that the rate headers declare, unless headers are ignored.
    ///
    /// Returns `true` if the response is a refusal whose only reason is that the quota of the
    /// request's kind is used up.
    async fn state_quotas<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        head: &ResponseHead,
        left: RequestDeparture<'_>,
        class: AttemptClass,
        retry_after: Option<Duration>,
        track: &RequestTrack,
    ) -> bool {
        let Some((_, hints)) = &context.target.route.site.rules.headers else {
            return false;
        };
        // A failing host may not count requests, so that its quota would look as if other clients
        // used it.
        let is_failure = class.outcome == AttemptMeaning::Failure;
        if is_failure || !rate_headers::is_stated(&head.headers) {
            return false;
        }
        let mut reading = rate_headers::read(&head.headers, self.runtime.wall(), hints);
        let is_refusal = is_refusal(class, head.status);
        let now = self.runtime.boot();
        context
            .target
            .route
            .site
            .complete_statement(&mut reading, is_refusal, (left.sent, now));
        let is_spent = is_refusal && context.request.kind.is_some() && reading.is_spent_for_long();
        let target = context.target;
        track.note(&target.host, target.role, || {
            EventKind::Stated(Box::new(reading.clone()))
        });
        let statement = QuotaStatement {
            reading,
            retry_after,
            is_refusal,
            is_spent_kind: is_spent,
        };
        // If the declared quota does not delay the next request, the breaker and the block must.
        left.permit.state_quotas(statement, track).await && is_spent
    }

    async fn preview<T>(
        &self,
        reader: &mut BodyReader,
        settled_until: Option<BootInstant>,
    ) -> Result<DeliveredBody<T>, ReadError> {
        let read = if settled_until.is_some() {
            // The slots are free already, so the rest of a slow body is dropped.
            let bound = self.runtime.boot() + LEFTOVER_TIMEOUT;
            let read = before(&*self.runtime, bound, reader.preview(PREVIEW_BYTES)).await;
            read.and_then(Result::ok).unwrap_or_default()
        } else {
            reader.preview(PREVIEW_BYTES).await?
        };
        Ok(DeliveredBody::Preview(read))
    }

    /// Returns the `Retry-After` of a response that refuses the request for now; otherwise `None`.
    fn retry_after(&self, head: &ResponseHead, class: AttemptClass) -> Option<Duration> {
        if !is_refusal(class, head.status) {
            return None;
        }
        let text = |name| {
            head.headers
                .get(name)
                .and_then(|value: &http::HeaderValue| value.to_str().ok())
        };
        parse_retry_after(text(RETRY_AFTER)?, text(DATE), self.runtime.wall())
    }
}

impl HeaderJudgement {
    fn finish<R>(self, preview: Bytes, track: &RequestTrack) -> AttemptOutcome<R> {
        let left = |asked: Duration| asked.saturating_sub(track.journey.body_time);
        AttemptOutcome::Finished(AttemptFinish::Answer {
            head: self.head,
            preview,
            class: self.class,
            retry_after: self.retry_after.map(left),
            consequence: self.consequence,
        })
    }
}

impl<R> AttemptOutcome<R> {
    fn from_read_error(error: ReadError, track: &RequestTrack, host: &Host) -> Self {
        let host = host.clone();
        match error {
            ReadError::Body(BodyError::Fault(fault, message)) => {
                Self::Finished(AttemptFinish::Fault { fault, message })
            }
            ReadError::Body(BodyError::TooLarge(limit)) => {
                Self::Abandoned(ErrorKind::TooLarge { host, limit })
            }
            ReadError::Body(BodyError::Decode(why)) => {
                Self::Abandoned(ErrorKind::Decode { host, why })
            }
            ReadError::Body(BodyError::Deadline) => {
                Self::Abandoned(track.deadline_error(&host, "while the body was read"))
            }
            ReadError::Body(BodyError::Unsendable(why)) => {
                Self::Abandoned(ErrorKind::Unsendable(why))
            }
            ReadError::File { path, source } => Self::Abandoned(ErrorKind::File { path, source }),
        }
    }
}

/// Returns whether a response refuses the request for now: one that means throttling, or has status
/// 429 or 503.
fn is_refusal(class: AttemptClass, status: StatusCode) -> bool {
    class.outcome == AttemptMeaning::Throttled || matches!(status.as_u16(), 429 | 503)
}

/// Returns the reason why a response cannot be read; `None` if it can. There are two such reasons:
///
/// - The status is informational, so that the response is not final.
/// - The body has a transfer coding that the hub does not request or decode.
fn unreadable(head: &ResponseHead) -> Option<String> {
    if head.status.is_informational() {
        let status = head.status.as_u16();
        return Some(format!("{status} is not the answer to a request"));
    }
    let lines = head.headers.get_all(TRANSFER_ENCODING).iter();
    let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let mut codings = codings.map(<[u8]>::trim_ascii);
    let is_other = |coding: &&[u8]| {
        !coding.is_empty()
            && !coding.eq_ignore_ascii_case(b"chunked")
            && !coding.eq_ignore_ascii_case(b"identity")
    };
    let other = codings.find(is_other)?;
    let other = String::from_utf8_lossy(&other[..other.len().min(40)]).into_owned();
    Some(format!("the transfer coding '{other}' was not asked for"))
}

/// Returns the [`BodyAhead`] of a response: the expected time for its body, by its announced
/// length.
fn body_ahead(head: &ResponseHead) -> BodyAhead {
    let length = head.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length <= LONG_BODY) {
        BodyAhead::Short
    } else {
        BodyAhead::Long
    }
}

fn is_redirect(head: &ResponseHead) -> bool {
    head.status.is_redirection() && head.headers.contains_key(LOCATION)
}

/// Returns whether the origin closes the connection after this response.
fn closes(head: &ResponseHead) -> bool {
    let close = head.headers.get(CONNECTION);
    head.version < Version::HTTP_11
        || close.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}
