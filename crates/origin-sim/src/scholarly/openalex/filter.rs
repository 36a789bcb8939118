//! The filter conditions of a list of works.

use super::super::paper::{Paper, TOPICS};
use super::work::is_open;

/// Maximum number of values of one filter.
const MAX_VALUES: usize = 100;

/// A condition of a list of works.
pub(super) struct Filter {
    field: String,
    values: Vec<String>,
}

impl Filter {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (field, values) = text
            .split_once(':')
            .ok_or_else(|| format!("{text} is not a filter"))?;
        let values: Vec<String> = values
            .split('|')
            .map(|value| value.trim().to_ascii_lowercase())
            .collect();
        if values.len() > MAX_VALUES {
            return Err(format!("Maximum number of values exceeded for {field}"));
        }
        let known = [
            "doi",
            "pmid",
            "ids.pmid",
            "pmcid",
            "ids.pmcid",
            "openalex",
            "ids.openalex",
            "topics.id",
            "primary_topic.id",
            "is_oa",
            "open_access.is_oa",
            "has_doi",
            "type",
            "publication_year",
            "from_publication_date",
            "to_publication_date",
            "title.search",
            "display_name.search",
            "default.search",
            "title_and_abstract.search",
        ];
        let field = field.trim().to_owned();
        if known.contains(&field.as_str()) {
            Ok(Self { field, values })
        } else {
            Err(format!("{field} is not a valid field"))
        }
    }

    pub(super) fn fits(&self, paper: &Paper) -> bool {
        let year = |date: &str| date.get(..4).and_then(|year| year.parse::<i32>().ok());
        self.values.iter().any(|value| match self.field.as_str() {
            "doi" => paper
                .doi
                .as_ref()
                .is_some_and(|(doi, _)| value.trim_start_matches("https://doi.org/") == doi),
            "pmid" | "ids.pmid" => paper.pmid.is_some_and(|id| *value == id.to_string()),
            "pmcid" | "ids.pmcid" => paper.central.is_some_and(|central| {
                value.trim_start_matches("pmc") == central.pmcid.to_string()
            }),
            "openalex" | "ids.openalex" => paper
                .openalex
                .is_some_and(|id| value.rsplit('/').next() == Some(&format!("w{id}"))),
            "topics.id" | "primary_topic.id" => {
                value.rsplit('/').next() == Some(&TOPICS[paper.topic].0.to_ascii_lowercase())
            }
            "is_oa" | "open_access.is_oa" => *value == is_open(paper).to_string(),
            "has_doi" => *value == paper.doi.is_some().to_string(),
            "type" => value == "article",
            "publication_year" => in_years(paper.year, value),
            "from_publication_date" => year(value).is_some_and(|first| paper.year >= first),
            "to_publication_date" => year(value).is_some_and(|last| paper.year <= last),
            _ => value
                .split_whitespace()
                .all(|word| paper.title.to_ascii_lowercase().contains(word)),
        })
    }
}

/// Reads `2020`, `2019-2021`, `2019-`, `-2021`, `>2018` and `<2022`.
fn in_years(year: i32, value: &str) -> bool {
    let number = |text: &str, otherwise: i32| {
        if text.is_empty() {
            Some(otherwise)
        } else {
            text.trim().parse().ok()
        }
    };
    if let Some(after) = value.strip_prefix('>') {
        return number(after, i32::MAX).is_some_and(|after| year > after);
    }
    if let Some(before) = value.strip_prefix('<') {
        return number(before, i32::MIN).is_some_and(|before| year < before);
    }
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    match (number(first, i32::MIN), number(last, i32::MAX)) {
        (Some(first), Some(last)) => (first..=last).contains(&year),
        _ => false,
    }
}
