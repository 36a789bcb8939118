use docstokg_content::resolver::{Applicability, IdentifierNeed, Resolver, Zenodo};
use docstokg_content::work::Work;
use url::Url;

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, resolve, settings, show, work,
};

const API: &str = "https://zenodo.org/api/records/";

fn answered(fixture_path: &str, work: Work) -> String {
    let web = Script::new().on(API, 200, fixture(fixture_path));
    show(&resolve(&Zenodo::new(settings()), &[work], &web)[0])
}

/// A work of another DOI, of which another resolver found this link.
fn found(doi: &str, link: &str) -> Work {
    let mut work = work(doi);
    work.record_links = vec![Url::parse(link).unwrap()];
    work
}

#[test]
fn the_article_among_the_files_of_a_record_is_taken_with_its_checksum() {
    for (id, asked) in [
        ("10.5281/zenodo.7000123", "7000123"),
        // The concept leads to its newest version.
        ("10.5281/zenodo.7000122", "7000122"),
        ("https://zenodo.org/record/7000123#x", "7000123"),
        ("https://zenodo.org/records/7000123/files/a.csv", "7000123"),
    ] {
        let web = Script::new().on(API, 200, fixture("zenodo/record.json"));
        let shown = show(&ask(&Zenodo::new(settings()), &[id], &web)[0]);
        assert_eq!(web.asked(), [format!("{API}{asked}")]);
        assert_eq!(
            shown,
            "Pdf https://zenodo.org/api/records/7000123/files/street%20trees.pdf/content [cc-by-4.0] \
             Md5(\"4a8a08f09d37b73795649038408b5f33\")\n\
             learned doi:10.5281/zenodo.7000123 'Street trees and summer heat in five towns' 2022"
        );
    }
}

#[test]
fn a_record_that_another_resolver_named_counts_as_far_as_it_says_that_it_is_the_work() {
    let link = "https://zenodo.org/records/7000123";
    let same = answered("zenodo/record.json", found("10.1000/heat.17", link));
    assert!(
        same.starts_with("Pdf ") && same.contains("learned doi:"),
        "{same}"
    );
    let unproven = |work: Work| {
        let web = Script::new().on(API, 200, fixture("zenodo/record.json"));
        let outcome = resolve(&Zenodo::new(settings()), &[work], &web).remove(0);
        match outcome {
            docstokg_content::resolver::LookupOutcome::Found(found) => {
                Some(found.locations[0].needs_evidence)
            }
            _ => None,
        }
    };
    assert_eq!(unproven(found("10.1000/heat.17", link)), Some(false));
    assert_eq!(unproven(found("10.1000/unrelated", link)), Some(true));
    let mut other = found("10.1000/unrelated", link);
    other.title = Some("A grammar of extinct river languages".to_owned());
    assert_eq!(unproven(other), None);
}

#[test]
fn datasets_supplements_and_embargoed_files_are_not_the_paper() {
    let not_found = |path: &str, work: Work| {
        let shown = answered(path, work);
        assert!(shown.starts_with("not found: "), "{shown}");
        shown.lines().next().unwrap().to_owned()
    };
    assert_eq!(
        not_found("zenodo/dataset.json", work("10.5281/zenodo.7000200")),
        "not found: Zenodo has the record, but it is not a text (type: dataset)"
    );
    assert_eq!(
        not_found(
            "zenodo/dataset.json",
            found("10.1000/heat.17", "https://zenodo.org/records/7000200")
        ),
        "not found: Zenodo: the record belongs to the work and is not the work itself"
    );
    assert_eq!(
        not_found("zenodo/embargoed.json", work("10.5281/zenodo.7000300")),
        "not found: Zenodo has the record, but its files are not open (access right: embargoed)"
    );
    assert_eq!(
        not_found("zenodo/record.json", work("10.5281/zenodo.1")),
        "not found: Zenodo answered with another record"
    );
}

#[test]
fn nonsense_has_reasons() {
    let zenodo = Zenodo::new(settings());
    assert_bad_answers_have_reasons(&zenodo, "10.5281/zenodo.7000123", API);
    let unknown = Script::new().on(API, 410, "{}");
    assert_eq!(
        show(&ask(&zenodo, &["10.5281/zenodo.7"], &unknown)[0]),
        "not found: Zenodo does not know it (410)\nlearned "
    );
    for id in [
        "10.1000/a",
        "10.5281/other.5",
        "https://zenodo.org/communities/1",
    ] {
        assert_eq!(
            zenodo.applies(&work(id)),
            Applicability::No(&[IdentifierNeed::OwnRecord]),
            "{id}"
        );
    }
}
