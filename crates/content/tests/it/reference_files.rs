//! Lists as databases and reference managers write them: what stands before the first record, tags
//! of every kind, and links that lead into a database.

use docstokg_content::input::{InputReader, ListFormat};

/// Shows a list as `number work_id title year url`, or the problem.
fn read_as(text: &str, format: ListFormat) -> Vec<String> {
    InputReader::new(text.as_bytes(), format)
        .map(|line| match line {
            Ok(line) => {
                let work = line.work;
                let mut shown = vec![line.number.to_string(), work.work_id()];
                shown.extend(work.title.clone());
                shown.extend(work.year.map(|year| year.to_string()));
                shown.extend(work.identifiers.url.map(String::from));
                shown.join(" | ")
            }
            Err(bad) => format!("{} bad: {}", bad.number, bad.problem),
        })
        .collect()
}

fn read(text: &str) -> Vec<String> {
    read_as(text, ListFormat::Auto)
}

#[test]
fn lines_before_the_first_record_do_not_hide_the_records() {
    let record = "TY  - JOUR\nT1  - Reed beds\nDO  - 10.5555/jw.42\nY1  - 2019///\nER  - \n";
    for (before, at) in [
        ("1. \n", 2),
        ("\n1.\n", 3),
        (
            "Provider: JSTOR http://www.jstor.org\nDatabase: JSTOR\nContent: text/plain; charset=\"UTF-8\"\n\n\n",
            6,
        ),
        (
            "Provider: American Psychological Association\nDatabase: PsycINFO\nContent: application/x-research-info-systems\n\n",
            5,
        ),
    ] {
        let shown = read(&format!("{before}{record}\n2. \n{record}"));
        let first = format!("{at} | doi:10.5555/jw.42 | Reed beds | 2019");
        assert_eq!(shown.len(), 2, "{before}: {shown:?}");
        assert_eq!(shown[0], first);
    }
    let entry = "@ARTICLE{Holm2019,\n  author = {Holm, A.},\n  title = {Reed beds},\n  doi = {10.5555/jw.42}\n}\n";
    for before in [
        "This file was created with JabRef 2.10.\nEncoding: UTF8\n\n",
        "My references for chapter 2,\nsee also http://example.org/notes\n\n",
        "%% Created for me at 2019-01-01\n\nSaved with string encoding Unicode (UTF-8)\n",
    ] {
        let shown = read(&format!("{before}{entry}"));
        assert_eq!(shown.len(), 1, "{before}: {shown:?}");
        assert!(
            shown[0].ends_with("doi:10.5555/jw.42 | Reed beds"),
            "{shown:?}"
        );
    }
    // A list of identifiers stays one, whatever its first line says.
    let list = "My list\n10.1000/a\n@article{not, a record}\n";
    let shown = read(list);
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert_eq!(shown[1], "2 | doi:10.1000/a");
}

#[test]
fn endnote_files_are_read_record_by_record() {
    let text = "%0 Journal Article\r\n%T Growth of reed\r\n  beds\r\n%A Holm, A.\r\n%J J. Wetlands\r\n%D 2019\r\n%R doi:10.5555/jw.42\r\n%U https://www.scopus.com/record/1\r\n\r\n%0 Book\r\n%T No identifier\r\n%R B-17\r\n%0 Journal Article\r\n%T Bees\r\n%2 PMC77\r\n%U http://x.example/bees\r\n";
    let expected = [
        "1 | doi:10.5555/jw.42 | Growth of reed beds | 2019",
        "10 bad: it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL",
        "13 | pmcid:PMC77 | Bees | http://x.example/bees",
    ];
    assert_eq!(read(text), expected);
    assert_eq!(read_as(text, ListFormat::Enw), expected);
}

#[test]
fn pubmed_files_are_read_record_by_record() {
    let text = "\nPMID- 31000001\nOWN - NLM\nSTAT- MEDLINE\nDP  - 2019 May 1\nTI  - Growth of reed beds along the shores of shallow\n      lakes.\nLID - 10.5555/jw.42 [doi]\nAB  - BACKGROUND: something\n      PMID- 5 is quoted here.\nFAU - Holm, Anna\nPMC - PMC6500001\nAID - S0000-0000(19)30001-1 [pii]\nAID - 10.5555/jw.42 [doi]\nSO  - J Wetlands. 2019.\n\nPMID- 31000002\nTI  - Bees.\n";
    let expected = [
        "2 | doi:10.5555/jw.42 | Growth of reed beds along the shores of shallow lakes | 2019",
        "17 | pmid:31000002 | Bees",
    ];
    assert_eq!(read(text), expected);
    assert_eq!(read_as(text, ListFormat::Nbib), expected);
    // Records end with an empty line, also after their DOI.
    let text = "PMID- 31000001\nAID - 10.5555/jw.42 [doi]\n\n\nPMID- 31000002\nAID - 10.5555/jw.43 [doi] \n\n";
    let expected = ["1 | doi:10.5555/jw.42", "5 | doi:10.5555/jw.43"];
    assert_eq!(read_as(text, ListFormat::Nbib), expected);
}

#[test]
fn web_of_science_files_are_read_record_by_record() {
    let text = "\u{feff}FN Clarivate Analytics Web of Science\nVR 1.0\nPT J\nAU Holm, A\n   Berg, B\nTI Growth of reed beds along the shores of\n   shallow lakes\nSO J WETLANDS\nPY 2019\nDI 10.5555/jw.42\nPM 31000001\nUT WOS:000000000000001\nER\n\nPT J\nTI Bees\nPM 31000002\nER\n\nEF\n";
    let expected = [
        "3 | doi:10.5555/jw.42 | Growth of reed beds along the shores of shallow lakes | 2019",
        "15 | pmid:31000002 | Bees",
    ];
    assert_eq!(read(text), expected);
    assert_eq!(read_as(text, ListFormat::Wos), expected);
    let table =
        "PT\tAU\tTI\tDI\tPM\tPY\tUT\nJ\tHolm, A\tReed beds\t10.5555/jw.42\t31000001\t2019\tWOS:1\n";
    assert_eq!(read(table), ["2 | doi:10.5555/jw.42 | Reed beds | 2019"]);
}

#[test]
fn endnote_xml_is_read_however_long_its_one_line_is() {
    let style = |text: &str| {
        format!("<style face=\"normal\" font=\"default\" size=\"100%\">{text}</style>")
    };
    let abstract_text = "x".repeat(100_000);
    let record = |parts: &str| {
        format!(
            "<record><database name=\"My.enl\">My.enl</database>{parts}<abstract>{abstract_text}</abstract></record>"
        )
    };
    let first = format!(
        "<titles><title>{}{}</title><secondary-title>J</secondary-title></titles><dates><year>{}</year></dates><electronic-resource-num>{}</electronic-resource-num><urls><related-urls><url>{}</url></related-urls></urls>",
        style("Reeds &amp; "),
        style("beds"),
        style("2019"),
        style("10.5555/jw.42"),
        style("http://www.lens.org/lens/1"),
    );
    let second = "<accession-num>31000002</accession-num><custom2>PMC77</custom2><remote-database-provider>NLM</remote-database-provider>";
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" ?><xml><records>{}{}{}</records></xml>",
        record(&first),
        record(second),
        record("")
    );
    let expected = [
        "1 | doi:10.5555/jw.42 | Reeds & beds | 2019",
        "2 | pmcid:PMC77",
        "3 bad: it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL",
    ];
    assert_eq!(read(&text), expected);
    assert_eq!(read_as(&text, ListFormat::EndnoteXml), expected);
    let cut = read(&text[..text.len() - 16]);
    assert!(cut[0].contains("it is not XML to its end"), "{}", cut[0]);
    assert_eq!(cut[1..], expected, "what was read is kept");
}

#[test]
fn a_doi_wins_over_a_link_that_says_otherwise() {
    for (entry, expected) in [
        (
            "url = {https://doi.org/10.1000/other}, doi = {10.1000/own}",
            "1 | doi:10.1000/own",
        ),
        (
            "url = {https://link.springer.com/article/10.1007/s1-2-3}, doi = {10.1000/own}",
            "1 | doi:10.1000/own",
        ),
        (
            "url = {https://link.springer.com/article/10.1007/s1-2-3}, doi = {10.1007/s1-2-3}",
            "1 | doi:10.1007/s1-2-3 | https://link.springer.com/article/10.1007/s1-2-3",
        ),
        (
            "url = {http://x.example/a.pdf}, doi = {10.1000/own}",
            "1 | doi:10.1000/own | http://x.example/a.pdf",
        ),
        ("url = {https://doi.org/10.1000/a}", "1 | doi:10.1000/a"),
    ] {
        assert_eq!(
            read(&format!("@article{{k, {entry}}}\n")),
            [expected],
            "{entry}"
        );
    }
}

#[test]
fn a_link_into_a_database_counts_only_if_nothing_else_names_the_work() {
    let ris = |fields: &str| read(&format!("TY  - JOUR\n{fields}ER  - \n"));
    let scopus = "UR  - https://www.scopus.com/inward/record.uri?eid=2-s2.0-1\n";
    assert_eq!(
        ris(&format!("{scopus}DO  - 10.1000/a\n")),
        ["1 | doi:10.1000/a"]
    );
    assert_eq!(
        ris(&format!(
            "{scopus}UR  - http://x.example/a.pdf\nDO  - 10.1000/a\n"
        )),
        ["1 | doi:10.1000/a | http://x.example/a.pdf"]
    );
    let alone = ris(scopus);
    assert!(alone[0].contains("scopus.com"), "{alone:?}");
    let csv = "doi,url\n10.1000/a,http://search.ebscohost.com/login.aspx?AN=1\n";
    assert_eq!(read(csv), ["2 | doi:10.1000/a"]);
    let csl = r#"[{"URL": "https://search.proquest.com/docview/1", "DOI": "10.1000/a"}]"#;
    assert_eq!(read(csl), ["1 | doi:10.1000/a"]);
}
