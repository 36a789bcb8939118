use docstokg_content::identifier::Identifier;
use docstokg_content::names::{file_stem, id_slug};
use docstokg_content::work::Work;
use proptest::prelude::*;

fn work(id: &str, title: &str, year: Option<i32>) -> Work {
    let mut work = Work::new(Identifier::parse(id).unwrap());
    work.title = (!title.is_empty()).then(|| title.to_owned());
    work.year = year;
    work
}

#[test]
fn a_stem_says_year_title_and_work() {
    insta::assert_snapshot!(
        [
            work("10.1000/ABC.1", "Attention Is All You Need!", Some(2017)),
            work("pmid:123", "", None),
            work("PMC5", "../../etc/passwd\0", Some(2020)),
            work("W9", "CON", Some(-3)),
            work(
                "2101.00001v2",
                "Über Größen – naïve Łódź \u{1f600}",
                Some(2021)
            ),
            work(
                "hep-th/9901001",
                "\u{4e2d}\u{6587}\u{6807}\u{9898}",
                Some(1999)
            ),
            work(
                "https://example.org/a/very?long=query#x",
                ".hidden",
                Some(20_000)
            ),
            work("W10", &"long title ".repeat(50), Some(2000)),
        ]
        .iter()
        .map(file_stem)
        .collect::<Vec<_>>()
        .join("\n")
    );
}

#[test]
fn ids_that_differ_in_punctuation_alone_have_different_names() {
    assert_ne!(id_slug("doi:10.1000/a.b"), id_slug("doi:10.1000/a-b"));
    assert_ne!(
        id_slug("https://example.org/A"),
        id_slug("https://example.org/a")
    );
}

proptest! {
    #[test]
    fn file_stem_is_valid_on_every_file_system(title in ".{0,600}", year in any::<Option<i32>>(), suffix in "[a-zA-Z0-9()<>;:#?/._-]{1,300}") {
        let work = work(&format!("10.1234/x{suffix}x"), &title, year);
        let stem = file_stem(&work);
        prop_assert!(stem.len() <= 200 && !stem.is_empty());
        prop_assert!(stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_'), "{}", stem);
        prop_assert!(stem.ends_with(&id_slug(&work.work_id())));
    }
}
