use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::{Repeatable, Request, RobotsPolicy, Role};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use docstokg_telemetry::sink::metrics::Metrics;
use promql_parser::label::Matcher;
use promql_parser::parser::{self, Expr};

use crate::support::{World, get, ms};

/// The metrics of a run in which every counted event occurs at least once.
fn exported() -> String {
    let flags = CommandLineFlags {
        rate: vec!["a.example:metadata=rates:5/SECOND,max_delay_ms:10".into()],
        breaker: vec![
            "a.example=fail_max:1,reset:10".into(),
            "gone.example=fail_max:1".into(),
        ],
        breaker_resolver: vec!["finder=fail_max:1,reset:10".into()],
        aimd: Some("enabled=true,high_429_ratio=0.01,window_s=1".into()),
        ..CommandLineFlags::default()
    };
    let origin = OriginScript::new("a.example")
        .latency(ms(10))
        .route(
            "/429",
            [
                ScriptedReply::status(429).header("retry-after", "1"),
                ScriptedReply::ok("fine"),
            ],
        )
        .route(
            "/500",
            [
                ScriptedReply::status(500).body("sorry"),
                ScriptedReply::ok("fine"),
            ],
        )
        .route("/bad", [ScriptedReply::status(500)]);
    let later = ScriptedReply::status(429).header("retry-after", "90");
    let world = World::sharing(
        [
            origin,
            OriginScript::new("later.example").route("/", [later]),
            OriginScript::new("b.example")
                .route("/bad", [ScriptedReply::status(500)])
                .route(
                    "/kept",
                    [ScriptedReply::ok("kept").header("cache-control", "max-age=60")],
                ),
        ],
        flags,
    );
    world.fetch(Request::head("http://a.example/".parse().expect("a URL")));
    for _ in 0..2 {
        world.fetch(get("http://b.example/kept"));
    }
    for _ in 0..8 {
        world.fetch(get("http://a.example/ok").rate_wait(docstokg_hub::RateWait::None));
    }
    world.simulation.run_for(ms(3_000));
    world.fetch(get("http://a.example/429"));
    world.simulation.run_for(ms(30_000));
    world.fetch(get("http://a.example/500"));
    world.simulation.run_for(ms(30_000));
    world.fetch(
        get("http://b.example/bad")
            .resolver("finder")
            .repeatable(Repeatable::No),
    );
    world.fetch(get("http://a.example/bad").repeatable(Repeatable::No));
    world.fetch(get("http://later.example/").repeatable(Repeatable::No));
    world.fetch(get("http://a.example/ok"));
    world.fetch(get("http://gone.example/").repeatable(Repeatable::No));
    let ended = world.end();
    let text = ended.metrics.lock().text();
    assert_eq!(
        std::fs::read_to_string(ended.path("metrics.prom"))
            .expect("the textfile")
            .lines()
            .count(),
        text.lines().count()
    );
    text
}

/// Reads the samples: name to labels that it has.
fn samples(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let (name, labels) = series.split_once('{').map_or((series, ""), |(name, rest)| {
            (name, rest.trim_end_matches('}'))
        });
        let names = labels
            .split("\",")
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split('=').next().unwrap_or_default().to_owned());
        found.entry(name.to_owned()).or_default().extend(names);
    }
    found
}

/// Collects the metrics that an expression selects, and the labels that it groups or selects by.
fn selectors(expr: &Expr, metrics: &mut Vec<(String, Vec<String>)>, labels: &mut BTreeSet<String>) {
    let mut selector = |name: Option<&String>, matchers: &promql_parser::label::Matchers| {
        metrics.push((
            name.cloned().unwrap_or_default(),
            matchers
                .matchers
                .iter()
                .map(|matcher| matcher.name.clone())
                .collect(),
        ));
    };
    match expr {
        Expr::VectorSelector(vector) => selector(vector.name.as_ref(), &vector.matchers),
        Expr::MatrixSelector(matrix) => selector(matrix.vs.name.as_ref(), &matrix.vs.matchers),
        Expr::Aggregate(aggregate) => {
            if let Some(parser::LabelModifier::Include(by)) = &aggregate.modifier {
                labels.extend(by.labels.iter().cloned());
            }
            selectors(&aggregate.expr, metrics, labels);
        }
        Expr::Binary(binary) => {
            selectors(&binary.lhs, metrics, labels);
            selectors(&binary.rhs, metrics, labels);
        }
        Expr::Paren(paren) => selectors(&paren.expr, metrics, labels),
        Expr::Unary(unary) => selectors(&unary.expr, metrics, labels),
        Expr::Call(call) => call
            .args
            .args
            .iter()
            .for_each(|argument| selectors(argument, metrics, labels)),
        Expr::Subquery(sub) => selectors(&sub.expr, metrics, labels),
        _ => {}
    }
}

fn check(queries: &[String]) {
    let text = exported();
    let found = samples(&text);
    for query in queries {
        let expr = parser::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let (mut metrics, mut by) = (Vec::new(), BTreeSet::new());
        selectors(&expr, &mut metrics, &mut by);
        assert!(!metrics.is_empty(), "{query} selects nothing");
        let mut there = BTreeSet::from(["host".to_owned()]);
        for (name, selected) in &metrics {
            let labels = found
                .get(name)
                .unwrap_or_else(|| panic!("{query}: the program exports no {name}:\n{text}"));
            for label in selected {
                assert!(
                    labels.contains(label),
                    "{query}: {name} has no label {label}"
                );
            }
            there.extend(labels.iter().cloned());
        }
        for label in by {
            assert!(
                there.contains(&label),
                "{query}: nothing has a label {label}"
            );
        }
    }
}

fn deploy(file: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../deploy")
            .join(file),
    )
    .expect("a file")
}

#[test]
fn every_panel_uses_exported_metrics() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&deploy("grafana/docstokg.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let queries: Vec<String> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"))
        .map(|target| target["expr"].as_str().expect("a query").to_owned())
        .collect();
    check(&queries);
    // Every exported metric has a panel.
    let all = queries.join("\n");
    for (name, _) in Metrics::names() {
        assert!(all.contains(name), "no panel shows {name}");
    }
}

#[test]
fn every_alert_uses_exported_metrics() {
    let rules = deploy("prometheus/docstokg.rules.yml");
    let queries: Vec<String> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .map(str::to_owned)
        .collect();
    assert_eq!(queries.len(), rules.matches("- alert:").count());
    check(&queries);
}

#[test]
fn every_metric_has_a_type_and_a_help_text() {
    let text = exported();
    for (name, kind) in Metrics::names() {
        assert!(
            text.contains(&format!("# TYPE {name} {kind}\n")),
            "{name}:\n{text}"
        );
        assert!(text.contains(&format!("# HELP {name} ")), "{name}");
    }
    assert!(text.contains("rate_acquired_total{host=\"a.example\",role=\"metadata\"}"));
    assert!(text.contains("le=\"600\""));
}

#[test]
fn a_request_that_is_deferred_does_not_count_as_failed() {
    let busy = ScriptedReply::status(429).header("retry-after", "3600");
    let world = World::new(
        [OriginScript::new("a.example").route("/", [busy])],
        CommandLineFlags::default(),
    );
    world.fetch(get("http://a.example/").deadline(ms(30_000)));
    let text = world.end().metrics.lock().text();
    let deferred = "outcome=\"http_429\",failed=\"no\"} 1";
    assert!(text.contains(deferred), "{text}");
}

/// Returns the sum of the samples of several processes that a query selects.
fn selected_sum(query: &str, texts: &[String]) -> u64 {
    fn matchers(expr: &Expr) -> &[Matcher] {
        match expr {
            Expr::VectorSelector(vector) => &vector.matchers.matchers,
            Expr::MatrixSelector(matrix) => &matrix.vs.matchers.matchers,
            Expr::Aggregate(aggregate) => matchers(&aggregate.expr),
            Expr::Binary(binary) => matchers(&binary.lhs),
            Expr::Call(call) => matchers(&call.args.args[0]),
            _ => &[],
        }
    }
    let expr = parser::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let labels = matchers(&expr)
        .iter()
        .map(|matcher| format!("{}=\"{}\"", matcher.name, matcher.value));
    let labels: Vec<String> = labels.collect();
    texts
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| line.starts_with("breaker_opens_total{"))
        .filter(|line| labels.iter().all(|label| line.contains(label)))
        .map(|line| line.rsplit_once(' ').expect("a value").1)
        .map(|value| value.parse::<u64>().expect("a number"))
        .sum()
}

#[test]
fn an_open_that_two_processes_see_counts_once() {
    let flags = || CommandLineFlags {
        breaker: vec!["a.example=fail_max:1,reset:60".into()],
        ..CommandLineFlags::default()
    };
    let origin = || OriginScript::new("a.example").route("/bad", [ScriptedReply::status(500)]);
    let one = World::sharing([origin()], flags());
    let other = one.beside([origin()], flags());
    for world in [&one, &other] {
        world.fetch(get("http://a.example/bad").repeatable(Repeatable::No));
    }
    let texts = [one, other].map(|world| world.end().metrics.lock().text());
    assert_eq!(
        selected_sum("breaker_opens_total", &texts),
        2,
        "both have seen it"
    );
    let (rules, dashboard) = (
        deploy("prometheus/docstokg.rules.yml"),
        deploy("grafana/docstokg.json"),
    );
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let shown = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"))
        .filter_map(|target| target["expr"].as_str());
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let counting = alerts
        .chain(shown)
        .filter(|query| query.contains("breaker_opens_total"));
    let sums: Vec<u64> = counting.map(|query| selected_sum(query, &texts)).collect();
    assert_eq!(sums, [1, 1], "the alert and the panel");
}

#[test]
fn only_failures_count_as_failed() {
    let flags = CommandLineFlags {
        breaker: vec!["a.example=fail_max:1,reset:60".into()],
        ..CommandLineFlags::default()
    };
    let origin = OriginScript::new("a.example")
        .route("/robots.txt", [ScriptedReply::status(404)])
        .route("/unknown", [ScriptedReply::status(404)])
        .route("/bad", [ScriptedReply::status(500)]);
    let world = World::new([origin], flags);
    let obeying = RobotsPolicy::Obey {
        exempt: Arc::default(),
    };
    let page = get("http://a.example/page").role(Role::Landing);
    world.fetch(page.clone().robots(obeying));
    world.fetch(get("http://a.example/unknown").resolver("finder"));
    world.fetch(get("http://a.example/unknown"));
    world.fetch(get("http://a.example/bad").repeatable(Repeatable::No));
    world.fetch(page);
    let text = world.end().metrics.lock().text();
    let mut counted: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("http_client_requests_ended_total{host=\"a.example\",")
        })
        .collect();
    counted.sort_unstable();
    assert_eq!(
        counted,
        [
            "role=\"landing\",outcome=\"breaker_open\",failed=\"no\"} 1",
            "role=\"landing\",outcome=\"http_404\",failed=\"no\"} 1",
            "role=\"landing\",outcome=\"ok\",failed=\"no\"} 1",
            "role=\"metadata\",outcome=\"http_404\",failed=\"no\"} 1",
            "role=\"metadata\",outcome=\"http_404\",failed=\"yes\"} 1",
            "role=\"metadata\",outcome=\"http_500\",failed=\"yes\"} 1",
        ]
    );
}
