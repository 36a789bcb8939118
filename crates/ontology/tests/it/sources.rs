//! Every source against answers of its real shape.

use std::time::Duration;

use bytes::Bytes;
use docstokg_lookup::credentials::SourceCredentials;
use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_ontology::source::{
    Absence, AbsenceReason, FailedRequest, LookupStep, OntologyLocation, OntologySource,
    SourceOutcome, SourceSettings, Verdict, direct, lov, named, obo, ols, ontoportal, xbrl,
};
use docstokg_ontology::wanted_ontology::{OntologyId, TargetFormat, WantedOntology};
use http::{HeaderMap, StatusCode};

fn wanted(id: &str) -> WantedOntology {
    WantedOntology::new(OntologyId::parse(id).unwrap())
}

fn reply(status: u16, body: impl Into<Bytes>) -> LookupResponse {
    LookupResponse::new(
        "https://service.example/".parse().unwrap(),
        StatusCode::from_u16(status).unwrap(),
        HeaderMap::new(),
        body.into(),
    )
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn requested(step: LookupStep<'_>) -> LookupRequest {
    match step {
        LookupStep::Request(pending) => pending.request,
        other => panic!("asks nothing: {other:?}"),
    }
}

fn url(request: &LookupRequest) -> &str {
    assert_eq!(request.file, None);
    request.url.as_str()
}

fn found(step: LookupStep<'_>) -> Vec<OntologyLocation> {
    match step {
        LookupStep::Done(SourceOutcome::Found(locations)) => locations,
        other => panic!("not found: {other:?}"),
    }
}

fn absent(step: LookupStep<'_>) -> (AbsenceReason, String) {
    match step {
        LookupStep::Done(SourceOutcome::Absent(absence)) => (absence.reason, absence.detail),
        other => panic!("not absent: {other:?}"),
    }
}

fn failed(step: LookupStep<'_>) -> String {
    match step {
        LookupStep::Done(SourceOutcome::Failed(detail)) => detail,
        other => panic!("not failed: {other:?}"),
    }
}

/// Gives the first request of a look-up a response.
fn answer<'a>(step: LookupStep<'a>, reply: &LookupResponse) -> LookupStep<'a> {
    match step {
        LookupStep::Request(pending) => pending.next(Ok(reply.clone())),
        other => panic!("asks nothing: {other:?}"),
    }
}

/// Asks a source, and answers its only question.
fn ask<'a>(
    source: &'a dyn OntologySource,
    wanted: &'a WantedOntology,
    settings: &'a SourceSettings,
    reply: &LookupResponse,
) -> LookupStep<'a> {
    answer(source.begin(wanted, settings), reply)
}

fn urls(locations: &[OntologyLocation]) -> Vec<&str> {
    locations
        .iter()
        .map(|location| location.url.as_str())
        .collect()
}

#[test]
fn obo_products_are_found_by_the_formats_wanted() {
    let (source, settings) = (&obo::Obo, SourceSettings::default());
    let registry = reply(200, fixture("obo/ontologies.jsonld"));
    let query = requested(source.begin(&wanted("hp"), &settings));
    assert_eq!(
        url(&query),
        "https://obofoundry.org/registry/ontologies.jsonld"
    );
    assert!(query.is_shared, "one answer serves every ontology");
    let locate = |wanted: &WantedOntology| found(ask(source, wanted, &settings, &registry));
    assert_eq!(
        urls(&locate(&wanted("HP"))),
        [
            "http://purl.obolibrary.org/obo/hp.owl",
            "http://purl.obolibrary.org/obo/hp.obo",
            "http://purl.obolibrary.org/obo/hp.json"
        ]
    );
    let obo_only = WantedOntology {
        formats: vec![TargetFormat::Obo],
        ..wanted("hp")
    };
    let locations = locate(&obo_only);
    assert_eq!(urls(&locations), ["http://purl.obolibrary.org/obo/hp.obo"]);
    let licence = locations[0].licence.as_ref().unwrap();
    assert_eq!(licence.name(), "https://hpo.jax.org/app/license");
    let mut base = wanted("hp");
    base.extras
        .insert("product".to_owned(), "hp/hp-base.owl".to_owned());
    assert_eq!(
        urls(&locate(&base)),
        ["http://purl.obolibrary.org/obo/hp/hp-base.owl"]
    );
    // Large ones are there compressed, though the registry does not say so.
    let chebi = locate(&WantedOntology {
        formats: vec![TargetFormat::Owl],
        ..wanted("chebi")
    });
    assert_eq!(
        urls(&chebi),
        [
            "http://purl.obolibrary.org/obo/chebi.owl.gz",
            "http://purl.obolibrary.org/obo/chebi.owl"
        ]
    );
    assert_eq!(
        chebi[0].licence.as_ref().unwrap().spdx.as_deref(),
        Some("CC-BY-4.0")
    );
    assert_eq!(chebi[0].format, Some(TargetFormat::Owl));
    // Without products there is the PURL of the ontology.
    assert_eq!(
        urls(&locate(&wanted("ro"))),
        ["http://purl.obolibrary.org/obo/ro.owl"]
    );
}

#[test]
fn obo_says_why_there_is_none() {
    let (source, settings) = (&obo::Obo, SourceSettings::default());
    let registry = reply(200, fixture("obo/ontologies.jsonld"));
    let why = |id: &str| absent(ask(source, &wanted(id), &settings, &registry));
    let (reason, detail) = why("aao");
    assert_eq!(reason, AbsenceReason::Obsolete);
    assert!(detail.contains("replaced by uberon"), "{detail}");
    assert_eq!(why("bmont").0, AbsenceReason::NoFile);
    assert_eq!(why("nosuch").0, AbsenceReason::NotListed);
    let hp = wanted("hp");
    let broken = ask(source, &hp, &settings, &reply(200, "<html>"));
    assert!(failed(broken).contains("cannot be read"));
    let down = ask(source, &hp, &settings, &reply(503, ""));
    assert!(failed(down).contains("503"));
}

#[test]
fn an_ontology_is_found_by_its_name_before_another_by_a_prefix_that_both_have() {
    let (source, settings) = (&obo::Obo, SourceSettings::default());
    let registry = reply(
        200,
        r#"{"ontologies": [
            {"id": "dpo", "preferredPrefix": "FBcv", "products": [{"id": "dpo.owl"}]},
            {"id": "fbcv", "preferredPrefix": "FBcv", "products": [{"id": "fbcv.owl"}]},
            {"id": "zfs", "preferredPrefix": "ZFS_", "products": [{"id": "zfs.owl"}]}]}"#,
    );
    for (id, file) in [("FBcv", "fbcv"), ("dpo", "dpo"), ("zfs_", "zfs")] {
        let locations = found(ask(source, &wanted(id), &settings, &registry));
        let expected = format!("http://purl.obolibrary.org/obo/{file}.owl");
        assert_eq!(urls(&locations), [expected.as_str()], "{id}");
    }
}

#[test]
fn obo_reads_a_snapshot_on_disk() {
    let settings = SourceSettings {
        obo_registry: Some("/data/ontologies.jsonld".into()),
        ..SourceSettings::default()
    };
    let query = requested(obo::Obo.begin(&wanted("hp"), &settings));
    assert_eq!(query.file, Some("/data/ontologies.jsonld".into()));
}

#[test]
fn ols_locations_are_taken_where_anybody_can_reach_them() {
    let (source, settings) = (&ols::OLS, SourceSettings::default());
    let query = requested(source.begin(&wanted("HP"), &settings));
    assert_eq!(url(&query), "https://www.ebi.ac.uk/ols4/api/ontologies/hp");
    let any = wanted("x");
    let read = |name: &str| ask(source, &any, &settings, &reply(200, fixture(name)));
    let locations = found(read("ols/hp.json"));
    assert_eq!(
        urls(&locations),
        [
            "http://purl.obolibrary.org/obo/hp.owl",
            "http://purl.obolibrary.org/obo/hp/releases/2026-06-20/hp.owl"
        ]
    );
    assert_eq!(locations[0].version.as_deref(), Some("2026-06-20"));
    assert_eq!(locations[0].licence, None, "allowDownload is no licence");
    // Loopback is refused by name, and the version IRI is there.
    let inside = found(read("ols/loopback.json"));
    assert_eq!(
        urls(&inside),
        ["https://example.org/inside/2026-01-05/inside.owl"]
    );
    assert!(
        inside[0].notes[0].contains("127.0.0.1"),
        "{:?}",
        inside[0].notes
    );
    assert_eq!(inside[0].licence.as_ref().unwrap().name(), "CC-BY-4.0");
    let (reason, detail) = absent(read("ols/file_only.json"));
    assert_eq!(reason, AbsenceReason::BadLocation);
    assert!(detail.contains("file:/opt/ols"), "{detail}");
    // The text "null" is nothing.
    assert_eq!(
        absent(read("ols/null_strings.json")).0,
        AbsenceReason::NoFile
    );
    let unknown = ask(source, &any, &settings, &reply(404, "{}"));
    assert_eq!(absent(unknown).0, AbsenceReason::NotListed);
    let page = ask(
        source,
        &any,
        &settings,
        &reply(200, "<html>maintenance</html>"),
    );
    assert!(failed(page).contains("maintenance"));
}

fn with_key() -> SourceSettings {
    SourceSettings {
        credentials: SourceCredentials::default().with_key("bioportal", "k3y"),
        ..SourceSettings::default()
    }
}

#[test]
fn portals_are_asked_by_submission() {
    let source = named("bioportal").unwrap();
    let settings = with_key();
    let query = requested(source.begin(&wanted("sty"), &settings));
    assert_eq!(
        url(&query),
        "https://data.bioontology.org/ontologies/STY/latest_submission?display=all"
    );
    let body = fixture("bioportal/latest_submission.json");
    let locations = found(ask(source, &wanted("sty"), &settings, &reply(200, body)));
    let location = &locations[0];
    assert_eq!(
        location.url.as_str(),
        "https://data.bioontology.org/ontologies/STY/submissions/21/download"
    );
    assert!(location.is_authorised);
    assert_eq!(location.version.as_deref(), Some("2026AA"));
    assert_eq!(location.revision.as_deref(), Some("submission 21"));
    assert_eq!(
        location.format,
        Some(TargetFormat::Ttl),
        "UMLS is served as Turtle"
    );
    // The key goes into a header that no message shows.
    let header = settings.authorization("bioportal").unwrap();
    assert_eq!(header.to_str().unwrap(), "apikey token=k3y");
    assert!(header.is_sensitive());
    assert!(!format!("{settings:?}").contains("k3y"));
}

#[test]
fn portals_say_which_answer_is_final() {
    let source = named("bioportal").unwrap();
    let settings = with_key();
    let why = |status: u16, name: &str| {
        absent(ask(
            source,
            &wanted("x"),
            &settings,
            &reply(status, fixture(name)),
        ))
    };
    let (reason, detail) = why(200, "bioportal/no_submission.json");
    assert_eq!(reason, AbsenceReason::NoFile);
    assert!(detail.contains("without a submission"), "{detail}");
    assert_eq!(
        why(403, "bioportal/restricted.json").0,
        AbsenceReason::Restricted
    );
    assert_eq!(
        why(404, "bioportal/no_submission.json").0,
        AbsenceReason::NotListed
    );
    assert_eq!(
        why(401, "bioportal/no_submission.json").0,
        AbsenceReason::Credential
    );
    // Of a file, 404 means that there is none.
    let of_file = |status: u16| {
        let status = StatusCode::from_u16(status).unwrap();
        source.explain_status(status).map(|absence| absence.reason)
    };
    assert_eq!(of_file(404), Some(AbsenceReason::NoFile));
    assert_eq!(of_file(403), Some(AbsenceReason::Restricted));
    assert_eq!(of_file(422), Some(AbsenceReason::NotListed));
    assert_eq!(of_file(504), None);
    let (reason, detail) = absent(source.begin(&wanted("x"), &SourceSettings::default()));
    assert_eq!(reason, AbsenceReason::Credential);
    assert!(detail.contains("BIOPORTAL_API_KEY"), "{detail}");
}

#[test]
fn a_stated_download_elsewhere_is_not_asked_with_the_key() {
    let source = named("bioportal").unwrap();
    let settings = with_key();
    let body = String::from_utf8(fixture("bioportal/latest_submission.json")).unwrap();
    let body = body.replace(
        "https://data.bioontology.org/ontologies/STY/submissions/21/download",
        "https://evil.example/ontologies/STY/submissions/21/download",
    );
    let locations = found(ask(source, &wanted("sty"), &settings, &reply(200, body)));
    assert_eq!(locations[0].url.host_str(), Some("data.bioontology.org"));
}

#[test]
fn a_portal_of_the_users_own_is_asked_at_its_address() {
    let portal = ontoportal::Portal::custom(
        "portal-mine",
        &"https://onto.example.org/api/".parse().unwrap(),
    );
    let settings = SourceSettings {
        credentials: SourceCredentials::default().with_key("portal-mine", "k"),
        portals: vec![portal],
        ..SourceSettings::default()
    };
    let source = settings.source("portal-mine").unwrap();
    let mut wanted = wanted("abc");
    wanted
        .extras
        .insert("acronym".to_owned(), "Abc/../X".to_owned());
    let query = requested(source.begin(&wanted, &settings));
    assert_eq!(
        url(&query),
        "https://onto.example.org/api/ontologies/Abc%2F..%2FX/latest_submission?display=all"
    );
}

#[test]
fn lov_gives_the_newest_version_with_a_file() {
    let (source, settings) = (&lov::Lov, SourceSettings::default());
    let query = requested(source.begin(&wanted("foaf"), &settings));
    assert_eq!(
        url(&query),
        "https://lov.linkeddata.es/dataset/lov/api/v2/vocabulary/info?vocab=foaf"
    );
    let body = fixture("lov/foaf.json");
    let locations = found(ask(
        source,
        &wanted("foaf"),
        &settings,
        &reply(200, body.clone()),
    ));
    assert_eq!(
        urls(&locations),
        ["https://lov.linkeddata.es/dataset/lov/vocabs/foaf/versions/2014-01-14.n3"]
    );
    assert_eq!(locations[0].version.as_deref(), Some("2014-01-14"));
    let old = WantedOntology {
        version: Some("2005-07-27".to_owned()),
        ..wanted("foaf")
    };
    let locations = found(ask(source, &old, &settings, &reply(200, body)));
    assert_eq!(locations[0].version.as_deref(), Some("2005-07-27"));
}

#[test]
fn lov_is_not_believed_before_a_control_answers() {
    let (source, settings) = (&lov::Lov, SourceSettings::default());
    let unknown = wanted("nosuch");
    let no = reply(404, "Not found");
    let first = || source.begin(&unknown, &settings);
    let second = || answer(first(), &no);
    assert!(url(&requested(second())).starts_with("https://lov.linkeddata.es/dataset/api/v2/"));
    let control = || answer(second(), &no);
    assert!(url(&requested(control())).ends_with("vocab=skos"));
    let listed = answer(control(), &reply(200, "{}"));
    assert_eq!(absent(listed).0, AbsenceReason::NotListed);
    // Where the API does not answer, its dump may.
    let dump = || answer(control(), &no);
    assert!(url(&requested(dump())).ends_with("/lov.n3.gz"));
    assert!(failed(answer(dump(), &no)).contains("does not answer at present"));
    assert!(failed(answer(first(), &reply(503, ""))).contains("503"));
    // After an outage the dump is the one request.
    let again = requested(source.begin_again(&unknown, &settings));
    assert_eq!(url(&again), url(&requested(dump())));
}

#[test]
fn lov_says_when_to_come_back_where_neither_its_api_nor_its_dump_responds() {
    let (settings, unknown) = (SourceSettings::default(), wanted("nosuch"));
    let held_back = |seconds: u64, why: &str| FailedRequest {
        url: None,
        verdict: Verdict::Later(
            Duration::from_secs(seconds),
            Absence {
                reason: AbsenceReason::Unreachable,
                detail: why.to_owned(),
            },
            None,
        ),
    };
    let LookupStep::Request(first) = lov::Lov.begin(&unknown, &settings) else {
        panic!("it begins with a request")
    };
    let LookupStep::Request(dump) = first.next(Err(held_back(20, "the API"))) else {
        panic!("the dump takes the place of the API")
    };
    assert!(url(&dump.request).ends_with("/lov.n3.gz"));
    let LookupStep::Done(outcome) = dump.next(Err(held_back(60, "the dump"))) else {
        panic!("nothing takes the place of the dump")
    };
    assert_eq!(
        outcome,
        SourceOutcome::Interrupted(held_back(20, "the API"))
    );
}

#[test]
fn bioregistry_addresses_come_in_the_wanted_order() {
    let source = named("bioregistry").unwrap();
    let settings = SourceSettings::default();
    let wanted = WantedOntology {
        formats: vec![TargetFormat::Obo, TargetFormat::Owl],
        ..wanted("chebi")
    };
    let body = fixture("bioregistry/chebi.json");
    let locations = found(ask(source, &wanted, &settings, &reply(200, body)));
    assert!(locations[0].url.as_str().ends_with("chebi.obo.gz"));
    assert!(locations[1].url.as_str().ends_with("chebi.owl.gz"));
}

#[test]
fn direct_addresses_and_packages_need_an_address_and_nothing_else() {
    let settings = SourceSettings::default();
    for source in [
        &direct::DIRECT as &dyn OntologySource,
        &direct::SKOS,
        &xbrl::Xbrl,
    ] {
        let (reason, detail) = absent(source.begin(&wanted("x"), &settings));
        assert_eq!(reason, AbsenceReason::Unclear);
        assert!(detail.contains("url"), "{detail}");
        let with_url = WantedOntology {
            url: Some("https://example.org/vocab".parse().unwrap()),
            ..wanted("x")
        };
        let locations = found(source.begin(&with_url, &settings));
        assert!(locations[0].is_user_supplied);
        let accept = locations[0].accept.as_deref().unwrap();
        assert!(
            !accept.contains("text/html") && accept.contains("*/*;q=0.1"),
            "{accept}"
        );
    }
}

/// What a service sends instead of JSON may repeat a key, or steer a terminal.
#[test]
fn an_answer_that_is_not_json_is_quoted_without_secrets_and_controls() {
    let (source, settings) = (&ols::OLS, SourceSettings::default());
    let hp = wanted("hp");
    let page = reply(200, "<p>closed for \u{9b}31m apikey=Pl4ntedZq81x\u{7}</p>");
    let detail = failed(ask(source, &hp, &settings, &page));
    assert!(detail.contains("closed for 31m apikey=***"), "{detail}");
    assert!(!detail.contains("Pl4ntedZq81x") && !detail.contains(char::is_control));
}

#[test]
fn addresses_of_sources_are_recorded_without_credentials() {
    let settings = SourceSettings::default();
    let odd = r#"{"config": {"fileLocation": "ftp://x.org/hp?token=Pl4ntedZq81x"}}"#;
    let (_, detail) = absent(ask(&ols::OLS, &wanted("hp"), &settings, &reply(200, odd)));
    assert!(detail.contains("token=***"), "{detail}");
    let source = named("lov").unwrap();
    let listed = r#"{"versions": [{"issued": "2026-01-01", "fileURL": "https://x.org/f?token=Pl4ntedZq81x"}]}"#;
    let places = found(ask(source, &wanted("foaf"), &settings, &reply(200, listed)));
    assert_eq!(
        places[0].revision.as_deref(),
        Some("https://x.org/f?token=***")
    );
}
