//! The works of the simulated web: their identifiers, their copies, and the faults of each.

use super::Faults;
use super::file::TextVersion;
use super::hosts::{BOT_CHALLENGE, DOWN, OLD, PRESSES, Publisher, REPOSITORIES, STRICT, STUB};

mod case;
mod copy;

pub(super) use case::Case;
use copy::page_path;
pub(super) use copy::{Copy, CopyMention, Trouble};

/// The agency that registered a DOI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agency {
    Crossref,
    DataCite,
}

/// The kind of the user-supplied identifier of a [`Paper`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputKind {
    Doi,
    Arxiv,
    Pmid,
    Pmcid,
    OpenAlex,
    /// The URL of its page.
    Page,
    /// The URL of its file.
    File,
}

/// A copy in `PubMed` Central and Europe PMC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Central {
    pub(super) pmcid: u64,
    /// The newest version of the article.
    pub(super) version: u32,
    /// True if there is a PDF in addition to the XML.
    pub(super) pdf: bool,
    /// True if the declared checksum of the PDF is wrong.
    pub(super) wrong_checksum: bool,
    /// True if Europe PMC fails to render the PDF the first time.
    pub(super) stumbles: bool,
}

/// A work of the simulated web.
#[derive(Debug)]
pub(super) struct Paper {
    pub(super) number: usize,
    pub(super) case: Case,
    pub(super) title: String,
    pub(super) year: i32,
    pub(super) topic: usize,
    pub(super) input_kind: InputKind,
    pub(super) openalex: Option<u64>,
    pub(super) doi: Option<(String, Agency)>,
    /// The arXiv id without version, and the newest version.
    pub(super) arxiv: Option<(String, u32)>,
    pub(super) pmid: Option<u64>,
    pub(super) central: Option<Central>,
    /// The publisher of the page that the DOI leads to.
    pub(super) home: Option<&'static Publisher>,
    pub(super) copies: Vec<Copy>,
}

/// The given and family names of authors. An organisation has no given name.
const AUTHORS: [(&str, &str); 6] = [
    ("Jan", "van der Berg"),
    ("María José", "García Márquez"),
    ("", "The Deep & Wide Survey Collaboration"),
    ("O.", "O'Neill-Smith"),
    ("Łukasz", "Żółty"),
    ("Ada", "Lovelace"),
];

/// The topics of works: id and name of each.
pub(super) const TOPICS: [(&str, &str); 4] = [
    ("T10101", "Knowledge Graph Construction"),
    ("T10202", "Protein Folding Dynamics"),
    ("T10303", "Urban Heat and Climate"),
    ("T10404", "Medieval Trade Networks"),
];

const TITLE_BEGINNINGS: [&str; 6] = [
    "A Survey of",
    "Towards",
    "Scaling",
    "Limits of",
    "Open Questions in",
    "Evidence for",
];
const ANGLES: [&str; 7] = [
    "Small Samples",
    "Noisy Sources",
    "Long Documents",
    "Field Data",
    "Shared Vocabularies",
    "R&D Records",
    "Rates < 1",
];

impl Paper {
    /// Creates the work with this number. `nth` counts the works of the same [`Case`].
    pub(super) fn generate(
        number: usize,
        nth: usize,
        case: Case,
        faults: Faults,
        random: &mut fastrand::Rng,
    ) -> Self {
        let topic = random.usize(..TOPICS.len());
        let title = format!(
            "{} {} from {} ({number})",
            TITLE_BEGINNINGS[random.usize(..6)],
            TOPICS[topic].1,
            ANGLES[random.usize(..7)]
        );
        let year = random.i32(2015..=2025);
        let mut paper = Self {
            number,
            case,
            title,
            year,
            topic,
            input_kind: InputKind::Doi,
            openalex: Some(4_300_000_000 + 7 * number as u64),
            doi: None,
            arxiv: None,
            pmid: None,
            central: None,
            home: None,
            copies: Vec::new(),
        };
        paper.populate(nth, faults);
        paper
    }

    /// Adds identifiers and copies to the work.
    fn populate(&mut self, nth: usize, faults: Faults) {
        let press = &PRESSES[nth % PRESSES.len()];
        let repository = &REPOSITORIES[nth % 2];
        match self.case {
            Case::Gold => self.open_at(press, repository, nth, faults),
            Case::Central | Case::CentralText => self.central_at(press, nth, faults),
            Case::Arxiv => {
                self.on_arxiv(nth);
                self.input_kind = InputKind::Arxiv;
            }
            Case::Preprint => {
                self.published_by(press, nth);
                self.on_arxiv(nth + 1);
            }
            Case::Green => {
                self.published_by(press, nth);
                self.copy(repository, TextVersion::Accepted);
                self.input_kind = if nth % 5 == 2 {
                    InputKind::OpenAlex
                } else {
                    InputKind::Doi
                };
            }
            Case::Registered | Case::Address => self.in_registering_repository(nth),
            Case::Gone => self.removed_by(&OLD, nth),
            Case::BotChallenge => {
                self.kept_back_by(&BOT_CHALLENGE, nth);
                if nth % 3 != 2 {
                    self.copy(repository, TextVersion::Accepted);
                }
            }
            Case::Down => {
                self.kept_back_by(&DOWN, nth);
                self.copy(repository, TextVersion::Accepted);
            }
            Case::Stub => {
                self.kept_back_by(&STUB, nth);
                if nth % 3 != 2 {
                    self.copy(repository, TextVersion::Accepted);
                }
            }
            Case::Strict => {
                self.kept_back_by(&STRICT, nth);
                if nth.is_multiple_of(2) {
                    self.copy(repository, TextVersion::Accepted);
                }
            }
            Case::Closed => self.published_by(press, nth),
            Case::Unknown => {
                self.published_by(press, nth);
                (self.openalex, self.home) = (None, None);
            }
        }
    }

    fn open_at(
        &mut self,
        press: &'static Publisher,
        repository: &'static Publisher,
        nth: usize,
        faults: Faults,
    ) {
        self.published_by(press, nth);
        self.copy(press, TextVersion::Published);
        self.input_kind = if nth % 10 == 3 {
            InputKind::OpenAlex
        } else {
            InputKind::Doi
        };
        match nth % 8 {
            3 if faults == Faults::Usual => self.copies[0].trouble = Trouble::CutOnce,
            6 if faults == Faults::Usual => {
                self.copies[0].trouble = Trouble::Spoilt;
                self.copy(repository, TextVersion::Accepted);
            }
            _ => {}
        }
    }

    fn central_at(&mut self, press: &'static Publisher, nth: usize, faults: Faults) {
        self.published_by(press, nth);
        if self.case == Case::Central && nth.is_multiple_of(2) {
            self.copy(press, TextVersion::Published);
        }
        self.in_central(nth, faults);
        self.input_kind = [
            InputKind::Doi,
            InputKind::Pmcid,
            InputKind::Pmid,
            InputKind::Doi,
        ][nth % 4];
    }

    fn in_registering_repository(&mut self, nth: usize) {
        let repository = &REPOSITORIES[2];
        self.home = Some(repository);
        self.copy(repository, TextVersion::Accepted);
        if self.case == Case::Registered {
            let doi = format!("{}/record.{}", repository.prefix, self.number);
            self.doi = Some((doi, Agency::DataCite));
        } else {
            self.openalex = None;
            self.input_kind = if nth.is_multiple_of(2) {
                InputKind::Page
            } else {
                InputKind::File
            };
        }
    }

    fn removed_by(&mut self, publisher: &'static Publisher, nth: usize) {
        self.published_by(publisher, nth);
        self.copy(publisher, TextVersion::Published);
        // A query to the Wayback Machine needs the URL of the file that is gone.
        self.copies[0].openalex = CopyMention::File;
        self.copies[0].archived =
            (nth % 4 != 3).then(|| format!("{}0{}15120000", self.year + 1, 1 + nth % 9));
    }

    fn published_by(&mut self, publisher: &'static Publisher, nth: usize) {
        let (prefix, number) = (publisher.prefix, self.number);
        let doi = match nth % 9 {
            // A DOI in the style of the nineties.
            4 => format!(
                "{prefix}/(sici)1097-0258({})17:1<{number}::aid-sim{number}>3.0.co;2-x",
                self.year
            ),
            _ => format!("{prefix}/j{}.{}.{number:05}", self.topic, self.year),
        };
        self.doi = Some((doi, Agency::Crossref));
        self.home = Some(publisher);
    }

    fn copy(&mut self, publisher: &'static Publisher, version: TextVersion) {
        self.copies.push(Copy::new(publisher, self.number, version));
    }

    fn kept_back_by(&mut self, publisher: &'static Publisher, nth: usize) {
        self.published_by(publisher, nth);
        self.copy(publisher, TextVersion::Published);
    }

    fn in_central(&mut self, nth: usize, faults: Faults) {
        let number = self.number as u64;
        // Some ids are prefixes of other ids.
        let pmcid = if nth.is_multiple_of(2) {
            900_000 + number
        } else {
            9_000_000 + 10 * number
        };
        self.pmid = Some(38_000_000 + 3 * number);
        self.central = Some(Central {
            pmcid,
            version: if nth.is_multiple_of(3) { 2 } else { 1 },
            pdf: self.case == Case::Central,
            wrong_checksum: faults == Faults::Usual && nth % 7 == 2,
            stumbles: faults == Faults::Usual && nth % 5 == 1,
        });
    }

    fn on_arxiv(&mut self, nth: usize) {
        let version = 1 + u32::try_from(nth % 3).unwrap_or(0);
        let id = match nth % 9 {
            5 if self.number < 1000 => format!("math.GT/0309{:03}", self.number),
            _ => format!(
                "{:02}{:02}.{:05}",
                self.year - 2000,
                1 + nth % 12,
                self.number
            ),
        };
        self.arxiv = Some((id, version));
        if self.doi.is_none() {
            let (id, _) = self.arxiv.clone().unwrap_or_default();
            self.doi = Some((
                format!("10.48550/arxiv.{}", id.to_ascii_lowercase()),
                Agency::DataCite,
            ));
        }
    }

    /// Returns the given and family names of the authors. An organisation has no given name.
    pub(super) fn authors(&self) -> Vec<(&'static str, &'static str)> {
        let count = 1 + self.number % 3;
        let names = AUTHORS.iter().cycle().skip(self.number % AUTHORS.len());
        names.take(count).copied().collect()
    }

    /// Returns the [`struct@Copy`] at a publisher.
    pub(super) fn copy_at(&self, publisher: &Publisher) -> Option<&Copy> {
        self.copies.iter().find(|copy| copy.publisher == publisher)
    }

    /// Returns the page that the DOI leads to.
    pub(super) fn home_page(&self) -> Option<String> {
        match (self.home, &self.arxiv) {
            (Some(home), _) => Some(format!(
                "http://{}{}",
                home.host,
                page_path(home, self.number)
            )),
            (None, Some((id, _))) => Some(format!("http://{}/abs/{id}", super::hosts::ARXIV_PAGES)),
            (None, None) => None,
        }
    }

    /// Returns the DOI, if this [`Agency`] registered it and services know it.
    pub(super) fn doi_of(&self, agency: Agency) -> Option<&str> {
        self.doi
            .as_ref()
            .filter(|(_, known)| *known == agency && self.case != Case::Unknown)
            .map(|(doi, _)| doi.as_str())
    }
}
