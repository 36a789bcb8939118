use docstokg_content::resolver::{Applicability, IdentifierNeed, Pmc, Resolver};

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, settings, show, work,
};

const CONVERTER: &str = "https://pmc.ncbi.nlm.nih.gov/tools/idconv/api/v1/articles/";
const BUCKET: &str = "https://pmc-oa-opendata.s3.amazonaws.com/";

#[test]
fn identifiers_are_converted_together_and_files_named_with_their_checksums() {
    let web = Script::new()
        .on(CONVERTER, 200, fixture("pmc/converted.json"))
        .on(
            &format!("{BUCKET}?list-type"),
            200,
            fixture("pmc/listing.xml"),
        )
        .on(
            &format!("{BUCKET}metadata/PMC123.2.json"),
            200,
            fixture("pmc/metadata.json"),
        )
        .on(
            &format!("{BUCKET}metadata/PMC500.10.json"),
            200,
            fixture("pmc/sparse.json"),
        )
        .on(&format!("{BUCKET}metadata/PMC500.2.json"), 404, "");
    let outcomes = ask(
        &Pmc::new(settings()),
        &[
            "10.1000/a",
            "10.1000/none",
            "10.1000/unversioned",
            "pmid:77",
        ],
        &web,
    );
    let tail = "&format=json&versions=yes&tool=docstokg&email=reader%40library.edu";
    assert_eq!(
        web.asked(),
        [
            format!("{CONVERTER}?ids=10.1000%2Fa%2C10.1000%2Fnone%2C10.1000%2Funversioned{tail}"),
            format!("{CONVERTER}?ids=77{tail}"),
            format!("{BUCKET}metadata/PMC123.2.json"),
            format!("{BUCKET}?list-type=2&delimiter=%2F&prefix=PMC500."),
            format!("{BUCKET}metadata/PMC500.10.json"),
            format!("{BUCKET}metadata/PMC500.2.json"),
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
    let wanted =
        "not found: PMC7 is not among the open-access articles of PubMed Central\nlearned PMC7";
    assert_eq!(
        miss(
            Script::new().on(BUCKET, 200, fixture("pmc/empty_listing.xml")),
            "PMC7"
        ),
        wanted
    );
    assert_eq!(
        miss(Script::new().on(BUCKET, 404, "<Error/>"), "PMC7"),
        wanted
    );
    assert_eq!(
        miss(Script::new().on(BUCKET, 403, "<Error/>"), "PMC7.1"),
        wanted.replace("PMC7", "PMC7.1")
    );
    assert_eq!(
        miss(
            Script::new().on(CONVERTER, 200, "{\"records\":[]}"),
            "pmid:5"
        ),
        "not found: it is not in PubMed Central\nlearned "
    );
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
    assert_eq!(
        pmc.applies(&work("2101.00001")),
        Applicability::No(&[
            IdentifierNeed::PmcId,
            IdentifierNeed::Doi,
            IdentifierNeed::PubMedId
        ])
    );
}

fn listing(versions: &[u32]) -> String {
    let folders: Vec<String> = versions
        .iter()
        .map(|n| format!("<CommonPrefixes><Prefix>PMC9.{n}/</Prefix></CommonPrefixes>"))
        .collect();
    format!(
        "<ListBucketResult><Name>x</Name>{}</ListBucketResult>",
        folders.concat()
    )
}

fn metadata(version: u32, files: &str) -> String {
    format!(r#"{{"pmcid":"PMC9","version":{version},"title":"T",{files}}}"#)
}

#[test]
fn versions_are_looked_at_until_one_has_the_pdf() {
    let xml = |n: u32| format!(r#""xml_url":"s3://pmc-oa-opendata/PMC9.{n}/PMC9.{n}.xml""#);
    let pdf = r#""pdf_url":"s3://pmc-oa-opendata/PMC9.1/PMC9.1.pdf""#;
    let web = Script::new()
        .on(&format!("{BUCKET}?list-type"), 200, listing(&[1, 2, 3]))
        .on(
            &format!("{BUCKET}metadata/PMC9.3.json"),
            200,
            metadata(3, &xml(3)),
        )
        .on(&format!("{BUCKET}metadata/PMC9.2.json"), 404, "")
        .on(
            &format!("{BUCKET}metadata/PMC9.1.json"),
            200,
            metadata(1, &format!("{},{pdf}", xml(1))),
        );
    let shown = show(&ask(&Pmc::new(settings()), &["PMC9"], &web)[0]);
    let wanted = [
        format!("Xml {BUCKET}PMC9.3/PMC9.3.xml [publishedVersion]"),
        format!("Pdf {BUCKET}PMC9.1/PMC9.1.pdf [publishedVersion]"),
    ];
    assert!(
        wanted.iter().all(|line| shown.contains(line)) && !shown.contains("PMC9.1.xml"),
        "{shown}"
    );
    // Who names a version gets that one or none.
    let shown = show(&ask(&Pmc::new(settings()), &["PMC9.3"], &web)[0]);
    assert!(
        shown.contains("PMC9.3.xml") && !shown.contains("pdf"),
        "{shown}"
    );
}

#[test]
fn manuscripts_of_several_funders_are_copies_of_their_own() {
    let manuscript = |n: u32, mid: &str| {
        metadata(
            n,
            &format!(
                r#""is_manuscript":true,"mid":"{mid}","pdf_url":"s3://pmc-oa-opendata/PMC9.{n}/PMC9.{n}.pdf""#
            ),
        )
    };
    let web = Script::new()
        .on(&format!("{BUCKET}?list-type"), 200, listing(&[1, 2, 3]))
        .on(
            &format!("{BUCKET}metadata/PMC9.3.json"),
            200,
            manuscript(3, "NIHMS1"),
        )
        .on(
            &format!("{BUCKET}metadata/PMC9.2.json"),
            200,
            manuscript(2, "EMS2"),
        )
        .on(
            &format!("{BUCKET}metadata/PMC9.1.json"),
            200,
            manuscript(1, "NIHMS1"),
        );
    let shown = show(&ask(&Pmc::new(settings()), &["PMC9"], &web)[0]);
    assert!(
        shown.contains("PMC9.3.pdf")
            && shown.contains("PMC9.2.pdf")
            && !shown.contains("PMC9.1.pdf"),
        "{shown}"
    );
}
