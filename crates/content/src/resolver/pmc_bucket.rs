//! The bucket in which `PubMed` Central keeps open-access articles, one folder per version.

use serde_json::Value;
use url::Url;

use super::pmc::{BUCKET, ID};
use super::reply::{Unanswered, record, scalar, sort, text, title, unreadable};
use super::settings::Settings;
use super::xml::{Step, walk};
use super::{Outcome, RequestFailure};
use crate::identifier::Pmcid;
use crate::location::{Checksum, Location, Offers, distinct, joined};
use crate::reason::Reason;
use crate::web::{Ask, Web};
use crate::work::Learned;

/// Statuses by which the bucket says that it does not have something.
const MISSING: [u16; 2] = [403, 404];

/// Most versions of one article that are looked at.
const MOST_VERSIONS: usize = 5;

/// Finds the files of articles: of the version named, else of the newest that has a PDF; XML is
/// taken from the newest that has it. Manuscripts that several funders deposited are no versions of
/// each other: each is a copy of its own.
pub(super) async fn find(
    settings: &Settings,
    articles: &[Pmcid],
    only: bool,
    web: &dyn Web,
) -> Outcome {
    let mut found = Files::default();
    for article in articles {
        if let Err(failure) = found.look(settings, *article, only, web).await {
            if found.locations.is_empty() {
                return Outcome::Failed(failure);
            }
            break;
        }
        if found.has_pdf() {
            break;
        }
    }
    let otherwise = "PubMed Central has neither PDF nor XML of it";
    match (found.learned, articles.first()) {
        (Some(learned), _) => Outcome::of(distinct(found.locations), learned, otherwise),
        (None, Some(article)) => absent(*article),
        (None, None) => Outcome::not_found("it is not in PubMed Central"),
    }
}

/// The files found so far.
#[derive(Default)]
struct Files {
    locations: Vec<Location>,
    learned: Option<Learned>,
    /// The manuscripts seen, by the number that each funder gave them.
    manuscripts: Vec<Option<String>>,
}

impl Files {
    fn has_pdf(&self) -> bool {
        self.locations
            .iter()
            .any(|location| location.offers == Offers::Pdf)
    }

    /// Looks at an article, version by version.
    async fn look(
        &mut self,
        settings: &Settings,
        article: Pmcid,
        only: bool,
        web: &dyn Web,
    ) -> Result<(), RequestFailure> {
        let named = article.version();
        if let Some(version) = named {
            self.look_at(settings, article.at_version(version), web)
                .await?;
            if self.has_pdf() || only {
                return Ok(());
            }
        }
        let mut versions = versions(settings, article, web).await?;
        versions.retain(|version| Some(*version) != named);
        versions.sort_unstable_by(|a, b| b.cmp(a));
        for version in versions.into_iter().take(MOST_VERSIONS) {
            let is_manuscript = self
                .look_at(settings, article.at_version(version), web)
                .await?;
            if self.has_pdf() && !is_manuscript {
                break;
            }
        }
        Ok(())
    }

    /// Looks at one version. Returns whether it is a manuscript, of which another funder may have
    /// another.
    async fn look_at(
        &mut self,
        settings: &Settings,
        version: Pmcid,
        web: &dyn Web,
    ) -> Result<bool, RequestFailure> {
        let url = joined(
            settings.endpoints.of(&BUCKET),
            &format!("metadata/{version}.json"),
        );
        let metadata = match record(
            settings,
            web.ask(Ask::metadata(url, ID)).await,
            &MISSING,
            "/pmcid",
        ) {
            Ok(metadata) => metadata,
            Err(Unanswered::Missing(_)) => return Ok(false),
            Err(Unanswered::Failed(failure)) => return Err(failure),
        };
        let is_manuscript = metadata.get("is_manuscript").and_then(Value::as_bool) == Some(true);
        let number = text(&metadata, "/mid").map(str::to_owned);
        let is_another = is_manuscript && !self.manuscripts.contains(&number);
        let (files, learned) = read(settings, version, &metadata);
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
        Ok(is_manuscript)
    }
}

fn absent(article: Pmcid) -> Outcome {
    let mut learned = Learned::default();
    learned.identifiers.pmcid = Some(article);
    Outcome::NotFound {
        detail: format!("{article} is not among the open-access articles of PubMed Central"),
        learned,
    }
}

/// Lists the versions. The dot at the end of the prefix matters: without it the articles that begin
/// with the same digits are listed too.
async fn versions(
    settings: &Settings,
    article: Pmcid,
    web: &dyn Web,
) -> Result<Vec<u32>, RequestFailure> {
    let mut url = settings.endpoints.of(&BUCKET).clone();
    let prefix = format!("PMC{}.", article.number());
    url.query_pairs_mut()
        .append_pair("list-type", "2")
        .append_pair("delimiter", "/")
        .append_pair("prefix", &prefix);
    let answer = match sort(settings, web.ask(Ask::metadata(url, ID)).await, &MISSING) {
        Ok(answer) => answer,
        Err(Unanswered::Missing(_)) => return Ok(Vec::new()),
        Err(Unanswered::Failed(failure)) => return Err(failure),
    };
    let folders = folders(&answer.body)
        .ok_or_else(|| unreadable(settings, &answer, Reason::XmlError, "listing"))?;
    Ok(folders
        .iter()
        .filter_map(|folder| {
            folder
                .strip_prefix(&prefix)?
                .strip_suffix('/')?
                .parse()
                .ok()
        })
        .collect())
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
fn read(settings: &Settings, article: Pmcid, metadata: &Value) -> (Vec<Location>, Learned) {
    let flag = |name: &str| metadata.get(name).and_then(Value::as_bool) == Some(true);
    let mut learned = Learned {
        title: text(metadata, "/title").and_then(title),
        retracted: flag("is_retracted"),
        ..Learned::default()
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
    let file = |(pointer, offers): (&str, Offers)| {
        let (url, checksum) = object(settings, text(metadata, pointer)?)?;
        let mut location = Location::new(url, offers, ID)
            .licence(licence.clone())
            .version(Some(version.to_owned()));
        location.checksum = checksum;
        Some(location)
    };
    let files = [("/pdf_url", Offers::Pdf), ("/xml_url", Offers::Xml)]
        .into_iter()
        .filter_map(file);
    (files.collect(), learned)
}

/// Turns `s3://bucket/key?md5=hex` into an address that is fetched without keys, and the checksum.
fn object(settings: &Settings, text: &str) -> Option<(Url, Option<Checksum>)> {
    let named = Url::parse(text).ok()?;
    let checksum = named
        .query_pairs()
        .find(|(name, _)| name == "md5")
        .and_then(|(_, hex)| Checksum::md5(&hex));
    if !matches!(named.scheme(), "s3" | "https") {
        return None;
    }
    // Addresses of the older style have the bucket in their path.
    let path = named.path().trim_start_matches('/');
    let key = path.strip_prefix("pmc-oa-opendata/").unwrap_or(path);
    Some((joined(settings.endpoints.of(&BUCKET), key), checksum))
}
