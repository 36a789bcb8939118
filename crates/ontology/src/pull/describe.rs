//! The [`PullOutcome`] of an ontology that is planned, known or stored.

use docstokg_hub::redact;

use super::address::has_secret;
use super::examine::ExaminedFile;
use super::fetch::GatedLocation;
use super::lookup::failure;
use super::ontologies::ActiveOntology;
use super::outcome::{PullEnding, PullOutcome};
use super::probe::ProbeResult;
use super::store::ReceivedFile;
use crate::library::{Publication, StoredVersion};
use crate::source::{Absence, AbsenceReason};
use crate::wanted_ontology::{ChecksumAlgorithm, FileChecksum};

/// Returns the outcome for a location that was found but will not be fetched.
pub(super) fn planned(
    item: &ActiveOntology,
    target: &GatedLocation,
    probed: &ProbeResult,
    status: PullEnding,
) -> PullOutcome {
    let location = &target.location;
    PullOutcome {
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
        notes: [&location.notes[..], &item.state.notes, &probed.notes].concat(),
        attempts: item.state.tried.clone(),
        import_depth: item.state.import_depth,
        is_authorised: location.is_authorised,
        is_user_supplied: location.is_user_supplied,
        has_secret_address: has_secret(&target.url),
        ..PullOutcome::new(item.state.wanted.id.as_str(), status)
    }
}

/// Returns the outcome for a version that the library has already.
pub(super) fn cached(
    item: &ActiveOntology,
    target: &GatedLocation,
    known: &StoredVersion,
) -> PullOutcome {
    let manifest = &known.manifest;
    let mut attempts = item.state.tried.clone();
    attempts.push(crate::library::TriedLocation {
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
    PullOutcome {
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
        checksum: FileChecksum::parse(&manifest.sha256).ok(),
        path: Some(known.path.display().to_string()),
        imports: manifest.imports.clone(),
        notes: item.state.notes.clone(),
        attempts,
        import_depth: item.state.import_depth,
        is_authorised: target.location.is_authorised,
        is_user_supplied: target.location.is_user_supplied,
        has_secret_address: has_secret(&target.url),
        ..PullOutcome::new(item.state.wanted.id.as_str(), PullEnding::Cached)
    }
}

/// Returns the outcome for a version that was published. If the library had the content already,
/// the ontology counts as unchanged.
pub(super) fn pulled(
    item: &ActiveOntology,
    arrived: &ReceivedFile<'_>,
    examined: &ExaminedFile,
    version: &StoredVersion,
    publication: Publication,
) -> PullOutcome {
    let manifest = &version.manifest;
    let status = match publication {
        _ if arrived.is_first => PullEnding::Fresh,
        Publication::Unchanged => PullEnding::Cached,
        Publication::New | Publication::Replaced => PullEnding::Updated,
    };
    let mut notes = manifest.notes.clone();
    let further = item.state.notes.iter();
    notes.extend(
        further
            .filter(|note| !manifest.notes.contains(note))
            .cloned(),
    );
    PullOutcome {
        resolver: Some(manifest.resolver.clone()),
        service: Some(manifest.resolver.clone()),
        url: Some(redact(&arrived.target.url)),
        final_url: Some(redact(&arrived.head.url)),
        version: Some(manifest.version.clone()),
        license: manifest.license.clone(),
        media_type: manifest.content_type.clone(),
        last_modified: manifest.last_modified.clone(),
        content_length: Some(manifest.content_length),
        revision: manifest.revision.clone(),
        checksum: Some(FileChecksum {
            algorithm: ChecksumAlgorithm::Sha256,
            value: manifest.sha256.clone(),
        }),
        path: Some(version.path.display().to_string()),
        statements: examined.statements,
        terms: examined.terms,
        imports: manifest.imports.clone(),
        notes,
        attempts: manifest.resolver_attempts.clone(),
        import_depth: item.state.import_depth,
        is_authorised: arrived.target.location.is_authorised,
        is_user_supplied: arrived.target.location.is_user_supplied,
        has_secret_address: has_secret(&arrived.target.url),
        ..PullOutcome::new(item.state.wanted.id.as_str(), status)
    }
}
