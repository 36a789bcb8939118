//! The bucket of open-access articles of `PubMed` Central, with one folder per version.

use std::collections::VecDeque;

use docstokg_lookup::message::{LookupRequest, LookupResponse};
use serde_json::Value;
use url::Url;

use super::pmc::{BUCKET, ID};
use super::reply::{ReplyFailure, record, scalar, sort, text, title, unreadable};
use super::settings::Settings;
use super::xml::{self, walk};
use super::{LookupOutcome, RequestFailure, Step, WorkLookupStep};
use crate::identifier::Pmcid;
use crate::location::{CandidateLocation, LocationChecksum, LocationOffer, distinct};
use crate::reason::Reason;
use crate::work::LearnedMetadata;

/// Statuses with which the bucket reports a missing object.
const MISSING_STATUSES: [u16; 2] = [403, 404];

/// Maximum number of versions of one article that are read.
const MAX_READ_VERSIONS: usize = 5;

/// Finds the files of articles. `only` means that a named version is the only acceptable one.
///
/// A named version comes first, then the newest version with a PDF; XML comes from the newest
/// version with XML. Manuscripts from several funders are separate copies and not versions of each
/// other.
pub(super) fn find(settings: &Settings, articles: Vec<Pmcid>, only: bool) -> WorkLookupStep<'_> {
    let first = articles.first().copied();
    let search = BucketSearch { settings, only };
    let searched = search.articles(articles.into(), BucketFiles::default());
    searched.then(move |(found, searched)| {
        let otherwise = "PubMed Central has neither PDF nor XML of it";
        Step::Done(match (searched, found.learned, first) {
            (Err(failure), ..) if found.locations.is_empty() => LookupOutcome::Failed(failure),
            (_, Some(learned), _) => {
                LookupOutcome::of(distinct(found.locations), learned, otherwise)
            }
            (_, None, Some(article)) => absent(article),
            (_, None, None) => LookupOutcome::not_found("it is not in PubMed Central"),
        })
    })
}

/// The [`BucketFiles`] found so far, with the result of the step, or the failure that ends the
/// search.
type SearchResult<T> = (BucketFiles, Result<T, RequestFailure>);

/// A search for the files of one work.
#[derive(Clone, Copy)]
struct BucketSearch<'a> {
    settings: &'a Settings,
    only: bool,
}

impl<'a> BucketSearch<'a> {
    /// Reads articles until an article has a PDF.
    fn articles(
        self,
        mut articles: VecDeque<Pmcid>,
        found: BucketFiles,
    ) -> Step<'a, SearchResult<()>> {
        let Some(article) = articles.pop_front() else {
            return Step::Done((found, Ok(())));
        };
        self.article(article, found).then(move |(found, looked)| {
            if looked.is_err() || found.has_pdf() {
                Step::Done((found, looked))
            } else {
                self.articles(articles, found)
            }
        })
    }

    /// Reads the version that a [`Pmcid`] names, then the others.
    fn article(self, article: Pmcid, found: BucketFiles) -> Step<'a, SearchResult<()>> {
        let Some(named) = article.version() else {
            return self.listed(article, found);
        };
        let named = self.version(article.at_version(named), found);
        named.then(move |(found, looked)| {
            if looked.is_err() || found.has_pdf() || self.only {
                Step::Done((found, looked.map(|_| ())))
            } else {
                self.listed(article, found)
            }
        })
    }

    /// Lists the versions of an article and reads them. The prefix ends with a dot, because
    /// otherwise the list would contain articles whose numbers begin with the same digits.
    fn listed(self, article: Pmcid, found: BucketFiles) -> Step<'a, SearchResult<()>> {
        let mut url = self.settings.endpoints.of(&BUCKET);
        let prefix = format!("PMC{}.", article.number());
        url.query_pairs_mut()
            .append_pair("list-type", "2")
            .append_pair("delimiter", "/")
            .append_pair("prefix", &prefix);
        Step::request(
            LookupRequest::metadata(url, ID.as_str()),
            move |result| match versions(self.settings, &prefix, result) {
                Ok(mut versions) => {
                    versions.retain(|version| Some(*version) != article.version());
                    versions.sort_unstable_by(|a, b| b.cmp(a));
                    versions.truncate(MAX_READ_VERSIONS);
                    self.newest(article, versions.into(), found)
                }
                Err(failure) => Step::Done((found, Err(failure))),
            },
        )
    }

    /// Reads versions until a version has a PDF. Another funder may have another manuscript.
    fn newest(
        self,
        article: Pmcid,
        mut versions: VecDeque<u32>,
        found: BucketFiles,
    ) -> Step<'a, SearchResult<()>> {
        let Some(version) = versions.pop_front() else {
            return Step::Done((found, Ok(())));
        };
        let version = self.version(article.at_version(version), found);
        version.then(move |(found, looked)| match looked {
            Ok(is_manuscript) if is_manuscript || !found.has_pdf() => {
                self.newest(article, versions, found)
            }
            looked => Step::Done((found, looked.map(|_| ()))),
        })
    }

    /// Reads one version. Returns whether the version is a manuscript.
    fn version(self, version: Pmcid, mut found: BucketFiles) -> Step<'a, SearchResult<bool>> {
        let path = format!("metadata/{version}.json");
        let url = self.settings.url(&BUCKET, &path);
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            let looked = match record(self.settings, result, &MISSING_STATUSES, "/pmcid") {
                Ok(metadata) => Ok(found.add(self.settings, version, &metadata)),
                Err(ReplyFailure::Missing(_)) => Ok(false),
                Err(ReplyFailure::Failed(failure)) => Err(failure),
            };
            Step::Done((found, looked))
        })
    }
}

/// The files found so far.
#[derive(Default)]
struct BucketFiles {
    locations: Vec<CandidateLocation>,
    learned: Option<LearnedMetadata>,
    /// The manuscripts found, by the number that each funder assigned.
    manuscripts: Vec<Option<String>>,
}

impl BucketFiles {
    fn has_pdf(&self) -> bool {
        self.locations
            .iter()
            .any(|location| location.offers == LocationOffer::Pdf)
    }

    /// Adds the files of one version. Returns whether the version is a manuscript.
    fn add(&mut self, settings: &Settings, version: Pmcid, metadata: &Value) -> bool {
        let is_manuscript = metadata.get("is_manuscript").and_then(Value::as_bool) == Some(true);
        let number = text(metadata, "/mid").map(str::to_owned);
        let is_another = is_manuscript && !self.manuscripts.contains(&number);
        let (files, learned) = read(settings, version, metadata);
        for file in files {
            let is_new = self
                .locations
                .iter()
                .all(|known| known.offers != file.offers);
            if is_new || is_another {
                self.locations.push(file);
            }
        }
        if is_manuscript {
            self.manuscripts.push(number);
        }
        self.learned.get_or_insert(learned);
        is_manuscript
    }
}

fn absent(article: Pmcid) -> LookupOutcome {
    let mut learned = LearnedMetadata::default();
    learned.identifiers.pmcid = Some(article);
    LookupOutcome::NotFound {
        detail: format!("{article} is not among the open-access articles of PubMed Central"),
        learned,
    }
}

/// Reads the versions in a listing.
fn versions(
    settings: &Settings,
    prefix: &str,
    result: Result<LookupResponse, RequestFailure>,
) -> Result<Vec<u32>, RequestFailure> {
    let response = match sort(settings, result, &MISSING_STATUSES) {
        Ok(response) => response,
        Err(ReplyFailure::Missing(_)) => return Ok(Vec::new()),
        Err(ReplyFailure::Failed(failure)) => return Err(failure),
    };
    let folders = folders(&response.body)
        .ok_or_else(|| unreadable(settings, &response, Reason::XmlError, "listing"))?;
    Ok(folders
        .iter()
        .filter_map(|folder| folder.strip_prefix(prefix)?.strip_suffix('/')?.parse().ok())
        .collect())
}

/// Reads the folders in a listing. Returns `None` if the body is not a listing.
fn folders(body: &[u8]) -> Option<Vec<String>> {
    let mut folders = Vec::new();
    let root = walk(body, |step| {
        if let xml::XmlStep::Text([_, parent, name], text) = step
            && parent == "CommonPrefixes"
            && name == "Prefix"
        {
            folders.push(text.trim().to_owned());
        }
    })?;
    (root == "ListBucketResult").then_some(folders)
}

/// Reads the metadata of one version.
fn read(
    settings: &Settings,
    article: Pmcid,
    metadata: &Value,
) -> (Vec<CandidateLocation>, LearnedMetadata) {
    let flag = |name: &str| metadata.get(name).and_then(Value::as_bool) == Some(true);
    let mut learned = LearnedMetadata {
        title: text(metadata, "/title").and_then(title),
        retracted: flag("is_retracted"),
        ..LearnedMetadata::default()
    };
    learned.identifiers.pmcid = Some(article);
    learned.identifiers.doi = text(metadata, "/doi").and_then(|id| id.parse().ok());
    learned.identifiers.pmid = scalar(metadata, "/pmid").and_then(|id| id.parse().ok());
    let licence = text(metadata, "/license_code").map(str::to_owned);
    let version = if flag("is_manuscript") {
        "acceptedVersion"
    } else {
        "publishedVersion"
    };
    let file = |(pointer, offers): (&str, LocationOffer)| {
        let (url, checksum) = object(settings, text(metadata, pointer)?)?;
        let mut location = CandidateLocation::new(url, offers, ID)
            .licence(licence.clone())
            .version(Some(version.to_owned()));
        location.checksum = checksum;
        Some(location)
    };
    let files = [
        ("/pdf_url", LocationOffer::Pdf),
        ("/xml_url", LocationOffer::Xml),
    ]
    .into_iter()
    .filter_map(file);
    (files.collect(), learned)
}

/// Converts `s3://bucket/key?md5=hex` into a public URL and its [`LocationChecksum`].
fn object(settings: &Settings, text: &str) -> Option<(Url, Option<LocationChecksum>)> {
    let named = Url::parse(text).ok()?;
    let checksum = named
        .query_pairs()
        .find(|(name, _)| name == "md5")
        .and_then(|(_, hex)| LocationChecksum::md5(&hex));
    if !matches!(named.scheme(), "s3" | "https") {
        return None;
    }
    // URLs of the older style have the bucket in their path.
    let path = named.path().trim_start_matches('/');
    let key = path.strip_prefix("pmc-oa-opendata/").unwrap_or(path);
    Some((settings.url(&BUCKET, key), checksum))
}
