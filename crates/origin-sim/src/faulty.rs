//! A transport for tests in which some requests fail.

use std::sync::Arc;

use docstokg_hub::clock::BoxFuture;
use docstokg_hub::transport::{
    DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
};
use docstokg_policy::classify::Fault;

/// A [`Transport`] in which a function decides for each request whether it fails, and how.
pub struct FaultyTransport<F> {
    inner: Arc<dyn Transport>,
    fault_of: F,
}

impl<F: Fn(&OutgoingRequest) -> Option<Fault> + Send + Sync> FaultyTransport<F> {
    /// Wraps a transport. If `fault_of` returns `None`, `inner` sends the request.
    pub fn new(inner: Arc<dyn Transport>, fault_of: F) -> Arc<Self> {
        Arc::new(Self { inner, fault_of })
    }
}

impl<F: Fn(&OutgoingRequest) -> Option<Fault> + Send + Sync> Transport for FaultyTransport<F> {
    fn send(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> BoxFuture<'_, Result<IncomingResponse, SendError>> {
        let Some(fault) = (self.fault_of)(&request) else {
            return self.inner.send(request, dial);
        };
        let message = fault.as_str().to_owned();
        Box::pin(std::future::ready(Err(SendError::Fault { fault, message })))
    }
}
