//! The works of the simulated web: their identifiers, their copies, and the faults of each.

use super::Faults;
use super::file::Version;
use super::hosts::{
    BOT_CHALLENGE, Behaviour, DOWN, OLD, PRESSES, Publisher, REPOSITORIES, STRICT, STUB, Signal,
};

/// The story of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Case {
    /// Open at its publisher.
    Gold,
    /// In `PubMed` Central.
    Central,
    /// In `PubMed` Central as XML alone.
    CentralText,
    /// On arXiv and nowhere else.
    Arxiv,
    /// Closed at its publisher, with a preprint on arXiv.
    Preprint,
    /// Closed at its publisher, with a copy in a repository.
    Green,
    /// In a repository that registers DOIs itself.
    Registered,
    /// A page or file that no catalogue knows.
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

/// How many of a hundred works have which story.
const SHARES: [(Case, usize); 15] = [
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

/// Coprime to a hundred, so that the first few works are of many kinds.
const STRIDE: usize = 37;

impl Case {
    /// Returns the story of the work with this number.
    pub(super) fn of(number: usize, faults: Faults) -> Self {
        let mut index = number * STRIDE % 100;
        let found = SHARES.iter().find(|(_, share)| {
            let here = index < *share;
            index = index.saturating_sub(*share);
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

/// Who registered a DOI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agency {
    Crossref,
    DataCite,
}

/// The kind of the user-supplied identifier of a work.
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

/// How a catalogue mentions a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mention {
    No,
    /// By its page alone.
    Page,
    /// By page and file.
    File,
}

/// What is wrong with one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Nothing,
    /// The first transfer breaks off in the middle.
    CutOnce,
    /// It is broken, and stays so.
    Spoilt,
}

/// A copy at a publisher or in a repository.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) publisher: &'static Publisher,
    pub(super) page: String,
    pub(super) path: String,
    pub(super) version: Version,
    pub(super) trouble: Trouble,
    pub(super) openalex: Mention,
    pub(super) unpaywall: Mention,
    /// When the Wayback Machine kept it, if it did.
    pub(super) archived: Option<String>,
}

impl Copy {
    fn new(publisher: &'static Publisher, number: usize, version: Version) -> Self {
        Self {
            publisher,
            page: page_path(publisher, number),
            path: file_path(publisher, number),
            version,
            trouble: Trouble::Nothing,
            openalex: if number.is_multiple_of(2) {
                Mention::File
            } else {
                Mention::Page
            },
            unpaywall: if number.is_multiple_of(3) {
                Mention::Page
            } else {
                Mention::File
            },
            archived: None,
        }
    }

    /// Returns where its page is.
    pub(super) fn page_url(&self) -> String {
        format!("http://{}{}", self.publisher.host, self.page)
    }

    /// Returns where its file is.
    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.publisher.host, self.path)
    }

    /// Returns whether a client that keeps to the rules gets it whole.
    pub(super) fn is_obtainable(&self, faults: Faults) -> bool {
        let kept_back = matches!(
            self.publisher.behaviour,
            Behaviour::BotChallenge
                | Behaviour::Down
                | Behaviour::Stub
                | Behaviour::Disallows
                | Behaviour::Gone
        );
        faults == Faults::None || !(kept_back || self.trouble == Trouble::Spoilt)
    }
}

fn is_repository(publisher: &Publisher) -> bool {
    REPOSITORIES.iter().any(|known| known == publisher)
}

fn page_path(publisher: &Publisher, number: usize) -> String {
    if is_repository(publisher) {
        format!("/record/{number}")
    } else {
        format!("/article/{number}")
    }
}

fn file_path(publisher: &Publisher, number: usize) -> String {
    match publisher.signal {
        Signal::Anchor => format!("/doi/pdfdirect/{number}"),
        _ if is_repository(publisher) => format!("/record/{number}/files/paper.pdf"),
        _ => format!("/pdf/{number}.pdf"),
    }
}

/// A copy in `PubMed` Central and Europe PMC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Central {
    pub(super) pmcid: u64,
    /// The newest version.
    pub(super) version: u32,
    /// Whether there is a PDF beside the XML.
    pub(super) pdf: bool,
    /// Whether the checksum of the PDF is stated wrongly.
    pub(super) wrong_checksum: bool,
    /// Whether Europe PMC fails to render the PDF the first time.
    pub(super) stumbles: bool,
}

/// A work.
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
    /// Its arXiv id without version, and the newest version.
    pub(super) arxiv: Option<(String, u32)>,
    pub(super) pmid: Option<u64>,
    pub(super) central: Option<Central>,
    /// The publisher whose page its DOI leads to.
    pub(super) home: Option<&'static Publisher>,
    pub(super) copies: Vec<Copy>,
}

/// What works are about: the id and the name of each topic.
pub(super) const TOPICS: [(&str, &str); 4] = [
    ("T10101", "Knowledge Graph Construction"),
    ("T10202", "Protein Folding Dynamics"),
    ("T10303", "Urban Heat and Climate"),
    ("T10404", "Medieval Trade Networks"),
];

const MANNERS: [&str; 6] = [
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
    /// Makes the work with this number. `nth` counts the works of the same story.
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
            MANNERS[random.usize(..6)],
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

    fn populate(&mut self, nth: usize, faults: Faults) {
        let press = &PRESSES[nth % PRESSES.len()];
        let repository = &REPOSITORIES[nth % 2];
        match self.case {
            Case::Gold => {
                self.published_by(press, nth);
                self.copy(press, Version::Published);
                self.input_kind = if nth % 10 == 3 {
                    InputKind::OpenAlex
                } else {
                    InputKind::Doi
                };
                match nth % 8 {
                    3 if faults == Faults::Usual => self.copies[0].trouble = Trouble::CutOnce,
                    6 if faults == Faults::Usual => {
                        self.copies[0].trouble = Trouble::Spoilt;
                        self.copy(repository, Version::Accepted);
                    }
                    _ => {}
                }
            }
            Case::Central | Case::CentralText => {
                self.published_by(press, nth);
                if self.case == Case::Central && nth.is_multiple_of(2) {
                    self.copy(press, Version::Published);
                }
                self.in_central(nth, faults);
                self.input_kind = [
                    InputKind::Doi,
                    InputKind::Pmcid,
                    InputKind::Pmid,
                    InputKind::Doi,
                ][nth % 4];
            }
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
                self.copy(repository, Version::Accepted);
                self.input_kind = if nth % 5 == 2 {
                    InputKind::OpenAlex
                } else {
                    InputKind::Doi
                };
            }
            Case::Registered | Case::Address => {
                let publisher = &REPOSITORIES[2];
                self.home = Some(publisher);
                self.copy(publisher, Version::Accepted);
                if self.case == Case::Registered {
                    self.doi = Some((
                        format!("{}/record.{}", publisher.prefix, self.number),
                        Agency::DataCite,
                    ));
                } else {
                    self.openalex = None;
                    self.input_kind = if nth.is_multiple_of(2) {
                        InputKind::Page
                    } else {
                        InputKind::File
                    };
                }
            }
            Case::Gone => {
                self.published_by(&OLD, nth);
                self.copy(&OLD, Version::Published);
                // A client that asks the Wayback Machine has to know which file is gone.
                self.copies[0].openalex = Mention::File;
                self.copies[0].archived =
                    (nth % 4 != 3).then(|| format!("{}0{}15120000", self.year + 1, 1 + nth % 9));
            }
            Case::BotChallenge => self.kept_back_by(&BOT_CHALLENGE, repository, nth % 3 != 2, nth),
            Case::Down => self.kept_back_by(&DOWN, repository, true, nth),
            Case::Stub => self.kept_back_by(&STUB, repository, nth % 3 != 2, nth),
            Case::Strict => self.kept_back_by(&STRICT, repository, nth.is_multiple_of(2), nth),
            Case::Closed => self.published_by(press, nth),
            Case::Unknown => {
                self.published_by(press, nth);
                (self.openalex, self.home) = (None, None);
            }
        }
    }

    fn published_by(&mut self, publisher: &'static Publisher, nth: usize) {
        let (prefix, number) = (publisher.prefix, self.number);
        let doi = match nth % 9 {
            // In the style of the nineties.
            4 => format!(
                "{prefix}/(sici)1097-0258({})17:1<{number}::aid-sim{number}>3.0.co;2-x",
                self.year
            ),
            _ => format!("{prefix}/j{}.{}.{number:05}", self.topic, self.year),
        };
        self.doi = Some((doi, Agency::Crossref));
        self.home = Some(publisher);
    }

    fn copy(&mut self, publisher: &'static Publisher, version: Version) {
        self.copies.push(Copy::new(publisher, self.number, version));
    }

    fn kept_back_by(
        &mut self,
        publisher: &'static Publisher,
        repository: &'static Publisher,
        elsewhere: bool,
        nth: usize,
    ) {
        self.published_by(publisher, nth);
        self.copy(publisher, Version::Published);
        if elsewhere {
            self.copy(repository, Version::Accepted);
        }
    }

    fn in_central(&mut self, nth: usize, faults: Faults) {
        let number = self.number as u64;
        // Some of these are the beginning of others.
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

    /// Returns the copy at a publisher.
    pub(super) fn copy_at(&self, publisher: &Publisher) -> Option<&Copy> {
        self.copies.iter().find(|copy| copy.publisher == publisher)
    }

    /// Returns the page that its DOI leads to.
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

    /// Returns its DOI, if this agency registered it and it is not unknown.
    pub(super) fn doi_of(&self, agency: Agency) -> Option<&str> {
        self.doi
            .as_ref()
            .filter(|(_, known)| *known == agency && self.case != Case::Unknown)
            .map(|(doi, _)| doi.as_str())
    }
}
