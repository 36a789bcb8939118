//! Responses that all look-ups of a run share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use url::Url;

use crate::message::LookupResponse;

/// The shared [`LookupResponse`]s by URL. Each URL is requested until there is a response, which
/// all later look-ups use.
#[derive(Debug, Default)]
pub struct SharedResponses(Mutex<HashMap<Url, Arc<OnceCell<LookupResponse>>>>);

impl SharedResponses {
    /// Returns the response of a URL. The first caller sends the request, and the others wait for
    /// it.
    ///
    /// # Errors
    /// Returns the error of the request if there is no response. The next caller then sends the
    /// request again.
    pub async fn get_or_send<F, W>(
        &self,
        url: &Url,
        send: impl FnOnce() -> W,
    ) -> Result<LookupResponse, F>
    where
        W: Future<Output = Result<LookupResponse, F>>,
    {
        let cell = Arc::clone(self.0.lock().entry(url.clone()).or_default());
        cell.get_or_try_init(send).await.cloned()
    }
}
