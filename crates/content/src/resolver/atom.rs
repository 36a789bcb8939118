//! The Atom feeds of arXiv's API.

use super::reply::title;
use super::xml::{Step, walk};
use crate::identifier::ArxivId;

/// What a feed says.
pub(super) enum Feed {
    /// Works, perhaps none.
    Entries(Vec<Entry>),
    /// The API complains, in its own words.
    Error(String),
}

/// One work.
pub(super) struct Entry {
    pub(super) id: ArxivId,
    pub(super) title: Option<String>,
    pub(super) year: Option<i32>,
    pub(super) doi: Option<String>,
}

/// Texts of one entry while it is read.
#[derive(Default)]
struct Draft {
    id: String,
    title: String,
    published: String,
    summary: String,
    doi: String,
}

/// Reads a feed; `None` when it is none, or breaks off.
pub(super) fn parse(body: &[u8]) -> Option<Feed> {
    let mut draft = Draft::default();
    let mut entries = Vec::new();
    let mut complaint = None;
    let root = walk(body, |step| match step {
        Step::Text([_, parent, field], text) if parent == "entry" => draft.append(field, text),
        Step::End([_, name]) if name == "entry" => {
            let done = std::mem::take(&mut draft);
            if done.id.contains("/api/errors") {
                complaint = Some(
                    title(&done.summary).unwrap_or_else(|| "an error without message".to_owned()),
                );
            } else {
                entries.extend(entry(&done));
            }
        }
        _ => {}
    })?;
    (root == "feed").then(|| complaint.map_or(Feed::Entries(entries), Feed::Error))
}

impl Draft {
    fn append(&mut self, field: &str, text: &str) {
        let field = match field {
            "id" => &mut self.id,
            "title" => &mut self.title,
            "published" => &mut self.published,
            "summary" => &mut self.summary,
            "doi" => &mut self.doi,
            _ => return,
        };
        field.push_str(text);
    }
}

fn entry(draft: &Draft) -> Option<Entry> {
    let doi = draft.doi.trim();
    Some(Entry {
        id: draft.id.parse().ok()?,
        title: title(&draft.title),
        year: draft
            .published
            .trim()
            .get(..4)
            .and_then(|year| year.parse().ok()),
        doi: (!doi.is_empty()).then(|| doi.to_owned()),
    })
}
