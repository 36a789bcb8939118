//! What one hostile page of the largest size costs a run, beside one that is small.

use std::time::Duration;

use docstokg_origin_sim::hostile::pages;
use docstokg_origin_sim::{Origin, Reply};

use crate::field::{HOST, config};
use crate::form::{alone, conclude, some};
use crate::measured::{Ended, measure};
use crate::world::World;

const MOST_MEMORY: u64 = 64 << 20;
/// Debug builds are slower by far than what people run.
const MOST_CPU: Duration = Duration::from_millis(if cfg!(debug_assertions) { 4_000 } else { 250 });

#[test]
fn a_hostile_page_costs_a_bounded_time_and_memory() {
    let _turn = alone();
    let head = "<html><head><meta name=citation_title content=T></head><body>";
    let pages: Vec<(&str, String)> = some(pages((2 << 20) - 256), 4).into_iter().map(|(name, body)| (name, format!("{head}{body}"))).collect();
    let cases = pages.len();
    let small = [("small", format!("{head}<p>x</p>"))];
    let origin = Origin::new(HOST).handler({
        let pages: Vec<String> = small.iter().chain(&pages).map(|(_, page)| page.clone()).collect();
        move |arrival, _| match arrival.path.strip_prefix("/page/").and_then(|number| pages.get(number.parse::<usize>().ok()?)) {
            Some(page) => Reply::ok(page.clone()).header("content-type", "text/html"),
            None => Reply::status(404),
        }
    });
    let world = World::start(vec![origin], vec![HOST.to_owned()], &config());
    std::fs::create_dir(world.path("streams")).expect("a directory");
    let run = |number: usize| -> Ended {
        let (url, out) = (format!("http://{HOST}/page/{number}"), world.path(&format!("out-{number}")).display().to_string());
        measure(&mut world.command(&[&url, "--out", &out, "--quiet"]), &world.path("streams"), Duration::from_secs(30))
    };
    let usual = run(0);
    let (mut problems, mut most_cpu, mut most_memory) = (Vec::new(), (Duration::ZERO, ""), (0, ""));
    for (number, (name, _)) in pages.iter().enumerate() {
        let ended = run(number + 1);
        problems.extend(ended.problems().into_iter().map(|problem| format!("{name}: {problem}")));
        let (cpu, memory) = (ended.cpu.saturating_sub(usual.cpu), ended.peak.saturating_sub(usual.peak));
        if cpu > MOST_CPU || memory > MOST_MEMORY {
            problems.push(format!("{name}: {cpu:?} of processor and {} MiB more than a small page", memory >> 20));
        }
        most_cpu = most_cpu.max((cpu, name));
        most_memory = most_memory.max((memory, name));
    }
    let figures = format!(
        "at most {} ms of processor ({}) and {} MiB ({}) for one page",
        most_cpu.0.as_millis(),
        most_cpu.1,
        most_memory.0 >> 20,
        most_memory.1
    );
    conclude("one page of 2 MiB", cases, &figures, &problems);
}
