use docstokg_content::resolver::{Applies, Pmc, Resolver};

use crate::script::{Script, ask, assert_bad_answers_have_reasons, fixture, settings, show, work};

const CONVERTER: &str = "https://pmc.ncbi.nlm.nih.gov/tools/idconv/api/v1/articles/";
const BUCKET: &str = "https://pmc-oa-opendata.s3.amazonaws.com/";

#[test]
fn identifiers_are_converted_together_and_files_named_with_their_checksums() {
    let web = Script::new()
        .on(CONVERTER, 200, fixture("pmc/converted.json"))
        .on(&format!("{BUCKET}?list-type"), 200, fixture("pmc/listing.xml"))
        .on(&format!("{BUCKET}metadata/PMC123.2.json"), 200, fixture("pmc/metadata.json"))
        .on(&format!("{BUCKET}metadata/PMC500.10.json"), 200, fixture("pmc/sparse.json"));
    let outcomes = ask(&Pmc::new(settings()), &["10.1000/a", "10.1000/none", "10.1000/unversioned", "pmid:77"], &web);
    let tail = "&format=json&versions=yes&tool=docstokg&email=reader%40library.edu";
    assert_eq!(
        web.asked(),
        [
            format!("{CONVERTER}?ids=10.1000%2Fa%2C10.1000%2Fnone%2C10.1000%2Funversioned{tail}"),
            format!("{CONVERTER}?ids=77{tail}"),
            format!("{BUCKET}metadata/PMC123.2.json"),
            format!("{BUCKET}?list-type=2&delimiter=%2F&prefix=PMC500."),
            format!("{BUCKET}metadata/PMC500.10.json"),
            format!("{BUCKET}metadata/PMC123.2.json"),
        ]
    );
    let shown: Vec<String> = outcomes.iter().map(show).collect();
    insta::assert_snapshot!(shown.join("\n--\n"));
}

#[test]
fn an_article_with_its_version_needs_no_listing() {
    let web = Script::new().on(BUCKET, 200, fixture("pmc/metadata.json"));
    ask(&Pmc::new(settings()), &["PMC123.2"], &web);
    assert_eq!(web.asked(), [format!("{BUCKET}metadata/PMC123.2.json")]);
}

#[test]
fn articles_outside_the_bucket_are_clean_misses() {
    let miss = |web: Script, id: &str| show(&ask(&Pmc::new(settings()), &[id], &web)[0]);
    let wanted = "not found: PMC7 is not among the open-access articles of PubMed Central\nlearned PMC7";
    assert_eq!(miss(Script::new().on(BUCKET, 200, fixture("pmc/empty_listing.xml")), "PMC7"), wanted);
    assert_eq!(miss(Script::new().on(BUCKET, 404, "<Error/>"), "PMC7"), wanted);
    assert_eq!(miss(Script::new().on(BUCKET, 403, "<Error/>"), "PMC7.1"), wanted.replace("PMC7", "PMC7.1"));
    assert_eq!(miss(Script::new().on(CONVERTER, 200, "{\"records\":[]}"), "pmid:5"), "not found: it is not in PubMed Central\nlearned ");
}

#[test]
fn nonsense_has_reasons() {
    let pmc = Pmc::new(settings());
    assert_bad_answers_have_reasons(&pmc, "PMC7.1", BUCKET);
    assert_bad_answers_have_reasons(&pmc, "10.1000/a", CONVERTER);
    for body in ["<html><p>x", "", "<html></html>", "{}"] {
        let shown = show(&ask(&pmc, &["PMC7"], &Script::new().on(BUCKET, 200, body))[0]);
        assert!(shown.starts_with("xml_error Some(200)"), "{shown}");
    }
    assert_eq!(pmc.applies(&work("2101.00001")), Applies::No("no-pmcid"));
}
