use std::io::{self, BufReader, Cursor, Read};

use docstokg_content::input::{InputReader, ListFormat};
use proptest::prelude::*;

/// Shows a list as `number work_id title year`, or the problem.
fn read(text: impl AsRef<[u8]>, format: ListFormat) -> Vec<String> {
    InputReader::new(Cursor::new(text.as_ref().to_vec()), format)
        .map(|item| match item {
            Ok(line) => {
                let work = line.work;
                let title = work.title.as_deref().unwrap_or("-");
                let year = work
                    .year
                    .map_or_else(|| "-".to_owned(), |year| year.to_string());
                let ignored = if line.ignored.is_empty() {
                    String::new()
                } else {
                    format!(" ignored {}", line.ignored.len())
                };
                format!("{} {} {title} {year}{ignored}", line.number, work.work_id())
            }
            Err(bad) => format!("{} bad: {}", bad.number, bad.problem),
        })
        .collect()
}

#[test]
fn plain_lines_skip_comments_and_go_on_after_bad_ones() {
    let list = "\u{feff}# my list\r\n\r\n10.1000/a\r\nnot an id\r\n  arXiv:2101.00001v2  \r\n# end\r\nPMC7";
    let items = read(list, ListFormat::Auto);
    assert_eq!(items.len(), 4, "{items:?}");
    assert_eq!(items[0], "3 doi:10.1000/a - -");
    assert!(
        items[1].starts_with("4 bad: 'not an id' is not a DOI"),
        "{}",
        items[1]
    );
    assert_eq!(items[2..], ["5 arxiv:2101.00001v2 - -", "7 pmcid:PMC7 - -"]);
}

#[test]
fn csv_is_recognised_by_its_header_whatever_separates_it() {
    for list in [
        "doi,title,year\n10.1000/a,\"One, two\",2020\n,no id,2021\n",
        "DOI;Title;Publication Year\n10.1000/a;\"One, two\";2020\n;no id;2021\n",
        "\"doi\"\t\"title\"\t\"year\"\r\n10.1000/a\tOne, two\t2020\r\n\tno id\t2021\r\n",
    ] {
        assert_eq!(
            read(list, ListFormat::Auto),
            [
                "2 doi:10.1000/a One, two 2020",
                "3 bad: it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL"
            ],
            "{list}"
        );
    }
}

#[test]
fn a_column_alone_may_hold_any_character() {
    assert_eq!(
        read("doi\n10.1000/a,b;c\n", ListFormat::Auto),
        ["2 doi:10.1000/a,b;c - -"]
    );
}

#[test]
fn a_csv_record_may_run_over_lines_and_an_open_quote_costs_one_line() {
    let list = "doi,title\n10.1000/a,\"One\ntwo \"\"three\"\"\"\n10.1000/b,5\" disk\n10.1000/c,\"never closed\n10.1000/d,fine\n10.1000/e,fine\n";
    assert_eq!(
        read(list, ListFormat::Auto),
        [
            "2 doi:10.1000/a One\ntwo \"three\" -",
            "4 doi:10.1000/b 5\" disk -",
            "5 bad: a quoted field is not closed",
            "6 doi:10.1000/d fine -",
            "7 doi:10.1000/e fine -"
        ]
    );
}

#[test]
fn a_row_may_have_several_identifiers_and_a_bad_one_beside_a_good_one_is_told() {
    let list = "doi,arxiv_id,pmid,pmcid,openalex_id,url\n10.1000/a,2101.00001,123.0,PMC7,W9,https://example.org/x\nnull,nan,12,,,\nwrong,2101.00001,,,,\n";
    let works: Vec<_> = InputReader::new(Cursor::new(list), ListFormat::Auto)
        .map(Result::unwrap)
        .collect();
    let ids = &works[0].work.identifiers;
    assert!(
        ids.doi.is_some()
            && ids.arxiv.is_some()
            && ids.pmid.is_some()
            && ids.pmcid.is_some()
            && ids.openalex.is_some()
            && ids.url.is_some()
    );
    assert_eq!(works[1].work.work_id(), "pmid:12");
    assert_eq!(works[2].work.work_id(), "arxiv:2101.00001");
    assert_eq!(
        works[2].ignored,
        ["'wrong' looks like a DOI, but it is spelt like none"]
    );
}

#[test]
fn json_lines_take_openalex_records_and_manifests() {
    let list = concat!(
        r#"{"id":"https://openalex.org/W1","doi":"https://doi.org/10.1000/A","title":"T","publication_year":2020,"ids":{"pmid":"https://pubmed.ncbi.nlm.nih.gov/5","mag":77}}"#,
        "\n",
        r#"{"record_type":"manifest","work_id":"arxiv:2101.00001","doi":null,"url":"https://export.arxiv.org/pdf/2101.00001","title":"null"}"#,
        "\n",
        r#"{"record_type":"summary","run_id":"x"}"#,
        "\n",
        r#"{"pmid":12,"year":"1999-01"}"#,
        "\n\"10.1000/s\"\n[1]\n{broken\n{\"title\":\"nothing else\"}\n",
    );
    insta::assert_snapshot!(read(list, ListFormat::Auto).join("\n"), @r"
    1 doi:10.1000/a T 2020
    2 arxiv:2101.00001 - -
    4 pmid:12 - 1999
    5 doi:10.1000/s - -
    6 bad: it is a JSON array; one object per line is read
    7 bad: it is not valid JSON: key must be a string at line 1 column 2
    8 bad: it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL
    ");
}

#[test]
fn bytes_that_are_no_text_and_lines_without_end_are_bad_lines_like_others() {
    let mut list = b"10.1000/a\n10.1000/\xff\n".to_vec();
    list.extend(std::iter::repeat_n(b'x', 200_000));
    list.extend(b"\n10.1000/b");
    let items = read(&list, ListFormat::Auto);
    assert_eq!(
        items,
        [
            "1 doi:10.1000/a - -",
            "2 bad: it is not UTF-8 text",
            "3 bad: it is longer than 64 KiB",
            "4 doi:10.1000/b - -"
        ]
    );
}

#[test]
fn a_csv_without_known_columns_says_so_once() {
    let items = read("name,colour\n10.1000/a,red\n", ListFormat::Csv);
    assert!(
        items[0].starts_with("1 bad: no column of the header is known"),
        "{items:?}"
    );
    assert_eq!(items[1], "2 doi:10.1000/a - -");
}

#[test]
fn a_reader_that_fails_ends_the_list_with_its_reason() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let csv = BufReader::new(Cursor::new(b"doi,title\n10.1000/a,\"open\n".to_vec()).chain(Failing));
    let items: Vec<_> = InputReader::new(csv, ListFormat::Auto)
        .map(|item| item.unwrap_err().problem)
        .collect();
    assert_eq!(
        items,
        [
            "a quoted field is not closed",
            "the list cannot be read any further: the disk is gone"
        ]
    );
    let source = BufReader::new(Cursor::new(b"10.1000/a\n".to_vec()).chain(Failing));
    let items: Vec<_> = InputReader::new(source, ListFormat::Auto).collect();
    assert_eq!(items.len(), 2);
    assert!(
        items[1]
            .as_ref()
            .is_err_and(|bad| bad.problem.contains("the disk is gone"))
    );
}

proptest! {
    #[test]
    fn input_of_any_bytes_is_read_to_its_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), format in 0..4_usize) {
        let format = [ListFormat::Auto, ListFormat::Lines, ListFormat::Csv, ListFormat::Jsonl][format];
        // A line of JSON or of a text may name several works, but none without a byte.
        let most = bytes.len() + 1;
        prop_assert!(InputReader::new(Cursor::new(bytes), format).count() <= most);
    }

    #[test]
    fn csv_like_text_never_loses_its_place(rows in proptest::collection::vec("[a-c\",; \n]{0,12}", 0..12)) {
        let list = format!("doi,title\n{}\n10.1000/last,x\n", rows.join("\n"));
        let last = InputReader::new(Cursor::new(list), ListFormat::Auto).last();
        prop_assert!(last.is_some());
    }

    /// Lines that open a quote, close one or do both are joined as if every record were read from
    /// its beginning.
    #[test]
    fn csv_records_are_joined_as_if_each_were_read_again(
        rows in proptest::collection::vec(
            prop_oneof![60 => Just("a\",\"".to_owned()), 40 => Just("x".to_owned()), 1 => "[a\", ]{1,6}"],
            0..400,
        ),
    ) {
        let list = format!("doi,title\n{}\n", rows.join("\n"));
        let lines: Vec<&str> = list.lines().collect();
        let (joined, unclosed) = joined_one_by_one(&lines);
        for item in InputReader::new(Cursor::new(list.as_bytes()), ListFormat::Auto) {
            let bad = item.expect_err("no line names a work");
            let expected = if bad.problem == NOT_CLOSED { &unclosed } else { &joined };
            prop_assert!(expected.contains(&bad.number), "line {}: {}", bad.number, bad.problem);
        }
        let found = InputReader::new(Cursor::new(list.as_bytes()), ListFormat::Auto)
            .filter(|item| item.as_ref().is_err_and(|bad| bad.problem == NOT_CLOSED));
        prop_assert_eq!(found.count(), unclosed.len());
    }
}

const NOT_CLOSED: &str = "a quoted field is not closed";

/// Returns the numbers of the lines at which CSV records begin, and of those whose quote never
/// closes, by reading each record from its beginning for every line that it may have.
fn joined_one_by_one(lines: &[&str]) -> (Vec<u64>, Vec<u64>) {
    let is_open = |record: &str| {
        let (mut open, mut at_start) = (false, true);
        for c in record.chars() {
            if c == '"' && (open || at_start) {
                open = !open;
            }
            at_start = !open && (matches!(c, ',' | '"') || (at_start && c == ' '));
        }
        open
    };
    let (mut joined, mut unclosed, mut at) = (Vec::new(), Vec::new(), 1);
    while at < lines.len() {
        let longest = (lines.len() - at).min(101);
        let length = (1..=longest).find(|length| !is_open(&lines[at..at + length].join("\n")));
        let numbers = if length.is_some() {
            &mut joined
        } else {
            &mut unclosed
        };
        numbers.push(at as u64 + 1);
        at += length.unwrap_or(1);
    }
    (joined, unclosed)
}

fn works(text: &str) -> Vec<String> {
    InputReader::new(text.as_bytes(), ListFormat::Auto)
        .map(|line| match line {
            Ok(line) => format!(
                "{} {} {:?} {:?}",
                line.number,
                line.work.work_id(),
                line.work.title,
                line.work.year
            ),
            Err(bad) => format!("{} bad: {}", bad.number, bad.problem),
        })
        .collect()
}

#[test]
fn bibtex_files_are_read_entry_by_entry() {
    let text = "% Encoding: UTF-8\n@string{jw = \"J. Wetlands\"}\n\n@article{holm2019,\n  title = {Growth of {R}eed \n    beds},\n  doi = {10.5555/jw.42},\n  \
                year = 2019,\n  note = {see {nested} braces},\n}\n@misc{a, eprint = \"2002.00741\", archivePrefix = \"arXiv\", title = \"Bees\"}\n\
                @book{none, title = {No identifier}}\n@online{u, url = {https://x.example/a.pdf}}";
    let none = "it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL";
    assert_eq!(
        works(text),
        [
            "4 doi:10.5555/jw.42 Some(\"Growth of Reed beds\") Some(2019)".to_owned(),
            "11 arxiv:2002.00741 Some(\"Bees\") None".to_owned(),
            format!("12 bad: {none}"),
            "13 https://x.example/a.pdf None None".to_owned(),
        ]
    );
}

#[test]
fn ris_files_are_read_record_by_record() {
    let text = "TY  - JOUR\r\nTI  - Growth of reed beds\r\nPY  - 2019/05/01\r\nDO  - 10.5555/jw.42\r\nUR  - not a link\r\nER  - \r\n\r\nTY  - JOUR\r\nC2  - PMC77\r\nER  -\r\n";
    assert_eq!(
        works(text),
        [
            "1 doi:10.5555/jw.42 Some(\"Growth of reed beds\") Some(2019)",
            "8 pmcid:PMC77 None None"
        ]
    );
}

#[test]
fn csl_json_files_are_read_however_long_their_one_line_is() {
    let filler = "x".repeat(100_000);
    let text = format!(
        r#"[{{"id":"holm2019","type":"article-journal","title":"Reeds","DOI":"10.5555/jw.42","abstract":"{filler}","issued":{{"date-parts":[[2019,5]]}}}},{{"id":"n"}}]"#
    );
    let none = "it has no DOI, arXiv id, PMCID, PMID, OpenAlex id or URL";
    assert_eq!(
        works(&text),
        [
            "1 doi:10.5555/jw.42 Some(\"Reeds\") Some(2019)".to_owned(),
            format!("2 bad: {none}")
        ]
    );
    assert_eq!(works("[ broken").len(), 1, "a broken file is one problem");
}
