//! Works that wait: for whom, and what is planned anew when circumstances have changed.

use url::Url;

use super::{Pursuit, Tried};
use crate::reason::{Reason, Setback};
use crate::resolver::ResolverId;

/// What a deferred work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited<'a> {
    /// The host of this URL.
    For(&'a Url),
    /// This resolver.
    Asking(ResolverId),
}

impl Pursuit {
    /// Plans anew what is deferred: circumstances have changed. What a server asked for still
    /// holds.
    pub fn plan_anew(&mut self) {
        let stated = |setback: &Option<Setback>| {
            setback
                .as_ref()
                .is_some_and(|setback| setback.reason == Reason::RateLimited)
        };
        for place in &mut self.places {
            if matches!(place.state, Tried::Later(..)) && !stated(&place.setback) {
                place.state = Tried::No;
            }
        }
        for asked in &mut self.asked {
            if asked.again_at.is_some() && !stated(&asked.setback) {
                (asked.again_at, asked.refusals, asked.waits_since) = (Some(0.0), 0, None);
            }
        }
        self.deferral = None;
    }

    /// Plans anew what was deferred until `at`: its host may be asked again.
    pub(crate) fn reopen(&mut self, at: f64) {
        let is_due = |due: f64| due.to_bits() == at.to_bits();
        for place in self
            .places
            .iter_mut()
            .filter(|place| matches!(place.state, Tried::Later(due, _) if is_due(due)))
        {
            place.state = Tried::No;
        }
        for asked in self
            .asked
            .iter_mut()
            .filter(|asked| asked.again_at.is_some_and(is_due))
        {
            asked.again_at = Some(0.0);
        }
    }

    /// Returns what the work waits for until `at`: the URL of a place, or the name of a resolver;
    /// and why.
    #[must_use]
    pub(crate) fn waits_for(&self, at: f64) -> Option<(Waited<'_>, Option<&Setback>)> {
        let is_due = |due: f64| due.to_bits() == at.to_bits();
        let place = self
            .places
            .iter()
            .find(|place| matches!(place.state, Tried::Later(due, _) if is_due(due)));
        let asked = || {
            self.asked
                .iter()
                .find(|asked| asked.again_at.is_some_and(is_due))
        };
        place
            .map(|place| (Waited::For(&place.location.url), place.setback.as_ref()))
            .or_else(|| {
                let asked = asked()?;
                Some((Waited::Asking(asked.resolver), asked.setback.as_ref()))
            })
    }
}
