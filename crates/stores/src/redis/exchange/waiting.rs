//! The operations that wait for the server.

use std::sync::Arc;

use docstokg_policy::site::{RequestOperation, SiteOperation, SiteResult};
use docstokg_policy::time::BootInstant;
use tokio::sync::oneshot;

use super::super::batch::as_of;
use crate::error::StoreError;
use crate::handle::SiteView;

/// The receiver of a reply.
pub(in super::super) type Receiver<T> = oneshot::Receiver<Result<T, StoreError>>;
type Sender<T> = oneshot::Sender<Result<T, StoreError>>;

/// An operation or a view that waits for the server.
pub(super) enum Waiting {
    /// An operation.
    Operation {
        operation: Arc<SiteOperation<'static>>,
        /// The id for its permit or reservation.
        id: u64,
        /// Set if the operation probably changes nothing, and is then not recorded.
        reads_first: bool,
        answer: Sender<SiteResult>,
    },
    /// A request for a copy of the state.
    View(Sender<SiteView>),
}

impl Waiting {
    /// Returns whether this is an admission request.
    pub(super) fn enters(&self) -> bool {
        let Self::Operation { operation, .. } = self else {
            return false;
        };
        matches!(
            **operation,
            SiteOperation::Request(_, RequestOperation::Enter { .. })
        )
    }

    /// Returns the [`SiteOperation`] to record as of the instant `at`, and its id. `sent` is the
    /// instant of the call, on the clock of this process.
    pub(super) fn recorded(
        &self,
        sent: BootInstant,
        at: BootInstant,
    ) -> Option<(u64, SiteOperation<'static>)> {
        let Self::Operation {
            operation,
            id,
            reads_first: false,
            ..
        } = self
        else {
            return None;
        };
        Some((*id, as_of(operation, sent, at)?))
    }
}
