//! The lines of a list and what became of them: the same counts wherever they are shown, and exports
//! that other programs read.

use std::collections::BTreeMap;

use docstokg_origin_sim::scholarly::{LibraryPlan, WorkLibrary};
use serde_json::Value;

use crate::download_world::{DownloadWorld, text};
use crate::support::program;

/// The rows of a CSV file, by the names of the columns. No cell of these tests has a line end.
fn rows(world: &DownloadWorld, name: &str) -> Vec<BTreeMap<String, String>> {
    let table = std::fs::read_to_string(world.path(name)).expect("a table");
    let mut lines = table.lines().map(cells);
    let names = lines.next().expect("a header");
    lines
        .map(|cells| {
            assert_eq!(cells.len(), names.len(), "{cells:?}");
            names.iter().cloned().zip(cells).collect()
        })
        .collect()
}

fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            letter => cell.push(letter),
        }
    }
    cells.push(cell);
    cells
}

fn export(world: &DownloadWorld, arguments: &[&str]) -> String {
    let ran = program()
        .arg("export")
        .arg(world.path("out"))
        .args(arguments)
        .env("DOCSTOKG_STATE_DIR", world.path("state"))
        .output()
        .expect("the program");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    text(&ran.stdout)
}

/// A library on loopback, downloaded from three lists: plain lines, CSV and BibTeX.
fn downloaded() -> (DownloadWorld, usize, Value, String) {
    let library = WorkLibrary::generate(&LibraryPlan {
        works: 60,
        scale: 200,
        file_bytes: 3_000..5_000,
        ..LibraryPlan::default()
    });
    let world = DownloadWorld::of(&library);
    let lines = library.input_lines();
    let (plain, rest) = lines.split_at(lines.len() / 2);
    std::fs::write(world.path("plain.txt"), plain.join("\n")).expect("a list");
    let table: Vec<String> = rest
        .iter()
        .map(|line| format!("\"{}\"", line.replace('"', "")))
        .collect();
    std::fs::write(
        world.path("table.csv"),
        format!("id\n{}\n", table.join("\n")),
    )
    .expect("a list");
    std::fs::write(
        world.path("refs.bib"),
        "@article{a,\n  title = {No identifier},\n}\n@article{b,\n  doi = {10.1234/nowhere},\n}\n",
    )
    .expect("a list");
    let list = |name: &str| world.path(name).display().to_string();
    let lists = [list("plain.txt"), list("table.csv"), list("refs.bib")];
    let lists: Vec<&str> = lists.iter().map(String::as_str).collect();
    let arguments = [&lists[..], &["--json", "--mailto", "me@library.edu"]].concat();
    let ran = world.run(&arguments);
    let report = serde_json::from_slice(&ran.stdout).expect("JSON");
    (world, lines.len() + 2, report, text(&ran.stderr))
}

#[test]
fn every_line_is_a_row_and_all_counts_agree() {
    let (world, lines, report, printed) = downloaded();
    let rows = rows(&world, "out/results.csv");
    assert_eq!(rows.len(), lines, "{printed}");
    let counts = &report["results"];
    let mut by_status: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &rows {
        *by_status.entry(row["status"].as_str()).or_default() += 1;
        let path = &row["path"];
        match row["status"].as_str() {
            "downloaded" => assert!(!path.is_empty(), "{row:?}"),
            "repeated" => {}
            _ => assert!(path.is_empty() && !row["reason"].is_empty(), "{row:?}"),
        }
        assert!(
            path.is_empty() || world.path("out").join(path).is_file(),
            "{row:?}"
        );
    }
    for status in [
        "downloaded",
        "not_open",
        "blocked",
        "failed",
        "waiting",
        "repeated",
        "not_recognised",
    ] {
        let rows = by_status.get(status).copied().unwrap_or(0);
        assert_eq!(counts[status], rows, "{status}: {counts}");
    }
    assert!(counts["repeated"].as_u64() > Some(0) && counts["not_recognised"].as_u64() > Some(0));
    let sentence = format!(
        "downloaded {} of {} works",
        counts["downloaded"], counts["works"]
    );
    let without = format!("{} without a file: ", counts["without_file"]);
    assert!(
        printed.contains(&sentence) && printed.contains(&without),
        "{printed}"
    );
    let page = std::fs::read_to_string(world.path("out/report.html")).expect("a report");
    assert!(page.contains(&without), "{without}");
    let missing = self::rows(&world, "out/missing.csv").len() as u64;
    assert_eq!(counts["without_file"], missing);
    let unrecognised = self::rows(&world, "out/unrecognised.csv").len() as u64;
    assert_eq!(counts["not_recognised"], unrecognised);
    let printed_lines = printed
        .lines()
        .filter(|line| line.contains(", line "))
        .count() as u64;
    assert_eq!(printed_lines, unrecognised.min(3), "{printed}");
    let summary = program()
        .arg("summary")
        .arg(world.path("out"))
        .env("DOCSTOKG_STATE_DIR", world.path("state"))
        .output()
        .expect("the program");
    let summary = text(&summary.stdout);
    let repeated = format!("{} repeated in the list", counts["repeated"]);
    assert!(summary.contains(&repeated), "{summary}");
    // A run without the lists keeps what they said.
    let again = world.run(&["--retry-failed", "--json", "--quiet"]);
    let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(again["bad_lines"], unrecognised);
    assert!(again["results"]["known"].as_u64() >= counts["downloaded"].as_u64());
    assert_eq!(
        self::rows(&world, "out/unrecognised.csv").len() as u64,
        unrecognised
    );
}

#[test]
fn exports_have_authors_and_files() {
    let (world, _, report, _) = downloaded();
    let downloaded = report["results"]["downloaded"].as_u64().unwrap_or(0);
    let works: Value = serde_json::from_str(&export(&world, &["--to", "csl"])).expect("JSON");
    let works = works.as_array().expect("works");
    assert_eq!(works.len() as u64, downloaded);
    assert!(
        works
            .iter()
            .any(|work| work["author"][0]["non-dropping-particle"] == "van der")
    );
    let bibtex = export(&world, &["--to", "bibtex"]);
    assert_eq!(bibtex.matches("\n  file = {").count() as u64, downloaded);
    assert!(
        bibtex.contains("{The Deep \\& Wide Survey Collaboration}"),
        "{bibtex}"
    );
    let ris = export(&world, &["--to", "ris"]);
    assert_eq!(ris.matches("ER  - \r\n").count() as u64, downloaded);
    let linked: Value = serde_json::from_str(&export(&world, &["--to", "jsonld"])).expect("JSON");
    assert_eq!(
        linked["@graph"].as_array().map(Vec::len),
        usize::try_from(downloaded).ok()
    );
    export(&world, &["--to", "ro-crate"]);
    let crate_file = std::fs::read(world.path("out/ro-crate-metadata.json")).expect("a file");
    let described: Value = serde_json::from_slice(&crate_file).expect("JSON");
    let entities = described["@graph"].as_array().expect("entities");
    let mut names: Vec<&str> = entities
        .iter()
        .filter_map(|it| it["@id"].as_str())
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "an entity is described twice");
    let table = std::fs::read_to_string(world.path("out/results.csv")).expect("a table");
    assert_eq!(export(&world, &["--to", "csv"]), table);
    let files = std::fs::read_dir(world.path("out/metadata")).expect("metadata");
    assert!(files.count() as u64 >= downloaded / 2);
}

#[test]
fn an_export_of_no_run_is_refused() {
    let ran = program()
        .args(["export", "/nonexistent", "--to", "csv"])
        .output()
        .expect("the program");
    assert_eq!(ran.status.code(), Some(2));
    assert!(text(&ran.stderr).contains("has no earlier run to export"));
}
