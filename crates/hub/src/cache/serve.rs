//! Serves a stored response through the [`Delivery`] of the request.

use std::borrow::Borrow;

use bytes::Bytes;
use docstokg_policy::freshness::{CacheRequest, ServedPart, answer};
use http::Version;
use http::header::{CONTENT_LENGTH, LOCATION};

use super::{ResponseCache, StoredAnswer};
use crate::error::ErrorKind;
use crate::exchange::{CachedBody, DeliveredBody, Delivery, HopContext, HopResponse};
use crate::response::ResponseHead;
use crate::target::NamedHop;

/// The reason why a stored response was not served.
pub(crate) enum ServeFailure {
    /// The stored body is damaged, which counts as a miss.
    Damaged,
    /// The response cannot be delivered to the caller.
    Failed(ErrorKind),
}

impl ResponseCache {
    /// Serves a [`StoredAnswer`] to a hop. The head has the current age; the body is whole, or the
    /// range that the request demands.
    ///
    /// # Errors
    /// Returns [`ServeFailure::Damaged`] for a damaged body, and [`ServeFailure::Failed`] if the
    /// body is too large or cannot be delivered.
    pub(super) async fn serve<D: Delivery, T: Borrow<NamedHop> + Sync>(
        &self,
        context: &HopContext<'_, D, T>,
        chosen: &StoredAnswer,
    ) -> Result<HopResponse<D::Output>, ServeFailure> {
        let StoredAnswer { entry, stored } = chosen;
        let target = context.target.borrow();
        let request = CacheRequest {
            method: &context.hop.method,
            headers: &context.hop.headers,
        };
        let sent = match answer(request, stored, entry.body_length()) {
            // This delivery serves no ranges. The whole response is correct, too (RFC 9110 section
            // 14.2).
            ServedPart::Part { .. } | ServedPart::Unsatisfiable { .. }
                if context.request.relay.is_none() =>
            {
                ServedPart::Whole
            }
            other => other,
        };
        let (status, mut headers) = stored.head(sent, stored.age(self.runtime.wall()));
        if matches!(sent, ServedPart::Whole) && context.request.relay.is_some() {
            // The origin may have sent chunks without a length. The length of the stored body is
            // known.
            headers
                .entry(CONTENT_LENGTH)
                .or_insert_with(|| entry.body_length().into());
        }
        let head = Box::new(ResponseHead {
            status,
            version: Version::HTTP_11,
            headers,
            url: target.url.clone(),
        });
        let part = match sent {
            ServedPart::Whole => None,
            ServedPart::Part { range, .. } => Some(range),
            ServedPart::HeadOnly | ServedPart::NotModified | ServedPart::Unsatisfiable { .. } => {
                let body = DeliveredBody::Preview(Bytes::new());
                return Ok(HopResponse { head, body });
            }
        };
        let limit = target.max_body;
        let limit = limit.unwrap_or_else(|| context.delivery.cap(&self.config.transport));
        if entry.body_length() > limit {
            let host = target.host.clone();
            return Err(ServeFailure::Failed(ErrorKind::TooLarge { host, limit }));
        }
        let leads_on = context.request.relay.is_none()
            && status.is_redirection()
            && head.headers.contains_key(LOCATION);
        let mut body = CachedBody::new(entry.body(), part);
        let body = if leads_on {
            DeliveredBody::Preview(body.collect().await?)
        } else {
            context.delivery.deliver_stored(&head, body).await?
        };
        Ok(HopResponse { head, body })
    }
}
