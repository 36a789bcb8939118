//! Rules about the length of paragraphs and sentences in documents.
//!
//! Code blocks and headings are left out, a piece of inline code is one word, a link is its text,
//! and a cell of a table is a paragraph.

use super::findings::{RuleFinding, WordRule};
use super::ratchet::{SurveyPart, WorkspaceFigure};
use super::tracked::{TrackedFile, TrackedFiles};

/// Maximum number of words of a paragraph.
const MAX_PARAGRAPH_WORDS: usize = 80;

/// Maximum number of words of a sentence.
const MAX_SENTENCE_WORDS: usize = 30;

/// Minimum number of words of a paragraph that counts as prose.
const MIN_PARAGRAPH_WORDS: usize = 4;

/// Minimum number of words of a sentence that counts as prose.
const MIN_SENTENCE_WORDS: usize = 3;

/// Number of words of a text that a finding shows.
const SHOWN_WORDS: usize = 12;

/// A paragraph without its markup.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProseParagraph {
    words: Vec<String>,
    /// The line where the paragraph begins, from 1.
    line: usize,
    is_cell: bool,
}

/// Measures paragraphs and sentences of all documents.
pub(super) fn survey(files: &TrackedFiles) -> SurveyPart {
    let mut findings = Vec::new();
    let (mut paragraphs, mut sentences, mut long_sentences) = (0, 0, 0);
    for file in files.files.iter().filter(|file| file.is_document()) {
        let closed_from = first_closed_line(file);
        for paragraph in paragraphs_of(&file.text) {
            let long = findings_of(file, &paragraph);
            let counts = is_measured(file) && !paragraph.is_cell;
            if counts {
                paragraphs += long
                    .iter()
                    .filter(|found| found.rule == WordRule::Paragraph)
                    .count();
                long_sentences += long
                    .iter()
                    .filter(|found| found.rule == WordRule::Sentence)
                    .count();
                sentences += paragraph.sentences().len();
            }
            if paragraph.line < closed_from {
                findings.extend(long);
            }
        }
    }
    let figures = vec![
        WorkspaceFigure::at_most("paragraphs-over-80-words", 0, paragraphs),
        WorkspaceFigure::share_at_most("sentences-over-30-words", 3, long_sentences, sentences),
    ];
    SurveyPart { findings, figures }
}

/// Returns true if the figures of the workspace count a document. Documents of single crates are
/// not counted, and neither is the generated table of the configuration.
fn is_measured(file: &TrackedFile) -> bool {
    !file.path.starts_with("crates/") && !file.path.ends_with("configuration.md")
}

/// Returns the line where the closed versions of the change log begin.
fn first_closed_line(file: &TrackedFile) -> usize {
    if !file.path.ends_with("CHANGELOG.md") {
        return usize::MAX;
    }
    let mut versions = file
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with("## "));
    versions.nth(1).map_or(usize::MAX, |(index, _)| index + 1)
}

fn findings_of(file: &TrackedFile, paragraph: &ProseParagraph) -> Vec<RuleFinding> {
    let finding = |rule: WordRule, words: &[String], most: usize| {
        let shown = words[..SHOWN_WORDS.min(words.len())].join(" ");
        let problem = format!("{} words, at most {most}: {shown} ...", words.len());
        let path = file.path.clone();
        RuleFinding {
            rule,
            path,
            line: paragraph.line,
            subject: shown,
            problem,
        }
    };
    let mut findings = Vec::new();
    if paragraph.words.len() > MAX_PARAGRAPH_WORDS {
        findings.push(finding(
            WordRule::Paragraph,
            &paragraph.words,
            MAX_PARAGRAPH_WORDS,
        ));
    }
    let sentences = paragraph.sentences().into_iter();
    let long = sentences.filter(|words| words.len() > MAX_SENTENCE_WORDS);
    findings.extend(long.map(|words| finding(WordRule::Sentence, words, MAX_SENTENCE_WORDS)));
    findings
}

impl ProseParagraph {
    /// Returns the words of each sentence. A sentence ends before a word with a capital letter or a
    /// digit.
    fn sentences(&self) -> Vec<&[String]> {
        let is_end = |at: &usize| {
            let begins = |first: u8| first.is_ascii_uppercase() || first.is_ascii_digit();
            self.words[*at - 1].ends_with(['.', '!', '?'])
                && self.words[*at].bytes().next().is_some_and(begins)
        };
        let mut sentences = Vec::new();
        let mut start = 0;
        let ends = (1..self.words.len())
            .filter(is_end)
            .chain([self.words.len()]);
        for end in ends {
            if end - start >= MIN_SENTENCE_WORDS {
                sentences.push(&self.words[start..end]);
            }
            start = end;
        }
        sentences
    }
}

/// Returns the paragraphs of a document that have enough words.
fn paragraphs_of(text: &str) -> Vec<ProseParagraph> {
    let prose = without_code_blocks(text);
    let mut blocks: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut is_open = false;
    for (index, line) in prose.split('\n').enumerate() {
        let is_blank = line.trim().is_empty() || line.starts_with(['|', '#']);
        match blocks.last_mut().filter(|_| is_open && !is_list_item(line)) {
            _ if is_blank => {}
            Some((_, lines)) => lines.push(line),
            None => blocks.push((index + 1, vec![line])),
        }
        is_open = !is_blank;
    }
    let blocks = blocks.into_iter().map(|(line, lines)| {
        let words = words_of(&lines.join("\n"));
        ProseParagraph {
            words,
            line,
            is_cell: false,
        }
    });
    let mut paragraphs: Vec<ProseParagraph> = blocks.chain(cells_of(text)).collect();
    paragraphs.retain(|paragraph| paragraph.words.len() >= MIN_PARAGRAPH_WORDS);
    paragraphs
}

fn cells_of(text: &str) -> Vec<ProseParagraph> {
    let rows = without_code_blocks(text);
    let rows = rows
        .split('\n')
        .enumerate()
        .filter(|(_, line)| line.starts_with('|'));
    rows.flat_map(|(index, row)| {
        let row = without_markup(row).replace("\\|", " ");
        let cells: Vec<ProseParagraph> = row
            .split('|')
            .map(|cell| {
                let words = cell.split_whitespace().map(str::to_owned).collect();
                ProseParagraph {
                    words,
                    line: index + 1,
                    is_cell: true,
                }
            })
            .collect();
        cells
    })
    .collect()
}

/// Returns the text with code blocks emptied, so that lines keep their numbers.
fn without_code_blocks(text: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let is_fence = line.trim_start().starts_with("```");
        lines.push(if is_fence || is_code { "" } else { line });
        is_code ^= is_fence;
    }
    lines.join("\n")
}

/// Returns whether a line begins an item: `- `, `* ` or `1. `.
fn is_list_item(line: &str) -> bool {
    let item = line.trim_start();
    let behind_number = item.trim_start_matches(|letter: char| letter.is_ascii_digit());
    item.starts_with("- ")
        || item.starts_with("* ")
        || (behind_number.len() < item.len() && behind_number.starts_with(". "))
}

fn words_of(text: &str) -> Vec<String> {
    without_markup(text)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Returns the text with `X` for each piece of inline code, and with the text of each link for the
/// link.
fn without_markup(text: &str) -> String {
    let mut code_as_word = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('`') {
        let Some((_, next)) = behind.split_once('`') else {
            break;
        };
        code_as_word.push_str(before);
        code_as_word.push('X');
        rest = next;
    }
    code_as_word.push_str(rest);
    without_targets(&code_as_word)
}

fn without_targets(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let target = link.split_once(']').and_then(|(label, behind)| {
            let (_, next) = behind.strip_prefix('(')?.split_once(')')?;
            Some((label, next))
        });
        if let Some((label, next)) = target {
            plain.push_str(label);
            rest = next;
        } else {
            plain.push('[');
            rest = link;
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(usize, String, bool)> {
        let paragraphs = paragraphs_of(text).into_iter();
        paragraphs
            .map(|found| (found.line, found.words.join(" "), found.is_cell))
            .collect()
    }

    #[test]
    fn paragraphs_end_at_empty_lines_items_headings_and_tables() {
        let text = "# A heading of many words\nOne two three\nfour.\n- an item of four\n  words\n2. the second \
                    item here\n\n```\ncode that is not read\n```\n| a cell of words | no |\n|---|---|\n";
        let expected = [
            (2, "One two three four.", false),
            (4, "- an item of four words", false),
            (6, "2. the second item here", false),
            (11, "a cell of words", true),
        ];
        assert_eq!(
            texts(text),
            expected.map(|(line, text, is_cell)| (line, text.to_owned(), is_cell))
        );
    }

    #[test]
    fn inline_code_is_one_word_and_a_link_its_text() {
        let found = texts("See `a b\nc d` in [the page [1]](x y.md) and [this] (now).\n");
        assert_eq!(
            found[0].1,
            "See X in [the page [1]](x y.md) and [this] (now)."
        );
        let found = texts("See [the\npage](a.md#b), please.\n");
        assert_eq!(found[0].1, "See the page, please.");
    }

    #[test]
    fn sentences_end_before_a_capital_or_a_digit() {
        let paragraph = ProseParagraph {
            words: words_of("One is e.g. this. Two are. X is three? no. 4 is it"),
            ..ProseParagraph::default()
        };
        let sentences: Vec<String> = paragraph
            .sentences()
            .iter()
            .map(|words| words.join(" "))
            .collect();
        assert_eq!(
            sentences,
            ["One is e.g. this.", "X is three? no.", "4 is it"]
        );
    }

    #[test]
    fn long_texts_are_found_and_closed_versions_are_left_out() {
        let long = format!("{}.\n", vec!["word"; 81].join(" "));
        let file = |path: &str, text: String| TrackedFile::new(path, text);
        let changes = format!("## Open\n\n{long}\n## 0.1.0\n\n{long}\n");
        let files = TrackedFiles {
            files: vec![
                file("docs/a.md", long.clone()),
                file("CHANGELOG.md", changes),
                file("crates/a/README.md", long),
            ],
            paths: Vec::new(),
        };
        let part = survey(&files);
        let found: Vec<(&str, usize, WordRule)> = part
            .findings
            .iter()
            .map(|found| (found.path.as_str(), found.line, found.rule))
            .collect();
        let both = |path, line| {
            [
                (path, line, WordRule::Paragraph),
                (path, line, WordRule::Sentence),
            ]
        };
        let expected = [
            both("docs/a.md", 1),
            both("CHANGELOG.md", 3),
            both("crates/a/README.md", 1),
        ]
        .concat();
        assert_eq!(found, expected);
        assert!(
            part.figures[0].sentence().contains(" 3 "),
            "{:?}",
            part.figures
        );
    }
}
