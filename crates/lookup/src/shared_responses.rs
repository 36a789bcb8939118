//! Responses that serve every look-up of a run.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use url::Url;

use crate::message::LookupResponse;

/// Responses by URL, each requested once. A request that brought no response is sent again by the
/// next look-up.
#[derive(Debug, Default)]
pub struct SharedResponses(Mutex<HashMap<Url, Arc<OnceCell<LookupResponse>>>>);

impl SharedResponses {
    /// Returns the response of a URL; the first caller sends the request, the others wait for it.
    ///
    /// # Errors
    /// The request brought no response.
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
