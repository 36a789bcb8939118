//! Fetches XBRL taxonomy packages, which are archives on the web sites of their publishers.

use super::{
    AbsenceReason, LookupStep, OntologyLocation, OntologySource, SourceOutcome, SourceSettings,
    SourceSpec,
};
use crate::wanted_ontology::{TargetFormat, WantedOntology};

/// The source for URLs of taxonomy packages, as an [`OntologySource`].
#[derive(Debug)]
pub struct Xbrl;

static SPEC: SourceSpec = SourceSpec {
    about: "the address of an XBRL taxonomy package (url), a zip archive",
    ..SourceSpec::new("xbrl", "XBRL taxonomy package")
};

impl OntologySource for Xbrl {
    fn spec(&self) -> &SourceSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, wanted: &'a WantedOntology, _: &'a SourceSettings) -> LookupStep<'a> {
        let Some(url) = &wanted.url else {
            return SourceOutcome::absent(
                AbsenceReason::Unclear,
                format!(
                    "{} has no address: give that of the package as url",
                    wanted.id
                ),
            );
        };
        LookupStep::Done(SourceOutcome::Found(vec![OntologyLocation {
            accept: Some("application/zip, application/octet-stream;q=0.9, */*;q=0.1".to_owned()),
            is_user_supplied: true,
            format: Some(TargetFormat::Zip),
            version: wanted.version.clone(),
            ..OntologyLocation::new(SPEC.name, url.clone())
        }]))
    }
}
