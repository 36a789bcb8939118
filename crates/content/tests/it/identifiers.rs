use docstokg_content::identifier::Identifier;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    Identifier::parse(text).map_or_else(
        |error| format!("error: {error}"),
        |identifier| identifier.to_string(),
    )
}

#[test]
fn a_doi_has_one_form_in_every_usual_spelling() {
    for text in [
        "10.1000/ABC.1",
        "doi:10.1000/abc.1",
        "DOI 10.1000/abc.1",
        "DOI: 10.1000/abc.1",
        "https://doi.org/10.1000/abc.1",
        "http://dx.doi.org/10.1000/abc.1",
        "https://www.doi.org/10.1000/abc.1",
        "doi.org/10.1000/abc.1",
        "https://doi.org/10.1000%2Fabc.1",
        "10.1000%2Fabc.1",
        "10.1000%252Fabc.1",
        "https://doi.org/10.1000/abc.1?utm_source=mail#top",
        "https://doi.org/doi:10.1000/abc.1",
        "info:doi/10.1000/abc.1",
        "urn:doi:10.1000/abc.1",
        "<10.1000/abc.1>",
        "<https://doi.org/10.1000/abc.1>",
        "\"10.1000/abc.1\"",
        "\u{201c}10.1000/abc.1\u{201d}",
        "(doi:10.1000/abc.1)",
        "10.1000/abc.1.",
        "10.1000/abc.1),",
        "10.1000/abc.1\".",
        " \u{feff}10.1000/abc.1\u{200b} ",
        "doi:https://doi.org/10.1000/abc.1",
    ] {
        assert_eq!(canonical(text), "doi:10.1000/abc.1", "{text}");
    }
}

#[test]
fn a_sici_doi_keeps_its_odd_characters() {
    let sici = "doi:10.1002/(sici)1097-4571(199806)49:8<693::aid-asi4>3.0.co;2-#";
    for text in [
        "10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-#",
        "<10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-#>",
        "https://doi.org/10.1002/(SICI)1097-4571(199806)49:8<693::AID-ASI4>3.0.CO;2-#",
        "https://doi.org/10.1002/(SICI)1097-4571(199806)49:8%3C693::AID-ASI4%3E3.0.CO;2-%23",
        "10.1002/(SICI)1097-4571(199806)49:8&lt;693::AID-ASI4&gt;3.0.CO;2-#",
    ] {
        assert_eq!(canonical(text), sici, "{text}");
    }
    assert_eq!(
        canonical("10.1016/0000(95)00001-x"),
        "doi:10.1016/0000(95)00001-x"
    );
    assert_eq!(canonical("10.1000/a?b#c"), "doi:10.1000/a?b#c");
}

#[test]
fn arxiv_works_are_recognised_old_and_new() {
    for (text, wanted) in [
        ("arXiv:2101.00001v2", "arxiv:2101.00001v2"),
        ("arXiv: 2101.00001", "arxiv:2101.00001"),
        ("arXiv:2101.00001v2 [cs.CL]", "arxiv:2101.00001v2"),
        ("2101.00001", "arxiv:2101.00001"),
        ("0704.0001v10", "arxiv:0704.0001v10"),
        ("https://arxiv.org/abs/2101.00001", "arxiv:2101.00001"),
        ("arxiv.org/pdf/2101.00001v3.pdf", "arxiv:2101.00001v3"),
        (
            "http://www.arxiv.org/pdf/2101.00001?download=1",
            "arxiv:2101.00001",
        ),
        (
            "https://export.arxiv.org/abs/math.GT/0309136v1",
            "arxiv:math.GT/0309136v1",
        ),
        ("hep-th/9901001", "arxiv:hep-th/9901001"),
        ("math.GT/0309136", "arxiv:math.GT/0309136"),
        ("10.48550/arXiv.2101.00001", "arxiv:2101.00001"),
        (
            "https://doi.org/10.48550/arXiv.math.GT/0309136",
            "arxiv:math.GT/0309136",
        ),
    ] {
        assert_eq!(canonical(text), wanted, "{text}");
    }
    let key = |text: &str| Identifier::parse(text).unwrap().work_key();
    assert_eq!(key("math.GT/0309136v2"), key("math/0309136v2"));
    assert_ne!(key("math.GT/0309136"), key("math.GT/0309137"));
}

#[test]
fn numbers_of_pubmed_pmc_and_openalex_are_recognised() {
    for (text, wanted) in [
        ("pmid:123", "pmid:123"),
        ("PMID 123", "pmid:123"),
        ("PMID: 0123.", "pmid:123"),
        ("https://pubmed.ncbi.nlm.nih.gov/123/", "pmid:123"),
        (
            "https://www.ncbi.nlm.nih.gov/pubmed/123?dopt=Abstract",
            "pmid:123",
        ),
        ("PMC123", "pmcid:PMC123"),
        ("pmc123.2", "pmcid:PMC123.2"),
        ("pmcid:PMC123", "pmcid:PMC123"),
        ("PMCID: 123", "pmcid:PMC123"),
        (
            "https://pmc.ncbi.nlm.nih.gov/articles/PMC123/",
            "pmcid:PMC123",
        ),
        (
            "https://www.ncbi.nlm.nih.gov/pmc/articles/PMC123/pdf/main.pdf",
            "pmcid:PMC123",
        ),
        (
            "https://europepmc.org/articles/PMC123?pdf=render",
            "pmcid:PMC123",
        ),
        ("W123", "openalex:W123"),
        ("https://openalex.org/W123", "openalex:W123"),
        ("https://openalex.org/works/w123", "openalex:W123"),
        (
            "https://api.openalex.org/works/W123?select=id",
            "openalex:W123",
        ),
    ] {
        assert_eq!(canonical(text), wanted, "{text}");
    }
}

#[test]
fn other_links_are_themselves() {
    assert_eq!(
        canonical("https://Example.org/a b?x=1#top"),
        "https://example.org/a%20b?x=1",
        "servers never see the place on a page"
    );
    assert_eq!(
        canonical("<http://example.org/paper.pdf>"),
        "http://example.org/paper.pdf"
    );
    assert_eq!(canonical("https://doi.org/abcd"), "https://doi.org/abcd");
    assert_eq!(
        canonical("https://arxiv.org/list/cs.CL/recent"),
        "https://arxiv.org/list/cs.CL/recent"
    );
    assert_eq!(
        canonical("https://link.springer.com/article/10.1007/s0-1"),
        "https://link.springer.com/article/10.1007/s0-1"
    );
}

#[test]
fn what_is_no_identifier_is_told_what_it_looks_like() {
    let answers: Vec<String> = [
        "",
        "  ",
        "31415926",
        "doi:10.12/x",
        "doi:10.1000/",
        "10.1000/a b",
        "arxiv:9999",
        "pmid:abc",
        "PMC0",
        "A5023888391",
        "https://user:secret@example.org/x",
        "ftp://example.org/x",
        "https://",
        "Attention is all you need",
        "10.1000",
        "mailto:x@y.org",
    ]
    .into_iter()
    .map(|text| format!("{text:?} -> {}", canonical(text)))
    .collect();
    insta::assert_snapshot!(answers.join("\n"));
    assert!(!canonical("https://user:secret@example.org/x").contains("secret"));
}

#[test]
fn duplicates_share_a_key() {
    let key = |text: &str| Identifier::parse(text).unwrap().work_key();
    assert_eq!(
        key("arXiv:2101.00001"),
        key("https://arxiv.org/abs/2101.00001")
    );
    // Somebody who names a version wants its file, beside that of another version.
    let versions = ["2101.00001", "2101.00001v1", "arXiv:2101.00001v2"].map(key);
    assert!(versions[0] != versions[1] && versions[1] != versions[2]);
    assert_eq!(versions[2], key("https://arxiv.org/pdf/2101.00001v2"));
    assert_eq!(key("PMC123.2"), key("PMC123"));
    assert_eq!(
        key("HTTP://example.org:80/%7ex#a"),
        key("http://example.org/~x")
    );
    assert_ne!(key("pmid:123"), key("PMC123"));
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_reads_back(text in ".{0,60}") {
        if let Ok(identifier) = Identifier::parse(&text) {
            prop_assert_eq!(Identifier::parse(&identifier.to_string()).ok(), Some(identifier));
        }
    }

    #[test]
    fn doi_like_text_reads_back(
        before in "(doi:|DOI |https://doi.org/|http://dx.doi.org/|<|\"|\\()?",
        suffix in "[a-zA-Z0-9.()<>;:#?/%&'\"_-]{1,30}",
    ) {
        if let Ok(identifier) = Identifier::parse(&format!("{before}10.1234/{suffix}")) {
            prop_assert_eq!(Identifier::parse(&identifier.to_string()).ok(), Some(identifier));
        }
    }

    #[test]
    fn arxiv_pubmed_and_openalex_text_reads_back(text in "(arXiv:|pmid:|PMC|pmcid:|W|openalex:)?[0-9]{0,4}[./]?[0-9]{0,7}(v[0-9]{1,3})?") {
        if let Ok(identifier) = Identifier::parse(&text) {
            prop_assert_eq!(Identifier::parse(&identifier.to_string()).ok(), Some(identifier));
        }
    }

    #[test]
    fn links_read_back(path in "[a-zA-Z0-9/%._~()<>'\" -]{0,30}", query in "[a-z0-9=&%+#?]{0,20}") {
        if let Ok(identifier) = Identifier::parse(&format!("https://Example.org/{path}?{query}")) {
            prop_assert_eq!(Identifier::parse(&identifier.to_string()).ok(), Some(identifier));
        }
    }
}
