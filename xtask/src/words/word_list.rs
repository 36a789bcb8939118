//! The word list: retired words, and exceptions with their reasons.
//!
//! A line has fields between bars:
//!
//! ```text
//! retired      | word or words | replacement
//! discouraged  | word or words | replacement
//! retired-type | TypeName      | replacement
//! except       | rule | path or its beginning, or * | subject, or * | reason
//! ```

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, bail};

use super::findings::{RuleFinding, WordRule};

/// A word or a phrase with a better replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldWord {
    /// The word or phrase in small letters, with single spaces.
    pub(super) words: String,
    pub(super) replacement: String,
    pub(super) rule: WordRule,
}

/// A finding that is allowed.
#[derive(Debug)]
struct ListedException {
    rule: WordRule,
    /// The beginning of a path; empty for every path.
    path: String,
    subject: String,
    line: usize,
}

impl ListedException {
    fn covers(&self, found: &RuleFinding) -> bool {
        let is_subject = self.subject == "*" || self.subject == found.subject;
        is_subject && self.rule == found.rule && found.path.starts_with(&self.path)
    }
}

/// The parsed word list.
#[derive(Debug, Default)]
pub(super) struct WordList {
    /// The words by their first word, so that one look-up decides for nearly every word of a text.
    old_words: HashMap<Vec<u8>, Vec<OldWord>>,
    retired_types: BTreeMap<String, String>,
    exceptions: Vec<ListedException>,
}

impl WordList {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads the text of the file.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut list = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            if fields.iter().any(|field| field.is_empty()) {
                bail!("line {}: a field is empty: {line}", index + 1);
            }
            list.add(&fields, index + 1)
                .with_context(|| format!("line {}: {line}", index + 1))?;
        }
        Ok(list)
    }

    fn add(&mut self, fields: &[&str], line: usize) -> anyhow::Result<()> {
        match *fields {
            ["retired", words, replacement] => {
                self.add_words(WordRule::Retired, words, replacement);
            }
            ["discouraged", words, replacement] => {
                self.add_words(WordRule::Discouraged, words, replacement);
            }
            ["retired-type", name, replacement] => {
                self.retired_types
                    .insert(name.to_owned(), replacement.to_owned());
            }
            ["except", rule, path, subject, _reason] => self.exceptions.push(ListedException {
                rule: WordRule::from_name(rule).context("there is no such rule")?,
                path: if path == "*" {
                    String::new()
                } else {
                    path.to_owned()
                },
                subject: subject.to_owned(),
                line,
            }),
            _ => bail!("not a word with its replacement, and not an exception with its reason"),
        }
        Ok(())
    }

    fn add_words(&mut self, rule: WordRule, words: &str, replacement: &str) {
        let words = words.to_ascii_lowercase();
        let first = words
            .split(' ')
            .next()
            .unwrap_or_default()
            .as_bytes()
            .to_vec();
        let old_word = OldWord {
            words,
            replacement: replacement.to_owned(),
            rule,
        };
        self.old_words.entry(first).or_default().push(old_word);
    }

    /// Returns the old words that begin with a word in small letters.
    pub(super) fn old_words(&self, first: &[u8]) -> &[OldWord] {
        self.old_words.get(first).map_or(&[], Vec::as_slice)
    }

    /// Returns the replacement for the name of a type, if the name is retired.
    pub(super) fn retired_type(&self, name: &str) -> Option<&str> {
        self.retired_types.get(name).map(String::as_str)
    }

    /// Removes the findings that are excepted, and adds a finding for each exception without a
    /// match.
    pub(super) fn without_exceptions(&self, findings: Vec<RuleFinding>) -> Vec<RuleFinding> {
        let mut is_used = vec![false; self.exceptions.len()];
        let mut left = Vec::new();
        for found in findings {
            let exception = self
                .exceptions
                .iter()
                .position(|exception| exception.covers(&found));
            match exception {
                Some(index) => is_used[index] = true,
                None => left.push(found),
            }
        }
        let unused = self
            .exceptions
            .iter()
            .zip(is_used)
            .filter(|(_, is_used)| !is_used);
        let unused = unused.map(|(exception, _)| exception);
        left.extend(unused.map(|exception| RuleFinding {
            rule: WordRule::Exception,
            path: super::WORD_LIST.to_owned(),
            line: exception.line,
            subject: exception.subject.clone(),
            problem: format!(
                "nothing is excepted for `{}`: remove the line",
                exception.subject
            ),
        }));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(path: &str, subject: &str) -> RuleFinding {
        let (path, subject) = (path.to_owned(), subject.to_owned());
        RuleFinding {
            rule: WordRule::Participle,
            path,
            line: 1,
            subject,
            problem: "is bad".to_owned(),
        }
    }

    #[test]
    fn exceptions_name_rule_path_and_subject() -> anyhow::Result<()> {
        let list = WordList::parse(
            "# head\nexcept | participle | * | Feed | a noun\nexcept | participle | crates/a | Bed | a noun\n\
             except | participle | docs | * | a list of them\nexcept | link | * | Feed | unused\n",
        )?;
        let findings = vec![
            finding("crates/b/x.rs", "Feed"),
            finding("crates/a/x.rs", "Bed"),
            finding("crates/b/x.rs", "Bed"),
            finding("docs/a.md", "Bed"),
        ];
        let left: Vec<String> = list
            .without_exceptions(findings)
            .iter()
            .map(RuleFinding::sentence)
            .collect();
        let expected = [
            "crates/b/x.rs:1: is bad",
            "xtask/words.txt:5: nothing is excepted for `Feed`: remove the line",
        ];
        assert_eq!(left, expected);
        Ok(())
    }

    #[test]
    fn an_exception_without_a_reason_is_an_error() {
        for wrong in [
            "except | participle | * | Feed",
            "except | participle | * | Feed |",
            "except | unheard | * | Feed | a noun",
            "retired | one",
        ] {
            assert!(WordList::parse(wrong).is_err(), "{wrong}");
        }
    }
}
