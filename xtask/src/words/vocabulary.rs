//! Rules about words: retired words, and words with a better replacement.
//!
//! A word is found alone and as a part of an identifier. A phrase of several words is found in
//! comments, strings and documents, on one line.

use super::findings::RuleFinding;
use super::source::RegionKind;
use super::tracked::{TrackedFile, TrackedFiles};
use super::word_list::{OldWord, WordList};

/// Returns the retired and discouraged words of all files.
pub(super) fn findings(files: &TrackedFiles, list: &WordList) -> Vec<RuleFinding> {
    let read = files
        .files
        .iter()
        .filter(|file| !file.path.ends_with("CHANGELOG.md"));
    read.flat_map(|file| findings_of(file, list)).collect()
}

fn findings_of(file: &TrackedFile, list: &WordList) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    if file.is_rust() {
        for region in &file.regions {
            let is_code = region.kind == RegionKind::Code;
            search(file, region.start..region.end, is_code, list, &mut findings);
        }
    } else {
        search(file, 0..file.text.len(), false, list, &mut findings);
    }
    findings
}

/// Finds retired and discouraged words in a part of a file.
fn search(
    file: &TrackedFile,
    part: std::ops::Range<usize>,
    is_code: bool,
    list: &WordList,
    findings: &mut Vec<RuleFinding>,
) {
    let bytes = &file.text.as_bytes()[..part.end];
    let mut lowered = Vec::new();
    let mut at = part.start;
    while let Some((start, end)) = next_word(bytes, at) {
        lowered.clear();
        lowered.extend(bytes[start..end].iter().map(u8::to_ascii_lowercase));
        for old in list.old_words(&lowered) {
            let is_phrase = old.words.len() > lowered.len();
            if !is_phrase || (!is_code && is_phrase_at(bytes, start, &old.words)) {
                findings.push(finding(file, start, old));
            }
        }
        at = end;
    }
}

fn finding(file: &TrackedFile, at: usize, old: &OldWord) -> RuleFinding {
    RuleFinding {
        rule: old.rule,
        path: file.path.clone(),
        line: file.line_of(at),
        subject: old.words.clone(),
        problem: format!("`{}`: use {}", old.words, old.replacement),
    }
}

/// Returns the next word from a byte on: letters up to a capital that follows a small letter.
fn next_word(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let start = from
        + bytes
            .get(from..)?
            .iter()
            .position(u8::is_ascii_alphabetic)?;
    let mut end = start + 1;
    while let Some(letter) = bytes.get(end).filter(|letter| letter.is_ascii_alphabetic()) {
        if letter.is_ascii_uppercase() && bytes[end - 1].is_ascii_lowercase() {
            break;
        }
        end += 1;
    }
    Some((start, end))
}

/// Returns true if a phrase stands at a byte, and ends there.
fn is_phrase_at(bytes: &[u8], start: usize, words: &str) -> bool {
    let end = start + words.len();
    let is_same = bytes
        .get(start..end)
        .is_some_and(|text| text.eq_ignore_ascii_case(words.as_bytes()));
    is_same
        && bytes
            .get(end)
            .is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(path: &str, text: &str) -> anyhow::Result<Vec<(String, usize)>> {
        let list = WordList::parse("retired | wibble | wobble\nretired | wob of | reported\n")?;
        let file = TrackedFile::new(path, text.to_owned());
        let found = findings_of(&file, &list).into_iter();
        Ok(found.map(|found| (found.subject, found.line)).collect())
    }

    #[test]
    fn a_word_is_found_in_identifiers_comments_strings_and_documents() -> anyhow::Result<()> {
        let text = "struct FarWibble;\nfn drop_wibble() {} // a wibble\nlet a = \"Wibble\";\nlet wibbles = 1;\n";
        let lines: Vec<usize> = subjects("a/src/b.rs", text)?
            .into_iter()
            .map(|(_, line)| line)
            .collect();
        assert_eq!(lines, [1, 2, 2, 3]);
        assert_eq!(subjects("docs/a.md", "One\n`wibble`\n")?.len(), 1);
        Ok(())
    }

    #[test]
    fn several_words_are_found_outside_of_code() -> anyhow::Result<()> {
        let found = subjects(
            "a/src/b.rs",
            "// wob of\n// wob offer\nlet a = \"Wob of it\"; wob of\n",
        )?;
        assert_eq!(found, [("wob of".to_owned(), 1), ("wob of".to_owned(), 3)]);
        Ok(())
    }
}
