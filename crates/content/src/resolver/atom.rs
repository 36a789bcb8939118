//! The Atom feeds of arXiv's API.

use super::reply::title;
use super::xml::{XmlStep, walk};
use crate::identifier::ArxivId;

/// The content of a feed.
pub(super) enum AtomFeed {
    /// The works of the feed; the list may be empty.
    Entries(Vec<AtomEntry>),
    /// The error message of the API.
    Error(String),
}

/// A work in a feed.
pub(super) struct AtomEntry {
    pub(super) id: ArxivId,
    pub(super) title: Option<String>,
    pub(super) year: Option<i32>,
    pub(super) doi: Option<String>,
    pub(super) authors: Vec<String>,
    /// When the first version was published.
    pub(super) published: String,
    pub(super) summary: String,
    pub(super) journal: String,
}

/// The texts of an entry while the feed is read.
#[derive(Default)]
struct EntryDraft {
    id: String,
    title: String,
    published: String,
    summary: String,
    doi: String,
    journal: String,
    authors: Vec<String>,
    author: String,
}

/// Reads an [`AtomFeed`]. Returns `None` if the body is not a feed, or ends too early.
pub(super) fn parse(body: &[u8]) -> Option<AtomFeed> {
    let mut draft = EntryDraft::default();
    let mut entries = Vec::new();
    let mut complaint = None;
    let root = walk(body, |step| match step {
        XmlStep::Text([_, parent, field], text) if parent == "entry" => draft.append(field, text),
        XmlStep::Text([_, entry, author, field], text)
            if entry == "entry" && author == "author" && field == "name" =>
        {
            draft.author.push_str(text);
        }
        XmlStep::End([_, _, name]) if name == "author" => {
            let author = std::mem::take(&mut draft.author);
            draft.authors.push(author);
        }
        XmlStep::End([_, name]) if name == "entry" => {
            let done = std::mem::take(&mut draft);
            if done.id.contains("/api/errors") {
                complaint = Some(
                    title(&done.summary).unwrap_or_else(|| "an error without message".to_owned()),
                );
            } else {
                entries.extend(entry(done));
            }
        }
        _ => {}
    })?;
    (root == "feed").then(|| complaint.map_or(AtomFeed::Entries(entries), AtomFeed::Error))
}

impl EntryDraft {
    fn append(&mut self, field: &str, text: &str) {
        let field = match field {
            "id" => &mut self.id,
            "title" => &mut self.title,
            "published" => &mut self.published,
            "summary" => &mut self.summary,
            "doi" => &mut self.doi,
            "journal_ref" => &mut self.journal,
            _ => return,
        };
        field.push_str(text);
    }
}

fn entry(draft: EntryDraft) -> Option<AtomEntry> {
    let doi = draft.doi.trim();
    Some(AtomEntry {
        id: draft.id.parse().ok()?,
        title: title(&draft.title),
        year: draft
            .published
            .trim()
            .get(..4)
            .and_then(|year| year.parse().ok()),
        doi: (!doi.is_empty()).then(|| doi.to_owned()),
        authors: draft.authors,
        published: draft.published,
        summary: draft.summary,
        journal: draft.journal,
    })
}
