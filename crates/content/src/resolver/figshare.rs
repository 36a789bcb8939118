//! figshare: items of any kind, at figshare itself and in the repositories of institutions.
//!
//! The pages are scripts behind a bot challenge, but the API names the files with their checksums.
//! An item is looked up by the number in its DOI or link. `resource_doi` names the article that an
//! item belongs to, usually as its supplement, so it never makes the item the article.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use serde_json::Value;
use url::Url;

use super::deposit::{self, DeclaredIdentity, DepositedFile, WorkTie};
use super::order::Preset;
use super::reply::{ReplyFailure, items, json, record, scalar, sort, text, title, year};
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverSpec, WorkMention};
use super::{BatchStep, LookupOutcome, Resolver, ResolverId, Step, WorkLookupStep};
use crate::identifier::Doi;
use crate::location::{LocationChecksum, link};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of figshare.
pub const ID: ResolverId = ResolverId::new("figshare");

static API: SourceEndpoint = SourceEndpoint {
    key: "figshare",
    address: "https://api.figshare.com/v2/",
    about: "The API of figshare",
};

/// The [`ResolverSpec`] of figshare.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API],
        about: "it has the files of its own items",
        ..SourceSpec::new(ID.as_str(), "figshare")
    },
    needs: &[IdentifierNeed::OwnRecord],
    preset: Preset::Fast,
    rank: 64,
    early: Some(EarlyPosition {
        rank: 44,
        when: |work| work.mentions().any(claims),
        why: "the work has an item at figshare",
    }),
    claims,
    ..ResolverSpec::base(ID, |settings| Arc::new(Figshare::new(Arc::clone(settings))))
};

/// Types of items that are not texts.
const NOT_TEXTS: [&str; 9] = [
    "code",
    "dataset",
    "figure",
    "fileset",
    "media",
    "model",
    "online resource",
    "software",
    "workflow",
];

/// The number of files in the record of an item. Further files require a request for the list.
const FILES_IN_ITEM: usize = 10;

/// Maximum number of files in the list.
const MAX_FILES: &str = "200";

/// The [`Resolver`] that queries figshare.
#[derive(Debug)]
pub struct Figshare {
    settings: Arc<Settings>,
}

/// An item, in one version if the mention names a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FigshareItem {
    number: u64,
    version: Option<u32>,
}

fn claims(mention: WorkMention<'_>) -> bool {
    item_of(mention).is_some()
}

/// Returns the [`FigshareItem`] that a DOI or link names. Collections (`figshare.c.1`) are not
/// items.
fn item_of(mention: WorkMention<'_>) -> Option<FigshareItem> {
    match mention {
        WorkMention::Doi(doi) => {
            let named = doi.as_str().strip_prefix("10.6084/m9.figshare.")?;
            let (number, version) = named
                .split_once(".v")
                .map_or((named, None), |(number, version)| (number, Some(version)));
            Some(FigshareItem {
                number: number.parse().ok()?,
                version: version.and_then(|version| version.parse().ok()),
            })
        }
        WorkMention::Written(url) | WorkMention::Found(url) => item_in(url),
    }
}

/// Reads `/articles/TYPE/TITLE/NUMBER[/VERSION]` at a host of figshare.
fn item_in(url: &Url) -> Option<FigshareItem> {
    if !url.host_str()?.split('.').any(|label| label == "figshare") {
        return None;
    }
    let mut parts = url.path_segments()?.skip_while(|part| *part != "articles");
    parts.next()?;
    let number = parts.find_map(|part| part.parse().ok())?;
    Some(FigshareItem {
        number,
        version: parts.next().and_then(|version| version.parse().ok()),
    })
}

impl Figshare {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn look_up<'a>(
        &'a self,
        item: FigshareItem,
        mention: WorkMention<'a>,
        work: &'a Work,
    ) -> WorkLookupStep<'a> {
        let mut path = format!("articles/{}", item.number);
        if let Some(version) = item.version {
            path.push_str(&format!("/versions/{version}"));
        }
        let url = self.settings.url(&API, &path);
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            let value = match record(&self.settings, result, &[404, 410], "/id") {
                Ok(value) => value,
                Err(unanswered) => return Step::Done(unanswered.into_outcome("figshare")),
            };
            if items(&value, "/files").len() < FILES_IN_ITEM {
                return Step::Done(read(item, &value, mention, work));
            }
            self.look_up_files(item, value, mention, work)
        })
    }

    /// Requests the list of all files of an item, and reads the item with them.
    fn look_up_files<'a>(
        &'a self,
        item: FigshareItem,
        mut value: Value,
        mention: WorkMention<'a>,
        work: &'a Work,
    ) -> WorkLookupStep<'a> {
        let path = format!("articles/{}/files", item.number);
        let mut url = self.settings.url(&API, &path);
        url.query_pairs_mut().append_pair("page_size", MAX_FILES);
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            let files = sort(&self.settings, result, &[404, 410])
                .and_then(|response| json(&self.settings, &response).map_err(ReplyFailure::Failed));
            Step::Done(match files {
                Ok(files) => {
                    value["files"] = files;
                    read(item, &value, mention, work)
                }
                Err(unanswered) => unanswered.into_outcome("figshare"),
            })
        })
    }
}

/// Reads the record of an item as a [`LookupOutcome`].
fn read(item: FigshareItem, value: &Value, mention: WorkMention<'_>, work: &Work) -> LookupOutcome {
    if scalar(value, "/id") != Some(item.number.to_string()) {
        return LookupOutcome::not_found("figshare answered with another item");
    }
    let doi = |pointer: &str| text(value, pointer).and_then(|doi| doi.parse::<Doi>().ok());
    let stated = DeclaredIdentity {
        dois: doi("/doi").into_iter().collect(),
        belongs_to: doi("/resource_doi").into_iter().collect(),
        title: text(value, "/title"),
    };
    let tie = match deposit::tie(mention, work, &stated) {
        Ok(tie) => tie,
        Err(why) => return LookupOutcome::not_found(format!("figshare: {why}")),
    };
    let mut learned = LearnedMetadata::default();
    if tie == WorkTie::Same {
        learned.title = stated.title.and_then(title);
        learned.year = year(value, "/published_date");
        learned.identifiers.doi = stated.dois.first().cloned();
    }
    match file(value, stated.title) {
        Ok(file) => {
            let licence = text(value, "/license/name").map(str::to_owned);
            let location = deposit::location(file, ID, tie).licence(licence);
            LookupOutcome::of(vec![location], learned, "")
        }
        Err(why) => LookupOutcome::NotFound {
            detail: format!("figshare has the item, but {why}"),
            learned,
        },
    }
}

/// Returns the [`DepositedFile`] of an item that is the work, or the reason why no file is.
fn file(value: &Value, title: Option<&str>) -> Result<DepositedFile, String> {
    let flag = |name: &str| value.get(name).and_then(Value::as_bool) == Some(true);
    for (name, why) in [
        ("is_embargoed", "it is under embargo"),
        ("is_confidential", "it is confidential"),
        ("is_metadata_record", "it is a record without files"),
        ("download_disabled", "its files cannot be downloaded"),
    ] {
        if flag(name) {
            return Err(why.to_owned());
        }
    }
    if let Some(kind) = text(value, "/defined_type_name")
        && NOT_TEXTS.contains(&kind.to_ascii_lowercase().as_str())
    {
        return Err(format!("it is not a text (type: {kind})"));
    }
    let files = items(value, "/files").iter().filter_map(|file| {
        if file.get("is_link_only").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        let sum = text(file, "/computed_md5").or_else(|| text(file, "/supplied_md5"));
        Some(DepositedFile {
            name: text(file, "/name")?.to_owned(),
            url: link(text(file, "/download_url")?)?,
            size: file.get("size").and_then(Value::as_u64),
            checksum: sum.and_then(LocationChecksum::md5),
        })
    });
    deposit::article(files.collect(), title)
}

impl Resolver for Figshare {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        deposit::resolve(works, item_of, move |item, mention, work| {
            self.look_up(item, mention, work)
        })
    }
}
