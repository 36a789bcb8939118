//! OSF: preprints of several servers, among them `PsyArXiv` and `SocArXiv`.
//!
//! The pages are scripts, but the API names the primary file of a preprint. A preprint is looked up
//! by the id in its DOI or link. Projects and registrations have DOIs with another prefix, and are
//! not preprints. Without a token the API allows a hundred requests an hour.

use std::sync::Arc;

use docstokg_lookup::message::LookupRequest;
use docstokg_lookup::source_spec::{
    CredentialCarrier, CredentialRecipient, SecretHeader, SourceCredential, SourceEndpoint,
    SourceSpec,
};
use serde_json::Value;
use url::Url;

use super::deposit::{self, DeclaredIdentity, DepositedFile, WorkTie, is_pdf, without_version};
use super::order::Preset;
use super::reply::{record, text, title, year};
use super::settings::Settings;
use super::spec::{EarlyPosition, IdentifierNeed, ResolverSpec, WorkMention};
use super::{BatchStep, LookupOutcome, Resolver, ResolverId, Step, WorkLookupStep};
use crate::identifier::Doi;
use crate::location::{LocationChecksum, host_is, link};
use crate::work::{LearnedMetadata, Work};

/// The [`ResolverId`] of OSF.
pub const ID: ResolverId = ResolverId::new("osf");

static API: SourceEndpoint = SourceEndpoint {
    key: "osf",
    address: "https://api.osf.io/v2/",
    about: "The API of OSF",
};

/// The token, which raises the limit from a hundred requests an hour to ten thousand a day.
pub static TOKEN: SourceCredential = SourceCredential {
    key: "osf_token",
    variable: "OSF_TOKEN",
    about: "The token of OSF, which allows 10,000 requests a day: raise `limits.hosts.api.osf.io` with it",
    default: "none",
    sent: CredentialCarrier::Header(SecretHeader {
        name: "authorization",
        before: "Bearer ",
        to: CredentialRecipient::Endpoints(&[&API]),
        beside: None,
    }),
};

/// The [`ResolverSpec`] of OSF.
pub static SPEC: ResolverSpec = ResolverSpec {
    source: SourceSpec {
        endpoints: &[&API],
        credentials: &[&TOKEN],
        about: "it has the files of its own preprints",
        ..SourceSpec::new(ID.as_str(), "OSF")
    },
    needs: &[IdentifierNeed::OwnRecord],
    preset: Preset::Fast,
    rank: 66,
    early: Some(EarlyPosition {
        rank: 46,
        when: |work| work.mentions().any(claims),
        why: "the work is a preprint at OSF",
    }),
    claims,
    ..ResolverSpec::base(ID, |settings| Arc::new(Osf::new(Arc::clone(settings))))
};

/// The prefix of the DOIs of projects and registrations.
const PROJECTS: &str = "10.17605";

/// The length of an id without version.
const ID_CHARS: usize = 5;

/// The [`Resolver`] that queries OSF.
#[derive(Debug)]
pub struct Osf {
    settings: Arc<Settings>,
}

fn claims(mention: WorkMention<'_>) -> bool {
    preprint_of(mention).is_some()
}

/// Returns the id of the preprint that a DOI or link names, with the version if the mention has
/// one.
fn preprint_of(mention: WorkMention<'_>) -> Option<&str> {
    match mention {
        WorkMention::Doi(doi) => {
            let id = doi.as_str().split_once("/osf.io/")?.1;
            (doi.prefix() != PROJECTS && is_id(id)).then_some(id)
        }
        WorkMention::Written(url) | WorkMention::Found(url) => preprint_in(url),
    }
}

/// Reads `/preprints[/SERVER]/ID` and `/ID`.
fn preprint_in(url: &Url) -> Option<&str> {
    if !host_is(url, "osf.io") {
        return None;
    }
    let parts: Vec<&str> = url
        .path_segments()?
        .filter(|part| !part.is_empty())
        .collect();
    let id = match parts.as_slice() {
        ["preprints", _, id, ..] if is_id(id) => id,
        ["preprints", id, ..] | [id] | [id, "download"] => id,
        _ => return None,
    };
    is_id(id).then_some(*id)
}

fn is_id(text: &str) -> bool {
    let bare = without_version(text);
    bare.len() == ID_CHARS
        && bare
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

impl Osf {
    /// Creates the resolver from shared [`Settings`].
    #[must_use]
    pub const fn new(settings: Arc<Settings>) -> Self {
        Self { settings }
    }

    fn look_up<'a>(
        &'a self,
        id: &'a str,
        mention: WorkMention<'a>,
        work: &'a Work,
    ) -> WorkLookupStep<'a> {
        let mut url = self.settings.url(&API, &format!("preprints/{id}/"));
        url.query_pairs_mut().append_pair("embed", "primary_file");
        let secrets = self.settings.secret_headers(&url);
        let request = LookupRequest::metadata(url, ID.as_str()).secrets(secrets);
        Step::request(request, move |result| {
            Step::Done(
                match record(&self.settings, result, &[404, 410], "/data/id") {
                    Ok(value) => read(id, &value, mention, work),
                    Err(unanswered) => unanswered.into_outcome("OSF"),
                },
            )
        })
    }
}

/// Reads the record of a preprint as a [`LookupOutcome`].
fn read(id: &str, value: &Value, mention: WorkMention<'_>, work: &Work) -> LookupOutcome {
    let answered = text(value, "/data/id").unwrap_or_default();
    if without_version(answered) != without_version(id) {
        return LookupOutcome::not_found("OSF answered with another preprint");
    }
    // `doi` is the published article that the preprint became.
    let dois = ["/data/links/preprint_doi", "/data/attributes/doi"]
        .iter()
        .filter_map(|pointer| text(value, pointer)?.parse::<Doi>().ok());
    let stated = DeclaredIdentity {
        dois: dois.collect(),
        belongs_to: Vec::new(),
        title: text(value, "/data/attributes/title"),
    };
    let tie = match (mention, deposit::tie(mention, work, &stated)) {
        // The id in the DOI is the id of the record.
        (WorkMention::Doi(_), _) => WorkTie::Same,
        (_, Ok(tie)) => tie,
        (_, Err(why)) => return LookupOutcome::not_found(format!("OSF: {why}")),
    };
    let mut learned = LearnedMetadata::default();
    if tie == WorkTie::Same {
        learned.title = stated.title.and_then(title);
        learned.year = year(value, "/data/attributes/date_published");
    }
    match file(value) {
        Ok(file) => LookupOutcome::of(vec![deposit::location(file, ID, tie)], learned, ""),
        Err(why) => LookupOutcome::NotFound {
            detail: format!("OSF has the preprint, but {why}"),
            learned,
        },
    }
}

/// Returns the primary [`DepositedFile`], or the reason why it is not available.
fn file(value: &Value) -> Result<DepositedFile, String> {
    if text(value, "/data/attributes/date_withdrawn").is_some() {
        return Err("it was withdrawn".to_owned());
    }
    let flag = |pointer: &str| value.pointer(pointer).and_then(Value::as_bool);
    if flag("/data/attributes/is_published") == Some(false)
        || flag("/data/attributes/public") == Some(false)
    {
        return Err("it is not published".to_owned());
    }
    let Some(primary) = value.pointer("/data/embeds/primary_file/data") else {
        return Err("its file is not public".to_owned());
    };
    let name = text(primary, "/attributes/name").unwrap_or_default();
    if !is_pdf(name) {
        return Err(format!("its file is not a PDF ({name})"));
    }
    let url = text(primary, "/links/download")
        .and_then(link)
        .ok_or("its file has no address")?;
    let hash = |kind: &str| text(primary, &format!("/attributes/extra/hashes/{kind}"));
    Ok(DepositedFile {
        name: name.to_owned(),
        url,
        size: primary.pointer("/attributes/size").and_then(Value::as_u64),
        checksum: hash("sha256")
            .and_then(LocationChecksum::sha256)
            .or_else(|| hash("md5").and_then(LocationChecksum::md5)),
    })
}

impl Resolver for Osf {
    fn spec(&self) -> &'static ResolverSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, works: &'a [Work]) -> BatchStep<'a> {
        deposit::resolve(works, preprint_of, move |id, mention, work| {
            self.look_up(id, mention, work)
        })
    }
}
