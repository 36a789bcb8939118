//! What a pull says about an ontology: planned, there already, or stored.

use docstokg_hub::redact;

use super::address::has_secret;
use super::examine::Examined;
use super::fetch::Target;
use super::lookup::failure;
use super::ontologies::ActiveOntology;
use super::outcome::{Ending, Pulled};
use super::probe::Probed;
use super::store::Arrived;
use crate::library::{Publication, StoredVersion};
use crate::source::{Absence, AbsenceReason};
use crate::wanted::{Checksum, ChecksumAlgorithm};

/// Describes a location that is not fetched.
pub(super) fn planned(
    item: &ActiveOntology,
    target: &Target,
    probed: &Probed,
    status: Ending,
) -> Pulled {
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
        notes: [&location.notes[..], &item.state.notes, &probed.notes].concat(),
        attempts: item.state.tried.clone(),
        import_depth: item.state.import_depth,
        is_authorised: location.is_authorised,
        is_user_supplied: location.is_user_supplied,
        has_secret_address: has_secret(&target.url),
        ..Pulled::new(item.state.wanted.id.as_str(), status)
    }
}

/// Describes a version that is there already.
pub(super) fn cached(item: &ActiveOntology, target: &Target, known: &StoredVersion) -> Pulled {
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
        checksum: Checksum::parse(&manifest.sha256).ok(),
        path: Some(known.path.display().to_string()),
        imports: manifest.imports.clone(),
        notes: item.state.notes.clone(),
        attempts,
        import_depth: item.state.import_depth,
        is_authorised: target.location.is_authorised,
        is_user_supplied: target.location.is_user_supplied,
        has_secret_address: has_secret(&target.url),
        ..Pulled::new(item.state.wanted.id.as_str(), Ending::Cached)
    }
}

/// Describes what was stored. Content that was there already has not changed.
pub(super) fn pulled(
    item: &ActiveOntology,
    arrived: &Arrived<'_>,
    examined: &Examined,
    version: &StoredVersion,
    publication: Publication,
) -> Pulled {
    let manifest = &version.manifest;
    let status = match publication {
        _ if arrived.is_first => Ending::Fresh,
        Publication::Unchanged => Ending::Cached,
        Publication::New | Publication::Replaced => Ending::Updated,
    };
    let mut notes = manifest.notes.clone();
    let further = item.state.notes.iter();
    notes.extend(
        further
            .filter(|note| !manifest.notes.contains(note))
            .cloned(),
    );
    Pulled {
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
        checksum: Some(Checksum {
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
        ..Pulled::new(item.state.wanted.id.as_str(), status)
    }
}
