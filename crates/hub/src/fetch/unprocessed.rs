//! The limit on sending a request again that the origin did not process.

use std::sync::atomic::Ordering;

use docstokg_policy::classify::Fault;

use crate::exchange::{AttemptFinish, AttemptOutcome};
use crate::target::RoutedHop;

/// Maximum number of times that a request is sent again while the origin serves no other request.
const MAX_UNPROCESSED: u32 = 5;

/// Counts the connections that the origin ended before it processed a request.
#[derive(Default)]
pub(super) struct UnprocessedCount {
    answers: u32,
    /// The number of unprocessed attempts in a row without a response to any other request.
    in_vain: u32,
}

impl UnprocessedCount {
    /// Judges an attempt that the origin did not process. If the origin serves no other request
    /// either, the attempt has failed.
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

    /// Returns whether the request may be sent again, because the origin serves other requests.
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
