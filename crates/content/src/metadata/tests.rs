use super::*;

fn said(source: &str, statement: MetadataStatement) -> SourcedStatement {
    SourcedStatement {
        source: source.to_owned(),
        at: Timestamp::EPOCH,
        statement,
    }
}

#[test]
fn each_field_is_of_the_most_trusted_source_that_states_it() {
    let text = |text: &str| Some(text.to_owned());
    let openalex = MetadataStatement {
        title: text("An index's title"),
        r#abstract: text("What it is about"),
        volume: text("7"),
        pages: text("1-2"),
        retracted: Some(true),
        licence: text("cc-by"),
        ..MetadataStatement::default()
    };
    let crossref = MetadataStatement {
        title: text("The registered title"),
        volume: text("8"),
        retracted: Some(false),
        ..MetadataStatement::default()
    };
    let merged = WorkMetadata::merge(
        "doi:10.1/a",
        Identifiers::default(),
        vec![said("openalex", openalex), said("crossref", crossref)],
    );
    let statement = &merged.statement;
    assert_eq!(statement.title, text("The registered title"));
    assert_eq!(statement.r#abstract, text("What it is about"));
    // Pages of one source do not stand behind the volume of another.
    assert_eq!((&statement.volume, &statement.pages), (&text("8"), &None));
    assert_eq!(statement.retracted, Some(true));
    assert_eq!(merged.licence_spdx, text("LicenseRef-CC-BY"));
    assert_eq!(merged.field_sources["abstract"], "openalex");
    assert_eq!(merged.field_sources["title"], "crossref");
    let json = serde_json::to_string(&merged).expect("JSON");
    let read: WorkMetadata = serde_json::from_str(&json).expect("metadata");
    assert_eq!(read, merged);
}

#[test]
fn names_are_taken_apart_with_their_particles() {
    for (full, last, given, suffix) in [
        ("Jan van der Berg", "van der Berg", Some("Jan"), None),
        ("van der Berg, Jan", "van der Berg", Some("Jan"), None),
        ("Ludwig von Mises", "von Mises", Some("Ludwig"), None),
        (
            "Martin Luther King Jr.",
            "King",
            Some("Martin Luther"),
            Some("Jr."),
        ),
        ("Plato", "Plato", None, None),
        (
            "The ATLAS Collaboration",
            "The ATLAS Collaboration",
            None,
            None,
        ),
        ("José  Ortega", "Ortega", Some("José"), None),
    ] {
        let name = PersonName::of_full_name(full).expect("a name");
        assert_eq!(name.last(), last, "{full}");
        assert_eq!(name.given.as_deref(), given, "{full}");
        assert_eq!(name.suffix.as_deref(), suffix, "{full}");
    }
    assert_eq!(PersonName::of_full_name("  "), None);
    let berg = PersonName::of_parts(Some("Jan"), Some("van der Berg")).expect("a name");
    assert_eq!(
        (berg.particle.as_deref(), berg.family.as_deref()),
        (Some("van der"), Some("Berg"))
    );
    // A family name is left, whatever the case of its letters.
    let small = PersonName::of_parts(None, Some("de la")).expect("a name");
    assert_eq!(small.family.as_deref(), Some("la"));
}

#[test]
fn an_orcid_is_kept_without_its_address() {
    let name = PersonName::of_organisation("A");
    let with = name
        .clone()
        .orcid(Some("https://orcid.org/0000-0002-1825-0097"));
    assert_eq!(with.orcid.as_deref(), Some("0000-0002-1825-0097"));
    assert_eq!(name.orcid(Some("not one")).orcid, None);
}
