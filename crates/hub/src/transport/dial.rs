//! A connector layer that reports to the [`DialObserver`] of a request when a connection is made
//! for it.

use std::sync::Arc;
use std::task::{Context, Poll};

use docstokg_policy::site::Refusal;
use tower::{Layer, Service};

use super::DialObserver;
use crate::clock::BoxFuture;

tokio::task_local! {
    /// The [`DialObserver`] of the request whose task is making a connection.
    pub(super) static DIAL: Arc<dyn DialObserver>;
}

/// The error of a connection whose site was blocked while it was made.
#[derive(Debug, thiserror::Error)]
#[error("the site was blocked while the connection was made")]
pub(super) struct BlockedWhileDialling(pub(super) Refusal);

#[derive(Clone)]
pub(super) struct DialLayer;

impl<S> Layer<S> for DialLayer {
    type Service = DialReporter<S>;

    fn layer(&self, inner: S) -> DialReporter<S> {
        DialReporter { inner }
    }
}

#[derive(Clone)]
pub(super) struct DialReporter<S> {
    inner: S,
}

impl<S, R> Service<R> for DialReporter<S>
where
    S: Service<R, Error = Box<dyn std::error::Error + Send + Sync>>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let dial = DIAL.try_with(Arc::clone).ok();
        if let Some(dial) = &dial {
            dial.dialling();
        }
        let connecting = self.inner.call(request);
        Box::pin(async move {
            let connection = connecting.await?;
            if let Some(dial) = dial {
                dial.connected().await.map_err(BlockedWhileDialling)?;
            }
            Ok(connection)
        })
    }
}
