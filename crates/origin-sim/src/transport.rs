//! Connects a hub to origins within the process, under virtual time, with a pool of connections
//! that must be dialled first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use docstokg_hub::clock::{BoxFuture, Clock};
use docstokg_hub::transport::{
    Body, DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
};
use docstokg_policy::classify::Fault;
use docstokg_policy::host::Host;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};
use parking_lot::Mutex;

use crate::ledger::Arrival;
use crate::origin::SimulatedWeb;
use crate::reply::{BodyFraming, Piece, ScriptedReply};
use crate::simulation::Simulation;

/// The number of idle connections, by host.
type Idle = Arc<Mutex<HashMap<String, usize>>>;

/// A [`Transport`] to the origins of a [`SimulatedWeb`], in virtual time.
pub struct SimTransport {
    simulation: Simulation,
    web: SimulatedWeb,
    idle: Idle,
}

impl SimTransport {
    /// Creates a transport to a [`SimulatedWeb`] that runs in the virtual time of a [`Simulation`].
    #[must_use]
    pub fn new(simulation: &Simulation, web: &SimulatedWeb) -> Arc<Self> {
        Arc::new(Self {
            simulation: simulation.clone(),
            web: web.clone(),
            idle: Arc::default(),
        })
    }

    async fn connect(&self, host: &str, dial: &dyn DialObserver) -> Result<(), SendError> {
        let pooled = {
            let mut idle = self.idle.lock();
            let count = idle.get_mut(host).filter(|count| **count > 0);
            count.map(|count| *count -= 1).is_some()
        };
        if pooled {
            return Ok(());
        }
        let Some(delay) = self
            .web
            .origins
            .get(host)
            .map(|origin| origin.lock().dial_delay)
        else {
            return Err(no_address(host));
        };
        dial.dialling();
        self.simulation.sleep(delay).await;
        dial.connected().await.map_err(SendError::Blocked)
    }

    async fn exchange(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> Result<IncomingResponse, SendError> {
        let host = Host::of(&request.url)
            .map_err(|error| SendError::Unsendable(error.to_string()))?
            .to_string();
        self.connect(&host, &*dial).await?;
        let arrival = self.arrival(&host, &request);
        let Some(served) = self.web.serve(arrival, self.simulation.wall()) else {
            return Err(no_address(&host));
        };
        let mut ending = ExchangeEnd {
            web: self.web.clone(),
            simulation: self.simulation.clone(),
            number: served.number,
            pool: None,
        };
        self.simulation.sleep(served.latency).await;
        if served.reply.dead.is_some() || served.reply.framing == BodyFraming::Verbatim {
            return Err(SendError::Closed {
                fault: Fault::Read,
                message: "the connection was closed before an answer".to_owned(),
            });
        }
        if !served.reply.breaks_off() {
            ending.pool = Some((host, Arc::clone(&self.idle)));
        }
        let status = StatusCode::from_u16(served.reply.status)
            .map_err(|error| SendError::Unsendable(error.to_string()))?;
        let headers = headers_of(&served.reply);
        let pieces = if request.method == http::Method::HEAD {
            VecDeque::new()
        } else {
            served.reply.pieces.into()
        };
        let body = SimBody {
            pieces,
            simulation: self.simulation.clone(),
            _ending: ending,
        };
        Ok(IncomingResponse {
            status,
            version: Version::HTTP_11,
            headers,
            body: Box::new(body),
        })
    }

    /// Returns a request as an [`Arrival`] at its origin.
    fn arrival(&self, host: &str, request: &OutgoingRequest) -> Arrival {
        let mut path = request.url.path().to_owned();
        if let Some(query) = request.url.query() {
            path = format!("{path}?{query}");
        }
        let headers = request.headers.iter().map(|(name, value)| {
            (
                name.to_string(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        });
        Arrival {
            host: host.to_owned(),
            method: request.method.to_string(),
            path,
            headers: headers.collect(),
            at: self.simulation.boot(),
            status: 0,
            ended: None,
            retry_not_before: None,
        }
    }
}

fn no_address(host: &str) -> SendError {
    SendError::Fault {
        fault: Fault::Dns,
        message: format!("{host} has no address"),
    }
}

/// Returns the headers of a [`ScriptedReply`], including those of its framing.
fn headers_of(reply: &ScriptedReply) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    match (reply.framing, reply.content_length()) {
        (BodyFraming::Chunked, _) => {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"))
        }
        (_, Some(length)) => headers.insert(CONTENT_LENGTH, HeaderValue::from(length)),
        (_, None) => None,
    };
    headers
}

impl Transport for SimTransport {
    fn send(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> BoxFuture<'_, Result<IncomingResponse, SendError>> {
        Box::pin(self.exchange(request, dial))
    }
}

/// The end of an exchange. When this value is dropped, the end is recorded, and the connection
/// returns to its pool.
struct ExchangeEnd {
    web: SimulatedWeb,
    simulation: Simulation,
    number: usize,
    pool: Option<(String, Idle)>,
}

impl Drop for ExchangeEnd {
    fn drop(&mut self) {
        self.web.ledger().ended(self.number, self.simulation.boot());
        if let Some((host, idle)) = self.pool.take() {
            *idle.lock().entry(host).or_default() += 1;
        }
    }
}

struct SimBody {
    pieces: VecDeque<Piece>,
    simulation: Simulation,
    _ending: ExchangeEnd,
}

impl Body for SimBody {
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SendError>> {
        Box::pin(async move {
            loop {
                match self.pieces.front().cloned() {
                    None => return Ok(None),
                    Some(Piece::Bytes(bytes)) => {
                        self.pieces.pop_front();
                        return Ok(Some(bytes));
                    }
                    Some(Piece::Pause(length)) => {
                        self.simulation.sleep(length).await;
                        self.pieces.pop_front();
                    }
                    Some(Piece::Endless(bytes, length)) => {
                        self.simulation.sleep(length).await;
                        return Ok(Some(bytes));
                    }
                    Some(Piece::Cut | Piece::Reset) => {
                        return Err(SendError::Fault {
                            fault: Fault::Read,
                            message: "the connection was closed within the body".to_owned(),
                        });
                    }
                }
            }
        })
    }
}
