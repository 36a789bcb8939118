//! The bucket in which `PubMed` Central keeps open-access articles, one folder per version.

use serde_json::Value;
use url::Url;

use super::pmc::NAME;
use super::reply::{Unanswered, record, scalar, sort, text, title, unreadable};
use super::settings::Settings;
use super::xml::{Step, walk};
use super::{Failure, Outcome};
use crate::identifier::Pmcid;
use crate::location::{Checksum, Location, Offers, distinct, joined};
use crate::reason::Reason;
use crate::web::{Ask, Web};
use crate::work::Learned;

/// Statuses by which the bucket says that it does not have something.
const MISSING: [u16; 2] = [403, 404];

/// Finds the files of an article: of the version named, else of the newest.
pub(super) async fn find(settings: &Settings, article: Pmcid, web: &dyn Web) -> Outcome {
    let version = match article.version() {
        Some(_) => article,
        None => match newest(settings, article, web).await {
            Ok(Some(version)) => article.at_version(version),
            Ok(None) => return absent(article),
            Err(failure) => return Outcome::Failed(failure),
        },
    };
    let url = joined(&settings.endpoints.pmc_bucket, &format!("metadata/{version}.json"));
    match record(settings, web.ask(Ask::metadata(url, NAME)).await, &MISSING, "/pmcid") {
        Ok(metadata) => read(settings, version, &metadata),
        Err(Unanswered::Missing(_)) => absent(version),
        Err(Unanswered::Failed(failure)) => Outcome::Failed(failure),
    }
}

fn absent(article: Pmcid) -> Outcome {
    let mut learned = Learned::default();
    learned.identifiers.pmcid = Some(article);
    Outcome::NotFound { detail: format!("{article} is not among the open-access articles of PubMed Central"), learned }
}

/// Lists the versions. The dot at the end of the prefix matters: without it the articles that begin with the same digits are listed too.
async fn newest(settings: &Settings, article: Pmcid, web: &dyn Web) -> Result<Option<u32>, Failure> {
    let mut url = settings.endpoints.pmc_bucket.clone();
    let prefix = format!("PMC{}.", article.number());
    url.query_pairs_mut().append_pair("list-type", "2").append_pair("delimiter", "/").append_pair("prefix", &prefix);
    let answer = match sort(settings, web.ask(Ask::metadata(url, NAME)).await, &MISSING) {
        Ok(answer) => answer,
        Err(Unanswered::Missing(_)) => return Ok(None),
        Err(Unanswered::Failed(failure)) => return Err(failure),
    };
    let folders = folders(&answer.body).ok_or_else(|| unreadable(settings, &answer, Reason::XmlError, "listing"))?;
    Ok(folders.iter().filter_map(|folder| folder.strip_prefix(&prefix)?.strip_suffix('/')?.parse().ok()).max())
}

/// Reads the folders of a listing; `None` when it is none.
fn folders(body: &[u8]) -> Option<Vec<String>> {
    let mut folders = Vec::new();
    let root = walk(body, |step| {
        if let Step::Text([_, parent, name], text) = step
            && parent == "CommonPrefixes"
            && name == "Prefix"
        {
            folders.push(text.trim().to_owned());
        }
    })?;
    (root == "ListBucketResult").then_some(folders)
}

/// Reads the metadata of one version.
fn read(settings: &Settings, article: Pmcid, metadata: &Value) -> Outcome {
    let flag = |name: &str| metadata.get(name).and_then(Value::as_bool) == Some(true);
    let mut learned = Learned { title: text(metadata, "/title").and_then(title), retracted: flag("is_retracted"), ..Learned::default() };
    learned.identifiers.pmcid = Some(article);
    learned.identifiers.doi = text(metadata, "/doi").and_then(|id| id.parse().ok());
    learned.identifiers.pmid = scalar(metadata, "/pmid").and_then(|id| id.parse().ok());
    let licence = text(metadata, "/license_code").map(str::to_owned);
    let version = if flag("is_manuscript") { "acceptedVersion" } else { "publishedVersion" };
    let file = |(pointer, offers): (&str, Offers)| {
        let (url, checksum) = object(settings, text(metadata, pointer)?)?;
        let mut location = Location::new(url, offers, NAME).licence(licence.clone()).version(Some(version.to_owned()));
        location.checksum = checksum;
        Some(location)
    };
    let files = [("/pdf_url", Offers::Pdf), ("/xml_url", Offers::Xml)].into_iter().filter_map(file);
    Outcome::of(distinct(files), learned, "PubMed Central has neither PDF nor XML of it")
}

/// Turns `s3://bucket/key?md5=hex` into an address that is fetched without keys, and the checksum.
fn object(settings: &Settings, text: &str) -> Option<(Url, Option<Checksum>)> {
    let named = Url::parse(text).ok()?;
    let checksum = named.query_pairs().find(|(name, _)| name == "md5").and_then(|(_, hex)| Checksum::md5(&hex));
    if !matches!(named.scheme(), "s3" | "https") {
        return None;
    }
    // Addresses of the older style have the bucket in their path.
    let path = named.path().trim_start_matches('/');
    let key = path.strip_prefix("pmc-oa-opendata/").unwrap_or(path);
    Some((joined(&settings.endpoints.pmc_bucket, key), checksum))
}
