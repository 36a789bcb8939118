//! The cost of one hostile page, paper or ontology beside a small one.

use std::time::Duration;

use docstokg_origin_sim::hostile::{ontologies, pages, paper, papers};
use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::download_world::DownloadWorld;
use crate::header_fields::{HOST, config};
use crate::measured::{Ended, PATIENCE, measure};
use crate::response_forms::{alone, conclude, is_full, some};
use crate::support::ontofetch;

/// For a page, and for a paper: two of these are looked into at once, of up to 32 MiB each.
const PAGE_MEMORY: u64 = 64 << 20;
const PAPER_MEMORY: u64 = 104 << 20;
/// The documented memory of reading an ontology.
const ONTOLOGY_MEMORY: u64 = 256 << 20;
/// Judged in the full form only: it runs alone, and what people run.
const MOST_ONTOLOGY_CPU: Duration = Duration::from_secs(4);
const MOST_CPU: Duration = Duration::from_millis(250);

/// Runs a download of `/N` for each, and returns what each took beyond the first. `answer` is what
/// the origin says.
fn beyond_the_first(
    count: usize,
    answer: impl Fn(&str) -> Option<ScriptedReply> + Send + Sync + 'static,
) -> Vec<(Duration, u64, Vec<String>)> {
    let origin = OriginScript::new(HOST).handler(move |arrival, _| {
        answer(&arrival.path).unwrap_or_else(|| ScriptedReply::status(404))
    });
    let world = DownloadWorld::start(vec![origin], vec![HOST.to_owned()], &config());
    std::fs::create_dir(world.path("streams")).expect("a directory");
    let run = |number: usize| -> Ended {
        let (url, out) = (
            format!("http://{HOST}/{number}"),
            world.path(&format!("out-{number}")).display().to_string(),
        );
        measure(
            &mut world.command(&[&url, "--out", &out, "--quiet"]),
            &world.path("streams"),
            PATIENCE,
        )
    };
    let usual = run(0);
    let beyond = |ended: Ended| {
        (
            ended.cpu.saturating_sub(usual.cpu),
            ended.peak.saturating_sub(usual.peak),
            ended.problems(),
        )
    };
    (1..count).map(|number| beyond(run(number))).collect()
}

fn judge(
    class: &str,
    (most_memory_allowed, most_cpu_allowed): (u64, Duration),
    names: &[&str],
    costs: Vec<(Duration, u64, Vec<String>)>,
) {
    let (mut problems, mut most_cpu, mut most_memory) = (Vec::new(), (Duration::ZERO, ""), (0, ""));
    for (name, (cpu, memory, wrong)) in names.iter().zip(costs) {
        problems.extend(
            wrong
                .into_iter()
                .map(|problem| format!("{name}: {problem}")),
        );
        if (is_full() && cpu > most_cpu_allowed) || memory > most_memory_allowed {
            problems.push(format!(
                "{name}: {cpu:?} of processor and {} MiB more than a small one",
                memory >> 20
            ));
        }
        (most_cpu, most_memory) = (most_cpu.max((cpu, name)), most_memory.max((memory, name)));
    }
    let (cpu, memory) = (most_cpu.0.as_millis(), most_memory.0 >> 20);
    conclude(
        class,
        names.len(),
        &format!(
            "at most {cpu} ms of processor ({}) and {memory} MiB ({})",
            most_cpu.1, most_memory.1
        ),
        &problems,
    );
}

#[test]
fn a_hostile_page_costs_a_bounded_time_and_memory() {
    let _turn = alone();
    let head = "<html><head><meta name=citation_title content=T></head><body>";
    let (names, bodies): (Vec<&str>, Vec<String>) =
        some(pages((2 << 20) - 256), 4).into_iter().unzip();
    let pages: Vec<String> = ["<p>x</p>".to_owned()]
        .into_iter()
        .chain(bodies)
        .map(|body| format!("{head}{body}"))
        .collect();
    let answer = move |path: &str| {
        Some(
            ScriptedReply::ok(pages.get(path[1..].parse::<usize>().ok()?)?.clone())
                .header("content-type", "text/html"),
        )
    };
    judge(
        "one page of 2 MiB",
        (PAGE_MEMORY, MOST_CPU),
        &names,
        beyond_the_first(names.len() + 1, answer),
    );
}

#[test]
fn a_hostile_paper_costs_a_bounded_time_and_memory() {
    let _turn = alone();
    let (names, hostile): (Vec<&str>, Vec<Vec<u8>>) = some(papers(), 4).into_iter().unzip();
    let all: Vec<Vec<u8>> = [paper("A title", "text")]
        .into_iter()
        .chain(hostile)
        .collect();
    let answer = move |path: &str| {
        let (number, is_paper) = path[1..]
            .strip_suffix(".pdf")
            .map_or((&path[1..], false), |number| (number, true));
        let paper = all.get(number.parse::<usize>().ok()?)?;
        if is_paper {
            return Some(
                ScriptedReply::ok(paper.clone()).header("content-type", "application/pdf"),
            );
        }
        let html = format!(
            "<html><head><meta name=citation_title content=T>\
             <meta name=citation_pdf_url content={path}.pdf></head></html>"
        );
        Some(ScriptedReply::ok(html).header("content-type", "text/html"))
    };
    judge(
        "one paper",
        (PAPER_MEMORY, MOST_CPU),
        &names,
        beyond_the_first(names.len() + 1, answer),
    );
}

#[test]
fn a_hostile_ontology_costs_a_bounded_time_and_memory() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let run = |name: &str, text: &str| -> Ended {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("the file is written");
        let state = directory.path().join("state");
        let mut command = ontofetch();
        command
            .arg("validate")
            .arg(&path)
            .arg("--state-dir")
            .arg(state);
        measure(&mut command, directory.path(), PATIENCE)
    };
    let usual = run("small.ttl", "<http://a> <http://b> <http://c> .");
    let files = some(ontologies(), 6);
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    let costs = files
        .iter()
        .map(|(name, text)| run(name, text))
        .map(|ended| {
            (
                ended.cpu.saturating_sub(usual.cpu),
                ended.peak.saturating_sub(usual.peak),
                ended.problems(),
            )
        })
        .collect();
    judge(
        "one ontology",
        (ONTOLOGY_MEMORY, MOST_ONTOLOGY_CPU),
        &names,
        costs,
    );
}
