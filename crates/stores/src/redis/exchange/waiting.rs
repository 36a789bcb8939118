//! Those that wait for the server.

use std::sync::Arc;

use docstokg_policy::site::{RequestOperation, SiteOperation, SiteResult};
use docstokg_policy::time::BootInstant;
use tokio::sync::oneshot;

use super::super::batch::as_of;
use crate::error::StoreError;
use crate::handle::SiteView;

/// The receiver of an answer.
pub(in super::super) type Receiver<T> = oneshot::Receiver<Result<T, StoreError>>;
type Sender<T> = oneshot::Sender<Result<T, StoreError>>;

/// One that waits for the server.
pub(super) enum Waiting {
    /// An operation.
    Operation {
        operation: Arc<SiteOperation<'static>>,
        /// The id of what it makes.
        id: u64,
        /// It may change nothing: then it is not recorded.
        reads_first: bool,
        answer: Sender<SiteResult>,
    },
    /// The wish to see the state.
    View(Sender<SiteView>),
}

impl Waiting {
    /// Returns whether it asks to send.
    pub(super) fn enters(&self) -> bool {
        let Self::Operation { operation, .. } = self else {
            return false;
        };
        matches!(
            **operation,
            SiteOperation::Request(_, RequestOperation::Enter { .. })
        )
    }

    /// Returns the operation that is recorded, and the id of what it makes, as of the instant at which
    /// it was; `sent` is when it was sent, on the clock of this process.
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
