//! Zenodo: records of any kind, each with its own DOI and any number of files.
//!
//! The pages are scripts, but the API names the files with their checksums. A record is looked up
//! by the number in its DOI or link. The number of a concept, which stands for all versions of a
//! record, leads to the newest version.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{SourceEndpoint, SourceSpec};
use serde_json::Value;

use super::deposit::{self, DeclaredIdentity, DepositedFile};
use super::order::Preset;
use super::reply::{items, record, scalar, text, title, year};
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverSpec, WorkMention};
use super::{BatchStep, LookupOutcome, Resolver, ResolverId, Step, WorkLookupStep};
use crate::identifier::Doi;
use crate::location::{LocationChecksum, host_is, link};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of Zenodo.
pub const ID: ResolverId = ResolverId::new("zenodo");

static API: SourceEndpoint = SourceEndpoint {
    key: "zenodo",
    address: "https://zenodo.org/api/",
    about: "The API of Zenodo",
};

/// The [`ResolverSpec`] of Zenodo.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API],
        about: "it has the files of its own records",
        ..SourceSpec::new(ID.as_str(), "Zenodo")
    },
    needs: &[IdentifierNeed::OwnRecord],
    preset: Preset::Fast,
    rank: 62,
    early: Some(EarlyPosition {
        rank: 42,
        when: |work| work.mentions().any(claims),
        why: "the work has a record at Zenodo",
    }),
    claims,
    ..ResolverSpec::base(ID, |settings| Arc::new(Zenodo::new(Arc::clone(settings))))
};

/// Kinds of records that are not texts.
const NOT_TEXTS: [&str; 8] = [
    "dataset",
    "event",
    "image",
    "model",
    "physicalobject",
    "software",
    "video",
    "workflow",
];

/// Relations which mean that another DOI names the same work.
const SAME_WORK: [&str; 3] = ["isidenticalto", "isversionof", "isalternateidentifier"];

/// Relations which mean that a record only belongs to another work.
const BELONGS_TO: [&str; 3] = ["issupplementto", "ispartof", "isderivedfrom"];

/// The [`Resolver`] that queries Zenodo.
#[derive(Debug)]
pub struct Zenodo {
    settings: Arc<Settings>,
}

fn claims(mention: WorkMention<'_>) -> bool {
    number_of(mention).is_some()
}

/// Returns the number of the record that a DOI or link names.
fn number_of(mention: WorkMention<'_>) -> Option<u64> {
    let named = match mention {
        WorkMention::Doi(doi) => doi.as_str().strip_prefix("10.5281/zenodo.")?,
        WorkMention::Written(url) | WorkMention::Found(url) => {
            if !host_is(url, "zenodo.org") {
                return None;
            }
            let path = url.path().trim_start_matches("/api");
            ["/records/", "/record/", "/doi/10.5281/zenodo."]
                .iter()
                .find_map(|prefix| path.strip_prefix(prefix))?
                .split('/')
                .next()?
        }
    };
    named.parse().ok()
}

impl Zenodo {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn look_up<'a>(
        &'a self,
        number: u64,
        mention: WorkMention<'a>,
        work: &'a Work,
    ) -> WorkLookupStep<'a> {
        let url = self.settings.url(&API, &format!("records/{number}"));
        Step::request(LookupRequest::metadata(url, ID.as_str()), move |result| {
            Step::Done(match record(&self.settings, result, &[404, 410], "/id") {
                Ok(value) => read(number, &value, mention, work),
                Err(unanswered) => unanswered.into_outcome("Zenodo"),
            })
        })
    }
}

/// Reads a record as a [`LookupOutcome`].
fn read(number: u64, value: &Value, mention: WorkMention<'_>, work: &Work) -> LookupOutcome {
    let is_asked = ["/id", "/conceptrecid", "/recid"]
        .iter()
        .any(|pointer| scalar(value, pointer) == Some(number.to_string()));
    if !is_asked {
        return LookupOutcome::not_found("Zenodo answered with another record");
    }
    let stated = stated(value);
    let tie = match deposit::tie(mention, work, &stated) {
        Ok(tie) => tie,
        Err(why) => return LookupOutcome::not_found(format!("Zenodo: {why}")),
    };
    let mut learned = LearnedMetadata::default();
    if tie == deposit::WorkTie::Same {
        learned.title = stated.title.and_then(title);
        learned.year = year(value, "/metadata/publication_date");
        learned.identifiers.doi = stated.dois.first().cloned();
    }
    match file(value, stated.title) {
        Ok(file) => {
            let licence = text(value, "/metadata/license/id").map(str::to_owned);
            let location = deposit::location(file, ID, tie).licence(licence);
            LookupOutcome::of(vec![location], learned, "")
        }
        Err(why) => LookupOutcome::NotFound {
            detail: format!("Zenodo has the record, but {why}"),
            learned,
        },
    }
}

fn stated(value: &Value) -> DeclaredIdentity<'_> {
    let doi = |pointer: &str| text(value, pointer).and_then(|doi| doi.parse::<Doi>().ok());
    let related = |relations: &[&str]| -> Vec<Doi> {
        items(value, "/metadata/related_identifiers")
            .iter()
            .filter(|related| {
                text(related, "/relation").is_some_and(|relation| {
                    relations.contains(&relation.to_ascii_lowercase().as_str())
                })
            })
            .filter_map(|related| text(related, "/identifier")?.parse().ok())
            .collect()
    };
    let mut dois: Vec<Doi> = ["/doi", "/conceptdoi", "/metadata/doi"]
        .iter()
        .filter_map(|pointer| doi(pointer))
        .collect();
    dois.extend(related(&SAME_WORK));
    DeclaredIdentity {
        dois,
        belongs_to: related(&BELONGS_TO),
        title: text(value, "/metadata/title"),
    }
}

/// Returns the [`DepositedFile`] of a record that is the work, or the reason why no file is.
fn file(value: &Value, title: Option<&str>) -> Result<DepositedFile, String> {
    match text(value, "/metadata/access_right") {
        Some("open") => {}
        Some(right) => return Err(format!("its files are not open (access right: {right})")),
        None => return Err("it does not say that its files are open".to_owned()),
    }
    if let Some(kind) = text(value, "/metadata/resource_type/type")
        && NOT_TEXTS.contains(&kind.to_ascii_lowercase().as_str())
    {
        return Err(format!("it is not a text (type: {kind})"));
    }
    let files = items(value, "/files").iter().filter_map(|file| {
        let checksum = text(file, "/checksum").and_then(|sum| sum.strip_prefix("md5:"));
        Some(DepositedFile {
            name: text(file, "/key")?.to_owned(),
            url: link(text(file, "/links/self")?)?,
            size: file.get("size").and_then(Value::as_u64),
            checksum: checksum.and_then(LocationChecksum::md5),
        })
    });
    deposit::article(files.collect(), title)
}

impl Resolver for Zenodo {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        deposit::resolve(works, number_of, move |number, mention, work| {
            self.look_up(number, mention, work)
        })
    }
}
