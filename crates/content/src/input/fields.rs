//! The fields of a row, whatever format the row was written in.

use super::databases::is_database_link;
use crate::identifier::{ArxivId, Doi, Identifier, OpenAlexId, Pmcid, Pmid};
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
            "title" | "display_name" => Self::Title,
            "year" | "publication_year" => Self::Year,
            _ => return None,
        })
    }

    /// Tells whether the field can name a work.
    pub(super) const fn identifies(self) -> bool {
        !matches!(self, Self::Title | Self::Year)
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
    problems: Vec<String>,
}

impl FieldRow {
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
            ColumnMeaning::Doi => value
                .parse::<Doi>()
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
        match work {
            Some(mut work) => {
                work.title = title;
                work.year = year;
                Ok((work, problems))
            }
            None if problems.is_empty() => {
                Err("it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL".to_owned())
            }
            None => Err(problems.join("; ")),
        }
    }
}
