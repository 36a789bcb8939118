//! One work of a directory, read from the queue for tables, reports and exports.

use docstokg_bulk::deferral::Deferral;
use docstokg_bulk::queue::{ItemRow, ItemState};
use docstokg_lookup::licence::SourceLicence;
use serde::Deserialize;
use serde_json::Value;

use super::ResultStatus;
use crate::identifier::Identifier;
use crate::reason::{self, Reason};
use crate::resolver::doi_path;

/// A work, as it is delivered.
#[derive(Clone, Debug)]
pub struct DeliveredWork {
    /// Its number in the queue.
    pub item: i64,
    /// The id under which it is recorded.
    pub work_id: String,
    /// Its result.
    pub status: ResultStatus,
    /// Its title.
    pub title: Option<String>,
    /// Its year of publication.
    pub year: Option<i64>,
    /// Its DOI.
    pub doi: Option<String>,
    /// Its files, the paper first.
    pub files: Vec<DeliveredFile>,
    /// The reason why it is missing or waits, in plain words; empty for a work with a file.
    pub reason: String,
    /// The details of the failure.
    pub detail: String,
    /// Its wait, if that is known.
    pub wait: Option<Deferral>,
    /// The best link for a human.
    pub link: String,
    /// The run that recorded this.
    pub run_id: Option<String>,
}

/// A file of a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredFile {
    /// Its path, below the out directory.
    pub path: String,
    /// Its SHA-256.
    pub sha256: String,
    /// Its size, if it is recorded.
    pub bytes: Option<u64>,
    /// Its media type, as the server declared it.
    pub media_type: Option<String>,
    /// The licence as the source states it.
    pub licence: Option<SourceLicence>,
    /// The version, such as `publishedVersion`.
    pub version: Option<String>,
    /// The source that named its location.
    pub source: Option<String>,
    /// The URL that it came from.
    pub url: Option<String>,
    /// When it was recorded, UTC.
    pub recorded_at: Option<String>,
}

/// The part of a saved state that says what is waited for.
#[derive(Deserialize)]
struct SavedDeferral {
    deferral: Option<Deferral>,
}

/// Reads what a work waits for from its saved state.
fn read_wait(saved_state: &str) -> Option<Deferral> {
    let saved: SavedDeferral = serde_json::from_str(saved_state).ok()?;
    saved.deferral
}

impl DeliveredFile {
    fn of(record: &Value) -> Option<Self> {
        let text = |key: &str| record[key].as_str().map(str::to_owned);
        Some(Self {
            path: text("path")?,
            sha256: text("sha256").unwrap_or_default(),
            bytes: record["content_length"].as_u64(),
            media_type: text("content_type"),
            licence: text("license").as_deref().and_then(SourceLicence::read),
            version: text("version"),
            source: text("resolver"),
            url: text("url"),
            recorded_at: text("timestamp"),
        })
    }

    /// Tells whether it is a PDF.
    #[must_use]
    pub fn is_pdf(&self) -> bool {
        self.plain_media_type() == "application/pdf"
    }

    /// Returns the licence as an SPDX expression, or as the source states it.
    #[must_use]
    pub fn licence_name(&self) -> Option<String> {
        let licence = self.licence.as_ref()?;
        Some(
            licence
                .expression()
                .unwrap_or_else(|| licence.declared.clone()),
        )
    }

    /// Returns the media type without parameters; that of the ending if none is recorded.
    #[must_use]
    pub fn plain_media_type(&self) -> &str {
        let declared = self.media_type.as_deref();
        let declared = declared.and_then(|text| text.split(';').next());
        match self.path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("pdf") => "application/pdf",
            Some("xml") => "application/xml",
            Some("html") => "text/html",
            _ => declared.map_or("application/octet-stream", str::trim),
        }
    }
}

impl DeliveredWork {
    /// Reads a row of the queue.
    #[must_use]
    pub fn of(row: ItemRow) -> Self {
        let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
        let record = row.record.as_deref().and_then(parse).unwrap_or_default();
        let text = |key: &str| record[key].as_str().map(str::to_owned);
        let http_status = record["http_status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok());
        let why = row.reason.as_deref().and_then(Reason::read);
        let status = ResultStatus::of_work(row.state, why, http_status);
        let wait = row.saved_state.as_deref().and_then(read_wait);
        let doi = text("doi");
        Self {
            item: row.id,
            status,
            title: text("title"),
            year: record["publication_year"].as_i64(),
            files: files(row.files.as_deref(), &record),
            reason: match row.state {
                ItemState::Done => String::new(),
                ItemState::Failed => why.map_or_else(
                    || row.reason.clone().unwrap_or_default(),
                    |why| reason::sentence(why, http_status),
                ),
                ItemState::Queued | ItemState::Leased => waiting(wait.as_ref(), row.attempts),
            },
            detail: row.detail.unwrap_or_default(),
            wait,
            link: link(&row.name, doi.as_deref()),
            run_id: text("run_id"),
            doi: doi.or_else(|| row.name.strip_prefix("doi:").map(str::to_owned)),
            work_id: row.name,
        }
    }
}

/// Says what a work waits for.
fn waiting(wait: Option<&Deferral>, attempts: u32) -> String {
    match wait {
        Some(wait) => format!("waiting for {}: {}", wait.host, wait.why),
        None if attempts == 0 => "not tried yet".to_owned(),
        None => "not finished yet".to_owned(),
    }
}

/// Reads the files of a work, each path once, the paper before other kinds.
fn files(records: Option<&str>, latest: &Value) -> Vec<DeliveredFile> {
    let texts: Vec<String> = records
        .and_then(|records| serde_json::from_str(records).ok())
        .unwrap_or_default();
    let read = |text: &String| DeliveredFile::of(&serde_json::from_str(text).ok()?);
    let mut files: Vec<DeliveredFile> = texts.iter().filter_map(read).collect();
    if files.is_empty() {
        files.extend(DeliveredFile::of(latest));
    }
    // Of several records of one path the latest counts.
    files.reverse();
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| seen.insert(file.path.clone()));
    files.sort_by_key(|file| (!file.is_pdf(), file.path.clone()));
    files
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn what_is_waited_for_is_read_from_the_saved_state() {
        let saved = r#"{"work":{},"deferral":{"host":"a.example","until":100.0,"why":"paused","ready_at":40.0}}"#;
        let wait = read_wait(saved).expect("a wait");
        assert_eq!(
            (wait.host.as_str(), wait.ready_at().as_secs_f64()),
            ("a.example", 40.0)
        );
        assert_eq!(waiting(Some(&wait), 3), "waiting for a.example: paused");
        assert_eq!(read_wait("{}"), None);
        assert_eq!(waiting(None, 0), "not tried yet");
    }
}
