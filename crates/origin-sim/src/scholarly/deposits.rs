//! Works that only a repository or a directory of open journals has: figshare, OSF, Zenodo, HAL and
//! DOAJ.
//!
//! No catalogue lists these works, and their pages are made by scripts or are bot challenges. So
//! only the API of the service leads to the file. A deposit may have further files (data,
//! supplements), and some deposits have no available article: datasets, and articles under an
//! embargo.

use bytes::Bytes;

use super::file::{self, TextVersion};
use super::hosts::{FIGSHARE_FILES, HAL, OPEN_JOURNAL, OSF, ZENODO};
use super::input::{InputLine, LineNames};
use super::truth::{AbsenceCause, ObtainableFile, TruthFileKind, WorkTruth};
use super::world::ScholarlyWorld;

pub(super) mod services;

/// The service that has a [`Deposit`], and the kind of the deposit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DepositKind {
    Zenodo,
    Figshare,
    Osf,
    Hal,
    Doaj,
    /// Data without an article, at Zenodo.
    Dataset,
    /// An article under embargo, at figshare.
    Embargoed,
}

const KINDS: [DepositKind; 7] = [
    DepositKind::Zenodo,
    DepositKind::Figshare,
    DepositKind::Osf,
    DepositKind::Hal,
    DepositKind::Doaj,
    DepositKind::Dataset,
    DepositKind::Embargoed,
];

/// A work that was deposited in one repository.
#[derive(Clone, Debug)]
pub(super) struct Deposit {
    /// The number of the work in the whole library, in which the works of catalogues come first.
    pub(super) number: usize,
    pub(super) held: DepositKind,
    pub(super) doi: String,
}

/// Creates the [`Deposit`]s of a [`LibraryPlan`](crate::scholarly::LibraryPlan).
pub(super) fn generate(works: usize, deposits: usize) -> Vec<Deposit> {
    (0..deposits)
        .map(|at| {
            let (number, held) = (works + at, KINDS[at % KINDS.len()]);
            let doi = match held {
                DepositKind::Zenodo | DepositKind::Dataset => {
                    format!("10.5281/zenodo.{}", record(number))
                }
                DepositKind::Figshare | DepositKind::Embargoed => {
                    format!("10.6084/m9.figshare.{}", record(number))
                }
                DepositKind::Osf => format!("10.31234/osf.io/{}", guid(number)),
                DepositKind::Hal => format!("10.99931/closed.{number}"),
                DepositKind::Doaj => format!("10.99932/open.{number}"),
            };
            Deposit { number, held, doi }
        })
        .collect()
}

/// Returns the number of a record at Zenodo or figshare.
const fn record(number: usize) -> usize {
    8_000_000 + number
}

/// Returns the id of a preprint: five letters and digits.
fn guid(number: usize) -> String {
    format!("p{number:04}")
}

/// Returns the id of a document of HAL.
fn document(number: usize) -> String {
    format!("hal-{:08}", 4_000_000 + number)
}

impl Deposit {
    fn title(&self) -> String {
        format!("Deposited Findings on Open Questions ({})", self.number)
    }

    fn bytes(&self, world: &ScholarlyWorld) -> Bytes {
        file::pdf(
            world.plan.seed,
            self.number,
            TextVersion::Submitted,
            &world.plan.file_bytes,
        )
    }

    /// Returns the URL of the article, and the resolver that leads there; `None` if the deposit has
    /// no article.
    fn article(&self) -> Option<(String, &'static str)> {
        let (number, id) = (self.number, record(self.number));
        match self.held {
            DepositKind::Zenodo => Some((
                format!("http://{ZENODO}/api/records/{id}/files/article.pdf/content"),
                "zenodo",
            )),
            DepositKind::Figshare => {
                Some((format!("http://{FIGSHARE_FILES}/files/{id}"), "figshare"))
            }
            DepositKind::Osf => Some((format!("http://{OSF}/download/f{number}/"), "osf")),
            DepositKind::Hal => {
                Some((format!("http://{HAL}/{}/document", document(number)), "hal"))
            }
            DepositKind::Doaj => Some((
                format!("http://{OPEN_JOURNAL}/article/download/{number}"),
                "doaj",
            )),
            DepositKind::Dataset | DepositKind::Embargoed => None,
        }
    }

    /// Returns the [`WorkTruth`] of the deposit.
    pub(super) fn truth(&self, world: &ScholarlyWorld) -> WorkTruth {
        let bytes = self.bytes(world);
        let copies: Vec<ObtainableFile> = self
            .article()
            .into_iter()
            .map(|(url, finder)| ObtainableFile {
                kind: TruthFileKind::Pdf,
                url,
                sha256: file::sha256(&bytes),
                bytes: bytes.len(),
                found_by: vec![finder],
            })
            .collect();
        WorkTruth {
            id: format!("doi:{}", self.doi),
            title: self.title(),
            year: 2024,
            because: copies.is_empty().then_some(AbsenceCause::Closed),
            copies,
            gone: Vec::new(),
        }
    }
}

/// Returns the [`InputLine`]s that a user would type for the deposits of a world.
pub(super) fn lines(world: &ScholarlyWorld) -> impl Iterator<Item = InputLine> {
    world
        .deposits
        .iter()
        .enumerate()
        .map(|(at, deposit)| InputLine {
            text: deposit.doi.clone(),
            names: LineNames::Work(world.papers.len() + at),
        })
}

impl ScholarlyWorld {
    /// Returns the first deposit whose kind is one of `kinds` and for which `is_it` returns true.
    fn deposit(&self, kinds: &[DepositKind], is_it: impl Fn(&Deposit) -> bool) -> Option<&Deposit> {
        self.deposits
            .iter()
            .filter(|deposit| kinds.contains(&deposit.held))
            .find(|deposit| is_it(deposit))
    }
}
