//! Lists as people and scripts make them: tables without a header, JSON of every shape, sentences,
//! and texts in other encodings.

use std::io::{BufReader, Read};

use docstokg_content::input::{InputReader, ListFormat};

/// Shows a list as `number work_id year`, or the problem.
fn read_as(bytes: &[u8], format: ListFormat) -> Vec<String> {
    InputReader::new(bytes, format)
        .map(|line| match line {
            Ok(line) => {
                let year = line.work.year.map(|year| format!(" {year}"));
                format!(
                    "{} {}{}",
                    line.number,
                    line.work.work_id(),
                    year.unwrap_or_default()
                )
            }
            Err(bad) => format!("{} bad: {}", bad.number, bad.problem),
        })
        .collect()
}

fn read(text: &str) -> Vec<String> {
    read_as(text.as_bytes(), ListFormat::Auto)
}

/// Returns the messages beside the works of a list.
fn messages(bytes: &[u8]) -> Vec<String> {
    InputReader::new(bytes, ListFormat::Auto)
        .filter_map(Result::ok)
        .flat_map(|line| line.ignored)
        .collect()
}

#[test]
fn tables_without_a_header_are_recognised_by_their_columns() {
    for list in [
        "10.1000/a,2007\n10.1000/b,2008\n",
        "\"10.1000/a\",\"2007\"\n\"10.1000/b\",\"2008\"\n",
        "10.1000/a;Holm, A.;2007\n10.1000/b;Berg, B.;2008\n",
        "10.1000/a\tReeds, and more\t2007\n10.1000/b\tBees\t2008\n",
        "10.1000/a|reeds|2007\n10.1000/b|bees|2008\n",
        "Holm,https://doi.org/10.1000/a,2007\nBerg,https://doi.org/10.1000/b,2008\n",
    ] {
        let expected = ["1 doi:10.1000/a 2007", "2 doi:10.1000/b 2008"];
        assert_eq!(read(list), expected, "{list}");
        assert_eq!(
            read_as(list.as_bytes(), ListFormat::Csv),
            expected,
            "{list}"
        );
    }
    assert_eq!(
        read("10.1371/journal.pone.0000308,2007"),
        ["1 doi:10.1371/journal.pone.0000308 2007"]
    );
    assert_eq!(read("\"10.1234/abc\",\"one x\""), ["1 doi:10.1234/abc"]);
    // A line of another shape keeps its own work.
    assert_eq!(read("x one,10.1000/a\ny two,10.1000/b\n").len(), 2);
}

#[test]
fn unknown_column_names_do_not_hide_the_columns() {
    let list = "Link to article,Publication year\nhttps://doi.org/10.1000/a,2007\nhttps://doi.org/10.1000/b,2008\n";
    assert_eq!(read(list), ["2 doi:10.1000/a 2007", "3 doi:10.1000/b 2008"]);
    let list = "\"About the data: exported on 1 May 2019\"\nRank,DOI,Title,PubYear\n1,10.1000/a,\"Reeds, and more\",2007\n";
    assert_eq!(read(list), ["3 doi:10.1000/a 2007"]);
}

#[test]
fn separators_within_a_doi_make_no_table() {
    let list = "10.1641/0006-3568(2001)051[0933:TEOTWA]2.0.CO;2\n10.1641/0006-3568(2004)054[0001:ABCDEF]2.0.CO;2\n";
    let expected = [
        "1 doi:10.1641/0006-3568(2001)051[0933:teotwa]2.0.co;2",
        "2 doi:10.1641/0006-3568(2004)054[0001:abcdef]2.0.co;2",
    ];
    assert_eq!(read(list), expected);
    assert_eq!(
        read("10.1000/a,10.1000/b\n10.1000/c,10.1000/d\n"),
        [
            "1 doi:10.1000/a",
            "1 doi:10.1000/b",
            "2 doi:10.1000/c",
            "2 doi:10.1000/d"
        ]
    );
    assert_eq!(read("10.1000/a,b;c\n"), ["1 doi:10.1000/a,b;c"]);
}

#[test]
fn json_is_read_in_every_shape() {
    for list in [
        r#"["10.1000/a", "https://doi.org/10.1000/b"]"#,
        "[\n  \"10.1000/a\",\n  \"10.1000/b\"\n]\n",
        r#"[{"doi": "10.1000/a"}, {"id": "10.1000/b"}]"#,
        r#" [{"url": "https://doi.org/10.1000/a", "id": "key7"}, {"DOI": "10.1000/b", "id": "http://zotero.example/1"}]"#,
        "{\n  \"doi\": \"10.1000/a\"\n}\n{\n  \"doi\": \"10.1000/b\"\n}\n",
        "\"10.1000/a\"\n\"10.1000/b\"\n",
        "{\"doi\": \"10.1000/a\"}\n{\"doi\": \"10.1000/b\"}\n",
    ] {
        let found: Vec<String> = read(list)
            .into_iter()
            .filter_map(|line| line.split_once(' ').map(|(_, work)| work.to_owned()))
            .collect();
        assert_eq!(found, ["doi:10.1000/a", "doi:10.1000/b"], "{list}");
    }
    let cut = read(r#"["10.1000/a", {"doi": "10.10"#);
    assert_eq!(cut[0], "1 doi:10.1000/a", "what was read is kept");
    assert!(
        cut.len() == 2 && cut[1].starts_with("2 bad: the list cannot be read any further"),
        "{cut:?}"
    );
    let odd = read(r#"["10.1000/a", 7, {"doi": 1e, "x"}, null, "10.1000/b"]"#);
    assert_eq!(odd.len(), 5, "{odd:?}");
    assert_eq!(odd[4], "5 doi:10.1000/b");
}

#[test]
fn sentences_give_their_identifiers_and_say_so() {
    let list = "10.1000/a\nSee 10.1000/b, and (arXiv:2101.00001v2).\nNothing here.\nHolm A. Reeds. doi: 10.1000/c. PMID: 31000001; PMCID: PMC7.\n";
    assert_eq!(
        read(list)[..],
        [
            "1 doi:10.1000/a",
            "2 doi:10.1000/b",
            "2 arxiv:2101.00001v2",
            "3 bad: 'Nothing here.' is not a DOI, arXiv id, PMCID, PMID, OpenAlex id or URL; accepted are a DOI (10.1000/xyz), an arXiv id (2101.00001), pmid:123, PMC123, an OpenAlex work (W123) and http(s) URLs",
            "4 doi:10.1000/c",
        ]
    );
    assert_eq!(
        messages(list.as_bytes()),
        ["doi:10.1000/b", "arxiv:2101.00001v2", "doi:10.1000/c"]
            .map(|name| format!("recognised in the text: {name}"))
    );
    let works: Vec<_> = InputReader::new(list.as_bytes(), ListFormat::Auto)
        .filter_map(Result::ok)
        .collect();
    let ids = &works[3].work.identifiers;
    assert!(ids.pmid.is_some() && ids.pmcid.is_some());
    let many = "see 10.1000/a here\n".repeat(10);
    assert_eq!(
        messages(many.as_bytes()).len(),
        3,
        "only the first are reported"
    );
}

#[test]
fn other_encodings_are_read_and_said_once() {
    let list = "doi,title\n10.1000/a,\u{c9}tude\n10.1000/b,\u{dc}ber\n";
    let wide: Vec<u8> = std::iter::once(0xfeff)
        .chain(list.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let expected = ["2 doi:10.1000/a", "3 doi:10.1000/b"];
    assert_eq!(read_as(&wide, ListFormat::Auto), expected);
    assert!(messages(&wide).is_empty());
    let latin: Vec<u8> = list.chars().map(|c| c as u8).collect();
    assert_eq!(read_as(&latin, ListFormat::Auto), expected);
    assert_eq!(
        messages(&latin),
        ["the list is not UTF-8 text, and is read as Windows-1252 (Latin-1)"]
    );
    let prose = b"M\xfcller 2019, doi:10.1000/a\n";
    assert_eq!(read_as(prose, ListFormat::Auto), ["1 doi:10.1000/a"]);
}

/// Gives the same bytes again and again, up to a length.
struct Endless {
    piece: &'static [u8],
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.left);
        for (to, from) in buffer[..length].iter_mut().zip(self.piece.iter().cycle()) {
            *to = *from;
        }
        self.left -= length;
        Ok(length)
    }
}

#[test]
fn hostile_lists_end_with_a_sentence() {
    for (piece, problem) in [
        (&b"x"[..], "it is longer than 64 KiB"),
        (b"10.1000/a,", "it is longer than 64 KiB"),
        (
            b"[",
            "the list cannot be read any further: a bracket or quote of its JSON is not closed",
        ),
        (b"[\"", "the list cannot be read any further"),
    ] {
        let list = BufReader::new(Endless {
            piece,
            left: 4 << 20,
        });
        let lines: Vec<_> = InputReader::new(list, ListFormat::Auto).take(3).collect();
        let shown = lines
            .iter()
            .filter_map(|line| line.as_ref().err())
            .any(|bad| bad.problem.contains(problem));
        assert!(shown, "{piece:?}: {lines:?}");
        let text = lines
            .iter()
            .filter_map(|line| line.as_ref().err())
            .map(|bad| bad.text_preview.len())
            .max();
        assert!(text < Some(1_000));
    }
}

#[test]
fn records_with_a_title_alone_are_works_to_search_for() {
    let title = "title:Growth of reed beds along shores";
    for (list, number) in [
        (
            "title,year,authors\nGrowth of reed beds along shores,2019,\"Holm, A.; Berg, B.\"\n",
            2,
        ),
        (
            "TY  - JOUR\nTI  - Growth of reed beds along shores\nAU  - Holm, A.\nAU  - Berg, B.\nPY  - 2019\nER  - \n",
            1,
        ),
        (
            "@article{k, title = {Growth of {Reed} beds along shores}, author = {Holm, A. and Berg, B.}, year = 2019}\n",
            1,
        ),
        (
            "PMID- \nTI  - Growth of reed beds along shores.\nFAU - Holm, A.\nDP  - 2019 May\n",
            1,
        ),
        (
            "%0 Journal Article\n%T Growth of reed beds along shores\n%A Holm, A.\n%D 2019\n",
            1,
        ),
        (
            "PT J\nAU Holm, A.\n   Berg, B\nTI Growth of reed beds along shores\nPY 2019\nER\n",
            1,
        ),
        (
            r#"[{"type": "article", "title": "Growth of reed beds along shores", "author": [{"family": "Holm"}], "issued": {"date-parts": [[2019]]}}]"#,
            1,
        ),
    ] {
        let lines: Vec<_> = InputReader::new(list.as_bytes(), ListFormat::Auto).collect();
        assert_eq!(lines.len(), 1, "{list}: {lines:?}");
        let line = lines[0].as_ref().unwrap();
        assert_eq!(
            (line.number, line.work.year),
            (number, Some(2019)),
            "{list}"
        );
        assert!(
            line.work.work_id().eq_ignore_ascii_case(title),
            "{list}: {}",
            line.work.work_id()
        );
        assert!(
            line.work
                .first_author
                .as_deref()
                .is_some_and(|name| name.starts_with("Holm")),
            "{list}"
        );
        assert!(
            !line
                .work
                .first_author
                .as_deref()
                .unwrap_or_default()
                .contains("Berg"),
            "{list}"
        );
    }
    let lines = "Growth of reed beds along shores\n10.1000/a\n# comment\nToo short\n";
    let read = read_as(lines.as_bytes(), ListFormat::Titles);
    assert_eq!(
        read[..2],
        [format!("1 {title}"), "2 doi:10.1000/a".to_owned()]
    );
    assert!(read[2].starts_with("4 bad:") && read.len() == 3, "{read:?}");
    assert!(
        read_as(lines.as_bytes(), ListFormat::Auto)[0].starts_with("1 bad:"),
        "a line is a title only if the user says so"
    );
}

#[test]
fn the_first_of_several_dois_of_a_record_names_the_work() {
    let list = "PT J\nTI Reeds\nDI 10.1371/journal.pmed.1; 10.1371/journal.pmed.1.r001;\n   10.1371/journal.pmed.1.r002\nER\n";
    assert_eq!(read(list), ["1 doi:10.1371/journal.pmed.1"]);
    assert!(read("doi,title\n10.1000/a b,x\n")[0].contains("white space"));
}
