//! Fetching a file: gates first, then conditions, then the file itself.

use std::sync::Arc;

use docstokg_bulk::digest::Fingerprint;
use docstokg_bulk::scheduler::{RunError, RunMode};
use docstokg_bulk::staging::staging_file;
use docstokg_hub::{Downloaded, RequestGroup, redact};
use http::header::{HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderValue, Method, StatusCode};
use url::Url;

use super::lookup::failure;
use super::ontologies::{ActiveOntology, Ontologies};
use super::outcome::{Ending, Pulled};
use super::probe::Probed;
use super::state::Step;
use super::verdict::{self, Verdict};
use super::{Probes, store};
use crate::library::{Manifest, StoredVersion};
use crate::licence::{Judgement, Licence};
use crate::source::{Absence, AbsenceReason, Location};

/// How long a limited portal asks to stay away, in seconds (draft-ietf-httpapi-ratelimit-headers);
/// it sends no Retry-After.
const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// A location that is fetched, after the gates.
pub(super) struct Target {
    pub(super) location: Location,
    pub(super) url: Url,
    pub(super) licence: Option<Licence>,
}

impl Ontologies {
    /// Fetches one location, and takes what came into the state.
    pub(super) async fn fetch(
        &self,
        item: &mut ActiveOntology,
        number: usize,
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let Some(location) = item.state.locations.get(number).cloned() else {
            return Ok(());
        };
        let (source, stated) = (location.source.clone(), location.url.clone());
        let fetched = match self.pass_gates(item, location) {
            Ok(target) => self.fetch_target(item, &target, requests).await,
            Err(absence) => Err(Verdict::Never(absence, None)),
        };
        match fetched {
            Ok(outcome) => {
                self.connectivity.answered();
                item.state.outcome = Some(outcome);
                Ok(())
            }
            Err(verdict) => {
                let step = Step::Fetch(number);
                self.take_verdict(item, step, &source, Some(&stated), verdict)
            }
        }
    }

    /// Judges address and licence before anything is asked.
    fn pass_gates(&self, item: &ActiveOntology, location: Location) -> Result<Target, Absence> {
        let url = self
            .config
            .gate
            .check(&location.url)
            .map_err(|error| Absence {
                reason: AbsenceReason::Gate,
                detail: error.to_string(),
            })?;
        let own = item.state.wanted.license.as_deref().and_then(Licence::read);
        let licence = location.licence.clone().or(own);
        if let Judgement::Refused(why) = self.licences.judge(licence.as_ref()) {
            let id = &item.state.wanted.id;
            return Err(Absence {
                reason: AbsenceReason::Licence,
                detail: format!("{id} is not fetched: {why}"),
            });
        }
        Ok(Target {
            location,
            url,
            licence,
        })
    }

    async fn fetch_target(
        &self,
        item: &mut ActiveOntology,
        target: &Target,
        requests: &Arc<RequestGroup>,
    ) -> Result<Pulled, Verdict> {
        let is_plan = self.options.mode != RunMode::Full;
        let known = self.library.latest(&item.state.wanted.id);
        let known = known.map_err(|error| Verdict::Halt(error.to_string()))?;
        let is_probed =
            is_plan && self.options.probes == Probes::Send || self.options.since.is_some();
        let probed = if is_probed {
            self.probe(&target.location, &target.url, requests).await?
        } else {
            Probed::default()
        };
        if let (Some(since), Some(changed)) = (self.options.since, probed.changed_at())
            && changed < since
        {
            return Ok(Pulled {
                detail: Some(format!("it has not changed since {changed}")),
                ..planned(item, target, &probed, Ending::Skipped)
            });
        }
        if is_plan {
            return Ok(planned(item, target, &probed, Ending::Planned));
        }
        if let Some(known) = &known
            && self.is_unchanged(item, target, known)
        {
            return Ok(cached(item, target, known));
        }
        self.download(item, target, known.as_ref(), requests).await
    }

    /// Tells whether the library has the content already, by what names it at the source or by the
    /// checksum that is pinned.
    fn is_unchanged(&self, item: &ActiveOntology, target: &Target, known: &StoredVersion) -> bool {
        if self.options.force {
            return false;
        }
        let pinned = item
            .state
            .pin
            .as_ref()
            .and_then(|pin| pin.checksum.as_ref());
        if let Some(pinned) = pinned {
            return pinned.value == known.manifest.sha256;
        }
        let revision = &target.location.revision;
        revision.is_some()
            && *revision == known.manifest.revision
            && target.location.source == known.manifest.resolver
    }

    async fn download(
        &self,
        item: &mut ActiveOntology,
        target: &Target,
        known: Option<&StoredVersion>,
        requests: &Arc<RequestGroup>,
    ) -> Result<Pulled, Verdict> {
        let mut request = self.request(Method::GET, &target.location, &target.url, requests);
        if let Some(known) = known.filter(|_| !self.options.force && item.state.pin.is_none()) {
            for (name, value) in conditions(&known.manifest, &target.url) {
                request = request.header(name, value);
            }
        }
        let address = Fingerprint::of(&format!("{} {:?}", target.url, target.location.accept));
        let staged = staging_file(&self.workplace, item.id, address);
        if let Some(parent) = staged.parent() {
            std::fs::create_dir_all(parent).map_err(|error| {
                Verdict::Halt(format!("{} cannot be written: {error}", parent.display()))
            })?;
        }
        item.state.count_attempt();
        let done = self.hub.download_resumable(request, &staged).await;
        let done = done.map_err(|error| verdict::of_error(&error))?;
        if done.head.status == StatusCode::NOT_MODIFIED
            && let Some(known) = known
        {
            return Ok(cached(item, target, known));
        }
        let Some(file) = done.file.clone() else {
            return Err(self.no_file(target, &done));
        };
        let arrived = store::Arrived {
            target,
            head: &done.head,
            file,
            is_first: known.is_none(),
        };
        self.keep(item, arrived, requests).await
    }

    /// Judges an answer without a file. Where a page would have been data, other ways are tried.
    fn no_file(&self, target: &Target, done: &Downloaded) -> Verdict {
        let status = done.head.status;
        let source = self.config.sources.source(&target.location.source);
        let explained = source
            .filter(|_| target.location.is_authorised)
            .and_then(|source| source.explain_status(status));
        let host = done.head.url.host_str().unwrap_or_default();
        let now = self.clock.runtime().boot();
        let judged = verdict::of_status(status, &done.journey, host, explained, now);
        match (judged, reset_in(&done.head.headers)) {
            (Verdict::Later(wait, absence, code), Some(reset)) => {
                Verdict::Later(wait.max(reset), absence, code)
            }
            (judged, _) => judged,
        }
    }
}

/// Describes a location that is not fetched.
fn planned(item: &ActiveOntology, target: &Target, probed: &Probed, status: Ending) -> Pulled {
    let location = &target.location;
    Pulled {
        resolver: Some(location.source.clone()),
        service: Some(location.source.clone()),
        url: Some(redact(&target.url)),
        final_url: probed.final_url.as_ref().map(redact),
        version: location.version.clone(),
        license: target
            .licence
            .as_ref()
            .map(|licence| licence.name().to_owned()),
        media_type: probed.media_type.clone(),
        last_modified: probed.last_modified.clone(),
        content_length: probed.content_length,
        revision: location.revision.clone(),
        checksum: item.state.wanted.checksum.clone(),
        notes: location.notes.clone(),
        attempts: item.state.tried.clone(),
        import_depth: item.state.import_depth,
        is_authorised: location.is_authorised,
        ..Pulled::new(item.state.wanted.id.as_str(), status)
    }
}

/// Tries an address again that gave a page: with a single type, and where the page says.
pub(super) fn try_after_page(
    item: &mut ActiveOntology,
    target: &Target,
    head: &docstokg_hub::Head,
) -> Verdict {
    let further = crate::source::direct::after_page(&target.location, &head.url, &head.headers);
    item.state.found(further);
    let host = head.url.host_str().unwrap_or_default();
    Verdict::Never(
        Absence {
            reason: AbsenceReason::NotAnOntology,
            detail: format!("{host} answered with a web page, not with an ontology"),
        },
        Some(head.status.as_u16()),
    )
}

fn reset_in(headers: &http::HeaderMap) -> Option<std::time::Duration> {
    let seconds: u64 = headers
        .get(RATELIMIT_RESET)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    // Larger numbers are dates, and of no use without the server's clock.
    (seconds <= 86_400).then(|| std::time::Duration::from_secs(seconds))
}

/// Returns what makes a request conditional: the validators of the version that is there, if it
/// came from the same address.
fn conditions(known: &Manifest, url: &Url) -> Vec<(HeaderName, HeaderValue)> {
    if known.url != redact(url) {
        return Vec::new();
    }
    let header = |name, value: &Option<String>| {
        let value = HeaderValue::from_str(value.as_deref()?).ok()?;
        Some((name, value))
    };
    let etag = header(IF_NONE_MATCH, &known.etag);
    let date = header(IF_MODIFIED_SINCE, &known.last_modified);
    etag.into_iter().chain(date).collect()
}

/// Describes a version that is there already.
fn cached(item: &ActiveOntology, target: &Target, known: &StoredVersion) -> Pulled {
    let manifest = &known.manifest;
    let mut attempts = item.state.tried.clone();
    attempts.push(crate::library::Attempted {
        status: "cached".to_owned(),
        reason: None,
        detail: None,
        ..failure(
            &target.location.source,
            Some(&target.url),
            Absence {
                reason: AbsenceReason::NoFile,
                detail: String::new(),
            },
            None,
        )
    });
    Pulled {
        resolver: Some(manifest.resolver.clone()),
        service: Some(manifest.resolver.clone()),
        url: Some(manifest.url.clone()),
        final_url: Some(manifest.final_url.clone()),
        version: Some(manifest.version.clone()),
        license: manifest.license.clone(),
        media_type: manifest.content_type.clone(),
        last_modified: manifest.last_modified.clone(),
        content_length: Some(manifest.content_length),
        revision: manifest.revision.clone(),
        checksum: crate::wanted::Checksum::parse(&manifest.sha256).ok(),
        path: Some(known.path.display().to_string()),
        imports: manifest.imports.clone(),
        attempts,
        import_depth: item.state.import_depth,
        is_authorised: target.location.is_authorised,
        ..Pulled::new(item.state.wanted.id.as_str(), Ending::Cached)
    }
}
