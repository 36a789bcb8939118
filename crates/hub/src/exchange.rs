//! One attempt: send, watch the dial, read the body as the delivery says.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::{Class, Classifier, Ending, Fault, Outcome};
use docstokg_policy::host::Host;
use docstokg_policy::retry_after::parse_retry_after;
use docstokg_policy::role::Role;
use docstokg_policy::site::{Refusal, RefusalReason, Report, Standing};
use http::header::{CONNECTION, DATE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode, Version};
use parking_lot::Mutex;
use url::Url;

use crate::body::{BodyError, BodyReader};
use crate::clock::{BootInstant, Runtime, before};
use crate::config::Durability;
use crate::download::{FileTarget, PartFile, Partial, Start};
use crate::error::ErrorKind;
use crate::event::What;
use crate::fetch::Target;
use crate::gate::{Grant, Granted};
use crate::hub::Inner;
use crate::journey::Track;
use crate::request::IsFinal;
use crate::response::{Head, SavedFile};
use crate::transport::{Dial, Outgoing, SendError};

/// How much of an answer that nobody wants is read.
const PREVIEW: usize = 64 << 10;

/// How long the body of an answer that blocks its site is read: its slots are free by then, and its
/// status says everything.
const LEFTOVER: Duration = Duration::from_millis(250);

/// How much later than its new connection a request may be read by the origin: a slow accept, a
/// proxy in front, a handshake that is not over on its side. Its grant counts as used now until the
/// headers are there, or for this long.
const COLD: Duration = Duration::from_secs(1);
/// How old a permit may be when its request leaves: the guard of the windows covers that.
const LATE: Duration = Duration::from_millis(4);

/// What is done with a good body.
#[derive(Clone, Debug)]
pub(crate) enum Delivery {
    /// Kept in memory.
    Buffer,
    /// Written to a file.
    File(FileTarget),
    /// Left to the caller.
    Stream,
}

/// What became of a body.
pub(crate) enum Content {
    /// It is in memory: whole, or its beginning if nobody wants it.
    Bytes(Bytes),
    /// It is in a file.
    File(SavedFile),
    /// It is read by the caller, who holds the grants until its end.
    Open(Box<OpenBody>),
}

/// A body that has not been read, and what has to be settled at its end.
pub(crate) struct OpenBody {
    pub(crate) reader: BodyReader,
    pub(crate) grants: Vec<Granted>,
    pub(crate) outcome: Outcome,
    pub(crate) sent: BootInstant,
    pub(crate) host: Host,
    pub(crate) role: Role,
}

/// How an attempt went.
pub(crate) enum Attempted {
    /// To its end, which says something about the origin.
    Finished(Finish),
    /// Up to the headers of an answer whose body the caller reads.
    Streaming {
        head: Box<Head>,
        reader: BodyReader,
        outcome: Outcome,
    },
    /// Not to an end, for a reason that says nothing about the origin.
    Abandoned(ErrorKind),
    /// It was not sent: a block came between the grant and the connection.
    Blocked,
    /// The origin did not look at it: it ended the connection first.
    Unprocessed(String),
}

/// The end of an attempt.
pub(crate) enum Finish {
    /// An answer, read as far as the delivery says.
    Answer {
        head: Box<Head>,
        content: Content,
        class: Class,
        /// What the server asked for, as far as it is left.
        retry_after: Option<Duration>,
        /// The end of the block in force, where the attempt is settled already.
        open_until: Option<BootInstant>,
    },
    /// None: the network or the origin failed.
    Fault { fault: Fault, message: String },
}

impl Finish {
    /// Returns what it means.
    pub(crate) fn class(&self, classifier: &Classifier) -> Class {
        match self {
            Self::Answer { class, .. } => *class,
            Self::Fault { fault, .. } => classifier.classify(Ending::Fault(*fault)),
        }
    }

    /// Judges a connection that ended: once it says nothing about the origin, under the next
    /// attempt again it does.
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

    /// Tells whether it says nothing about the origin, good or bad.
    pub(crate) fn says_nothing(&self) -> bool {
        matches!(
            self,
            Self::Fault {
                fault: Fault::ConnectionClosed,
                ..
            }
        )
    }

    /// Tells whether it is an answer that its caller takes as final.
    pub(crate) fn is_final(&self, judge: Option<IsFinal>) -> bool {
        match (self, judge) {
            (
                Self::Answer {
                    head,
                    content: Content::Bytes(body),
                    ..
                },
                Some(judge),
            ) => judge(head.status, body),
            _ => false,
        }
    }

    /// Returns what the server asked for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Answer { retry_after, .. } => *retry_after,
            Self::Fault { .. } => None,
        }
    }

    /// Returns the end of the block that was told as soon as the headers were there.
    pub(crate) fn open_until(&self) -> Option<BootInstant> {
        match self {
            Self::Answer { open_until, .. } => *open_until,
            Self::Fault { .. } => None,
        }
    }

    /// Turns the end of the last attempt into what the caller gets.
    pub(crate) fn into_answer(self, host: &Host) -> Result<(Box<Head>, Content), ErrorKind> {
        match self {
            Self::Answer { head, content, .. } => Ok((head, content)),
            Self::Fault { fault, message } => Err(ErrorKind::Fault {
                host: host.clone(),
                fault,
                message,
            }),
        }
    }
}

/// Watches the connection of one attempt: while it is dialled, its grant is pending.
pub(crate) struct DialWatch {
    grant: Arc<Grant>,
    runtime: Arc<dyn Runtime>,
    longest: Duration,
    stage: Mutex<Stage>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A pooled connection, as far as is known.
    Pooled,
    /// As that, with a permit that was not fresh any more when the request left: it counts as used
    /// now until the answer.
    Late,
    /// Being made.
    Dialling(BootInstant),
    /// Made, after this long.
    Up(Duration),
}

impl DialWatch {
    /// Watches a request that leaves at `sent`.
    fn leaving(
        grant: &Arc<Grant>,
        runtime: &Arc<dyn Runtime>,
        longest: Duration,
        sent: BootInstant,
    ) -> Arc<Self> {
        let late = sent.since(grant.permit.at) >= LATE;
        if late {
            grant.hold(COLD);
        }
        let stage = Mutex::new(if late { Stage::Late } else { Stage::Pooled });
        Arc::new(Self {
            grant: Arc::clone(grant),
            runtime: Arc::clone(runtime),
            longest,
            stage,
        })
    }

    /// The headers are there, or will never be: whichever way the request left, it has left by now.
    /// Returns which way.
    fn over(&self, met_a_stall: bool) -> Stage {
        let stage = std::mem::replace(&mut *self.stage.lock(), Stage::Up(Duration::ZERO));
        if stage == Stage::Pooled && met_a_stall {
            // Nobody knows how much later than its stamp it arrived: not later than now.
            self.grant.hold(COLD);
        }
        if stage != Stage::Pooled || met_a_stall {
            self.grant.stamp();
        }
        stage
    }
}

impl Dial for DialWatch {
    fn dialling(&self) {
        let mut stage = self.stage.lock();
        match *stage {
            Stage::Pooled => self.grant.hold(self.longest),
            Stage::Late => self.grant.hold_longer(self.longest),
            Stage::Dialling(_) | Stage::Up(_) => return,
        }
        *stage = Stage::Dialling(self.runtime.boot());
    }

    fn connected(&self) -> Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + '_>> {
        Box::pin(async {
            {
                let mut stage = self.stage.lock();
                // A connection that comes up after the request has left by another one changes
                // nothing.
                let Stage::Dialling(since) = *stage else {
                    return Ok(());
                };
                *stage = Stage::Up(self.runtime.boot().since(since));
            }
            // Where every request is dialled all of them are late alike, and waiting for headers
            // would only cost rate.
            match self
                .grant
                .sent(if self.grant.closes() {
                    Duration::ZERO
                } else {
                    COLD
                })
                .await
            {
                // This process may have read an answer meanwhile that the store has not heard of.
                Standing::Good if self.grant.was_blocked_since() => {
                    let reason = RefusalReason::Open {
                        reason: OpenReason::RetryAfter,
                        probing: false,
                    };
                    Err(Refusal {
                        until: self.runtime.boot(),
                        reason,
                    })
                }
                Standing::Good => Ok(()),
                Standing::Blocked(refusal) => Err(refusal),
            }
        })
    }
}

impl Inner {
    /// Sends a hop once and reads the answer.
    pub(crate) async fn attempt(
        &self,
        target: &Target,
        mut outgoing: Outgoing,
        granted: &Granted,
        delivery: &Delivery,
        track: &mut Track,
    ) -> Attempted {
        let (host, role) = (&target.host, target.role);
        let method = outgoing.method.clone();
        let mut partial = match delivery {
            Delivery::File(file) if file.resume => Some(Partial::of(&file.path)),
            _ => None,
        };
        let rest = partial
            .as_mut()
            .and_then(|partial| partial.ask_for_rest(&target.url, &mut outgoing.headers));
        let sent = self.runtime.boot();
        let patience =
            (sent + self.config.transport.connect_timeout + self.config.transport.header_timeout)
                .min(track.deadline);
        let longest = self.config.transport.connect_timeout + Duration::from_secs(1);
        let watch = DialWatch::leaving(granted.grant(), &self.runtime, longest, sent);
        track.journey.attempts += 1;
        let out = self.stalls.leave(&self.runtime, granted.grant().permit.at);
        let answer = before(
            &*self.runtime,
            patience,
            self.transport
                .send(outgoing, Arc::clone(&watch) as Arc<dyn Dial>),
        )
        .await;
        let left_by = watch.over(out.is_some_and(|out| out.met_a_stall()));
        if let Stage::Up(took) = left_by {
            track.note(host, role, || What::Dialled { took });
        }
        let incoming = match answer {
            Some(Ok(incoming)) => incoming,
            Some(Err(error)) => {
                // What was not sent is no attempt.
                track.journey.attempts -= u32::from(matches!(
                    error,
                    SendError::Blocked(_)
                        | SendError::Internal { .. }
                        | SendError::Unprocessed { .. }
                ));
                return Attempted::from_send_error(
                    error,
                    matches!(left_by, Stage::Pooled | Stage::Late),
                );
            }
            None if self.runtime.boot() >= track.deadline => {
                return Attempted::Abandoned(track.deadline_error(host, "before the answer began"));
            }
            None => {
                let message = format!(
                    "no headers within {} s",
                    self.config.transport.header_timeout.as_secs_f64()
                );
                return Attempted::Finished(Finish::Fault {
                    fault: Fault::Timeout,
                    message,
                });
            }
        };
        target.lane.answers.fetch_add(1, Ordering::Relaxed);
        let answered = self.runtime.boot();
        track.journey.header_time = answered.since(sent);
        let head = Box::new(Head {
            status: incoming.status,
            version: incoming.version,
            headers: incoming.headers,
            url: target.url.clone(),
        });
        let class = target
            .lane
            .rules
            .classifier
            .classify(Ending::Status(head.status));
        let retry_after = self.retry_after(&head);
        track.note(host, role, || What::Headers {
            status: head.status,
            took: answered.since(sent),
            retry_after,
        });
        let mut open_until = None;
        if retry_after.is_some() && matches!(class.outcome, Outcome::Failure | Outcome::Throttled) {
            granted.grant().note_block();
            // All others have to know now: the body of such an answer may take as long as it likes.
            open_until = granted
                .settle(
                    &Report {
                        outcome: class.outcome,
                        retry_after,
                        sent,
                    },
                    track,
                )
                .await;
        } else {
            granted.settle_headers(class.outcome, track).await;
        }
        let closes = head.version < Version::HTTP_11
            || head
                .headers
                .get(CONNECTION)
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
        target.lane.closes.store(closes, Ordering::Relaxed);

        let cap = target.max_body.unwrap_or(match delivery {
            Delivery::File(_) => self.config.transport.max_file,
            Delivery::Buffer | Delivery::Stream => self.config.transport.max_body,
        });
        let is_head = method == Method::HEAD;
        let start = partial.as_ref().map_or(Start::Anew, |partial| {
            partial.start(rest, head.status, &head.headers)
        });
        if let (Some(partial), Start::Useless, Some(_)) = (&mut partial, start, rest) {
            partial.forget();
            let message = format!(
                "the rest of the file was asked for, and {} is no answer to that",
                head.status
            );
            return Attempted::Finished(Finish::Fault {
                fault: Fault::Read,
                message,
            });
        }
        // These have none, whatever their Content-Length says (RFC 9110 section 6.4.1).
        let bodiless = is_head
            || matches!(
                head.status,
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            );
        if matches!(delivery, Delivery::File(file) if !file.resume)
            && head.status == StatusCode::PARTIAL_CONTENT
        {
            let message =
                "it answered with a part of the file that was not asked for (206)".to_owned();
            return Attempted::Finished(Finish::Fault {
                fault: Fault::Read,
                message,
            });
        }
        let mut reader = BodyReader::new(
            incoming.body,
            &head.headers,
            bodiless,
            cap,
            &self.config.transport,
            &self.runtime,
            track.deadline,
        );
        let wanted = !class.transient && !is_redirect(&head);
        if wanted && matches!(delivery, Delivery::Stream) {
            return Attempted::Streaming {
                head,
                reader,
                outcome: class.outcome,
            };
        }
        let content = match delivery {
            // Its slots are free already: what has not come in a moment is left.
            _ if open_until.is_some() => {
                let bound = self.runtime.boot() + LEFTOVER;
                let read = before(&*self.runtime, bound, reader.preview(PREVIEW)).await;
                Ok(Content::Bytes(
                    read.and_then(Result::ok).unwrap_or_default(),
                ))
            }
            _ if !wanted => reader
                .preview(PREVIEW)
                .await
                .map(Content::Bytes)
                .map_err(ReadError::Body),
            // A part that nobody asked for is no file.
            Delivery::File(file)
                if head.status.is_success() && !is_head && start != Start::Useless =>
            {
                let resume = partial.map(|partial| Resume {
                    partial,
                    start,
                    url: &target.url,
                    headers: &head.headers,
                });
                self.read_to_file(&mut reader, file, resume)
                    .await
                    .map(Content::File)
            }
            Delivery::File(_) => reader
                .preview(PREVIEW)
                .await
                .map(Content::Bytes)
                .map_err(ReadError::Body),
            Delivery::Buffer | Delivery::Stream => {
                read_to_memory(&mut reader).await.map(Content::Bytes)
            }
        };
        track.journey.body_time = self.runtime.boot().since(answered);
        track.note(host, role, || What::Body {
            received: reader.received(),
            took: track.journey.body_time,
        });
        let retry_after = retry_after.map(|asked| asked.saturating_sub(track.journey.body_time));
        match content {
            Ok(content) => Attempted::Finished(Finish::Answer {
                head,
                content,
                class,
                retry_after,
                open_until,
            }),
            // The status said all there is to say; its body may break off as it likes.
            Err(ReadError::Body(
                BodyError::Fault(..) | BodyError::Decode(_) | BodyError::TooLarge(_),
            )) if !wanted => Attempted::Finished(Finish::Answer {
                head,
                content: Content::Bytes(Bytes::new()),
                class,
                retry_after,
                open_until,
            }),
            Err(error) => Attempted::from_read_error(error, track, host),
        }
    }

    async fn read_to_file(
        &self,
        reader: &mut BodyReader,
        target: &FileTarget,
        resume: Option<Resume<'_>>,
    ) -> Result<SavedFile, ReadError> {
        reader.check_announced().map_err(ReadError::Body)?;
        let failed = |source| ReadError::File {
            path: target.path.display().to_string(),
            source,
        };
        let (mut part, answer) = match resume {
            Some(Resume {
                partial,
                start,
                url,
                headers,
            }) => {
                let mut part = PartFile::resume(&target.path, partial, start).map_err(failed)?;
                part.note(url, headers, reader.expected(), false);
                (part, Some((url, headers)))
            }
            None => (
                PartFile::create(&target.path, self.random.number()).map_err(failed)?,
                None,
            ),
        };
        loop {
            match reader.next().await {
                Ok(Some(piece)) => part.write(&piece).await.map_err(failed)?,
                Ok(None) => break,
                Err(error) => {
                    if let (Some((url, headers)), BodyError::Fault(..) | BodyError::Deadline) =
                        (answer, &error)
                    {
                        part.note(url, headers, reader.expected(), true);
                    }
                    return Err(ReadError::Body(error));
                }
            }
        }
        // Whoever wants to resume gives the file its final name later, and makes it durable then.
        let durability = if target.resume {
            Durability::None
        } else {
            self.config.transport.durability
        };
        part.finish(durability, &self.syncer).await.map_err(failed)
    }

    /// Reads what the server asked for: `Retry-After` of answers that mean "not now".
    fn retry_after(&self, head: &Head) -> Option<Duration> {
        if !matches!(head.status.as_u16(), 429 | 503) {
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

/// A download that may go on: where it stands, and what the answer says about it.
struct Resume<'a> {
    partial: Partial,
    start: Start,
    url: &'a Url,
    headers: &'a HeaderMap,
}

async fn read_to_memory(reader: &mut BodyReader) -> Result<Bytes, ReadError> {
    reader.check_announced().map_err(ReadError::Body)?;
    reader.collect().await.map_err(ReadError::Body)
}

fn is_redirect(head: &Head) -> bool {
    head.status.is_redirection() && head.headers.contains_key(LOCATION)
}

/// Why a body did not become what the delivery wants.
enum ReadError {
    Body(BodyError),
    File {
        path: String,
        source: std::io::Error,
    },
}

impl Attempted {
    fn from_send_error(error: SendError, reused: bool) -> Self {
        match error {
            // Origins close connections that have been idle for a while, and some do while the next
            // request is on its way.
            SendError::Closed { message, .. } if reused => Self::Finished(Finish::Fault {
                fault: Fault::ConnectionClosed,
                message,
            }),
            SendError::Closed { fault, message, .. } | SendError::Fault { fault, message } => {
                Self::Finished(Finish::Fault { fault, message })
            }
            SendError::Internal { host, address } => {
                Self::Abandoned(ErrorKind::Internal { host, address })
            }
            SendError::Blocked(_) => Self::Blocked,
            SendError::Unprocessed { message } => Self::Unprocessed(message),
            SendError::Unsendable(why) => Self::Abandoned(ErrorKind::Unsendable(why)),
        }
    }

    fn from_read_error(error: ReadError, track: &Track, host: &Host) -> Self {
        let host = host.clone();
        match error {
            ReadError::Body(BodyError::Fault(fault, message)) => {
                Self::Finished(Finish::Fault { fault, message })
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
