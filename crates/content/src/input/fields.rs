//! The fields of a row, whatever format the row was written in.

use super::databases::is_database_link;
use crate::identifier::{
    ArxivId, Doi, Identifier, IdentifierError, OpenAlexId, Pmcid, Pmid, WorkTitle,
};
use crate::work::{Identifiers, Work};
use url::Url;

/// The meaning of a column or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnMeaning {
    Doi,
    Arxiv,
    Pmid,
    Pmcid,
    OpenAlex,
    /// Any identifier.
    Id,
    /// The identifier that names the work in all records.
    WorkId,
    Url,
    Title,
    Year,
    Author,
}

impl ColumnMeaning {
    /// Finds the meaning of the name of a column or key, in any case, with spaces or hyphens for
    /// underscores.
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name
            .trim()
            .trim_matches('"')
            .trim()
            .to_ascii_lowercase()
            .replace([' ', '-'], "_");
        Some(match name.as_str() {
            "doi" => Self::Doi,
            "arxiv" | "arxiv_id" | "arxivid" => Self::Arxiv,
            "pmid" | "pubmed" | "pubmed_id" => Self::Pmid,
            "pmcid" | "pmc" | "pmc_id" => Self::Pmcid,
            "openalex" | "openalex_id" => Self::OpenAlex,
            "id" | "identifier" => Self::Id,
            "work_id" => Self::WorkId,
            "url" | "link" => Self::Url,
            "title" | "display_name" | "article_title" | "document_title" => Self::Title,
            "year" | "publication_year" | "pubyear" => Self::Year,
            "author" | "authors" | "author(s)" | "first_author" | "author_names"
            | "author_full_names" => Self::Author,
            _ => return None,
        })
    }

    /// Tells whether the field can name a work.
    pub(super) const fn identifies(self) -> bool {
        !matches!(self, Self::Title | Self::Year | Self::Author)
    }
}

/// The fields of a row that could be read.
#[derive(Debug, Default)]
pub(super) struct FieldRow {
    identifiers: Identifiers,
    /// The identifiers found in links, which count after everything else.
    linked: Identifiers,
    named: Option<Identifier>,
    title: Option<String>,
    year: Option<i32>,
    author: Option<String>,
    problems: Vec<String>,
}

impl FieldRow {
    /// Creates a row from the [`Identifiers`] of a sentence.
    pub(super) fn of_identifiers(identifiers: Identifiers) -> Self {
        Self {
            identifiers,
            ..Self::default()
        }
    }

    /// Tells whether a field names a work.
    pub(super) fn names_work(&self) -> bool {
        self.named.is_some() || !self.identifiers.is_empty() || !self.linked.is_empty()
    }

    /// Adds identifiers of other origin, and drops the problems of unreadable fields.
    pub(super) fn merge(&mut self, identifiers: Identifiers) {
        self.problems.clear();
        self.identifiers.merge(identifiers);
    }

    /// Reads a line that is a title, or an [`Identifier`] among titles.
    pub(super) fn of_title(text: &str) -> Self {
        let mut row = Self::default();
        row.take(ColumnMeaning::Title, text);
        row
    }

    /// Reads a line that is one [`Identifier`].
    pub(super) fn of_identifier(text: &str) -> Result<Self, String> {
        let identifier = Identifier::parse(text).map_err(|error| error.to_string())?;
        Ok(Self {
            named: Some(identifier),
            ..Self::default()
        })
    }

    /// Reads a field. Placeholders (`null`, `nan`, a dash) count as absent.
    pub(super) fn take(&mut self, field: ColumnMeaning, value: &str) {
        let value = value.trim();
        if value.is_empty()
            || ["null", "none", "nan", "n/a", "na", "-"]
                .iter()
                .any(|nothing| value.eq_ignore_ascii_case(nothing))
        {
            return;
        }
        let read = match field {
            // The DOI that arXiv registers is read as the arXiv work.
            ColumnMeaning::Doi => read_doi(value)
                .map(|doi| doi.arxiv().map_or(Identifier::Doi(doi), Identifier::Arxiv)),
            ColumnMeaning::Arxiv => value.parse::<ArxivId>().map(Identifier::Arxiv),
            // Spreadsheets write 123 as 123.0.
            ColumnMeaning::Pmid => value
                .strip_suffix(".0")
                .unwrap_or(value)
                .parse::<Pmid>()
                .map(Identifier::Pmid),
            ColumnMeaning::Pmcid => value.parse::<Pmcid>().map(Identifier::Pmcid),
            ColumnMeaning::OpenAlex => value.parse::<OpenAlexId>().map(Identifier::OpenAlex),
            ColumnMeaning::Id | ColumnMeaning::WorkId | ColumnMeaning::Url => {
                Identifier::parse(value)
            }
            ColumnMeaning::Title => {
                self.title.get_or_insert_with(|| value.to_owned());
                return;
            }
            ColumnMeaning::Author => {
                self.author.get_or_insert_with(|| first_author(value));
                return;
            }
            ColumnMeaning::Year => {
                let year = value
                    .get(..4)
                    .unwrap_or(value)
                    .parse()
                    .ok()
                    .filter(|year| (1000..3000).contains(year));
                self.year = self.year.or(year);
                return;
            }
        };
        match read {
            Ok(identifier) if field == ColumnMeaning::WorkId && self.named.is_none() => {
                self.named = Some(identifier);
            }
            Ok(identifier) if field == ColumnMeaning::Url => self.take_link(identifier),
            Ok(identifier) => self.identifiers.insert(identifier),
            Err(error) => self.problems.push(error.to_string()),
        }
    }

    /// Adds the identifier of a link. Of several links, the first that may lead to the work counts.
    fn take_link(&mut self, identifier: Identifier) {
        let is_record = self.linked.url.as_ref().is_some_and(is_database_link);
        if is_record && matches!(identifier, Identifier::Url(_)) {
            self.linked.url = None;
        }
        self.linked.insert(identifier);
    }

    /// Adds the identifiers of links, unless the row contradicts them. Another DOI belongs to
    /// another work, and the record of a database is never the work itself.
    fn join_links(identifiers: &mut Identifiers, mut linked: Identifiers) {
        let is_other = |url: &Url| {
            let (Some(own), Some(named)) = (&identifiers.doi, Doi::in_url(url)) else {
                return false;
            };
            let (own, named) = (own.to_string(), named.to_string());
            // A link may have more after the DOI: `/pdf`, `.full`.
            !own.starts_with(&named) && !named.starts_with(&own)
        };
        let is_left_out = linked
            .url
            .as_ref()
            .is_some_and(|url| is_other(url) || is_database_link(url));
        let mut all = identifiers.clone();
        all.merge(Identifiers {
            url: None,
            ..linked.clone()
        });
        if is_left_out && !all.is_empty() {
            linked.url = None;
        }
        identifiers.merge(linked);
    }

    /// Reads a field that often contains something else. An unreadable value is ignored without a
    /// message.
    pub(super) fn take_quietly(&mut self, field: ColumnMeaning, value: &str) {
        let problems = self.problems.len();
        self.take(field, value);
        self.problems.truncate(problems);
    }

    /// Converts the row into a [`Work`], with messages about the fields left out. Returns the
    /// reason if the row names no work.
    pub(super) fn into_work(self) -> Result<(Work, Vec<String>), String> {
        let Self {
            mut identifiers,
            linked,
            named,
            title,
            year,
            author,
            problems,
        } = self;
        if let Some(named) = &named {
            identifiers.insert(named.clone());
        }
        Self::join_links(&mut identifiers, linked);
        let work = match named {
            Some(named) => {
                let mut work = Work::new(named);
                work.identifiers.merge(identifiers);
                Some(work)
            }
            None => Work::from_identifiers(identifiers),
        };
        if let Some(mut work) = work {
            work.title = title;
            work.year = year;
            return Ok((work, problems));
        }
        let name = title.as_deref().and_then(name_in_title);
        let mut work = name.map(Work::new).ok_or_else(|| without_name(&problems))?;
        work.title = title;
        work.year = year;
        work.first_author = author;
        Ok((work, problems))
    }
}

/// Returns the name of a work without other identifiers: its title, unless the title is itself an
/// identifier.
fn name_in_title(title: &str) -> Option<Identifier> {
    let identifier = Identifier::parse(title).ok();
    identifier.or_else(|| WorkTitle::new(title).map(Identifier::Title))
}

/// Reads a DOI, or the first of several: databases add those of reviews behind a semicolon.
fn read_doi(value: &str) -> Result<Doi, IdentifierError> {
    value.parse::<Doi>().or_else(|error| {
        let first = value
            .split_once("; ")
            .map(|(first, _)| first.parse::<Doi>());
        first.and_then(Result::ok).ok_or(error)
    })
}

/// Describes a row that names no work.
fn without_name(problems: &[String]) -> String {
    if problems.is_empty() {
        "it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL".to_owned()
    } else {
        problems.join("; ")
    }
}

/// Returns the first of several authors. Names are separated by semicolons or `and`, or by commas
/// if the names themselves have none.
fn first_author(authors: &str) -> String {
    let first = authors.split([';', '|', '&']).next().unwrap_or(authors);
    let first = first.split(" and ").next().unwrap_or(first);
    let mut parts = first.split(',');
    let family = parts.next().unwrap_or(first).trim();
    match parts.next() {
        Some(given) if !family.contains(' ') => format!("{family}, {}", given.trim()),
        _ => family.to_owned(),
    }
}
