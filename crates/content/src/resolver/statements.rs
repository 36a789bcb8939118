//! Bibliographic metadata in the responses of services, read into one shape. Pure functions: nothing
//! is requested for metadata alone.

use serde_json::Value;

use super::atom::AtomEntry;
use super::reply::{items, scalar, text, title};
use crate::metadata::{MetadataStatement, PersonName, plain_abstract};
use crate::work::LearnedMetadata;

/// The most words of an abstract that is stored as an index.
const MAX_ABSTRACT_WORDS: usize = 20_000;

/// Begins with what was learned about the work anyway.
fn begin(learned: &LearnedMetadata) -> MetadataStatement {
    MetadataStatement {
        title: learned.title.clone(),
        issued: learned.year.map(|year| year.to_string()),
        identifiers: learned.identifiers.clone(),
        ..MetadataStatement::default()
    }
}

/// Returns the text at the first of several pointers that has one.
fn first(value: &Value, pointers: &[&str]) -> Option<String> {
    pointers
        .iter()
        .find_map(|pointer| scalar(value, pointer))
        .and_then(|text| title(&text))
}

/// Returns a date as `2020`, `2020-03` or `2020-03-05`; `None` for another text.
fn date(text: &str) -> Option<String> {
    let text = text.trim().split('T').next()?;
    let lengths = [4, 2, 2];
    let parts: Vec<&str> = text.split('-').collect();
    let is_part = |(part, length): (&&str, usize)| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_date = parts.len() <= lengths.len() && parts.iter().zip(lengths).all(is_part);
    is_date.then(|| text.to_owned())
}

/// Returns pages as one text.
fn pages(first: Option<String>, last: Option<String>) -> Option<String> {
    match (first, last) {
        (Some(first), Some(last)) if first != last => Some(format!("{first}-{last}")),
        (first, last) => first.or(last),
    }
}

/// Returns the text of strings at a pointer.
fn texts(value: &Value, pointer: &str) -> Vec<String> {
    let texts = items(value, pointer).iter();
    texts
        .filter_map(|item| text(item, "").map(str::to_owned))
        .collect()
}

/// Reads a record of `OpenAlex`.
pub(super) fn of_openalex(work: &Value, learned: &LearnedMetadata) -> MetadataStatement {
    let author = |authorship: &Value| {
        let name = text(authorship, "/author/display_name")
            .or_else(|| text(authorship, "/raw_author_name"))?;
        Some(PersonName::of_full_name(name)?.orcid(text(authorship, "/author/orcid")))
    };
    let begun = begin(learned);
    MetadataStatement {
        authors: items(work, "/authorships")
            .iter()
            .filter_map(author)
            .collect(),
        journal: first(work, &["/primary_location/source/display_name"]),
        publisher: first(work, &["/primary_location/source/host_organization_name"]),
        issued: text(work, "/publication_date")
            .and_then(date)
            .or(begun.issued),
        volume: first(work, &["/biblio/volume"]),
        issue: first(work, &["/biblio/issue"]),
        pages: pages(
            first(work, &["/biblio/first_page"]),
            first(work, &["/biblio/last_page"]),
        ),
        issn: texts(work, "/primary_location/source/issn"),
        language: first(work, &["/language"]),
        kind: first(work, &["/type"]),
        r#abstract: indexed_abstract(work),
        retracted: work.get("is_retracted").and_then(Value::as_bool),
        licence: first(
            work,
            &["/best_oa_location/license", "/primary_location/license"],
        ),
        ..begun
    }
    .bounded()
}

/// Puts an abstract together that is stored as words with their positions.
fn indexed_abstract(work: &Value) -> Option<String> {
    let index = work.get("abstract_inverted_index")?.as_object()?;
    let mut words: Vec<(u64, &str)> = Vec::new();
    for (word, positions) in index {
        let positions = positions.as_array().into_iter().flatten();
        words.extend(
            positions
                .filter_map(Value::as_u64)
                .map(|at| (at, word.as_str())),
        );
        if words.len() > MAX_ABSTRACT_WORDS {
            return None;
        }
    }
    words.sort_unstable();
    let words: Vec<&str> = words.into_iter().map(|(_, word)| word).collect();
    plain_abstract(&words.join(" "))
}

/// Reads a record of Crossref.
pub(super) fn of_crossref(work: &Value, learned: &LearnedMetadata) -> MetadataStatement {
    let author = |author: &Value| {
        let person = PersonName::of_parts(text(author, "/given"), text(author, "/family"));
        let name = person.or_else(|| text(author, "/name").map(PersonName::of_organisation))?;
        Some(
            PersonName {
                suffix: first(author, &["/suffix"]),
                ..name
            }
            .orcid(text(author, "/ORCID")),
        )
    };
    let begun = begin(learned);
    let retractions = items(work, "/updated-by").iter();
    let is_retracted = retractions
        .filter_map(|update| text(update, "/type"))
        .any(|kind| kind == "retraction");
    MetadataStatement {
        authors: items(work, "/author").iter().filter_map(author).collect(),
        journal: first(work, &["/container-title/0", "/container-title"]),
        publisher: first(work, &["/publisher"]),
        issued: date_parts(work, &["/issued", "/published", "/published-online"]).or(begun.issued),
        volume: first(work, &["/volume"]),
        issue: first(work, &["/issue"]),
        pages: first(work, &["/page", "/article-number"]),
        issn: texts(work, "/ISSN"),
        language: first(work, &["/language"]),
        kind: first(work, &["/type"]),
        r#abstract: text(work, "/abstract").and_then(plain_abstract),
        retracted: is_retracted.then_some(true),
        licence: first(work, &["/license/0/URL"]),
        ..begun
    }
    .bounded()
}

/// Returns the first date of several fields whose parts are numbers.
fn date_parts(work: &Value, fields: &[&str]) -> Option<String> {
    fields.iter().find_map(|field| {
        let parts = items(work, &format!("{field}/date-parts/0")).iter();
        let parts: Vec<u64> = parts.map_while(Value::as_u64).take(3).collect();
        let (year, rest) = parts.split_first()?;
        let rest: Vec<String> = rest.iter().map(|part| format!("-{part:02}")).collect();
        date(&format!("{year:04}{}", rest.concat()))
    })
}

/// Reads a record of `DataCite`.
pub(super) fn of_datacite(work: &Value, learned: &LearnedMetadata) -> MetadataStatement {
    let author = |creator: &Value| {
        let parts = PersonName::of_parts(text(creator, "/givenName"), text(creator, "/familyName"));
        let is_organisation = text(creator, "/nameType") == Some("Organizational");
        let name = parts.or_else(|| {
            let name = text(creator, "/name")?;
            if is_organisation {
                Some(PersonName::of_organisation(name))
            } else {
                PersonName::of_full_name(name)
            }
        })?;
        let ids = items(creator, "/nameIdentifiers").iter();
        let orcid = ids
            .filter(|id| text(id, "/nameIdentifierScheme") == Some("ORCID"))
            .find_map(|id| text(id, "/nameIdentifier"));
        Some(name.orcid(orcid))
    };
    let begun = begin(learned);
    let dates = items(work, "/dates").iter();
    let issued = dates
        .filter(|entry| text(entry, "/dateType") == Some("Issued"))
        .find_map(|entry| text(entry, "/date").and_then(date));
    let mut descriptions = items(work, "/descriptions").iter();
    let about = descriptions
        .find(|entry| text(entry, "/descriptionType") == Some("Abstract"))
        .and_then(|entry| text(entry, "/description"));
    MetadataStatement {
        authors: items(work, "/creators").iter().filter_map(author).collect(),
        journal: first(work, &["/container/title"]),
        publisher: first(work, &["/publisher/name", "/publisher"]),
        issued: issued.or(begun.issued),
        volume: first(work, &["/container/volume"]),
        issue: first(work, &["/container/issue"]),
        pages: pages(
            first(work, &["/container/firstPage"]),
            first(work, &["/container/lastPage"]),
        ),
        language: first(work, &["/language"]),
        kind: first(work, &["/types/resourceTypeGeneral"]),
        r#abstract: about.and_then(plain_abstract),
        licence: first(
            work,
            &["/rightsList/0/rightsIdentifier", "/rightsList/0/rightsUri"],
        ),
        ..begun
    }
    .bounded()
}

/// Reads a record of Europe PMC.
pub(super) fn of_europe_pmc(result: &Value, learned: &LearnedMetadata) -> MetadataStatement {
    let author = |author: &Value| {
        let parts = PersonName::of_parts(text(author, "/firstName"), text(author, "/lastName"));
        let name =
            parts.or_else(|| text(author, "/collectiveName").map(PersonName::of_organisation))?;
        let is_orcid = text(author, "/authorId/type") == Some("ORCID");
        Some(name.orcid(text(author, "/authorId/value").filter(|_| is_orcid)))
    };
    let begun = begin(learned);
    let mut kinds = texts(result, "/pubTypeList/pubType").into_iter();
    let is_retracted = kinds.any(|kind| kind.eq_ignore_ascii_case("Retracted Publication"));
    MetadataStatement {
        authors: items(result, "/authorList/author")
            .iter()
            .filter_map(author)
            .collect(),
        journal: first(result, &["/journalInfo/journal/title", "/journalTitle"]),
        issued: text(result, "/firstPublicationDate")
            .and_then(date)
            .or(begun.issued),
        volume: first(result, &["/journalInfo/volume", "/journalVolume"]),
        issue: first(result, &["/journalInfo/issue", "/issue"]),
        pages: first(result, &["/pageInfo"]),
        issn: ["/journalInfo/journal/issn", "/journalInfo/journal/essn"]
            .iter()
            .filter_map(|pointer| first(result, &[pointer]))
            .collect(),
        language: first(result, &["/language"]),
        kind: Some("journal-article".to_owned()).filter(|_| text(result, "/source") != Some("PPR")),
        r#abstract: text(result, "/abstractText").and_then(plain_abstract),
        retracted: is_retracted.then_some(true),
        licence: first(result, &["/license"]),
        ..begun
    }
    .bounded()
}

/// Reads a record of Unpaywall.
pub(super) fn of_unpaywall(record: &Value, learned: &LearnedMetadata) -> MetadataStatement {
    let author = |author: &Value| {
        PersonName::of_parts(text(author, "/given"), text(author, "/family"))
            .or_else(|| PersonName::of_full_name(text(author, "/raw_author_name")?))
    };
    let begun = begin(learned);
    let issns = text(record, "/journal_issns").unwrap_or_default();
    MetadataStatement {
        authors: items(record, "/z_authors")
            .iter()
            .filter_map(author)
            .collect(),
        journal: first(record, &["/journal_name"]),
        publisher: first(record, &["/publisher"]),
        issued: text(record, "/published_date")
            .and_then(date)
            .or(begun.issued),
        issn: issns
            .split(',')
            .map(str::trim)
            .filter(|issn| !issn.is_empty())
            .map(str::to_owned)
            .collect(),
        kind: first(record, &["/genre"]),
        licence: first(record, &["/best_oa_location/license"]),
        ..begun
    }
    .bounded()
}

/// Reads an entry of a feed of arXiv.
pub(super) fn of_arxiv(entry: &AtomEntry, learned: &LearnedMetadata) -> MetadataStatement {
    let authors = entry.authors.iter();
    let begun = begin(learned);
    MetadataStatement {
        authors: authors
            .filter_map(|name| PersonName::of_full_name(name))
            .collect(),
        // A reference to a journal is free text: title, volume and pages in one.
        journal: title(&entry.journal),
        issued: date(&entry.published).or(begun.issued),
        kind: Some("preprint".to_owned()),
        r#abstract: plain_abstract(&entry.summary),
        ..begun
    }
    .bounded()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(statement: &MetadataStatement) -> Vec<String> {
        statement.authors.iter().map(PersonName::full).collect()
    }

    #[test]
    fn crossref_and_openalex_are_read_into_one_shape() {
        let learned = LearnedMetadata {
            title: Some("A title".to_owned()),
            year: Some(2020),
            ..LearnedMetadata::default()
        };
        let crossref = json!({
            "author": [{"given": "Jan", "family": "van der Berg", "ORCID": "http://orcid.org/0000-0002-1825-0097"},
                       {"name": "The Group"}],
            "container-title": ["A Journal"], "issued": {"date-parts": [[2020, 3, 5]]},
            "volume": "7", "page": "1-9", "type": "journal-article",
            "abstract": "<jats:p>What it <jats:italic>is</jats:italic> about</jats:p>",
            "license": [{"URL": "https://creativecommons.org/licenses/by/4.0/"}],
            "updated-by": [{"type": "retraction"}]
        });
        let of_crossref = of_crossref(&crossref, &learned);
        assert_eq!(names(&of_crossref), ["Jan van der Berg", "The Group"]);
        let openalex = json!({
            "authorships": [{"author": {"display_name": "Jan van der Berg", "orcid": "https://orcid.org/0000-0002-1825-0097"}},
                            {"raw_author_name": "The Group"}],
            "primary_location": {"source": {"display_name": "A Journal"}},
            "publication_date": "2020-03-05", "type": "article", "is_retracted": true,
            "biblio": {"volume": "7", "issue": null, "first_page": "1", "last_page": "9"},
            "abstract_inverted_index": {"about": [3], "What": [0], "it": [1], "is": [2]},
            "best_oa_location": {"license": "cc-by"}
        });
        let of_openalex = of_openalex(&openalex, &learned);
        assert_eq!(of_openalex.kind.as_deref(), Some("article"));
        let same = MetadataStatement {
            kind: of_crossref.kind.clone(),
            licence: of_crossref.licence.clone(),
            ..of_openalex
        };
        assert_eq!(same, of_crossref);
    }

    #[test]
    fn dates_have_at_most_a_day() {
        for (text, read) in [
            ("2020-03-05T00:00:00Z", Some("2020-03-05")),
            ("2020-03", Some("2020-03")),
            ("2020", Some("2020")),
            ("March 2020", None),
            ("20", None),
            ("", None),
        ] {
            assert_eq!(date(text).as_deref(), read, "{text}");
        }
    }
}
