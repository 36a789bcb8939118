//! Requests that the origin did not process: how often they are sent again.

use std::sync::atomic::Ordering;

use docstokg_policy::classify::Fault;

use crate::exchange::{AttemptFinish, AttemptOutcome};
use crate::target::RoutedHop;

/// How often a request is sent again without the origin having answered any other meanwhile.
const MAX_UNPROCESSED: u32 = 5;

/// Counts how often the origin ended a connection before it processed a request.
#[derive(Default)]
pub(super) struct UnprocessedCount {
    answers: u32,
    /// How often in succession no other request was answered meanwhile.
    in_vain: u32,
}

impl UnprocessedCount {
    /// Judges an attempt that the origin did not process: an origin that serves no other request
    /// either has failed it.
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

    /// Returns whether it may be sent again: as long as the origin answers other requests.
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
