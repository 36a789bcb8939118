//! Links of documents to other files and to headings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::findings::{RuleFinding, WordRule};
use super::tracked::{TrackedFile, TrackedFiles};

/// The directory of the book, whose built pages have no other file of the repository.
const BOOK: &str = "docs/";

/// The table of contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Returns the relative links and anchors that lead nowhere, and pages that the book leaves out.
pub(super) fn findings(files: &TrackedFiles) -> Vec<RuleFinding> {
    let paths: BTreeSet<&str> = files.paths.iter().map(String::as_str).collect();
    let documents = files.files.iter().filter(|file| file.is_document());
    let anchors: BTreeMap<&str, BTreeSet<String>> = documents
        .clone()
        .map(|file| (file.path.as_str(), anchors_of(&file.text)))
        .collect();
    let mut findings = pages_without_link(files);
    for file in documents {
        for (line, target) in targets(&file.text) {
            if let Some(problem) = problem_of(file, &target, &paths, &anchors) {
                let (path, problem) = (file.path.clone(), format!("link to `{target}`: {problem}"));
                findings.push(RuleFinding {
                    rule: WordRule::Link,
                    path,
                    line,
                    subject: target,
                    problem,
                });
            }
        }
    }
    findings
}

/// Returns the documents of the book that its summary does not list: mdBook leaves them out.
fn pages_without_link(files: &TrackedFiles) -> Vec<RuleFinding> {
    let summary = files.files.iter().find(|file| file.path == SUMMARY);
    let Some(summary) = summary else {
        return Vec::new();
    };
    let listed: BTreeSet<String> = targets(&summary.text)
        .iter()
        .filter_map(|(_, target)| joined(SUMMARY, target))
        .collect();
    let is_missing = |file: &&TrackedFile| {
        let is_page = file.path.starts_with(BOOK) && file.path != SUMMARY;
        is_page && file.is_document() && !listed.contains(&file.path)
    };
    let missing = files.files.iter().filter(is_missing);
    let finding = |file: &TrackedFile| RuleFinding {
        rule: WordRule::Link,
        path: file.path.clone(),
        line: 1,
        subject: SUMMARY.to_owned(),
        problem: format!("the page is not in {SUMMARY}"),
    };
    missing.map(finding).collect()
}

fn problem_of(
    file: &TrackedFile,
    target: &str,
    paths: &BTreeSet<&str>,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<&'static str> {
    let (relative, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match relative {
        "" => file.path.clone(),
        _ => match joined(&file.path, relative) {
            Some(path) => path,
            None => return Some("leads out of the repository"),
        },
    };
    if file.path.starts_with(BOOK) && !path.starts_with(BOOK) {
        return Some("leads out of the book: name the file instead");
    }
    let directory = if path.is_empty() {
        path.clone()
    } else {
        format!("{path}/")
    };
    let is_directory = || {
        paths
            .range::<&str, _>(directory.as_str()..)
            .next()
            .is_some_and(|next| next.starts_with(&directory))
    };
    if !paths.contains(path.as_str()) && !is_directory() {
        return Some("there is no such file");
    }
    let known = anchors.get(path.as_str());
    let is_missing = !anchor.is_empty() && known.is_some_and(|known| !known.contains(anchor));
    is_missing.then_some("there is no such heading")
}

/// Returns the path to which a link of a file leads, from the root of both.
pub(crate) fn joined(file: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the relative targets of a document with their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (line, text) in lines_of_prose(text) {
        let text = without_inline_code(text);
        let inline = text
            .match_indices("](")
            .filter_map(|(at, _)| text[at + 2..].split([')', ' ']).next());
        let definition = text
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "));
        let definition = definition.and_then(|(_, target)| target.split_whitespace().next());
        let relative = inline
            .chain(definition)
            .filter(|target| !target.is_empty() && !is_absolute(target));
        targets.extend(relative.map(|target| (line, target.to_owned())));
    }
    targets
}

fn is_absolute(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:") || target.starts_with('/')
}

/// Returns the anchors that a document offers, as GitHub makes them from headings.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (_, line) in lines_of_prose(text) {
        let explicit = line
            .split("id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next());
        anchors.extend(explicit.map(str::to_owned));
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug_of(heading.trim());
        let number = known.entry(slug.clone()).or_default();
        anchors.insert(if *number == 0 {
            slug
        } else {
            format!("{slug}-{number}")
        });
        *number += 1;
    }
    anchors
}

fn slug_of(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// Returns the lines outside of code blocks, from 1.
fn lines_of_prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_fence && !is_code).then_some((index + 1, line))
    })
}

/// Returns a line without its inline code. An odd backtick is text.
fn without_inline_code(line: &str) -> String {
    let pieces: Vec<&str> = line.split('`').collect();
    let is_prose = |index: usize| index.is_multiple_of(2) || index + 1 == pieces.len();
    let prose = pieces
        .iter()
        .enumerate()
        .filter(|(index, _)| is_prose(*index));
    prose.map(|(_, piece)| *piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let other = "# The `first` one\n\n## Same\n\n## Same\n<a id=\"here\"></a>\n";
        let file = |path: &str, text: &str| TrackedFile::new(path, text.to_owned());
        let files = TrackedFiles {
            files: vec![file("pages/a.md", text), file("pages/adr/b.md", other)],
            paths: ["pages/a.md", "pages/adr/b.md", "src/c.rs"]
                .map(str::to_owned)
                .into(),
        };
        findings(&files).iter().map(RuleFinding::sentence).collect()
    }

    #[test]
    fn links_to_files_directories_and_headings_are_good() {
        let text = "# Top\n[a](adr/b.md) [b](./adr/) [c](../src/c.rs) [d](#top) [e](adr/b.md#the-first-one)\n\
                    [f](adr/b.md#same-1) [g](adr/b.md#here) [h](https://x/y) `[i](none.md)`\n\n[j]: adr/b.md\n\
                    ```\n[k](none.md)\n```\n";
        assert_eq!(problems(text), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_line() {
        let text = "[a](none.md)\n[b](adr/b.md#none)\n[c](#none)\n[d](../../x.md)\n\n[e]: none/\n";
        let expected = [
            "pages/a.md:1: link to `none.md`: there is no such file",
            "pages/a.md:2: link to `adr/b.md#none`: there is no such heading",
            "pages/a.md:3: link to `#none`: there is no such heading",
            "pages/a.md:4: link to `../../x.md`: leads out of the repository",
            "pages/a.md:6: link to `none/`: there is no such file",
        ];
        assert_eq!(problems(text), expected);
    }

    #[test]
    fn book_has_every_page_and_links_to_no_other_file() {
        let file = |path: &str, text: &str| TrackedFile::new(path, text.to_owned());
        let page = "[good](SUMMARY.md) [bad](../src/c.rs)\n";
        let files = TrackedFiles {
            files: vec![
                file("docs/SUMMARY.md", "- [A](a.md)\n"),
                file("docs/a.md", page),
                file("docs/b.md", "# B\n"),
            ],
            paths: ["docs/SUMMARY.md", "docs/a.md", "docs/b.md", "src/c.rs"]
                .map(str::to_owned)
                .into(),
        };
        let problems: Vec<String> = findings(&files).iter().map(RuleFinding::sentence).collect();
        let expected = [
            "docs/b.md:1: the page is not in docs/SUMMARY.md",
            "docs/a.md:1: link to `../src/c.rs`: leads out of the book: name the file instead",
        ];
        assert_eq!(problems, expected);
    }
}
