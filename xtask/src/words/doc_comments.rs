//! Rules about doc comments.

use super::findings::{RuleFinding, WordRule};
use super::ratchet::{SurveyPart, WorkspaceFigure};
use super::tracked::{TrackedFile, TrackedFiles};

/// Words that open a doc comment badly: question words, and pronouns without a noun.
const BAD_OPENINGS: &[&str] = &[
    "What", "How", "Which", "Whether", "Where", "Why", "Who", "Whose", "It", "They", "Those",
    "That", "None", "One", "Nothing", "Other", "Others",
];

/// Openings of a code block that is compiled.
const COMPILED: &[&str] = &["rust", "no_run", "should_panic"];

/// Looks at the first words, the links and the examples of doc comments.
pub(super) fn survey(files: &TrackedFiles) -> SurveyPart {
    let (mut findings, mut all, mut linked, mut fences) = (Vec::new(), 0, 0, 0);
    for file in files.files.iter().filter(|file| file.is_product()) {
        for (line, text) in comments(file) {
            all += 1;
            linked += usize::from(text.contains("[`"));
            if let Some(opening) = bad_opening(&text) {
                findings.push(finding(file, line, opening));
            }
        }
        fences += file.text.lines().filter(|line| is_fence(line)).count();
    }
    let figures = vec![
        WorkspaceFigure::share_at_most("doc-comments-with-bad-opening", 4, findings.len(), all),
        WorkspaceFigure::share_at_least("doc-comments-with-link", 12, linked, all),
        WorkspaceFigure::at_least("compiled-examples", 40, fences / 2),
    ];
    SurveyPart { findings, figures }
}

fn finding(file: &TrackedFile, line: usize, opening: &str) -> RuleFinding {
    RuleFinding {
        rule: WordRule::DocOpening,
        path: file.path.clone(),
        line,
        subject: opening.to_owned(),
        problem: format!(
            "the doc comment opens with `{opening}`: begin with a noun, or with a verb"
        ),
    }
}

/// Returns each doc comment of an item as one line, with the line where it begins.
fn comments(file: &TrackedFile) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (index, line) in file.text.lines().enumerate() {
        let Some(text) = line.trim_start().strip_prefix("///") else {
            is_open = false;
            continue;
        };
        let text = text.strip_prefix(' ').unwrap_or(text);
        match comments.last_mut().filter(|_| is_open) {
            Some((_, open)) => {
                open.push(' ');
                open.push_str(text);
            }
            None => comments.push((index + 1, text.to_owned())),
        }
        is_open = true;
    }
    comments
}

fn bad_opening(comment: &str) -> Option<&'static str> {
    let end = comment.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let first = &comment[..end.unwrap_or(comment.len())];
    BAD_OPENINGS
        .iter()
        .find(|opening| **opening == first)
        .copied()
}

/// Returns true if a line opens or closes a code block that is compiled.
fn is_fence(line: &str) -> bool {
    let code = line.trim_start();
    let text = code
        .strip_prefix("/// ```")
        .or_else(|| code.strip_prefix("//! ```"));
    text.is_some_and(|kind| {
        kind.is_empty() || COMPILED.iter().any(|compiled| kind.starts_with(compiled))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_joined_and_judged_by_their_first_word() {
        let text = "/// What it\n/// is.\nfn a() {}\n/// Whatever.\nfn b() {}\n    /// One [`b`].\n    c: u8,\n";
        let file = TrackedFile::new("crates/a/src/b.rs", text.to_owned());
        let expected = [(1, "What it is."), (4, "Whatever."), (6, "One [`b`].")];
        assert_eq!(
            comments(&file),
            expected.map(|(line, text)| (line, text.to_owned()))
        );
        let files = TrackedFiles {
            files: vec![file],
            paths: Vec::new(),
        };
        let part = survey(&files);
        let lines: Vec<usize> = part.findings.iter().map(|found| found.line).collect();
        assert_eq!(lines, [1, 6]);
        let sentences: Vec<String> = part.figures.iter().map(WorkspaceFigure::sentence).collect();
        assert!(sentences[1].contains("33.3 %"), "{sentences:?}");
    }

    #[test]
    fn only_compiled_examples_count() {
        let fences = [
            "/// ```",
            "  //! ```no_run",
            "/// ```rust",
            "/// ```text",
            "// ```",
        ];
        assert_eq!(fences.map(is_fence), [true, true, true, false, false]);
    }
}
