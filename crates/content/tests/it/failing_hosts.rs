//! Whole runs with hosts that fail, throttle or ask for pauses, under simulated time.

use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::reason::Reason;
use docstokg_content::resolver::specs;
use docstokg_content::run::inputs::WorkList;
use docstokg_content::work::Work;
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::run_world::{World, pdf, plain_hosts, urls};

#[test]
fn one_host_that_asks_for_a_pause_of_an_hour_slows_no_other() {
    let run = |parked: bool| {
        let (mut origins, yaml) = plain_hosts(51, "5/SECOND", Duration::from_millis(50));
        if parked {
            let last = origins.pop().unwrap();
            origins.push(last.outage(
                Duration::ZERO..Duration::from_secs(3_500),
                ScriptedReply::status(503).header("retry-after", "3600"),
            ));
        }
        let world = World::new(origins, &yaml, |_| None);
        let (ended, took, progress) =
            world.run(Box::new(WorkList::new("list", urls(51, 50))), |options| {
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
    assert!(matches!(ended, RunEnd::Complete) && done == 51 * 50);
    let (ended, _, done, beside) = run(true);
    assert_eq!(done, 50 * 50);
    let RunEnd::Deferred { left: 50, due_in } = ended else {
        panic!("{ended:?}")
    };
    assert!(due_in > Duration::from_secs(3_000), "{due_in:?}");
    let ratio = beside.as_secs_f64() / alone.as_secs_f64();
    assert!(ratio < 1.02, "{ratio}");
}

#[test]
fn a_paused_host_is_asked_again_when_its_time_has_come() {
    let (mut origins, yaml) = plain_hosts(2, "5/SECOND", Duration::from_millis(50));
    let last = origins.pop().unwrap();
    origins.push(last.outage(
        Duration::ZERO..Duration::from_secs(100),
        ScriptedReply::status(503).header("retry-after", "120"),
    ));
    let world = World::new(origins, &yaml, |_| None);
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", urls(2, 20))), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
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

/// A service that knows every DOI's file, on one host, and throttles once.
fn one_service(first: ScriptedReply) -> (Vec<OriginScript>, String) {
    let throttled = std::sync::atomic::AtomicBool::new(false);
    let api = OriginScript::new("api.example").latency(Duration::from_millis(30)).handler(move |arrival, _| {
        if !throttled.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return first.clone();
        }
        let doi = arrival.path.trim_start_matches("/v2/").split('?').next().unwrap_or_default().to_owned();
        let location = serde_json::json!({ "url": format!("http://h0.example/f/{doi}.pdf"), "url_for_pdf": format!("http://h0.example/f/{doi}.pdf"), "host_type": "repository" });
        ScriptedReply::ok(serde_json::json!({ "doi": doi, "is_oa": true, "best_oa_location": location, "oa_locations": [location] }).to_string())
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

/// Each link leads to another host, and all of them fail: it is the resolver that is paused.
#[test]
fn a_resolver_whose_links_all_fail_opens_its_breaker() {
    let api = OriginScript::new("api.example").handler(|arrival, _| {
        let doi = arrival.path.trim_start_matches("/v2/").split('?').next().unwrap_or_default();
        let host = doi.trim_start_matches("10.1234/w");
        let url = format!("http://h{host}.example/f.pdf");
        let location = serde_json::json!({ "url": url, "url_for_pdf": url, "host_type": "repository" });
        ScriptedReply::ok(serde_json::json!({ "doi": doi, "is_oa": true, "best_oa_location": location, "oa_locations": [location] }).to_string())
    });
    let (origins, yaml) = plain_hosts(12, "50/SECOND", Duration::from_millis(20));
    let failing = |origin: OriginScript| {
        origin.handler(|arrival, _| {
            ScriptedReply::status(if arrival.path == "/robots.txt" {
                404
            } else {
                500
            })
        })
    };
    let mut origins: Vec<OriginScript> = origins.into_iter().map(failing).collect();
    origins.push(api);
    let yaml = yaml
        + "    api.example: { metadata: { rates: [\"50/SECOND\"], max_concurrent: 8 } }\n\
           breakers: { resolvers: { unpaywall: { fail_max: 3, reset_timeout_s: 3600, early_probes: false } } }\n";
    let world = World::new(origins, &yaml, |service| {
        (service == "unpaywall").then(|| "http://api.example/v2/".to_owned())
    });
    let _ = world.run(Box::new(WorkList::new("list", dois(12))), |options| {
        options.max_wait = Duration::from_secs(60);
        options.choice.disable = specs()
            .iter()
            .map(|spec| spec.id)
            .filter(|id| id.as_str() != "unpaywall")
            .collect();
    });
    let requested = |host: usize| {
        let arrivals = world.web.ledger().at(&format!("h{host}.example"));
        arrivals
            .iter()
            .filter(|arrival| arrival.path == "/f.pdf")
            .count()
    };
    let all: usize = (0..12).map(requested).sum();
    assert!(
        (3..=24).contains(&all),
        "{all} requests, four a work without a pause"
    );
}

#[test]
fn one_429_of_a_service_costs_no_work() {
    let (origins, yaml) = one_service(ScriptedReply::status(429).header("retry-after", "6"));
    let world = World::new(origins, &yaml, |service| {
        (service == "unpaywall").then(|| "http://api.example/v2/".to_owned())
    });
    let (ended, took, progress) =
        world.run(Box::new(WorkList::new("list", dois(600))), |options| {
            options.choice.disable = specs()
                .iter()
                .map(|spec| spec.id)
                .filter(|id| id.as_str() != "unpaywall")
                .collect();
        });
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
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
fn a_host_that_keeps_failing_leaves_its_works_waiting() {
    let (mut origins, yaml) = plain_hosts(1, "50/SECOND", Duration::from_millis(20));
    origins[0] = OriginScript::new("h0.example").handler(|arrival, _| {
        if arrival.path == "/robots.txt" {
            ScriptedReply::status(404)
        } else {
            ScriptedReply::status(503)
        }
    });
    let world = World::new(origins, &yaml, |_| None);
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", urls(1, 60))), |_| {});
    assert!(
        matches!(ended, RunEnd::Deferred { left: 60, .. }),
        "{ended:?}"
    );
    assert_eq!(progress.counters().failed, 0);
    let hour = Duration::from_secs(3_600);
    assert!(took >= hour && took < hour * 2, "{took:?}");
    let waiting = progress.waiting();
    assert_eq!(
        (waiting.len(), waiting[0].host.as_str(), waiting[0].items),
        (1, "h0.example", 60)
    );
    // The breaker kept nearly all of them from being sent.
    assert!(
        world.web.ledger().len() < 200,
        "{}",
        world.web.ledger().len()
    );
}

#[test]
fn hosts_that_ask_for_long_pauses_keep_no_other_waiting() {
    let (mut origins, mut yaml) = plain_hosts(1, "100/SECOND", Duration::from_millis(20));
    for n in 0..40 {
        yaml.push_str(&format!("    slow{n}.example: {{ artifact: {{ rates: [\"100/SECOND\"] }}, landing: {{ rates: [] }} }}\n"));
        origins.push(
            OriginScript::new(&format!("slow{n}.example")).handler(|arrival, _| {
                match arrival.path.as_str() {
                    "/robots.txt" => ScriptedReply::ok("User-agent: *\nCrawl-delay: 30\n"),
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
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", works)), |options| {
        options.workers = 100;
    });
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
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
        OriginScript::new("a.example").handler(|arrival, _| {
            if arrival.path == "/robots.txt" {
                ScriptedReply::status(404)
            } else {
                ScriptedReply::redirect(302, "http://b.example/private/x.pdf")
            }
        }),
        OriginScript::new("b.example").handler(|arrival, _| {
            if arrival.path == "/robots.txt" {
                ScriptedReply::ok("User-agent: *\nDisallow: /private\n")
            } else {
                pdf("x")
            }
        }),
    ];
    let world = World::new(origins, yaml, |_| None);
    let work = Work::new(
        docstokg_content::identifier::Identifier::parse("http://a.example/x.pdf").unwrap(),
    );
    let (_, _, progress) = world.run(Box::new(WorkList::new("list", vec![work])), |options| {
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
    let origin = OriginScript::new("h0.example").handler(|arrival, _| {
        if arrival.path == "/robots.txt" {
            ScriptedReply::status(404)
        } else {
            ScriptedReply::status(429).header("retry-after", "20")
        }
    });
    let world = World::new(vec![origin], yaml, |_| None);
    let (ended, took, progress) =
        world.run(Box::new(WorkList::new("list", urls(1, 3))), |options| {
            options.item_deadline = Some(Duration::from_secs(3));
        });
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(
        progress.counters().reasons.get(Reason::Deadline.as_str()),
        Some(&3),
        "{:?}",
        progress.counters().reasons
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
}
