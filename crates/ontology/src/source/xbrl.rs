//! XBRL taxonomy packages: archives that a publisher offers at an address of its own.

use super::{AbsenceReason, Location, Outcome, Source, SourceSettings, SourceSpec, Step};
use crate::wanted::{TargetFormat, Wanted};

/// Taxonomy packages.
#[derive(Debug)]
pub struct Xbrl;

static SPEC: SourceSpec = SourceSpec {
    about: "the address of an XBRL taxonomy package (url), a zip archive",
    ..SourceSpec::new("xbrl", "XBRL taxonomy package")
};

impl Source for Xbrl {
    fn spec(&self) -> &SourceSpec {
        &SPEC
    }

    fn begin<'a>(&'a self, wanted: &'a Wanted, _: &'a SourceSettings) -> Step<'a> {
        let Some(url) = &wanted.url else {
            return Outcome::absent(
                AbsenceReason::Unclear,
                format!(
                    "{} has no address: give that of the package as url",
                    wanted.id
                ),
            );
        };
        Step::Done(Outcome::Found(vec![Location {
            accept: Some("application/zip, application/octet-stream;q=0.9, */*;q=0.1".to_owned()),
            is_user_supplied: true,
            format: Some(TargetFormat::Zip),
            version: wanted.version.clone(),
            ..Location::new(SPEC.name, url.clone())
        }]))
    }
}
