//! The findings of the check, and the rules that produce them.

/// A thing that the check looks for. The order is that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WordRule {
    /// A type name that one crate defines more than once, outside of tests.
    TypeTwice,
    /// A type name that the tests of one crate define more than once.
    TestTypeTwice,
    /// A type named by a bare participle.
    Participle,
    /// A type with a retired name.
    RetiredType,
    /// A retired word, in an identifier, a comment, a message or a document.
    Retired,
    /// A word with a better replacement in most places.
    Discouraged,
    /// A doc comment that opens with a question word or a pronoun.
    DocOpening,
    /// A relative link or an anchor of a document that leads nowhere.
    Link,
    /// A paragraph of a document that is too long.
    Paragraph,
    /// A sentence of a document that is too long.
    Sentence,
    /// An exception of the word list that matches no finding.
    Exception,
}

impl WordRule {
    /// Every rule, in the order of the report.
    pub(super) const ALL: [Self; 11] = [
        Self::TypeTwice,
        Self::TestTypeTwice,
        Self::Participle,
        Self::RetiredType,
        Self::Retired,
        Self::Discouraged,
        Self::DocOpening,
        Self::Link,
        Self::Paragraph,
        Self::Sentence,
        Self::Exception,
    ];

    /// Returns the name in the files of this check.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TypeTwice => "type-twice",
            Self::TestTypeTwice => "test-type-twice",
            Self::Participle => "participle",
            Self::RetiredType => "retired-type",
            Self::Retired => "retired",
            Self::Discouraged => "discouraged",
            Self::DocOpening => "doc-opening",
            Self::Link => "link",
            Self::Paragraph => "paragraph",
            Self::Sentence => "sentence",
            Self::Exception => "exception",
        }
    }

    /// Returns the rule of a name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// A place in a tracked file that breaks a [`WordRule`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleFinding {
    pub(super) rule: WordRule,
    /// The file, from the root of the workspace.
    pub(super) path: String,
    /// The line in that file, from 1.
    pub(super) line: usize,
    /// The word, name, target or opening that an exception must name.
    pub(super) subject: String,
    /// The problem, in words.
    pub(super) problem: String,
}

impl RuleFinding {
    /// Returns the line that people read.
    pub(super) fn sentence(&self) -> String {
        format!("{}:{}: {}", self.path, self.line, self.problem)
    }

    /// Returns the unit in which a baseline counts: a crate, or a document.
    pub(super) fn scope(&self) -> &str {
        scope_of(&self.path)
    }
}

/// Returns the crate of a path, or the path itself for a document outside of the crates.
pub(super) fn scope_of(path: &str) -> &str {
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let (first, second) = (slashes.next(), slashes.next());
    match first {
        Some(at) if matches!(&path[..at], "xtask" | "fuzz") => &path[..at],
        Some(at) if &path[..at] == "crates" => second.map_or(path, |end| &path[..end]),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::scope_of;

    #[test]
    fn scope_is_a_crate_or_a_document() {
        let scopes = [
            ("crates/hub/src/fetch.rs", "crates/hub"),
            ("crates/README.md", "crates/README.md"),
            ("xtask/src/main.rs", "xtask"),
            ("docs/adr/0001.md", "docs/adr/0001.md"),
            ("README.md", "README.md"),
        ];
        for (path, scope) in scopes {
            assert_eq!(scope_of(path), scope);
        }
    }
}
