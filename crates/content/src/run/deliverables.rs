//! The files for the person who ordered the papers: `report.html`, `missing.csv` and
//! `downloaded.csl.json`.
//!
//! The report begins with works, not with requests. It counts the works that were ordered,
//! downloaded, not openly available, failed, or waiting. Every missing work has its reason in plain
//! words, and the best link for a person.

mod html;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_bulk::queue::{ItemRow, ItemState, QueueError, WorkQueue};
use docstokg_hub::files::{beside, write_whole};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::RunReport;
use crate::identifier::Identifier;
use crate::reason::{self, Reason};
use crate::resolver::doi_path;

/// Maximum number of works of each kind on the page; the files contain all.
const MAX_LISTED_WORKS: usize = 2_000;

/// The standing of a work, for the person who ordered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStanding {
    /// The file of the work was downloaded.
    Downloaded,
    /// No source offers the work openly: no copy is known, or access is refused.
    NotOpen,
    /// The work may be available, but could not be downloaded.
    Failed,
    /// The work is not finished.
    Waiting,
}

/// A work, as the files of the delivery describe it.
#[derive(Clone, Debug)]
pub(crate) struct DeliveredWork {
    pub(crate) work_id: String,
    pub(crate) standing: WorkStanding,
    pub(crate) title: Option<String>,
    pub(crate) year: Option<i64>,
    pub(crate) doi: Option<String>,
    pub(crate) path: Option<String>,
    /// The reason why the file is missing, in plain words.
    pub(crate) reason: String,
    /// The details of the failure.
    pub(crate) detail: String,
    /// The best link for a person.
    pub(crate) link: String,
}

impl DeliveredWork {
    fn of(row: ItemRow) -> Self {
        let record: Value = row
            .record
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null);
        let text = |key: &str| record[key].as_str().map(str::to_owned);
        let status = record["http_status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok());
        let why = row.reason.as_deref().and_then(Reason::read);
        let standing = match row.state {
            ItemState::Done => WorkStanding::Downloaded,
            ItemState::Failed => why.map_or(WorkStanding::Failed, |why| standing(why, status)),
            ItemState::Queued | ItemState::Leased => WorkStanding::Waiting,
        };
        let doi = text("doi");
        Self {
            standing,
            title: text("title"),
            year: record["publication_year"].as_i64(),
            path: text("path"),
            reason: why.map_or_else(
                || "waiting (retry later)".to_owned(),
                |why| reason::sentence(why, status),
            ),
            detail: row.detail.unwrap_or_default(),
            link: link(&row.name, doi.as_deref()),
            doi,
            work_id: row.name,
        }
    }
}

/// Returns the [`WorkStanding`] of a work without a file: not openly available, or failed.
fn standing(reason: Reason, status: Option<u16>) -> WorkStanding {
    match (reason, status) {
        (Reason::NotFound | Reason::HtmlOnly, _)
        | (Reason::HttpStatus, Some(401 | 402 | 403 | 451)) => WorkStanding::NotOpen,
        _ => WorkStanding::Failed,
    }
}

/// Returns the URL at which a person finds the work.
pub(crate) fn link(work_id: &str, doi: Option<&str>) -> String {
    match (Identifier::parse(work_id), doi) {
        (Ok(Identifier::Doi(doi)), _) => format!("https://doi.org/{}", doi_path(&doi)),
        (_, Some(doi)) => doi.parse().map_or_else(
            |_| String::new(),
            |doi| format!("https://doi.org/{}", doi_path(&doi)),
        ),
        (Ok(Identifier::Arxiv(id)), _) => format!("https://arxiv.org/abs/{id}"),
        (Ok(Identifier::Pmid(id)), _) => format!("https://pubmed.ncbi.nlm.nih.gov/{id}/"),
        (Ok(Identifier::Pmcid(id)), _) => format!("https://pmc.ncbi.nlm.nih.gov/articles/{id}/"),
        (Ok(Identifier::OpenAlex(id)), _) => format!("https://openalex.org/{id}"),
        (Ok(Identifier::Url(url)), _) => url.to_string(),
        (Ok(Identifier::Title(_)) | Err(_), _) => String::new(),
    }
}

/// A file that is written work by work, and replaces its final path only when complete.
struct GrowingFile {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
}

impl GrowingFile {
    fn create(path: PathBuf) -> io::Result<Self> {
        let part = beside(&path);
        Ok(Self {
            file: BufWriter::new(File::create(&part)?),
            path,
            part,
        })
    }

    fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        std::fs::rename(&self.part, &self.path)
    }
}

/// Collects works for the page, and writes the lists while works arrive.
struct DeliverablesWriter {
    missing: GrowingFile,
    references: GrowingFile,
    is_first: bool,
    page: html::PageWorks,
    failed: Option<io::Error>,
}

impl DeliverablesWriter {
    fn create(out: &Path) -> io::Result<Self> {
        let (mut missing, references) = (
            GrowingFile::create(out.join("missing.csv"))?,
            GrowingFile::create(out.join("downloaded.csl.json"))?,
        );
        missing.file.write_all(b"id,title,reason,link\n")?;
        Ok(Self {
            missing,
            references,
            is_first: true,
            page: html::PageWorks::default(),
            failed: None,
        })
    }

    fn take(&mut self, work: DeliveredWork) {
        let written = if work.standing == WorkStanding::Downloaded {
            let before = if std::mem::replace(&mut self.is_first, false) {
                "[\n"
            } else {
                ",\n"
            };
            write!(self.references.file, "{before}{}", csl(&work))
        } else {
            let cells = [
                &work.work_id,
                work.title.as_deref().unwrap_or_default(),
                &work.reason,
                &work.link,
            ]
            .map(cell);
            writeln!(self.missing.file, "{}", cells.join(","))
        };
        self.failed = self.failed.take().or(written.err());
        self.page.take(work);
    }

    /// Finishes the lists, and returns the [`html::PageWorks`].
    fn finish(mut self) -> io::Result<html::PageWorks> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.references
            .file
            .write_all(if self.is_first { b"[]\n" } else { b"\n]\n" })?;
        self.missing.finish()?;
        self.references.finish()?;
        Ok(self.page)
    }
}

/// Writes a cell of a CSV file (RFC 4180). Text that a spreadsheet would execute as a formula is
/// escaped.
fn cell(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// Returns a [`DeliveredWork`] as CSL-JSON for reference managers.
fn csl(work: &DeliveredWork) -> Value {
    let mut item = json!({ "id": work.work_id, "type": "article", "URL": work.link });
    if let Some(title) = &work.title {
        item["title"] = json!(title);
    }
    if let Some(year) = work.year {
        item["issued"] = json!({ "date-parts": [[year]] });
    }
    if let Some(doi) = work
        .doi
        .clone()
        .or_else(|| work.work_id.strip_prefix("doi:").map(str::to_owned))
    {
        item["DOI"] = json!(doi);
    }
    if let Some(path) = &work.path {
        item["note"] = json!(format!("file: {path}"));
    }
    item
}

/// Writes the files for the person who ordered the papers.
///
/// # Errors
/// Returns a [`QueueError`] if the queue cannot be read, or a file cannot be written.
pub async fn deliver(queue: &WorkQueue, out: &Path, report: &RunReport) -> Result<(), QueueError> {
    let unwritable = |error: io::Error| QueueError::Sqlite {
        path: out.display().to_string(),
        why: format!("the report cannot be written: {error}"),
    };
    let gathered = Arc::new(Mutex::new(Some(
        DeliverablesWriter::create(out).map_err(unwritable)?,
    )));
    let side = Arc::clone(&gathered);
    let take = move |row| {
        if let Some(gathered) = &mut *side.lock() {
            gathered.take(DeliveredWork::of(row));
        }
    };
    queue.each_item(take).await?;
    let Some(gathered) = gathered.lock().take() else {
        return Ok(());
    };
    let works = gathered.finish().map_err(unwritable)?;
    write_whole(&out.join("report.html"), &works.write(report)).map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_formulas_defused() {
        assert_eq!(cell("plain"), "plain");
        assert_eq!(cell("a, \"b\""), "\"a, \"\"b\"\"\"");
        assert_eq!(cell("=HYPERLINK(1)"), "'=HYPERLINK(1)");
    }

    #[test]
    fn every_kind_of_work_has_a_link_for_a_human() {
        for (id, wanted) in [
            ("doi:10.1/a", "https://doi.org/10.1/a"),
            ("arxiv:2002.00741", "https://arxiv.org/abs/2002.00741"),
            ("pmid:77", "https://pubmed.ncbi.nlm.nih.gov/77/"),
            ("pmcid:PMC9", "https://pmc.ncbi.nlm.nih.gov/articles/PMC9/"),
            ("https://x.example/a", "https://x.example/a"),
        ] {
            assert_eq!(
                link(&id.replace("10.1/a", "10.1234/a"), None),
                wanted.replace("10.1/a", "10.1234/a")
            );
        }
        assert_eq!(
            link("https://x.example/a", Some("10.1234/b")),
            "https://doi.org/10.1234/b"
        );
    }
}
