//! The input list of a user: works in every usual spelling, some of them twice, and lines that do
//! not name a work.

use super::paper::{InputKind, Paper};
use super::truth;
use super::world::ScholarlyWorld;

/// A line of a user's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputLine {
    /// The text of the line.
    pub text: String,
    /// The work that the line names, if any.
    pub names: LineNames,
}

/// The work that an [`InputLine`] names, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineNames {
    /// The line is the first that names the work at this index of the truth.
    Work(usize),
    /// The line names the work at this index of the truth again, perhaps in another spelling.
    Again(usize),
    /// The line does not name a work.
    Nothing,
}

/// Number of works after which a duplicate line follows.
const DUPLICATES_EVERY: usize = 29;
/// Number of works after which a line follows that does not name a work.
const BAD_EVERY: usize = 71;
const BAD: [&str; 4] = [
    "see the appendix of the report",
    "doi:10.1234/",
    "38000003",
    "ftp://ftp.press-one.example/pub/paper.pdf",
];

/// Returns the [`InputLine`]s of a world.
pub(super) fn lines(world: &ScholarlyWorld) -> Vec<InputLine> {
    let mut lines = Vec::new();
    for (at, paper) in world.papers.iter().enumerate() {
        lines.push(InputLine {
            text: spelt(paper, at),
            names: LineNames::Work(at),
        });
        if at % DUPLICATES_EVERY == DUPLICATES_EVERY / 2 {
            lines.push(InputLine {
                text: spelt(paper, at + 1),
                names: LineNames::Again(at),
            });
        }
        if world.has_faults() && at % BAD_EVERY == 10 {
            lines.push(InputLine {
                text: BAD[at / BAD_EVERY % BAD.len()].to_owned(),
                names: LineNames::Nothing,
            });
        }
    }
    lines
}

/// Spells the identifier of a work in one of several ways.
fn spelt(paper: &Paper, way: usize) -> String {
    let id = truth::id(paper);
    let bare = id.split_once(':').map_or(id.as_str(), |(_, bare)| bare);
    match (paper.input_kind, way % 5) {
        (InputKind::Doi, 0)
        | (InputKind::Arxiv, 0 | 3)
        | (InputKind::Pmcid | InputKind::OpenAlex, 0 | 2) => bare.to_owned(),
        (InputKind::Doi, 1) => format!(
            "https://doi.org/{}",
            bare.replace('<', "%3C").replace('>', "%3E")
        ),
        (InputKind::Doi, 2) => format!("DOI: {}", bare.to_ascii_uppercase()),
        (InputKind::Doi, 3) => format!(
            "http://dx.doi.org/{}",
            bare.replace('<', "%3C").replace('>', "%3E")
        ),
        (InputKind::Arxiv, 1) => format!("arXiv:{bare}"),
        (InputKind::Arxiv, 2) => format!("https://arxiv.org/abs/{bare}"),
        (InputKind::Arxiv, _) => format!("https://arxiv.org/pdf/{bare}.pdf"),
        (InputKind::Pmid, 0 | 2) => format!("PMID: {bare}"),
        (InputKind::Pmid, 1 | 3) => format!("https://pubmed.ncbi.nlm.nih.gov/{bare}/"),
        (InputKind::Pmcid, 1 | 3) => format!("https://pmc.ncbi.nlm.nih.gov/articles/{bare}/"),
        (InputKind::OpenAlex, 1 | 3) => format!("https://openalex.org/{bare}"),
        _ => id,
    }
}
