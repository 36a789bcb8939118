//! A single attempt: sends the request, waits for the headers, and receives the body in the
//! delivery of the request.
//!
//! This module does not settle the attempt: `fetch` reports its outcome to breaker and limiter.

mod delivery;
mod dial;
mod receive;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use docstokg_policy::classify::{AttemptClass, AttemptEnding, AttemptMeaning, Classifier, Fault};
use docstokg_policy::host::Host;
use docstokg_policy::retry::{self, Repeatable, RetryPolicy};
use docstokg_policy::site::AttemptResult;
use http::StatusCode;

use self::dial::{DialStage, DialWatch};
use crate::admission::{Consequence, HeldPermit, Permits};
use crate::body::BodyReader;
use crate::cache::{CachePlan, ResponseCache};
use crate::clock::{BootInstant, Runtime, before};
use crate::config::Config;
use crate::error::ErrorKind;
use crate::event::EventKind;
use crate::journey::RequestTrack;
use crate::known_hosts::KnownHosts;
use crate::process_pause::ProcessPauses;
use crate::redirect::Hop;
use crate::request::{IsFinal, Request};
use crate::request_headers::DefaultHeaders;
use crate::response::ResponseHead;
use crate::target::{NamedHop, RoutedHop};
use crate::transport::{
    AddressReach, DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
};

use delivery::AttemptConclusion;
pub(crate) use delivery::{
    CachedBody, DeliveredBody, Delivery, OpenedBody, ToCache, ToMemory, ToSpool, ToStream,
};

/// The context of one hop, which all attempts at the hop share.
///
/// `T` is [`RoutedHop`] for attempts, and [`NamedHop`] before the cache look-up, when the hop has
/// no route yet.
pub(crate) struct HopContext<'a, D, T = RoutedHop> {
    pub(crate) request: &'a Request,
    pub(crate) hop: &'a Hop,
    pub(crate) target: &'a T,
    pub(crate) delivery: &'a D,
    /// The [`CachePlan`] for the response; `None` if the response is not for the cache.
    pub(crate) plan: Option<&'a CachePlan>,
}

impl<D> HopContext<'_, D> {
    /// Returns whether the request may be repeated after `fault`. A relayed request is repeated
    /// only if the origin closed a connection that served an earlier request.
    pub(crate) fn repeatable(&self, fault: Option<Fault>) -> Repeatable {
        if self.request.relay.is_some() && fault != Some(Fault::ConnectionClosed) {
            return Repeatable::No;
        }
        let said = self.request.repeatable;
        said.unwrap_or_else(|| Repeatable::of(&self.hop.method))
    }

    /// Returns whether an attempt that ended like this should be repeated, if time and retry budget
    /// allow.
    pub(crate) fn wants_retry(
        &self,
        policy: &RetryPolicy,
        class: AttemptClass,
        fault: Option<Fault>,
        attempt: u32,
    ) -> bool {
        retry::wants_retry(policy, class, self.repeatable(fault), attempt)
    }
}

/// The outcome of an attempt.
pub(crate) enum AttemptOutcome<R> {
    /// A response that its headers make final, with its body: neither transient nor a redirect. A
    /// 404 is one, too.
    Received(ReceivedResponse<R>),
    /// The attempt ended without a body for the caller: by a redirect, a 304, a refusal or a fault.
    /// The retry policy decides what follows.
    Finished(AttemptFinish),
    /// The attempt was given up, for a reason that is not due to the origin.
    Abandoned(ErrorKind),
    /// The request was not sent, because the site was blocked after the permit was given.
    Blocked,
    /// The origin ended the connection without processing the request.
    Unprocessed(String),
}

impl<R> AttemptOutcome<R> {
    /// Returns whether the request was sent and processed. Only such a request counts as an
    /// attempt.
    pub(crate) fn is_attempt(&self) -> bool {
        !matches!(
            self,
            Self::Blocked
                | Self::Unprocessed(_)
                | Self::Abandoned(ErrorKind::Internal { .. } | ErrorKind::Unsendable(_))
        )
    }
}

/// A response whose body was received in the delivery of the request.
pub(crate) struct ReceivedResponse<R> {
    pub(crate) head: Box<ResponseHead>,
    pub(crate) body: R,
    pub(crate) reader: BodyReader,
    pub(crate) outcome: AttemptMeaning,
}

impl<R> ReceivedResponse<R> {
    /// Ends the attempt: settles its [`Permits`], or passes them to the body.
    pub(crate) async fn conclude<D: Delivery<Received = R>>(
        self,
        context: &HopContext<'_, D>,
        permits: Permits,
        sent: BootInstant,
        track: &RequestTrack,
    ) -> HopResponse<D::Output> {
        let is_unavailable = self.head.status == StatusCode::SERVICE_UNAVAILABLE;
        let conclusion = AttemptConclusion {
            reader: self.reader,
            permits,
            report: AttemptResult {
                outcome: self.outcome,
                retry_after: None,
                sent,
                wants_retry: false,
                maybe_refused: is_unavailable && self.outcome == AttemptMeaning::Failure,
            },
            target: context.target,
            track,
        };
        let body = D::conclude(self.body, conclusion).await;
        HopResponse {
            head: self.head,
            body: DeliveredBody::Body(body),
        }
    }
}

/// The end of an attempt that did not deliver a body.
pub(crate) enum AttemptFinish {
    /// A response whose body is not delivered: an error or a redirect.
    Answer {
        head: Box<ResponseHead>,
        preview: Bytes,
        class: AttemptClass,
        /// The wait that the server demanded by `Retry-After`.
        retry_after: Option<Duration>,
        /// The [`Consequence`] for the next attempt, if the headers settled this one.
        consequence: Consequence,
    },
    /// No complete response arrived, because the network or the origin failed.
    Fault { fault: Fault, message: String },
}

impl AttemptFinish {
    /// Returns the [`AttemptClass`] of this end.
    pub(crate) fn class(&self, classifier: &Classifier) -> AttemptClass {
        match self {
            Self::Answer { class, .. } => *class,
            Self::Fault { fault, .. } => classifier.classify(AttemptEnding::Fault(*fault)),
        }
    }

    /// Reclassifies the end of a connection. After a first attempt, it does not count against the
    /// origin, because the connection may have been idle for long. After a later attempt, it is a
    /// failure of the origin.
    pub(crate) fn judged_at(self, attempt: u32) -> Self {
        match self {
            Self::Fault {
                fault: Fault::ConnectionClosed,
                message,
            } if attempt > 1 => Self::Fault {
                fault: Fault::Read,
                message,
            },
            other => other,
        }
    }

    /// Returns the [`Fault`], if the attempt ended with one.
    pub(crate) fn fault(&self) -> Option<Fault> {
        match self {
            Self::Answer { .. } => None,
            Self::Fault { fault, .. } => Some(*fault),
        }
    }

    /// Returns whether the response is a 503 that counts as a failure. It may be throttling
    /// nevertheless, because some servers use 503 for that.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self, Self::Answer { head, class, .. }
            if head.status == StatusCode::SERVICE_UNAVAILABLE && class.outcome == AttemptMeaning::Failure)
    }

    /// Returns whether the [`IsFinal`] function of the caller accepts the response as final.
    pub(crate) fn is_final(&self, judge: Option<IsFinal>) -> bool {
        match (self, judge) {
            (Self::Answer { head, preview, .. }, Some(judge)) => judge(head.status, preview),
            _ => false,
        }
    }

    /// Returns the wait that the server demanded.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answer { retry_after, .. } => *retry_after,
            Self::Fault { .. } => None,
        }
    }

    /// Returns the [`Consequence`] for the next attempt, if the headers settled this one.
    pub(crate) fn consequence(&self) -> Consequence {
        match self {
            Self::Answer { consequence, .. } => *consequence,
            Self::Fault { .. } => Consequence::default(),
        }
    }

    /// Converts the end of the last attempt to the response of the hop.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Fault`] if no response arrived.
    pub(crate) fn into_response<T>(self, host: &Host) -> Result<HopResponse<T>, ErrorKind> {
        match self {
            Self::Answer { head, preview, .. } => Ok(HopResponse {
                head,
                body: DeliveredBody::Preview(preview),
            }),
            Self::Fault { fault, message } => Err(ErrorKind::Fault {
                host: host.clone(),
                fault,
                cause: message.into(),
            }),
        }
    }
}

/// A request at the moment in which it is sent: its permit, the number of its attempt, and the
/// instant.
#[derive(Clone, Copy)]
struct RequestDeparture<'a> {
    permit: &'a HeldPermit,
    /// The number of the attempt at its hop, from 1.
    attempt: u32,
    sent: BootInstant,
}

/// The final response of a hop.
pub(crate) struct HopResponse<T> {
    pub(crate) head: Box<ResponseHead>,
    pub(crate) body: DeliveredBody<T>,
}

/// Sends the request of an attempt, and receives its response.
pub(crate) struct Wire {
    pub(crate) config: Arc<Config>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) headers: Arc<DefaultHeaders>,
    pub(crate) known_hosts: Arc<KnownHosts>,
    /// The cache in which responses are stored while they are received.
    pub(crate) cache: Arc<ResponseCache>,
    pub(crate) pauses: Arc<ProcessPauses>,
}

impl Wire {
    /// Sends the request of a hop once, and receives the response.
    pub(crate) async fn exchange<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        permit: &HeldPermit,
        attempt: u32,
        track: &mut RequestTrack,
    ) -> AttemptOutcome<D::Received> {
        let mut outgoing = self.outgoing(context.hop, context.target, context.request);
        let prepared = context
            .delivery
            .prepare(&context.target.url, &mut outgoing.headers);
        if let Some(plan) = context.plan {
            plan.add_conditions(&mut outgoing.headers);
        }
        let sent = self.runtime.boot();
        match self.send(context.target, outgoing, permit, track).await {
            Ok(incoming) => {
                let left = RequestDeparture {
                    permit,
                    attempt,
                    sent,
                };
                self.receive(context, incoming, prepared, left, track).await
            }
            Err(ended) => ended.into_exchanged(),
        }
    }

    /// Returns the [`OutgoingRequest`] of a hop, including the headers that every request has.
    fn outgoing(&self, hop: &Hop, target: &NamedHop, request: &Request) -> OutgoingRequest {
        let reach = if self.config.transport.allow_internal {
            AddressReach::Anywhere
        } else {
            self.known_hosts.reach_of(&target.host, request)
        };
        OutgoingRequest {
            method: hop.method.clone(),
            url: target.url.clone(),
            headers: self.headers.sent_with(hop, target, request),
            body: hop.body.clone(),
            reach,
        }
    }

    /// Sends a request, and waits for the headers of its response.
    async fn send(
        &self,
        target: &RoutedHop,
        outgoing: OutgoingRequest,
        permit: &HeldPermit,
        track: &mut RequestTrack,
    ) -> Result<IncomingResponse, ExchangeFailure> {
        let (host, transport) = (&target.host, &self.config.transport);
        let sent = self.runtime.boot();
        target.route.site.note_departure(sent);
        let longest = transport.connect_timeout + Duration::from_secs(1);
        let watch = DialWatch::leaving(permit.state(), &self.runtime, longest, sent);
        let out = self.pauses.leave(&self.runtime);
        let dial = Arc::clone(&watch) as Arc<dyn DialObserver>;
        let sending = self.transport.send(outgoing, dial);
        let answer = self.headers_of(sending, &watch, track.deadline).await;
        let left_by = watch.over(out.as_ref());
        if let DialStage::Up { since, at } = left_by {
            let took = at.since(since);
            track.note(host, target.role, || EventKind::Dialled { took });
        }
        match answer {
            Some(Ok(incoming)) => Ok(incoming),
            Some(Err(error)) => Err(ExchangeFailure::from_send_error(error, left_by)),
            None if self.runtime.boot() >= track.deadline => Err(ExchangeFailure::Abandoned(
                track.deadline_error(host, "before the answer began"),
            )),
            None => Err(ExchangeFailure::Fault {
                fault: Fault::Timeout,
                message: format!(
                    "no headers within {} s",
                    transport.header_timeout.as_secs_f64()
                ),
            }),
        }
    }

    /// Waits for the headers of a response. Their timeout begins when the connection is made. The
    /// deadline of the request ends the wait, too.
    async fn headers_of(
        &self,
        sending: impl Future<Output = Result<IncomingResponse, SendError>>,
        watch: &DialWatch,
        deadline: BootInstant,
    ) -> Option<Result<IncomingResponse, SendError>> {
        let transport = &self.config.transport;
        let (connect, headers) = (transport.connect_timeout, transport.header_timeout);
        let mut sending = pin!(sending);
        let mut due = watch.headers_due(connect, headers);
        loop {
            let until = due.min(deadline);
            if let Some(answer) = before(&*self.runtime, until, sending.as_mut()).await {
                return Some(answer);
            }
            // The connection may have been made meanwhile, which moves the end of the timeout.
            due = watch.headers_due(connect, headers);
            if due.min(deadline) <= self.runtime.boot() {
                return None;
            }
        }
    }
}

/// The end of a request without a response.
enum ExchangeFailure {
    Fault { fault: Fault, message: String },
    Abandoned(ErrorKind),
    Blocked,
    Unprocessed(String),
}

impl ExchangeFailure {
    fn from_send_error(error: SendError, left_by: DialStage) -> Self {
        match error {
            // An origin may close an idle connection while the next request is on its way, which is
            // not its failure.
            SendError::Closed { message, .. } if left_by.is_reused() => Self::Fault {
                fault: Fault::ConnectionClosed,
                message,
            },
            SendError::Closed { fault, message, .. } | SendError::Fault { fault, message } => {
                Self::Fault { fault, message }
            }
            SendError::Internal { host, address } => {
                Self::Abandoned(ErrorKind::Internal { host, address })
            }
            SendError::Blocked(_) => Self::Blocked,
            SendError::Unprocessed { message } => Self::Unprocessed(message),
            SendError::Unsendable(why) => Self::Abandoned(ErrorKind::Unsendable(why)),
        }
    }

    fn into_exchanged<R>(self) -> AttemptOutcome<R> {
        match self {
            Self::Fault { fault, message } => {
                AttemptOutcome::Finished(AttemptFinish::Fault { fault, message })
            }
            Self::Abandoned(kind) => AttemptOutcome::Abandoned(kind),
            Self::Blocked => AttemptOutcome::Blocked,
            Self::Unprocessed(message) => AttemptOutcome::Unprocessed(message),
        }
    }
}
