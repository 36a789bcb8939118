//! `PubMed` Central: the open-access files in its public bucket.
//!
//! DOIs and `PubMed` numbers are converted first, many at once. Then the newest version of each
//! article is looked up in the bucket, whose metadata names the files with their checksums. The
//! article pages of PMC are never requested: they respond to robots with a puzzle.

use std::collections::VecDeque;
use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use serde_json::Value;

use super::order::Preset;
use super::pmc_bucket;
use super::reply::{ReplyFailure, items, record, scalar, text};
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverSpec};
use super::{
    BatchStep, LookupOutcome, RequestFailure, Resolver, ResolverId, Step, WorkLookupStep, each,
};
use crate::identifier::{Doi, Identifier, Pmcid, Pmid};
use crate::work::Work;

/// The [`ResolverId`] of `PubMed` Central.
pub const ID: ResolverId = ResolverId::new("pmc");

static CONVERTER: SourceEndpoint = SourceEndpoint {
    key: "pmc_id_converter",
    address: "https://pmc.ncbi.nlm.nih.gov/tools/idconv/api/v1/articles/",
    about: "PMC's converter of identifiers",
};

/// The bucket with the open-access files.
pub(super) static BUCKET: SourceEndpoint = SourceEndpoint {
    key: "pmc_bucket",
    address: "https://pmc-oa-opendata.s3.amazonaws.com/",
    about: "PMC's open-access files",
};

/// The [`ResolverSpec`] of `PubMed` Central.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&CONVERTER, &BUCKET],
        about: "it may have the article among its open-access files",
        ..SourceSpec::new(ID.as_str(), "PubMed Central")
    },
    needs: &[
        IdentifierNeed::PmcId,
        IdentifierNeed::Doi,
        IdentifierNeed::PubMedId,
    ],
    preset: Preset::Fast,
    rank: 40,
    early: Some(EarlyPosition {
        rank: 10,
        when: |work| work.identifiers.pmcid.is_some(),
        why: "a PMC id is known, and its files need no page",
    }),
    has_xml: true,
    ..ResolverSpec::base(ID, |settings| Arc::new(Pmc::new(Arc::clone(settings))))
};

/// Maximum number of identifiers in one conversion.
const MAX_IDS_PER_CONVERSION: usize = 200;

/// The [`Resolver`] that finds open-access articles of `PubMed` Central.
#[derive(Debug)]
pub struct Pmc {
    settings: Arc<Settings>,
}

/// The response of the converter about some identifiers.
struct ConvertedIds {
    asked: Vec<String>,
    records: Result<Vec<ConverterRecord>, RequestFailure>,
}

struct ConverterRecord {
    requested: Option<String>,
    doi: Option<Doi>,
    pmid: Option<Pmid>,
    pmcid: Option<Pmcid>,
}

impl Pmc {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    /// Converts identifiers, one request after the other.
    fn convert(
        &self,
        mut chunks: VecDeque<Vec<String>>,
        mut converted: Vec<ConvertedIds>,
    ) -> Step<'_, Vec<ConvertedIds>> {
        let Some(asked) = chunks.pop_front() else {
            return Step::Done(converted);
        };
        let mut url = self.settings.endpoints.of(&CONVERTER);
        url.query_pairs_mut()
            .append_pair("ids", &asked.join(","))
            .append_pair("format", "json")
            .append_pair("versions", "yes")
            .append_pair("tool", "docstokg");
        if let Some(mailto) = self.settings.credentials.mailto() {
            url.query_pairs_mut().append_pair("email", mailto);
        }
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            let records = match record(&self.settings, result, &[404], "/records") {
                Ok(value) => Ok(items(&value, "/records").iter().map(read_record).collect()),
                Err(ReplyFailure::Missing(_)) => Ok(Vec::new()),
                Err(ReplyFailure::Failed(failure)) => Err(failure),
            };
            converted.push(ConvertedIds { asked, records });
            self.convert(chunks, converted)
        })
    }

    fn one(&self, work: &Work, converted: &[ConvertedIds]) -> WorkLookupStep<'_> {
        match articles_of(work, converted) {
            Ok(articles) => {
                // A user who names a version gets that version or nothing.
                let only =
                    matches!(work.supplied(), Identifier::Pmcid(id) if id.version().is_some());
                pmc_bucket::find(&self.settings, articles, only)
            }
            Err(failure) => Step::Done(LookupOutcome::Failed(failure)),
        }
    }
}

/// Reads one [`ConverterRecord`]: the current version if versions are listed, or else the article.
/// Records of errors have no id.
fn read_record(value: &Value) -> ConverterRecord {
    let current = items(value, "/versions").iter().find(|version| {
        matches!(version.get("current"), Some(Value::Bool(true)))
            || text(version, "/current") == Some("true")
    });
    let current = current
        .and_then(|version| text(version, "/pmcid"))
        .and_then(|id| id.parse().ok());
    ConverterRecord {
        requested: scalar(value, "/requested-id"),
        doi: text(value, "/doi").and_then(|id| id.parse().ok()),
        pmid: scalar(value, "/pmid").and_then(|id| id.parse().ok()),
        pmcid: current.or_else(|| text(value, "/pmcid")?.parse().ok()),
    }
}

/// Returns the articles of a work, each once. Returns a [`RequestFailure`] if the converter could
/// not be queried about the work.
fn articles_of(work: &Work, converted: &[ConvertedIds]) -> Result<Vec<Pmcid>, RequestFailure> {
    let ids = &work.identifiers;
    if ids.pmcid.is_some() {
        return Ok(ids.pmcid.into_iter().collect());
    }
    let Some(asked) = ids
        .doi
        .as_ref()
        .map(Doi::to_string)
        .or_else(|| ids.pmid.map(|id| id.to_string()))
    else {
        return Ok(Vec::new());
    };
    let Some(answer) = converted
        .iter()
        .find(|converted| converted.asked.contains(&asked))
    else {
        return Ok(Vec::new());
    };
    let records = answer.records.as_ref().map_err(RequestFailure::clone)?;
    let is_asked = |record: &&ConverterRecord| {
        record
            .requested
            .as_deref()
            .is_some_and(|requested| requested.eq_ignore_ascii_case(&asked))
            || (record.doi.is_some() && record.doi == ids.doi)
            || (record.pmid.is_some() && record.pmid == ids.pmid)
    };
    let mut articles: Vec<Pmcid> = records
        .iter()
        .filter(is_asked)
        .filter_map(|record| record.pmcid)
        .collect();
    articles.dedup_by_key(|article| article.number());
    Ok(articles)
}

impl Resolver for Pmc {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn batch(&self) -> usize {
        MAX_IDS_PER_CONVERSION
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        // The converter accepts one kind of identifier per request.
        let unknown = || {
            works
                .iter()
                .map(|work| &work.identifiers)
                .filter(|ids| ids.pmcid.is_none())
        };
        let dois: Vec<String> = unknown()
            .filter_map(|ids| ids.doi.as_ref())
            .filter(|doi| !doi.as_str().contains(','))
            .map(Doi::to_string)
            .collect();
        let pmids: Vec<String> = unknown()
            .filter(|ids| ids.doi.is_none())
            .filter_map(|ids| ids.pmid)
            .map(|id| id.to_string())
            .collect();
        let chunks = dois
            .chunks(MAX_IDS_PER_CONVERSION)
            .chain(pmids.chunks(MAX_IDS_PER_CONVERSION));
        self.convert(chunks.map(<[_]>::to_vec).collect(), Vec::new())
            .then(move |converted| each(works, |work| self.one(work, &converted)))
    }
}
