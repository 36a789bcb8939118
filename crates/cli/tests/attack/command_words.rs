//! Nonsense on the command line and in lists of works: an error in a sentence, never a crash.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Command;

use docstokg_origin_sim::hostile::mutated;

use crate::measured::{Ended, PATIENCE, measure};
use crate::response_forms::{alone, conclude, is_full, some};
use crate::snapshot::Snapshot;
use crate::support::{ontofetch, program};

/// Starts one of the programs.
type Program = fn() -> Command;

/// Runs in an empty directory, with a canary beside it; returns the run and what was wrong.
fn run(directory: &Path, command: &mut Command) -> (Ended, Vec<String>) {
    let (here, canary) = (directory.join("deep/er/here"), directory.join("canary"));
    for place in [&here, &canary, &directory.join("streams")] {
        std::fs::create_dir_all(place).expect("a directory");
    }
    std::fs::write(canary.join("kept.txt"), "as it was").expect("a file");
    let before = Snapshot::of(&canary);
    command
        .current_dir(&here)
        .env("DOCSTOKG_STATE_DIR", directory.join("state"))
        .env("HOME", directory.join("home"));
    let ended = measure(command, &directory.join("streams"), PATIENCE);
    let problems = [ended.problems(), before.changes(&canary)].concat();
    (ended, problems)
}

/// The options that the help of a command names, and whether they take a value.
fn options(program: Program, command: &str) -> Vec<String> {
    let help = program()
        .args([command, "--help"])
        .output()
        .expect("the program");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let words = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2);
    let mut names: Vec<String> = words
        .map(|word| {
            word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                .to_owned()
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn nonsense() -> Vec<OsString> {
    let texts = [
        "",
        "-1",
        "0",
        "99999999999999999999999999",
        "1e400",
        "NaN",
        "\u{1b}[2J\u{9b}31m",
        "\u{202e}\u{0}x",
        "../../../nowhere/x",
        "=,=:;",
        "%s%n",
        "a:b=c:d",
    ];
    // An argument cannot have a zero in it.
    let mut values: Vec<OsString> = texts
        .iter()
        .map(|text| text.replace('\0', "").into())
        .collect();
    values.push("a".repeat(100_000).into());
    values.push(OsString::from_vec(vec![0xff, 0xfe, b'/', 0x80]));
    values
}

#[test]
fn invalid_flags_are_reported_in_a_sentence() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    // What each does without a network: dry, or to a port without a listener.
    let commands: [(Program, &str, &[&str]); 13] = [
        (
            program,
            "download",
            &["--dry-run", "--out", "out", "http://127.0.0.1:1/x.pdf"],
        ),
        (
            program,
            "fetch",
            &["http://127.0.0.1:1/", "--deadline", "1"],
        ),
        (program, "explain", &["10.5555/x"]),
        (program, "summary", &[]),
        (program, "config", &["check"]),
        (program, "breaker", &["show"]),
        (program, "limits", &["show"]),
        (program, "cache", &["show"]),
        // An address of documents, on which no machine can listen.
        (program, "serve", &["--listen", "192.0.2.1:1"]),
        (ontofetch, "list", &[]),
        (ontofetch, "validate", &["nothing.owl"]),
        (ontofetch, "prune", &["--keep", "1", "--dry-run"]),
        (ontofetch, "config", &["check"]),
    ];
    let mut lines: Vec<(Program, Vec<OsString>)> = Vec::new();
    for (program, command, rest) in commands {
        for option in options(program, command) {
            for value in nonsense() {
                // Both spellings of a value, in turn.
                let words = if lines.len().is_multiple_of(2) {
                    vec![option.clone().into(), value]
                } else {
                    vec![joined(&option, value)]
                };
                let rest = rest.iter().map(OsString::from);
                let command = [OsString::from(command)].into_iter();
                lines.push((program, command.chain(rest).chain(words).collect()));
            }
        }
    }
    let lines = some(lines, 60);
    let (mut problems, mut most, cases) = (Vec::new(), 0, lines.len());
    for (program, line) in lines {
        let (ended, wrong) = run(directory.path(), program().args(&line));
        most = most.max(ended.peak);
        problems.extend(
            wrong
                .into_iter()
                .map(|problem| format!("{:.300}: {problem}", format!("{line:?}"))),
        );
    }
    conclude("flags", cases, &format!("{} MiB", most >> 20), &problems);
}

fn joined(option: &str, value: OsString) -> OsString {
    let mut word = OsString::from(format!("{option}="));
    word.push(value);
    word
}

/// Lists in every format, as people write them.
const LISTS: [(&str, &str); 6] = [
    (
        "lines",
        "10.1000/182\nhttps://doi.org/10.5555/12345678\narXiv:2101.00001v2\nPMC3531190\n\
         pmid:12345678\nW2741809807\nhttp://a.example/x.pdf\n# comment\n",
    ),
    (
        "csv",
        "doi,title,year,url\n10.1000/182,\"A \"\"quoted\"\" title\",2001,http://a.example/1\n\
         10.5555/1,\"two\nlines\",x,\n",
    ),
    (
        "jsonl",
        "{\"doi\":\"10.1000/182\",\"title\":\"A\"}\n\
         {\"id\":\"https://openalex.org/W1\",\"doi\":\"https://doi.org/10.5555/2\",\
         \"open_access\":{\"oa_url\":\"http://a.example/x.pdf\"},\
         \"locations\":[{\"pdf_url\":null}]}\n",
    ),
    (
        "bibtex",
        "@article{key, title = {A {Nested} title}, doi = \"10.1000/182\", year = 2001, \
         url = {http://a.example/}}\n@string{x = \"y\"}\n@book(other, doi = x # \"z\")\n",
    ),
    (
        "ris",
        "TY  - JOUR\nTI  - A title\nDO  - 10.1000/182\nPY  - 2001/01/01\n\
         UR  - http://a.example/\nER  - \n",
    ),
    (
        "csl-json",
        "[{\"id\":\"a\",\"DOI\":\"10.1000/182\",\"title\":\"A\",\
         \"issued\":{\"date-parts\":[[2001,1,1]]}},{\"id\":1,\"URL\":\"http://a.example/\"}]",
    ),
];

/// Repeats a list up to a length, changed in another way each time.
fn changed(random: &mut fastrand::Rng, list: &str, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < length {
        bytes.extend_from_slice(&mutated(random.u64(..), list.as_bytes()));
        bytes.push(b'\n');
    }
    bytes
}

#[test]
fn lists_of_random_bytes_are_lines_that_are_not_recognised() {
    let _turn = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let (length, rounds) = if is_full() {
        (512 << 10, 6)
    } else {
        (24 << 10, 1)
    };
    let mut random = fastrand::Rng::with_seed(15);
    let (mut problems, mut most, mut lines) = (Vec::new(), 0, 0);
    for round in 0..rounds {
        for (format, list) in LISTS {
            let bytes = changed(&mut random, list, length);
            lines += bytes.split(|byte| *byte == b'\n').count();
            let (file, out) = (
                directory.path().join("list"),
                directory.path().join(format!("out-{format}-{round}")),
            );
            std::fs::write(&file, bytes).expect("a file");
            let named = if round % 2 == 0 { format } else { "auto" };
            let mut command = program();
            command
                .args(["download", "--dry-run", "--format", named])
                .arg(&file)
                .arg("--out")
                .arg(&out);
            let (ended, wrong) = run(directory.path(), &mut command);
            most = most.max(ended.peak);
            problems.extend(
                wrong
                    .into_iter()
                    .map(|problem| format!("{format} in round {round}: {problem}")),
            );
        }
    }
    conclude("lists", lines, &format!("{} MiB", most >> 20), &problems);
}
