//! Pulls from portals: answers that are final, keys that stay where they belong.

use std::time::Duration;

use docstokg_ontology::pull::PullEnding;
use docstokg_ontology::source::AbsenceReason;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::pull_world::{World, id, obo, requested};

fn portal(file: ScriptedReply) -> OriginScript {
    OriginScript::new("data.bioontology.org").handler(move |arrival, _| {
        if arrival.header("authorization") != Some("apikey token=s3cret") {
            return ScriptedReply::status(401);
        }
        if arrival.path.contains("/latest_submission") {
            return ScriptedReply::ok(r#"{"submissionId": 7, "version": "2026AA"}"#);
        }
        file.clone()
    })
}

fn at_bioportal(file: ScriptedReply) -> World {
    let mut world = World::new(vec![portal(file)]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    world
}

#[test]
fn a_portals_refusals_are_answers_and_not_repeated() {
    for (status, reason) in [
        (403, AbsenceReason::Restricted),
        (404, AbsenceReason::NoFile),
        (401, AbsenceReason::Credential),
    ] {
        let world = at_bioportal(ScriptedReply::status(status));
        let result = &world.pull(requested(&["sty"]))[0];
        assert_eq!(
            (result.status, result.reason),
            (PullEnding::Failed, Some(reason))
        );
        assert_eq!(
            world.ledger().len(),
            2,
            "{status} is not requested for again"
        );
        assert!(!format!("{result:?}").contains("s3cret"));
    }
}

#[test]
fn a_portals_submission_says_whether_anything_changed() {
    let file = ScriptedReply::ok(obo("2026AA", ""))
        .header("content-disposition", "attachment; filename=\"sty.obo\"");
    let world = at_bioportal(file);
    assert_eq!(world.pull(requested(&["sty"]))[0].status, PullEnding::Fresh);
    let latest = world.library().latest(&id("sty")).unwrap().unwrap();
    assert_eq!(latest.manifest.filename, "sty.obo");
    let before = world.ledger().len();
    assert_eq!(
        world.pull(requested(&["sty"]))[0].status,
        PullEnding::Cached
    );
    assert_eq!(
        world.ledger().len() - before,
        1,
        "only the submission is requested for"
    );
}

#[test]
fn a_portal_that_is_too_busy_is_left_alone_until_its_reset() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let origin = OriginScript::new("data.bioontology.org").handler(move |arrival, _| {
        if arrival.path.contains("/latest_submission") {
            return ScriptedReply::ok(r#"{"submissionId": 7}"#);
        }
        match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0..4 => ScriptedReply::status(429)
                .header("ratelimit-reset", "40")
                .body("Rate limit"),
            _ => ScriptedReply::ok(obo("1", "")),
        }
    });
    let mut world = World::new(vec![origin]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    let result = &world.pull(requested(&["sty"]))[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
    assert!(world.simulation.elapsed() > Duration::from_secs(40));
}

#[test]
fn a_key_does_not_travel_along_a_chain_of_redirects() {
    let hop = |host: &str, to: &str| {
        OriginScript::new(host).handler({
            let to = to.to_owned();
            move |_, _| ScriptedReply::redirect(302, &to)
        })
    };
    let portal = OriginScript::new("data.bioontology.org").handler(|arrival, _| {
        if arrival.path.contains("/latest_submission") {
            return ScriptedReply::ok(r#"{"submissionId": 7}"#);
        }
        ScriptedReply::redirect(302, "https://a.example.org/1")
    });
    let mut world = World::new(vec![
        portal,
        hop("a.example.org", "https://b.example.org/2"),
        hop("b.example.org", "http://c.example.org/3"),
        hop("c.example.org", "https://d.example.org/4"),
        hop("d.example.org", "https://e.example.org/5"),
        OriginScript::new("e.example.org").handler(|_, _| ScriptedReply::ok(obo("1", ""))),
    ]);
    world.config.prefer_source = vec!["bioportal".to_owned()];
    let result = &world.pull(requested(&["sty"]))[0];
    assert_eq!(result.status, PullEnding::Fresh, "{result:?}");
    assert_eq!(result.final_url.as_deref(), Some("https://e.example.org/5"));
    for arrival in world.ledger().arrivals() {
        let has_key = arrival.header("authorization").is_some();
        assert_eq!(
            has_key,
            arrival.host == "data.bioontology.org",
            "{}",
            arrival.host
        );
    }
    // Plain http on the way became https.
    assert_eq!(world.ledger().at("c.example.org").len(), 1);
}

/// Packs the dump of a catalogue as the service offers it.
fn dump() -> Vec<u8> {
    use std::io::Write as _;
    let text = r#"@prefix dcat: <http://www.w3.org/ns/dcat#> .
@prefix vann: <http://purl.org/vocab/vann/> .
<http://xmlns.com/foaf/0.1/> vann:preferredNamespacePrefix "foaf" ;
    dcat:distribution <https://lov.linkeddata.es/dataset/lov/vocabs/foaf/versions/2010-08-09.n3> ,
        <https://lov.linkeddata.es/dataset/lov/vocabs/foaf/versions/2014-01-14.n3> ,
        <https://lov.linkeddata.es/dataset/lov/vocabs/foaf/versions/d41d8cd98f00b204> .
<http://example.org/bare> vann:preferredNamespacePrefix "bare" .
<dataset/lov/vocabs/near> vann:preferredNamespacePrefix "near" ;
    dcat:distribution </dataset/lov/vocabs/near/versions/2020-02-02.n3> .
"#;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_dump_of_lov_stands_in_while_its_api_does_not_answer() {
    for status in [503, 404] {
        let lov = OriginScript::new("lov.linkeddata.es").handler(move |arrival, _| {
            let path = arrival.path.split('?').next().unwrap_or_default();
            if path == "/lov.n3.gz" {
                ScriptedReply::ok(dump())
            } else if path.contains("/versions/") {
                let text = format!("<http://xmlns.com/foaf/0.1/{path}> a <http://x.org/T> .\n");
                ScriptedReply::ok(text)
            } else {
                ScriptedReply::status(status)
            }
        });
        let mut world = World::new(vec![lov]);
        world.config.prefer_source = vec!["lov".to_owned()];
        let results = world.pull(requested(&["foaf", "bare", "nosuch", "near"]));
        let foaf = &results[0];
        assert_eq!(foaf.status, PullEnding::Fresh, "{status}: {foaf:?}");
        assert_eq!(foaf.version.as_deref(), Some("2014-01-14"));
        assert!(foaf.notes[0].contains("its dump was read"), "{foaf:?}");
        assert_eq!(
            results[1].reason,
            Some(AbsenceReason::NoFile),
            "{results:?}"
        );
        assert_eq!(results[2].reason, Some(AbsenceReason::NotListed));
        // Its addresses are relative, and the dump names no base.
        assert_eq!(results[3].version.as_deref(), Some("2020-02-02"));
        let arrivals = world.ledger().at("lov.linkeddata.es");
        let dumps = arrivals
            .iter()
            .filter(|arrival| arrival.path == "/lov.n3.gz");
        assert_eq!(dumps.count(), 1, "it is requested for once");
    }
}
