//! `DataCite`: the DOIs that Crossref does not know. A part of the `crossref` resolver.

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::SourceEndpoint;
use serde_json::Value;

use super::reply::{doi_path, items, learn_link, record, text, title, year};
use super::settings::Settings;
use super::{LookupOutcome, Step, WorkLookupStep, arxiv, crossref, statements};
use crate::identifier::Doi;
use crate::location::{CandidateLocation, LocationOffer, distinct, link};
use crate::work::LearnedMetadata;

/// The API of `DataCite`.
pub(super) static API: SourceEndpoint = SourceEndpoint {
    key: "datacite",
    address: "https://api.datacite.org/",
    about: "DataCite, for the DOIs that Crossref does not know",
};

/// Looks up one [`Doi`].
pub(super) fn resolve_doi<'a>(settings: &'a Settings, doi: &Doi) -> WorkLookupStep<'a> {
    let url = settings.url(&API, &format!("dois/{}", doi_path(doi)));
    let request = LookupRequest::metadata(url, crossref::ID.as_str());
    Step::request(request, move |result| {
        let work = record(settings, result, &[404, 410], "/data/attributes");
        Step::Done(match work {
            Ok(value) => read(
                settings,
                value.pointer("/data/attributes").unwrap_or(&Value::Null),
            ),
            Err(unanswered) => unanswered.into_outcome("DataCite"),
        })
    })
}

fn read(settings: &Settings, work: &Value) -> LookupOutcome {
    let mut learned = LearnedMetadata {
        title: text(work, "/titles/0/title").and_then(title),
        year: year(work, "/publicationYear"),
        ..LearnedMetadata::default()
    };
    learned.statement = Some(Box::new(statements::of_datacite(work, &learned)));
    let licence = text(work, "/rightsList/0/rightsIdentifier")
        .or_else(|| text(work, "/rightsList/0/rightsUri"))
        .map(str::to_owned);
    let contents = match work.get("contentUrl") {
        Some(Value::String(_)) => text(work, "/contentUrl").into_iter().collect(),
        _ => items(work, "/contentUrl")
            .iter()
            .filter_map(|item| text(item, ""))
            .collect::<Vec<_>>(),
    };
    let page = text(work, "/url");
    contents
        .iter()
        .copied()
        .chain(page)
        .for_each(|found| learn_link(&mut learned.identifiers, found));
    let offers = |url: &url::Url| {
        if url.path().to_ascii_lowercase().ends_with(".pdf") {
            LocationOffer::Pdf
        } else {
            LocationOffer::Unknown
        }
    };
    let files = contents
        .iter()
        .filter_map(|found| link(found))
        .map(|url| (offers(&url), url));
    let page = page.and_then(link).map(|url| (LocationOffer::Landing, url));
    let location = |(offers, url)| {
        CandidateLocation::new(url, offers, crossref::ID)
            .licence(licence.clone())
            .rewritten(&settings.endpoints.of(&arxiv::API))
    };
    LookupOutcome::of(
        distinct(files.chain(page).map(location)),
        learned,
        "DataCite knows the work, but no location of its files",
    )
}
