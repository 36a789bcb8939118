//! Checks names and prose: `cargo xtask words`.
//!
//! The rules find names that say too little and texts that are hard to read. Each finding has a
//! file and a line. A rule with findings today is a ratchet: `xtask/words-baseline.txt` has the
//! remaining number in each crate or document, and a larger number fails. A rule without findings
//! is strict. `xtask/words.txt` lists the retired words and every exception with its reason.
//!
//! The scanner distinguishes comments, strings and words of Rust, but no syntax: no rule needs
//! types.

mod doc_comments;
mod findings;
mod links;
mod markdown;
mod ratchet;
mod source;
mod tracked;
mod type_names;
mod vocabulary;
mod word_list;

use std::path::Path;

use anyhow::bail;

use crate::process::{root, say};
use findings::{RuleFinding, WordRule};
pub(crate) use links::joined as joined_path;
use ratchet::{Baseline, WorkspaceFigure};
use tracked::TrackedFiles;
use word_list::WordList;

/// The file of retired words and exceptions.
const WORD_LIST: &str = "xtask/words.txt";

/// The file with the number of remaining findings.
const BASELINE: &str = "xtask/words-baseline.txt";

/// Runs `cargo xtask words` with its arguments.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let root = root()?;
    match arguments {
        [] => check(),
        ["list", rule] => list(root, rule, ""),
        ["list", rule, prefix] => list(root, rule, prefix),
        ["lower"] => lower(root),
        _ => bail!("cargo xtask words [list RULE [PATH] | lower]"),
    }
}

/// Compares the findings of today with the [`Baseline`].
pub(crate) fn check() -> anyhow::Result<()> {
    let root = root()?;
    let survey = WorkspaceSurvey::of_workspace(root)?;
    let baseline = Baseline::read(&root.join(BASELINE))?;
    let report = baseline.compare(&survey.findings, &survey.figures);
    for line in &report.notes {
        say(line);
    }
    if report.problems.is_empty() {
        return Ok(());
    }
    bail!("{}", report.problems.join("\n"))
}

/// Checks the links of documents, and that the book has every page.
pub(crate) fn check_links() -> anyhow::Result<()> {
    let findings = links::findings(&TrackedFiles::read(root()?)?);
    if findings.is_empty() {
        return Ok(());
    }
    let sentences: Vec<String> = findings.iter().map(RuleFinding::sentence).collect();
    bail!("{}", sentences.join("\n"))
}

/// Prints the findings of one rule, or the figures.
fn list(root: &Path, rule: &str, prefix: &str) -> anyhow::Result<()> {
    let survey = WorkspaceSurvey::of_workspace(root)?;
    if rule == "figures" {
        for figure in &survey.figures {
            say(&figure.sentence());
        }
        return Ok(());
    }
    let Some(rule) = WordRule::from_name(rule) else {
        let names = WordRule::ALL.map(WordRule::name).join(", ");
        bail!("there is no rule '{rule}'; the rules are {names}, and `figures`");
    };
    let of_rule = survey.findings.iter().filter(|found| found.rule == rule);
    for found in of_rule.filter(|found| found.path.starts_with(prefix)) {
        say(&found.sentence());
    }
    Ok(())
}

/// Writes the baseline with the numbers of today, if they are lower.
fn lower(root: &Path) -> anyhow::Result<()> {
    let survey = WorkspaceSurvey::of_workspace(root)?;
    let path = root.join(BASELINE);
    let baseline = Baseline::read(&path)?;
    let lowered = baseline.lowered(&survey.findings, &survey.figures);
    std::fs::write(&path, lowered.to_text())?;
    Ok(())
}

/// The findings and figures of the whole workspace.
struct WorkspaceSurvey {
    findings: Vec<RuleFinding>,
    figures: Vec<WorkspaceFigure>,
}

impl WorkspaceSurvey {
    fn of_workspace(root: &Path) -> anyhow::Result<Self> {
        let files = TrackedFiles::read(root)?;
        let list = WordList::read(&root.join(WORD_LIST))?;
        Ok(Self::of_files(&files, &list))
    }

    fn of_files(files: &TrackedFiles, list: &WordList) -> Self {
        let (vocabulary, (types, docs)) = std::thread::scope(|scope| {
            let others =
                scope.spawn(|| (type_names::survey(files, list), doc_comments::survey(files)));
            let vocabulary = vocabulary::findings(files, list);
            match others.join() {
                Ok(others) => (vocabulary, others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        let prose = markdown::survey(files);
        let mut findings = vocabulary;
        let mut figures = Vec::new();
        for part in [types, docs, prose] {
            findings.extend(part.findings);
            figures.extend(part.figures);
        }
        findings.extend(links::findings(files));
        let mut findings = list.without_exceptions(findings);
        findings.sort_by(|a, b| (a.rule, &a.path, a.line).cmp(&(b.rule, &b.path, b.line)));
        Self { findings, figures }
    }
}
