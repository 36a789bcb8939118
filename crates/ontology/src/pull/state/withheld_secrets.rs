//! Keeps URLs with credentials out of the persisted states.
//!
//! The queue stores the state of an ontology without such URLs. The process that knows the URLs
//! adds them again. Another process looks them up at the sources, or needs them from the user.

use docstokg_hub::redact_text;
use serde::{Deserialize, Serialize};
use url::Url;

use super::super::address::{has_secret, without_secrets};
use super::super::lookup::failure;
use super::PullState;
use crate::source::{Absence, AbsenceReason};

/// The part of a [`PullState`] that is not persisted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in super::super) enum WithheldSecrets {
    /// The whole state is persisted.
    #[default]
    Nothing,
    /// The URLs that a source returned are missing: the source can be queried again.
    Locations,
    /// The URL that the user gave is missing: only the user can give it again.
    Request,
}

impl PullState {
    /// Returns the part of this state that is not persisted.
    pub(in super::super) fn withheld(&self) -> WithheldSecrets {
        let wanted = &self.wanted;
        let pinned = self.pin.as_ref().map(|pin| &pin.url);
        let mut own = [wanted.url.as_ref(), wanted.checksum_url.as_ref(), pinned]
            .into_iter()
            .flatten();
        let mut extras = wanted.extras.values();
        let found = if own.any(has_secret) || extras.any(|text| redact_text(text) != *text) {
            WithheldSecrets::Request
        } else if self.locations.iter().any(|place| has_secret(&place.url)) {
            WithheldSecrets::Locations
        } else {
            WithheldSecrets::Nothing
        };
        // A state that was read from the queue already lacks what was withheld before.
        self.withheld.max(found)
    }

    /// Returns the state without secrets, as it may be persisted.
    pub(super) fn without_secrets(&self) -> Self {
        let mut kept = self.clone();
        kept.withheld = self.withheld();
        let hide = |url: &mut Url| *url = without_secrets(url);
        kept.wanted.url.iter_mut().for_each(hide);
        kept.wanted.checksum_url.iter_mut().for_each(hide);
        for text in kept.wanted.extras.values_mut() {
            *text = redact_text(text);
        }
        if let Some(pin) = &mut kept.pin {
            hide(&mut pin.url);
        }
        for place in &mut kept.locations {
            hide(&mut place.url);
        }
        kept
    }

    /// Adds the parts that were not persisted, from the state `known` that this process has in
    /// memory.
    pub(in super::super) fn restored(mut self, known: Self) -> Self {
        (self.wanted, self.pin) = (known.wanted, known.pin);
        self.locations = known.locations;
        self.withheld = WithheldSecrets::Nothing;
        self
    }

    /// Removes the locations, so that the sources are queried for them again.
    pub(in super::super) fn looking_again(mut self) -> Self {
        self.locations = self
            .pin
            .iter()
            .map(crate::lock::LockEntry::location)
            .collect();
        (self.next_source, self.next_location) = (0, 0);
        self.later.clear();
        self.withheld = WithheldSecrets::Nothing;
        self
    }

    /// Ends the work on an ontology whose URL was withheld and is not known to this process.
    pub(in super::super) fn without_request(mut self) -> Self {
        (self.sources, self.locations, self.later) = (Vec::new(), Vec::new(), Vec::new());
        let absence = Absence {
            reason: AbsenceReason::Unclear,
            detail: "its address carries a credential, which is not kept: ask for it again with \
                     --url or --spec"
                .to_owned(),
        };
        // Drop earlier failures, because the user must see first what to do.
        self.tried = vec![failure("direct", None, absence, None)];
        self
    }
}
