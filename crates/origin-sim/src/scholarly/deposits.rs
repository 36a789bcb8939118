//! Works that only a repository or a directory of open journals has: figshare, OSF, Zenodo, HAL
//! and DOAJ.
//!
//! No catalogue knows them, and their pages are scripts or bot challenges, so that only the API of
//! the service leads to the file. Beside the article stand what is not the article (data,
//! supplements), and some deposits have no article at all: a dataset, an embargo.

use bytes::Bytes;

use super::file::{self, Version};
use super::hosts::{FIGSHARE_FILES, HAL, OPEN_JOURNAL, OSF, ZENODO};
use super::input::{InputLine, Names};
use super::truth::{Because, Copied, FileKind, Truth};
use super::world::World;

pub(super) mod services;

/// Where a work is deposited, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
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

const KINDS: [Held; 7] = [
    Held::Zenodo,
    Held::Figshare,
    Held::Osf,
    Held::Hal,
    Held::Doaj,
    Held::Dataset,
    Held::Embargoed,
];

/// A deposited work.
#[derive(Clone, Debug)]
pub(super) struct Deposit {
    /// Its number among all works, those of the catalogues first.
    pub(super) number: usize,
    pub(super) held: Held,
    pub(super) doi: String,
}

/// Makes the deposits of a plan.
pub(super) fn generate(works: usize, deposits: usize) -> Vec<Deposit> {
    (0..deposits)
        .map(|at| {
            let (number, held) = (works + at, KINDS[at % KINDS.len()]);
            let doi = match held {
                Held::Zenodo | Held::Dataset => format!("10.5281/zenodo.{}", record(number)),
                Held::Figshare | Held::Embargoed => {
                    format!("10.6084/m9.figshare.{}", record(number))
                }
                Held::Osf => format!("10.31234/osf.io/{}", guid(number)),
                Held::Hal => format!("10.99931/closed.{number}"),
                Held::Doaj => format!("10.99932/open.{number}"),
            };
            Deposit { number, held, doi }
        })
        .collect()
}

/// The number of a record at Zenodo or figshare.
const fn record(number: usize) -> usize {
    8_000_000 + number
}

/// The id of a preprint: five letters and digits.
fn guid(number: usize) -> String {
    format!("p{number:04}")
}

/// The id of a document of HAL.
fn document(number: usize) -> String {
    format!("hal-{:08}", 4_000_000 + number)
}

impl Deposit {
    fn title(&self) -> String {
        format!("Deposited Findings on Open Questions ({})", self.number)
    }

    fn bytes(&self, world: &World) -> Bytes {
        file::pdf(
            world.plan.seed,
            self.number,
            Version::Submitted,
            &world.plan.file_bytes,
        )
    }

    /// Returns where the article is, and the resolver that leads there; `None` where there is none.
    fn article(&self) -> Option<(String, &'static str)> {
        let (number, id) = (self.number, record(self.number));
        match self.held {
            Held::Zenodo => Some((
                format!("http://{ZENODO}/api/records/{id}/files/article.pdf/content"),
                "zenodo",
            )),
            Held::Figshare => Some((format!("http://{FIGSHARE_FILES}/files/{id}"), "figshare")),
            Held::Osf => Some((format!("http://{OSF}/download/f{number}/"), "osf")),
            Held::Hal => Some((format!("http://{HAL}/{}/document", document(number)), "hal")),
            Held::Doaj => Some((
                format!("http://{OPEN_JOURNAL}/article/download/{number}"),
                "doaj",
            )),
            Held::Dataset | Held::Embargoed => None,
        }
    }

    /// Writes down the truth about it.
    pub(super) fn truth(&self, world: &World) -> Truth {
        let bytes = self.bytes(world);
        let copies: Vec<Copied> = self
            .article()
            .into_iter()
            .map(|(url, finder)| Copied {
                kind: FileKind::Pdf,
                url,
                sha256: file::sha256(&bytes),
                bytes: bytes.len(),
                found_by: vec![finder],
            })
            .collect();
        Truth {
            id: format!("doi:{}", self.doi),
            title: self.title(),
            year: 2024,
            because: copies.is_empty().then_some(Because::Closed),
            copies,
            gone: Vec::new(),
        }
    }
}

/// Writes the lines that a user would type for the deposits of a world.
pub(super) fn lines(world: &World) -> impl Iterator<Item = InputLine> {
    world
        .deposits
        .iter()
        .enumerate()
        .map(|(at, deposit)| InputLine {
            text: deposit.doi.clone(),
            names: Names::Work(world.papers.len() + at),
        })
}

impl World {
    /// Finds the deposit of one of some kinds with a number in its id.
    fn deposit(&self, kinds: &[Held], is_it: impl Fn(&Deposit) -> bool) -> Option<&Deposit> {
        self.deposits
            .iter()
            .filter(|deposit| kinds.contains(&deposit.held))
            .find(|deposit| is_it(deposit))
    }
}
