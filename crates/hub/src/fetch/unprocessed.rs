//! Limits how often a request is sent again because the origin did not process it.

use std::sync::atomic::Ordering;

use docstokg_policy::classify::Fault;

use crate::exchange::{AttemptFinish, AttemptOutcome};
use crate::target::RoutedHop;

/// Maximum number of times that a request is sent again while the origin serves no other request.
const MAX_UNPROCESSED: u32 = 5;

/// Counts how often in a row the origin did not process a request.
#[derive(Default)]
pub(super) struct UnprocessedCount {
    answers: u32,
    /// The number of unprocessed attempts in a row during which no other request got a response.
    in_vain: u32,
}

impl UnprocessedCount {
    /// Changes the outcome of an unprocessed attempt to a fault if the origin does not serve other
    /// requests either.
    pub(super) fn judge<R>(
        &mut self,
        exchanged: AttemptOutcome<R>,
        target: &RoutedHop,
    ) -> AttemptOutcome<R> {
        match exchanged {
            AttemptOutcome::Unprocessed(message) if !self.may_send_again(target) => {
                let fault = Fault::Read;
                AttemptOutcome::Finished(AttemptFinish::Fault { fault, message })
            }
            other => other,
        }
    }

    /// Counts an unprocessed attempt. Returns whether the request may be sent again, because the
    /// origin served another request, or because this happened less than [`MAX_UNPROCESSED`] times.
    fn may_send_again(&mut self, target: &RoutedHop) -> bool {
        let answers = target.route.site.answers.load(Ordering::Relaxed);
        self.in_vain = if answers == self.answers {
            self.in_vain + 1
        } else {
            0
        };
        self.answers = answers;
        self.in_vain < MAX_UNPROCESSED
    }
}
