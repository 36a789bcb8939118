//! HAL: the open archive of French research.
//!
//! The pages are behind a bot challenge. The API finds documents by their DOI or HAL id, and names
//! the main file. A document without a file is a notice, which only refers to other places.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use serde_json::Value;
use url::Url;

use super::deposit::{self, DeclaredIdentity, DepositedFile, WorkTie};
use super::reply::{items, record, text, title, year};
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverSpec, WorkMention};
use super::{BatchStep, LookupOutcome, Resolver, ResolverId, Step, WorkLookupStep};
use crate::identifier::Doi;
use crate::location::{LocationOffer, host_is, joined, link};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of HAL.
pub const ID: ResolverId = ResolverId::new("hal");

static API: SourceEndpoint = SourceEndpoint {
    key: "hal",
    address: "https://api.archives-ouvertes.fr/",
    about: "The API of HAL",
};

/// The [`ResolverSpec`] of HAL.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API],
        about: "it may have a copy that an author deposited",
        ..SourceSpec::new(ID.as_str(), "HAL")
    },
    needs: &[IdentifierNeed::Doi, IdentifierNeed::OwnRecord],
    rank: 70,
    early: Some(EarlyPosition {
        rank: 48,
        when: |work| work.mentions().any(claims),
        why: "the work has a document at HAL",
    }),
    claims,
    ..ResolverSpec::base(ID, |settings| Arc::new(Hal::new(Arc::clone(settings))))
};

/// The fields that are read.
const FIELDS: &str = "halId_s,uri_s,doiId_s,title_s,producedDateY_i,fileMain_s,files_s,openAccess_bool,submitType_s,license_s";

/// Maximum number of documents in one response: several authors may have deposited the same work.
const MAX_DOCUMENTS: &str = "5";

/// The [`Resolver`] that queries HAL.
#[derive(Debug)]
pub struct Hal {
    settings: Arc<Settings>,
}

/// The subject of a query to HAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HalQuery<'a> {
    Doi(&'a Doi),
    Document(&'a str),
}

fn claims(mention: WorkMention<'_>) -> bool {
    mention.link().and_then(document_in).is_some()
}

/// Returns the [`HalQuery`] for a DOI or link of the work.
fn query_of(mention: WorkMention<'_>) -> Option<HalQuery<'_>> {
    match mention {
        WorkMention::Doi(doi) => Some(HalQuery::Doi(doi)),
        WorkMention::Written(url) | WorkMention::Found(url) => {
            document_in(url).map(HalQuery::Document)
        }
    }
}

/// Reads the id of a document, such as `hal-01234567v2`, at a host of HAL. The version is removed.
fn document_in(url: &Url) -> Option<&str> {
    let is_hal = ["hal.science", "archives-ouvertes.fr"]
        .iter()
        .any(|suffix| host_is(url, suffix))
        || url.host_str()?.starts_with("hal.");
    let id = url.path_segments()?.next().filter(|_| is_hal)?;
    let (archive, number) = id.split_once('-')?;
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    let rest = number.get(digits..)?;
    let is_version = rest.is_empty()
        || rest
            .strip_prefix('v')
            .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit()));
    let is_id = !archive.is_empty()
        && archive.bytes().all(|byte| byte.is_ascii_lowercase())
        && digits == 8
        && is_version;
    if is_id {
        id.get(..id.len() - rest.len())
    } else {
        None
    }
}

impl Hal {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn look_up<'a>(
        &'a self,
        query: HalQuery<'a>,
        mention: WorkMention<'a>,
        work: &'a Work,
    ) -> WorkLookupStep<'a> {
        let (field, value) = match query {
            HalQuery::Doi(doi) => ("doiId_s", doi.as_str()),
            HalQuery::Document(id) => ("halId_s", id),
        };
        // A quote in a DOI would end the quoted text.
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        let mut url = self.settings.url(&API, "search/");
        url.query_pairs_mut()
            .append_pair("q", &format!("{field}:\"{value}\""))
            .append_pair("fl", FIELDS)
            .append_pair("wt", "json")
            .append_pair("rows", MAX_DOCUMENTS);
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            let found = record(&self.settings, result, &[404], "/response/docs");
            Step::Done(match found {
                Ok(value) => read(items(&value, "/response/docs"), query, mention, work),
                Err(unanswered) => unanswered.into_outcome("HAL"),
            })
        })
    }
}

/// Reads the documents of a response. Searches also return other documents, so only those with the
/// requested identifier count.
fn read(
    documents: &[Value],
    query: HalQuery<'_>,
    mention: WorkMention<'_>,
    work: &Work,
) -> LookupOutcome {
    let mut locations = Vec::new();
    let mut learned = LearnedMetadata::default();
    let mut why = "HAL does not know it".to_owned();
    for document in documents {
        let doi = one_of(document, "doiId_s").and_then(|doi| doi.parse::<Doi>().ok());
        let is_asked = match query {
            HalQuery::Doi(asked) => doi.as_ref() == Some(asked),
            HalQuery::Document(id) => text(document, "/halId_s") == Some(id),
        };
        if !is_asked {
            continue;
        }
        let stated = DeclaredIdentity {
            dois: doi.into_iter().collect(),
            belongs_to: Vec::new(),
            title: one_of(document, "title_s"),
        };
        let tie = match deposit::tie(mention, work, &stated) {
            Ok(tie) => tie,
            Err(reason) => {
                why = format!("HAL: {reason}");
                continue;
            }
        };
        if tie == WorkTie::Same {
            learned.title = learned.title.or_else(|| stated.title.and_then(title));
            learned.year = learned.year.or_else(|| year(document, "/producedDateY_i"));
            learned.identifiers.doi = learned.identifiers.doi.or(stated.dois.into_iter().next());
        }
        match file(document) {
            Ok(file) => {
                let is_pdf = has_no_other_extension(&file.url);
                let licence = one_of(document, "license_s").map(str::to_owned);
                let mut location = deposit::location(file, ID, tie).licence(licence);
                if !is_pdf {
                    location.offers = LocationOffer::Unknown;
                }
                locations.push(location);
            }
            Err(reason) => why = format!("HAL has the document, but {reason}"),
        }
    }
    LookupOutcome::of(locations, learned, &why)
}

/// Returns the text of a field, or the first text if the field is a list.
fn one_of<'a>(document: &'a Value, field: &str) -> Option<&'a str> {
    text(document, &format!("/{field}")).or_else(|| text(document, &format!("/{field}/0")))
}

/// Returns the main [`DepositedFile`], or the reason why there is no file.
fn file(document: &Value) -> Result<DepositedFile, &'static str> {
    if document.get("openAccess_bool").and_then(Value::as_bool) == Some(false) {
        return Err("its file is not open");
    }
    let only = match items(document, "/files_s") {
        [only] => text(only, ""),
        _ => text(document, "/files_s"),
    };
    let stated = one_of(document, "fileMain_s").or(only).and_then(link);
    let behind_page = || {
        let page = text(document, "/uri_s").and_then(link)?;
        (text(document, "/submitType_s") == Some("file")).then(|| joined(&page, "document"))
    };
    let url = stated.or_else(behind_page).ok_or("it has no file there")?;
    Ok(DepositedFile {
        name: String::new(),
        url,
        size: None,
        checksum: None,
    })
}

/// Tells whether the URL has no extension other than that of a PDF: most main files have no
/// extension.
fn has_no_other_extension(url: &Url) -> bool {
    let name = url.path().rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.')
        .is_none_or(|(_, extension)| extension.eq_ignore_ascii_case("pdf"))
}

impl Resolver for Hal {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        deposit::resolve(works, query_of, move |query, mention, work| {
            self.look_up(query, mention, work)
        })
    }
}
