//! Whole runs against the simulated scholarly web, under simulated time.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_content::work_state::ArtifactKind;
use docstokg_origin_sim::scholarly::{Faults, LibraryPlan, TruthFileKind, WorkLibrary};
use sha2::{Digest, Sha256};

use crate::run_world::{Typed, World, plain_hosts, urls};

fn sha256(path: &Path) -> String {
    Sha256::digest(std::fs::read(path).unwrap())
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Checks that every work has what the truth says, and that files are what the manifest says.
fn check_truth(world: &World, library: &WorkLibrary) {
    let mut found: HashMap<String, Vec<serde_json::Value>> = HashMap::new();
    for record in world
        .records()
        .into_iter()
        .filter(|record| record["record_type"] == "manifest")
    {
        if let Some(path) = record["path"].as_str() {
            assert_eq!(
                sha256(&world.out.path().join(path)),
                record["sha256"].as_str().unwrap(),
                "{path}"
            );
        }
        found
            .entry(record["work_id"].as_str().unwrap().to_owned())
            .or_default()
            .push(record);
    }
    for truth in library.truth() {
        let records = found
            .get(&truth.id)
            .unwrap_or_else(|| panic!("no record of {}", truth.id));
        let pdf = records
            .iter()
            .find(|record| record["classification"] == "pdf");
        match (truth.has_pdf(), pdf) {
            (true, Some(pdf)) => {
                let sum = pdf["sha256"].as_str().unwrap();
                assert!(
                    truth
                        .of_kind(TruthFileKind::Pdf)
                        .any(|copy| copy.sha256 == sum),
                    "{} has bytes that nobody has",
                    truth.id
                );
            }
            (false, None) => assert!(records[0]["reason"].is_string(), "{records:?}"),
            (true, None) => panic!(
                "{} is obtainable and was not obtained: {records:?}",
                truth.id
            ),
            (false, Some(pdf)) => panic!("{} is not obtainable: {pdf}", truth.id),
        }
    }
}

fn no_leftovers(out: &Path) {
    let names: Vec<String> = std::fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.contains(&".docstokg".to_owned()), "{names:?}");
}

#[test]
fn a_run_gets_everything_that_can_be_had_and_draws_no_429() {
    for seed in 1..=3 {
        let library = WorkLibrary::generate(&LibraryPlan {
            seed,
            works: 200,
            scale: 5,
            faults: Faults::Usual,
            file_bytes: 3_000..9_000,
            ..LibraryPlan::default()
        });
        let world = World::of(&library);
        let (ended, took, progress) = world.run(
            Box::new(Typed(Some(library.input_lines().join("\n")))),
            |_| {},
        );
        assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
        check_truth(&world, &library);
        no_leftovers(world.out.path());
        let statuses = world.web.ledger().statuses();
        assert_eq!(statuses.get(&429), None, "seed {seed}: {statuses:?}");
        for host in library.hosts() {
            world
                .web
                .ledger()
                .nothing_before_retry_after(&host)
                .unwrap();
        }
        let counters = progress.counters();
        assert_eq!(counters.items, library.truth().len() as u64);
        assert!(counters.bad_lines > 0 && counters.duplicates > 0);
        // No file is fetched twice: every path that gave a whole file did so once.
        let mut whole: BTreeMap<(String, String), u32> = BTreeMap::new();
        for arrival in world
            .web
            .ledger()
            .arrivals()
            .iter()
            .filter(|arrival| arrival.status == 200 && arrival.path.contains("pdf"))
        {
            *whole
                .entry((arrival.host.clone(), arrival.path.clone()))
                .or_default() += 1;
        }
        let twice: Vec<_> = whole.iter().filter(|(_, times)| **times > 1).collect();
        // Cut transfers come again, and so do files that are wanted by a second copy of them being
        // wrong: a handful.
        assert!(twice.len() <= 8, "seed {seed}: {twice:?}");
        assert!(took < Duration::from_secs(120), "seed {seed} took {took:?}");
    }
}

#[test]
fn run_is_repeated_exactly_from_its_seed() {
    let library = WorkLibrary::generate(&LibraryPlan {
        seed: 4,
        works: 60,
        scale: 5,
        file_bytes: 3_000..5_000,
        ..LibraryPlan::default()
    });
    let story = || {
        let world = World::of(&library);
        world.run(
            Box::new(Typed(Some(library.input_lines().join("\n")))),
            |_| {},
        );
        let arrivals = world.web.ledger().arrivals();
        arrivals
            .iter()
            .map(|arrival| {
                format!(
                    "{} {} {}",
                    arrival.at.as_micros(),
                    arrival.host,
                    arrival.path
                )
            })
            .collect::<Vec<_>>()
    };
    for (first, second) in story().into_iter().zip(story()) {
        assert_eq!(first, second);
    }
}

#[test]
fn the_makespan_is_close_to_the_theoretical_minimum_though_inputs_are_sorted_by_host() {
    let latency = Duration::from_millis(80);
    let (origins, yaml) = plain_hosts(20, "5/SECOND", latency);
    let world = World::new(origins, &yaml, |_| None);
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", urls(20, 200))), |_| {});
    assert!(matches!(ended, RunEnd::Complete));
    assert_eq!(progress.counters().done, 4_000);
    // 200 at five a second: the last leaves after 39 seconds. robots.txt comes first, once.
    let least = 39.0 + 2.0 * latency.as_secs_f64();
    let ratio = took.as_secs_f64() / least;
    assert!(ratio <= 1.05, "{ratio} x the minimum");
    assert_eq!(world.web.ledger().statuses().get(&429), None);
    for host in 0..20 {
        assert_eq!(
            world.web.ledger().at(&format!("h{host}.example")).len(),
            201
        );
    }
}

#[test]
fn a_url_with_a_credential_beside_a_doi_is_used_and_not_persisted() {
    let (origins, yaml) = plain_hosts(1, "50/SECOND", Duration::ZERO);
    let world = World::new(origins, &yaml, |_| None);
    let mut work =
        Work::new(docstokg_content::identifier::Identifier::parse("10.1234/signed").unwrap());
    work.identifiers.url = Some("http://h0.example/f/1.pdf?token=hush-hush".parse().unwrap());
    let (ended, _, progress) = world.run(Box::new(WorkList::new("list", vec![work])), |_| {});
    assert!(matches!(ended, RunEnd::Complete));
    assert_eq!(progress.counters().done, 1);
    for file in ["manifest.sqlite3", "manifest.jsonl"] {
        let bytes = std::fs::read(world.out.path().join(file)).unwrap();
        assert!(
            !bytes.windows(9).any(|window| window == b"hush-hush"),
            "{file}"
        );
    }
}

#[test]
fn works_that_lead_to_one_url_share_its_file_and_ask_for_it_once() {
    let (origins, yaml) = plain_hosts(1, "50/SECOND", Duration::from_millis(300));
    let world = World::new(origins, &yaml, |_| None);
    // Other works by their names, the same place in the index; all are in hand while the first is
    // fetched.
    let spellings = [
        "http://h0.example/f/1.pdf",
        "http://h0.example./f/1.pdf",
        "http://H0.example:80/f/../f/1.pdf",
        "http://h0.example/f/%31.pdf",
    ];
    let works: Vec<Work> = (0..40)
        .map(|n| {
            let mut work = Work::new(
                docstokg_content::identifier::Identifier::parse(&format!("10.1234/same.{n}"))
                    .unwrap(),
            );
            work.identifiers.url = Some(spellings[n % spellings.len()].parse().unwrap());
            work
        })
        .collect();
    let (ended, _, progress) = world.run(Box::new(WorkList::new("list", works)), |_| {});
    assert!(matches!(ended, RunEnd::Complete));
    let without: Vec<_> = world
        .records()
        .into_iter()
        .filter(|record| record["record_type"] == "manifest" && record["path"].is_null())
        .collect();
    assert!(without.is_empty(), "{without:?}");
    assert_eq!(progress.counters().done, 40);
    assert_eq!(
        world
            .web
            .ledger()
            .at("h0.example")
            .iter()
            .filter(|arrival| arrival.path.starts_with("/f/"))
            .count(),
        1,
        "one file, asked for once"
    );
    let paths: std::collections::BTreeSet<String> = world
        .records()
        .iter()
        .filter_map(|record| record["path"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
}

#[test]
fn a_second_run_on_the_same_directory_fetches_nothing_again() {
    let library = WorkLibrary::generate(&LibraryPlan {
        seed: 2,
        works: 50,
        scale: 5,
        file_bytes: 3_000..5_000,
        ..LibraryPlan::default()
    });
    let world = World::of(&library);
    let inputs = || Box::new(Typed(Some(library.input_lines().join("\n"))));
    world.run(inputs(), |_| {});
    let (before, records) = (world.web.ledger().len(), world.records().len());
    let (ended, _, progress) = world.run(inputs(), |_| {});
    assert!(matches!(ended, RunEnd::Complete));
    assert_eq!(world.web.ledger().len(), before);
    assert_eq!(world.records().len(), records);
    assert!(progress.counters().already > 0);
}

#[test]
fn xml_is_fetched_beside_pdf_where_it_is_wanted_and_there() {
    let library = WorkLibrary::generate(&LibraryPlan {
        seed: 3,
        works: 120,
        scale: 5,
        faults: Faults::None,
        file_bytes: 3_000..5_000,
        ..LibraryPlan::default()
    });
    let world = World::of(&library);
    let (ended, ..) = world.run(
        Box::new(Typed(Some(library.input_lines().join("\n")))),
        |options| {
            options.kinds.insert(ArtifactKind::Xml);
        },
    );
    assert!(matches!(ended, RunEnd::Complete));
    check_truth(&world, &library);
    let with_xml: Vec<String> = world
        .records()
        .iter()
        .filter(|r| r["record_type"] == "manifest" && r["classification"] == "xml")
        .map(|r| r["work_id"].as_str().unwrap().to_owned())
        .collect();
    let wanted = library
        .truth()
        .iter()
        .filter(|truth| truth.has_xml())
        .count();
    assert!(
        with_xml.len() * 10 >= wanted * 9,
        "{} of {wanted}",
        with_xml.len()
    );
}

#[test]
fn a_cancelled_run_finishes_requests_on_the_wire_and_keeps_the_rest() {
    let (origins, yaml) = plain_hosts(3, "5/SECOND", Duration::from_millis(50));
    let world = World::new(origins, &yaml, |_| None);
    let (ended, ..) = world.run(Box::new(WorkList::new("list", urls(3, 100))), |options| {
        options.max_bytes = Some(20 * 1_230);
    });
    let RunEnd::BytesSpent { left } = ended else {
        panic!("{ended:?}")
    };
    assert!(left > 200, "{left}");
    let (ended, _, progress) = world.run(Box::new(WorkList::new("list", Vec::new())), |_| {});
    assert!(matches!(ended, RunEnd::Complete));
    assert_eq!(progress.counters().done, 300);
    for host in 0..3 {
        let arrivals = world.web.ledger().at(&format!("h{host}.example"));
        let mut paths: Vec<&str> = arrivals
            .iter()
            .filter(|arrival| arrival.status == 200)
            .map(|arrival| arrival.path.as_str())
            .collect();
        paths.sort_unstable();
        let twice: Vec<&&str> = paths
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| &pair[0])
            .collect();
        let when = |path: &str| {
            arrivals
                .iter()
                .filter(|arrival| arrival.path == path)
                .map(|arrival| (arrival.at, arrival.status, arrival.ended))
                .collect::<Vec<_>>()
        };
        assert!(
            twice.is_empty(),
            "asked for twice: {:?}",
            twice
                .iter()
                .map(|path| (path, when(path)))
                .collect::<Vec<_>>()
        );
        assert_eq!(paths.len(), 100);
    }
    no_leftovers(world.out.path());
}
