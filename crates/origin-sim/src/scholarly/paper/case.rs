//! The cases of works: the locations and faults of a work, and the share of works with each case.

use super::super::Faults;

/// The locations and the fault of a [`Paper`](crate::scholarly::paper::Paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Case {
    /// Open at its publisher.
    Gold,
    /// In `PubMed` Central, as a PDF.
    Central,
    /// In `PubMed` Central, as XML only.
    CentralText,
    /// On arXiv only.
    Arxiv,
    /// Closed at its publisher, with a preprint on arXiv.
    Preprint,
    /// Closed at its publisher, with a copy in a repository.
    Green,
    /// In a repository that registers its own DOIs.
    Registered,
    /// A page or file that no catalogue lists, given by its URL.
    Address,
    /// Removed by its publisher.
    Gone,
    /// Behind the bot challenge of its publisher.
    BotChallenge,
    /// At a publisher that is down.
    Down,
    /// At a publisher that serves pages instead of files.
    Stub,
    /// At a publisher whose robots.txt forbids it.
    Strict,
    /// Without an open copy.
    Closed,
    /// A DOI that no service knows.
    Unknown,
}

/// Number of works of each [`Case`] in a hundred.
const CASE_SHARES: [(Case, usize); 15] = [
    (Case::Gold, 20),
    (Case::Central, 14),
    (Case::CentralText, 2),
    (Case::Arxiv, 11),
    (Case::Preprint, 6),
    (Case::Green, 9),
    (Case::Registered, 4),
    (Case::Address, 4),
    (Case::Gone, 5),
    (Case::BotChallenge, 5),
    (Case::Down, 3),
    (Case::Stub, 3),
    (Case::Strict, 3),
    (Case::Closed, 9),
    (Case::Unknown, 2),
];

/// Step from one work to the next in the table of cases. It is coprime to a hundred, so that even
/// the first few works have many different cases.
const CASE_STRIDE: usize = 37;

impl Case {
    /// Returns the case of the work with this number.
    pub(in super::super) fn of(number: usize, faults: Faults) -> Self {
        let mut rest = number * CASE_STRIDE % 100;
        let found = CASE_SHARES.iter().find(|(_, share)| {
            let here = rest < *share;
            rest = rest.saturating_sub(*share);
            here
        });
        match found.map_or(Self::Gold, |(case, _)| *case) {
            Self::Closed | Self::Unknown | Self::CentralText if faults == Faults::None => {
                Self::Gold
            }
            case => case,
        }
    }
}
