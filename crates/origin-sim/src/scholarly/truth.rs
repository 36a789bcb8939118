//! The expected results for works: the available files with bytes and URLs, and the services that
//! lead to them.

use super::Faults;
use super::file::{TextVersion, sha256};
use super::hosts::{ARXIV, EBI, EUROPE_PMC, PMC_BUCKET};
use super::paper::{Agency, Case, Copy, CopyMention, InputKind, Paper};
use super::wayback;
use super::world::ScholarlyWorld;

/// The kind of an [`ObtainableFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TruthFileKind {
    /// A PDF of the article.
    Pdf,
    /// The article as JATS XML.
    Xml,
}

/// A file that a client can get as a whole, if it obeys robots.txt and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObtainableFile {
    /// The kind of the file.
    pub kind: TruthFileKind,
    /// The URL in catalogues and pages, which may redirect.
    pub url: String,
    /// The SHA-256 of its bytes, in lower-case hex.
    pub sha256: String,
    /// The size, in bytes.
    pub bytes: usize,
    /// The services that lead to the file, directly or by a page: `openalex`, `unpaywall`,
    /// `crossref`, `arxiv`, `pmc`, `europe_pmc`, `landing_page`, `wayback`, or the repository with
    /// the file.
    pub found_by: Vec<&'static str>,
}

/// The reason why a client cannot get a PDF of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AbsenceCause {
    /// The work has no open copy.
    Closed,
    /// The identifier is unknown to every service.
    Unknown,
    /// The work is available as XML only.
    XmlOnly,
    /// The only copy was removed, and is not archived.
    Gone,
    /// The only copy is behind a bot challenge.
    BotChallenge,
    /// The only copy is a page that says it is a PDF.
    Stub,
    /// robots.txt forbids the location of the only copy.
    Disallowed,
}

/// The expected result for one work: its files, or the [`AbsenceCause`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkTruth {
    /// The canonical form of the identifier in the user's list: `doi:10.…`, `arxiv:…`, `pmid:…`,
    /// `pmcid:PMC…`, `openalex:W…`, or a URL.
    pub id: String,
    /// The title of the work.
    pub title: String,
    /// The year of publication.
    pub year: i32,
    /// The files that a client can get.
    pub copies: Vec<ObtainableFile>,
    /// The URLs of files that were removed. The Wayback Machine may have copies.
    pub gone: Vec<String>,
    /// The reason why no PDF is available; `None` if a PDF is available.
    pub because: Option<AbsenceCause>,
}

impl WorkTruth {
    /// Returns the files of a [`TruthFileKind`].
    pub fn of_kind(&self, kind: TruthFileKind) -> impl Iterator<Item = &ObtainableFile> {
        self.copies.iter().filter(move |copy| copy.kind == kind)
    }

    /// Returns true if a PDF is available.
    #[must_use]
    pub fn has_pdf(&self) -> bool {
        self.of_kind(TruthFileKind::Pdf).next().is_some()
    }

    /// Returns true if JATS XML is available.
    #[must_use]
    pub fn has_xml(&self) -> bool {
        self.of_kind(TruthFileKind::Xml).next().is_some()
    }
}

/// Returns the [`WorkTruth`] of a [`Paper`].
pub(super) fn of(world: &ScholarlyWorld, paper: &Paper) -> WorkTruth {
    let faults = world.plan.faults;
    let copies: Vec<ObtainableFile> = at_publishers(world, paper)
        .into_iter()
        .chain(on_arxiv(world, paper))
        .chain(in_central(world, paper))
        .collect();
    let gone = paper
        .copies
        .iter()
        .filter(|copy| paper.case == Case::Gone && !copy.is_obtainable(faults))
        .map(Copy::url)
        .collect();
    let has_pdf = copies.iter().any(|copy| copy.kind == TruthFileKind::Pdf);
    let because = (!has_pdf).then(|| because(paper, faults));
    WorkTruth {
        id: id(paper),
        title: paper.title.clone(),
        year: paper.year,
        copies,
        gone,
        because,
    }
}

impl ObtainableFile {
    fn new(kind: TruthFileKind, url: String, bytes: &[u8], found_by: Vec<&'static str>) -> Self {
        Self {
            kind,
            url,
            sha256: sha256(bytes),
            bytes: bytes.len(),
            found_by,
        }
    }
}

/// Returns the copies at publishers and in repositories, and the archived copies.
fn at_publishers(world: &ScholarlyWorld, paper: &Paper) -> Vec<ObtainableFile> {
    let copies = paper.copies.iter().filter_map(|copy| {
        let bytes = world.pdf(paper, copy.version);
        let (url, found_by) = if copy.is_obtainable(world.plan.faults) {
            (copy.url(), finders(paper, copy))
        } else {
            (wayback::url(copy)?, vec!["wayback"])
        };
        Some(ObtainableFile::new(
            TruthFileKind::Pdf,
            url,
            &bytes,
            found_by,
        ))
    });
    copies.collect()
}

fn on_arxiv(world: &ScholarlyWorld, paper: &Paper) -> Option<ObtainableFile> {
    let (id, _) = paper.arxiv.as_ref()?;
    let published = paper.doi_of(Agency::Crossref).map(|_| "unpaywall");
    let found_by = ["arxiv", "openalex"].into_iter().chain(published).collect();
    let spelt = spelt_arxiv(paper).unwrap_or_else(|| id.clone());
    let url = format!("http://{ARXIV}/pdf/{spelt}");
    let bytes = world.pdf(paper, TextVersion::Submitted);
    Some(ObtainableFile::new(
        TruthFileKind::Pdf,
        url,
        &bytes,
        found_by,
    ))
}

/// Returns the [`ObtainableFile`]s in `PubMed` Central and Europe PMC.
fn in_central(world: &ScholarlyWorld, paper: &Paper) -> Vec<ObtainableFile> {
    let Some(central) = paper.central else {
        return Vec::new();
    };
    let pmcid = central.pmcid;
    let stem = format!("PMC{pmcid}.{}", central.version);
    let pdf = world.pdf(paper, TextVersion::Published);
    let xml = world.jats(paper, central);
    let mut copies = Vec::new();
    if central.pdf && !central.wrong_checksum {
        let url = format!("http://{PMC_BUCKET}/{stem}/{stem}.pdf");
        copies.push(ObtainableFile::new(
            TruthFileKind::Pdf,
            url,
            &pdf,
            vec!["pmc"],
        ));
    }
    if central.pdf {
        let url = format!("http://{EUROPE_PMC}/articles/PMC{pmcid}?pdf=render");
        copies.push(ObtainableFile::new(
            TruthFileKind::Pdf,
            url,
            &pdf,
            vec!["europe_pmc"],
        ));
    }
    let url = format!("http://{PMC_BUCKET}/{stem}/{stem}.xml");
    copies.push(ObtainableFile::new(
        TruthFileKind::Xml,
        url,
        &xml,
        vec!["pmc"],
    ));
    let url = format!("http://{EBI}/europepmc/webservices/rest/PMC{pmcid}/fullTextXML");
    copies.push(ObtainableFile::new(
        TruthFileKind::Xml,
        url,
        &xml,
        vec!["europe_pmc"],
    ));
    copies
}

/// Returns the services that lead to a copy at a publisher.
fn finders(paper: &Paper, copy: &Copy) -> Vec<&'static str> {
    let at_home = paper.home == Some(copy.publisher);
    let doi = paper.doi.is_some();
    let known = [
        (
            "openalex",
            paper.openalex.is_some() && copy.openalex != CopyMention::No,
        ),
        (
            "unpaywall",
            paper.doi_of(Agency::Crossref).is_some() && copy.unpaywall != CopyMention::No,
        ),
        ("crossref", doi && at_home),
        (
            "landing_page",
            at_home && (doi || matches!(paper.input_kind, InputKind::Page | InputKind::File)),
        ),
    ];
    known
        .into_iter()
        .filter(|(_, leads)| *leads)
        .map(|(name, _)| name)
        .collect()
}

fn because(paper: &Paper, faults: Faults) -> AbsenceCause {
    match paper.case {
        Case::Unknown => AbsenceCause::Unknown,
        Case::CentralText => AbsenceCause::XmlOnly,
        Case::Gone => AbsenceCause::Gone,
        Case::BotChallenge if faults == Faults::Usual => AbsenceCause::BotChallenge,
        Case::Stub => AbsenceCause::Stub,
        Case::Strict => AbsenceCause::Disallowed,
        _ => AbsenceCause::Closed,
    }
}

/// Returns the arXiv id in the user's spelling, which for some works includes a version.
pub(super) fn spelt_arxiv(paper: &Paper) -> Option<String> {
    let (id, version) = paper
        .arxiv
        .as_ref()
        .filter(|_| paper.input_kind == InputKind::Arxiv)?;
    Some(if paper.number % 4 == 1 {
        format!("{id}v{version}")
    } else {
        id.clone()
    })
}

/// Returns the canonical form of the identifier that the user's list has for a work.
pub(super) fn id(paper: &Paper) -> String {
    let doi = || paper.doi.as_ref().map(|(doi, _)| format!("doi:{doi}"));
    let first = paper.copies.first();
    let text = match paper.input_kind {
        InputKind::Doi => doi(),
        InputKind::Arxiv => spelt_arxiv(paper).map(|id| format!("arxiv:{id}")),
        InputKind::Pmid => paper.pmid.map(|id| format!("pmid:{id}")),
        InputKind::Pmcid => paper
            .central
            .map(|central| format!("pmcid:PMC{}", central.pmcid)),
        InputKind::OpenAlex => paper.openalex.map(|id| format!("openalex:W{id}")),
        InputKind::Page => first.map(Copy::page_url),
        InputKind::File => first.map(Copy::url),
    };
    text.unwrap_or_default()
}
