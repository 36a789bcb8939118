//! Whole runs against the simulated scholarly web, under simulated time.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::ops::Range;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::directory::UnfinishedFiles;
use docstokg_bulk::progress::Progress;
use docstokg_bulk::queue::Mode;
use docstokg_bulk::scheduler::Ended;
use docstokg_content::input::{Format, InputReader};
use docstokg_content::reason::Reason;
use docstokg_content::resolver::settings::{Credentials, Settings};
use docstokg_content::resolver::specs;
use docstokg_content::run::inputs::{Inputs, Listed};
use docstokg_content::run::{Options, Parts, Run, open_directory, report};
use docstokg_content::web::BoxFuture;
use docstokg_content::work::Work;
use docstokg_content::work_state::Kind;
use docstokg_hub::Hub;
use docstokg_hub::clock::{Clock, Random, Timestamp};
use docstokg_hub::config::load::{Sources, load};
use docstokg_hub::config::{Config, Durability};
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::stores::StateStore;
use docstokg_hub::transport::{Dial, Incoming, Outgoing, SendError, Transport};
use docstokg_origin_sim::scholarly::{Faults, FileKind, Library, Plan};
use docstokg_origin_sim::{Origin, Reply, SimTransport, Simulation, Web};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Lines as they are typed, the bad ones among them.
struct Typed(Option<String>);

impl Inputs for Typed {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<docstokg_content::run::inputs::Read>>> {
        let lines = self.0.take().map(|text| {
            InputReader::new(text.as_bytes(), Format::Lines)
                .map(|line| ("typed".into(), line))
                .collect()
        });
        Box::pin(std::future::ready(lines))
    }
}

pub(crate) struct World {
    pub(crate) simulation: Simulation,
    pub(crate) web: Web,
    pub(crate) config: Config,
    settings: Arc<Settings>,
    out: TempDir,
    /// The store of limits, where another process shares it.
    pub(crate) store: Option<Arc<dyn StateStore>>,
    pub(crate) reachability: Option<Arc<dyn Reachability>>,
    /// When this machine has no network, from the beginning of the simulation on.
    pub(crate) outage: Range<Duration>,
    /// A host that serves no https.
    pub(crate) plain_host: Option<&'static str>,
}

/// A machine that loses its network for a while.
struct Unplugged {
    inner: Arc<dyn Transport>,
    simulation: Simulation,
    outage: Range<Duration>,
    plain_host: Option<&'static str>,
}

impl Transport for Unplugged {
    fn send(
        &self,
        request: Outgoing,
        dial: Arc<dyn Dial>,
    ) -> Pin<Box<dyn Future<Output = Result<Incoming, SendError>> + Send + '_>> {
        if self.outage.contains(&self.simulation.elapsed()) {
            let message = "network is unreachable".to_owned();
            return Box::pin(std::future::ready(Err(SendError::Fault {
                fault: Fault::NoRoute,
                message,
            })));
        }
        if request.url.scheme() == "https"
            && self.plain_host.is_some()
            && request.url.host_str() == self.plain_host
        {
            let message = "connection refused".to_owned();
            return Box::pin(std::future::ready(Err(SendError::Fault {
                fault: Fault::Connect,
                message,
            })));
        }
        self.inner.send(request, dial)
    }
}

fn read_config(yaml: &str) -> Config {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("c.yaml");
    std::fs::write(&file, yaml).unwrap();
    let (mut config, _) = load(&Sources {
        file: Some(file),
        ..Sources::default()
    })
    .unwrap_or_else(|problems| panic!("{problems}\n{yaml}"));
    config.transport.durability = Durability::None;
    config
}

impl World {
    pub(crate) fn new(
        origins: Vec<Origin>,
        yaml: &str,
        endpoint: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let simulation = Simulation::new();
        let web = Web::new(origins, simulation.boot());
        let mut settings = Settings {
            credentials: Credentials::default().with_mailto("reader@simulated-library.org"),
            ..Settings::default()
        };
        let mut endpoints = serde_json::to_value(&settings.endpoints).unwrap();
        for (name, value) in endpoints.as_object_mut().unwrap() {
            if let Some(base) = endpoint(name) {
                *value = base.into();
            }
        }
        settings.endpoints = serde_json::from_value(endpoints).unwrap();
        Self {
            simulation,
            web,
            config: read_config(yaml),
            settings: Arc::new(settings),
            out: TempDir::new().unwrap(),
            reachability: None,
            outage: Duration::ZERO..Duration::ZERO,
            plain_host: None,
            store: None,
        }
    }

    fn of(library: &Library) -> Self {
        Self::new(
            library.origins(),
            &library.client_configuration(),
            |service| library.endpoint(service),
        )
    }

    /// Runs to the end, and returns how it ended and how long it took.
    pub(crate) fn run(
        &self,
        inputs: Box<dyn Inputs>,
        change: impl FnOnce(&mut Options),
    ) -> (Ended, Duration, Arc<Progress>) {
        let hub = Hub::builder(self.config.clone())
            .runtime(self.simulation.runtime())
            .store(
                self.store
                    .clone()
                    .unwrap_or_else(|| self.simulation.store()),
            )
            .random(Random::seeded(5))
            .transport(Arc::new(Unplugged {
                inner: SimTransport::new(&self.simulation, &self.web),
                simulation: self.simulation.clone(),
                outage: self.outage.clone(),
                plain_host: self.plain_host,
            }))
            .build()
            .unwrap();
        let directory = open_directory(self.out.path(), Mode::Inline).unwrap();
        let mut options = Options {
            min_free: 0,
            ..Options::new(self.out.path().to_owned())
        };
        change(&mut options);
        let progress = Arc::new(Progress::default());
        let parts = Parts {
            hub,
            runtime: self.simulation.runtime(),
            queue: directory.queue.clone(),
            settings: Arc::clone(&self.settings),
            options: options.clone(),
            run_id: "run".into(),
            progress: Arc::clone(&progress),
            reachability: self.reachability.clone(),
        };
        let begun = self.simulation.elapsed();
        let (told, counters) = (options.clone(), Arc::clone(&progress));
        let ended = self.simulation.block_on(async move {
            directory.recover().await.unwrap();
            let queue = parts.queue.clone();
            let run = Run::new(parts).await.unwrap();
            let ended = run.run(inputs).await.unwrap();
            report(&queue, &told, "run", &counters.counters(), Timestamp::EPOCH)
                .await
                .unwrap();
            directory.clean_up(if ended == Ended::Complete {
                UnfinishedFiles::Remove
            } else {
                UnfinishedFiles::Keep
            });
            ended
        });
        (
            ended,
            self.simulation.elapsed().saturating_sub(begun),
            progress,
        )
    }

    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.out.path().join("manifest.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn sha256(path: &Path) -> String {
    Sha256::digest(std::fs::read(path).unwrap())
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Checks that every work has what the truth says, and that files are what the manifest says.
fn check_truth(world: &World, library: &Library) {
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
                    truth.of_kind(FileKind::Pdf).any(|copy| copy.sha256 == sum),
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
        let library = Library::generate(&Plan {
            seed,
            works: 200,
            scale: 5,
            faults: Faults::Usual,
            file_bytes: 3_000..9_000,
            ..Plan::default()
        });
        let world = World::of(&library);
        let (ended, took, progress) = world.run(
            Box::new(Typed(Some(library.input_lines().join("\n")))),
            |_| {},
        );
        assert!(matches!(ended, Ended::Complete), "{ended:?}");
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
fn the_same_seed_gives_the_same_run() {
    let library = Library::generate(&Plan {
        seed: 4,
        works: 60,
        scale: 5,
        file_bytes: 3_000..5_000,
        ..Plan::default()
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

/// Hosts that give a small PDF for every path.
pub(crate) fn plain_hosts(count: usize, rate: &str, latency: Duration) -> (Vec<Origin>, String) {
    let mut yaml = String::from("version: 1\nlimits:\n  hosts:\n");
    let origins = (0..count).map(|n| {
        yaml.push_str(&format!("    h{n}.example: {{ artifact: {{ rates: [\"{rate}\"], max_concurrent: 10 }}, landing: {{ rates: [] }} }}\n"));
        Origin::new(&format!("h{n}.example")).limit_under("/f/", rate).latency(latency).handler(|arrival, _| pdf(&arrival.path))
    });
    let origins = origins.collect();
    (origins, yaml)
}

pub(crate) fn pdf(name: &str) -> Reply {
    if name == "/robots.txt" {
        return Reply::status(404);
    }
    Reply::ok(format!("%PDF-1.7\n{}{}\n%%EOF\n", name, " ".repeat(1_200)))
        .header("content-type", "application/pdf")
}

pub(crate) fn urls(hosts: usize, each: usize) -> Vec<Work> {
    let url = |host: usize, n: usize| format!("http://h{host}.example/f/{n}.pdf");
    // Sorted by host: the order that starves those who queue in order.
    (0..hosts)
        .flat_map(|host| {
            (0..each).map(move |n| {
                Work::new(docstokg_content::identifier::Identifier::parse(&url(host, n)).unwrap())
            })
        })
        .collect()
}

#[test]
fn the_makespan_is_close_to_the_theoretical_minimum_though_inputs_are_sorted_by_host() {
    let latency = Duration::from_millis(80);
    let (origins, yaml) = plain_hosts(20, "5/SECOND", latency);
    let world = World::new(origins, &yaml, |_| None);
    let (ended, took, progress) = world.run(Box::new(Listed::new("list", urls(20, 200))), |_| {});
    assert!(matches!(ended, Ended::Complete));
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
fn a_url_with_a_key_beside_a_doi_is_used_and_not_written_down() {
    let (origins, yaml) = plain_hosts(1, "50/SECOND", Duration::ZERO);
    let world = World::new(origins, &yaml, |_| None);
    let mut work =
        Work::new(docstokg_content::identifier::Identifier::parse("10.1234/signed").unwrap());
    work.identifiers.url = Some("http://h0.example/f/1.pdf?token=hush-hush".parse().unwrap());
    let (ended, _, progress) = world.run(Box::new(Listed::new("list", vec![work])), |_| {});
    assert!(matches!(ended, Ended::Complete));
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
    let (ended, _, progress) = world.run(Box::new(Listed::new("list", works)), |_| {});
    assert!(matches!(ended, Ended::Complete));
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
fn one_host_that_wants_to_be_left_alone_for_an_hour_slows_nobody() {
    let run = |parked: bool| {
        let (mut origins, yaml) = plain_hosts(51, "5/SECOND", Duration::from_millis(50));
        if parked {
            let last = origins.pop().unwrap();
            origins.push(last.outage(
                Duration::ZERO..Duration::from_secs(3_500),
                Reply::status(503).header("retry-after", "3600"),
            ));
        }
        let world = World::new(origins, &yaml, |_| None);
        let (ended, took, progress) =
            world.run(Box::new(Listed::new("list", urls(51, 50))), |options| {
                options.max_wait = Duration::from_secs(60);
            });
        let last = (0..50)
            .flat_map(|host| world.web.ledger().at(&format!("h{host}.example")))
            .map(|arrival| arrival.at)
            .max()
            .unwrap();
        let first = world.web.ledger().arrivals()[0].at;
        (ended, took, progress.counters().done, last.since(first))
    };
    let (ended, _, done, alone) = run(false);
    assert!(matches!(ended, Ended::Complete) && done == 51 * 50);
    let (ended, _, done, beside) = run(true);
    assert_eq!(done, 50 * 50);
    let Ended::Deferred { left: 50, due_in } = ended else {
        panic!("{ended:?}")
    };
    assert!(due_in > Duration::from_secs(3_000), "{due_in:?}");
    let ratio = beside.as_secs_f64() / alone.as_secs_f64();
    assert!(ratio < 1.02, "{ratio}");
}

#[test]
fn a_parked_host_is_taken_up_again_when_its_time_has_come() {
    let (mut origins, yaml) = plain_hosts(2, "5/SECOND", Duration::from_millis(50));
    let last = origins.pop().unwrap();
    origins.push(last.outage(
        Duration::ZERO..Duration::from_secs(100),
        Reply::status(503).header("retry-after", "120"),
    ));
    let world = World::new(origins, &yaml, |_| None);
    let (ended, took, progress) = world.run(Box::new(Listed::new("list", urls(2, 20))), |_| {});
    assert!(matches!(ended, Ended::Complete), "{ended:?}");
    assert_eq!(progress.counters().done, 40);
    assert!(
        took > Duration::from_secs(120) && took < Duration::from_secs(200),
        "{took:?}"
    );
    world
        .web
        .ledger()
        .nothing_before_retry_after("h1.example")
        .unwrap();
}

#[test]
fn a_second_run_on_the_same_directory_fetches_nothing_again() {
    let library = Library::generate(&Plan {
        seed: 2,
        works: 50,
        scale: 5,
        file_bytes: 3_000..5_000,
        ..Plan::default()
    });
    let world = World::of(&library);
    let inputs = || Box::new(Typed(Some(library.input_lines().join("\n"))));
    world.run(inputs(), |_| {});
    let (before, records) = (world.web.ledger().len(), world.records().len());
    let (ended, _, progress) = world.run(inputs(), |_| {});
    assert!(matches!(ended, Ended::Complete));
    assert_eq!(world.web.ledger().len(), before);
    assert_eq!(world.records().len(), records);
    assert!(progress.counters().already > 0);
}

#[test]
fn xml_is_fetched_beside_pdf_where_it_is_wanted_and_there() {
    let library = Library::generate(&Plan {
        seed: 3,
        works: 120,
        scale: 5,
        faults: Faults::None,
        file_bytes: 3_000..5_000,
        ..Plan::default()
    });
    let world = World::of(&library);
    let (ended, ..) = world.run(
        Box::new(Typed(Some(library.input_lines().join("\n")))),
        |options| {
            options.kinds.insert(Kind::Xml);
        },
    );
    assert!(matches!(ended, Ended::Complete));
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
fn a_run_that_is_asked_to_stop_finishes_what_is_in_flight_and_keeps_the_rest() {
    let (origins, yaml) = plain_hosts(3, "5/SECOND", Duration::from_millis(50));
    let world = World::new(origins, &yaml, |_| None);
    let (ended, ..) = world.run(Box::new(Listed::new("list", urls(3, 100))), |options| {
        options.max_bytes = Some(20 * 1_230);
    });
    let Ended::BytesSpent { left } = ended else {
        panic!("{ended:?}")
    };
    assert!(left > 200, "{left}");
    let (ended, _, progress) = world.run(Box::new(Listed::new("list", Vec::new())), |_| {});
    assert!(matches!(ended, Ended::Complete));
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

/// A service that knows every DOI's file, on one host, and throttles once.
fn one_service(first: Reply) -> (Vec<Origin>, String) {
    let throttled = std::sync::atomic::AtomicBool::new(false);
    let api = Origin::new("api.example").latency(Duration::from_millis(30)).handler(move |arrival, _| {
        if !throttled.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return first.clone();
        }
        let doi = arrival.path.trim_start_matches("/v2/").split('?').next().unwrap_or_default().to_owned();
        let location = serde_json::json!({ "url": format!("http://h0.example/f/{doi}.pdf"), "url_for_pdf": format!("http://h0.example/f/{doi}.pdf"), "host_type": "repository" });
        Reply::ok(serde_json::json!({ "doi": doi, "is_oa": true, "best_oa_location": location, "oa_locations": [location] }).to_string())
    });
    let (mut origins, yaml) = plain_hosts(1, "50/SECOND", Duration::from_millis(20));
    origins.push(api);
    (
        origins,
        yaml + "    api.example: { metadata: { rates: [\"50/SECOND\"], max_concurrent: 8 } }\n",
    )
}

fn dois(count: usize) -> Vec<Work> {
    (0..count)
        .map(|n| {
            Work::new(
                docstokg_content::identifier::Identifier::parse(&format!("10.1234/w{n}")).unwrap(),
            )
        })
        .collect()
}

#[test]
fn one_429_of_a_service_costs_no_work() {
    let (origins, yaml) = one_service(Reply::status(429).header("retry-after", "6"));
    let world = World::new(origins, &yaml, |service| {
        (service == "unpaywall").then(|| "http://api.example/v2/".to_owned())
    });
    let (ended, took, progress) = world.run(Box::new(Listed::new("list", dois(600))), |options| {
        options.choice.disable = specs()
            .iter()
            .map(|spec| spec.id)
            .filter(|id| id.as_str() != "unpaywall")
            .collect();
    });
    assert!(matches!(ended, Ended::Complete), "{ended:?}");
    assert_eq!(
        (progress.counters().done, progress.counters().failed),
        (600, 0),
        "{:?}",
        progress.counters().reasons
    );
    assert!(took < Duration::from_secs(60), "{took:?}");
    world
        .web
        .ledger()
        .nothing_before_retry_after("api.example")
        .unwrap();
}

#[test]
fn a_host_that_keeps_failing_is_given_up() {
    let (mut origins, yaml) = plain_hosts(1, "50/SECOND", Duration::from_millis(20));
    origins[0] = Origin::new("h0.example").handler(|arrival, _| {
        if arrival.path == "/robots.txt" {
            Reply::status(404)
        } else {
            Reply::status(500)
        }
    });
    let world = World::new(origins, &yaml, |_| None);
    let (ended, took, progress) = world.run(Box::new(Listed::new("list", urls(1, 60))), |_| {});
    assert!(matches!(ended, Ended::Complete), "{ended:?}");
    assert_eq!(progress.counters().failed, 60);
    assert!(took < Duration::from_secs(1_000), "{took:?}");
    // The breaker kept nearly all of them from being sent.
    assert!(
        world.web.ledger().len() < 60,
        "{}",
        world.web.ledger().len()
    );
}

#[test]
fn hosts_that_want_long_pauses_keep_nobody_waiting() {
    let (mut origins, mut yaml) = plain_hosts(1, "100/SECOND", Duration::from_millis(20));
    for n in 0..40 {
        yaml.push_str(&format!("    slow{n}.example: {{ artifact: {{ rates: [\"100/SECOND\"] }}, landing: {{ rates: [] }} }}\n"));
        origins.push(
            Origin::new(&format!("slow{n}.example")).handler(|arrival, _| {
                match arrival.path.as_str() {
                    "/robots.txt" => Reply::ok("User-agent: *\nCrawl-delay: 30\n"),
                    path => pdf(path),
                }
            }),
        );
    }
    let world = World::new(origins, &yaml, |_| None);
    let slow = (0..40)
        .flat_map(|host| (0..10).map(move |n| format!("http://slow{host}.example/f/{n}.pdf")));
    let slow =
        slow.map(|url| Work::new(docstokg_content::identifier::Identifier::parse(&url).unwrap()));
    let works: Vec<Work> = slow.chain(urls(1, 400)).collect();
    let (ended, took, progress) = world.run(Box::new(Listed::new("list", works)), |options| {
        options.workers = 100;
    });
    assert!(matches!(ended, Ended::Complete), "{ended:?}");
    assert_eq!(progress.counters().done, 800);
    let fast = world.web.ledger().at("h0.example");
    let last = fast.last().unwrap().at.since(fast[0].at);
    assert!(
        last < Duration::from_secs(10),
        "the fast host took {last:?}"
    );
    assert!(
        took >= Duration::from_secs(270),
        "the pauses were kept: {took:?}"
    );
    for host in 0..40 {
        world
            .web
            .ledger()
            .no_window_exceeded(&format!("slow{host}.example"), 2, Duration::from_secs(29))
            .unwrap();
    }
}

#[test]
fn a_redirect_to_a_host_that_wants_no_robots_is_not_followed() {
    let yaml =
        "version: 1\nlimits: { defaults: { artifact: { rates: [] }, landing: { rates: [] } } }\n";
    let origins = vec![
        Origin::new("a.example").handler(|arrival, _| {
            if arrival.path == "/robots.txt" {
                Reply::status(404)
            } else {
                Reply::redirect(302, "http://b.example/private/x.pdf")
            }
        }),
        Origin::new("b.example").handler(|arrival, _| {
            if arrival.path == "/robots.txt" {
                Reply::ok("User-agent: *\nDisallow: /private\n")
            } else {
                pdf("x")
            }
        }),
    ];
    let world = World::new(origins, yaml, |_| None);
    let work = Work::new(
        docstokg_content::identifier::Identifier::parse("http://a.example/x.pdf").unwrap(),
    );
    let (_, _, progress) = world.run(Box::new(Listed::new("list", vec![work])), |options| {
        options.choice.disable = vec!["openalex".parse().unwrap()];
    });
    assert_eq!(
        progress
            .counters()
            .reasons
            .get(Reason::RobotsDisallowed.as_str()),
        Some(&1),
        "{:?}",
        progress.counters()
    );
    let asked: Vec<String> = world
        .web
        .ledger()
        .at("b.example")
        .into_iter()
        .map(|arrival| arrival.path)
        .collect();
    assert_eq!(asked, ["/robots.txt"]);
}

#[test]
fn a_work_has_no_more_time_than_it_is_given() {
    let yaml =
        "version: 1\nlimits: { defaults: { artifact: { rates: [] }, landing: { rates: [] } } }\n";
    let origin = Origin::new("h0.example").handler(|arrival, _| {
        if arrival.path == "/robots.txt" {
            Reply::status(404)
        } else {
            Reply::status(429).header("retry-after", "20")
        }
    });
    let world = World::new(vec![origin], yaml, |_| None);
    let (ended, took, progress) = world.run(Box::new(Listed::new("list", urls(1, 3))), |options| {
        options.item_deadline = Some(Duration::from_secs(3));
    });
    assert!(matches!(ended, Ended::Complete), "{ended:?}");
    assert_eq!(
        progress.counters().reasons.get(Reason::Deadline.as_str()),
        Some(&3),
        "{:?}",
        progress.counters().reasons
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
}
