use docstokg_content::identifier::Identifier;
use docstokg_content::work::{Identifiers, LearnedMetadata, Work};

fn ids(texts: &[&str]) -> Identifiers {
    let mut ids = Identifiers::default();
    for text in texts {
        ids.insert(Identifier::parse(text).unwrap());
    }
    ids
}

#[test]
fn what_is_learned_fills_gaps_and_overwrites_nothing() {
    let mut work = Work::new(Identifier::parse("arXiv:2101.00001v1").unwrap());
    work.learn(&LearnedMetadata {
        identifiers: ids(&["10.1000/a", "2101.00001v9"]),
        title: Some("First".to_owned()),
        year: Some(2021),
        ..LearnedMetadata::default()
    });
    work.learn(&LearnedMetadata {
        identifiers: ids(&["10.1000/b", "pmid:5"]),
        title: Some("Second".to_owned()),
        year: Some(1),
        retracted: true,
        ..LearnedMetadata::default()
    });
    assert_eq!(
        work.identifiers,
        ids(&["10.1000/a", "2101.00001v1", "pmid:5"])
    );
    assert_eq!(
        (work.title.as_deref(), work.year),
        (Some("First"), Some(2021))
    );
    assert_eq!(work.work_id(), "arxiv:2101.00001v1");
    assert_eq!(work.work_key(), "arxiv:2101.00001v1");
}

#[test]
fn a_work_of_several_identifiers_is_named_by_the_strongest() {
    let work =
        Work::from_identifiers(ids(&["https://example.org/x", "W1", "PMC7", "10.1000/a"])).unwrap();
    assert_eq!(work.work_id(), "doi:10.1000/a");
    assert_eq!(Work::from_identifiers(Identifiers::default()), None);
}

#[test]
fn work_is_read_back_as_persisted() {
    let mut work = Work::from_identifiers(ids(&[
        "10.1000/a",
        "2101.00001v2",
        "pmid:5",
        "PMC7.2",
        "W1",
        "https://example.org/x",
    ]))
    .unwrap();
    work.title = Some("T".to_owned());
    let text = serde_json::to_string(&work).unwrap();
    assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), work);
    assert_eq!(
        serde_json::from_str::<Work>(r#"{"typed":"pmid:5"}"#).unwrap(),
        Work::new(Identifier::parse("pmid:5").unwrap())
    );
    assert!(serde_json::from_str::<Work>(r#"{"typed":"nonsense"}"#).is_err());
}
