//! Rules about the names of types.

use std::collections::BTreeMap;

use super::findings::{RuleFinding, WordRule, scope_of};
use super::ratchet::{SurveyPart, WorkspaceFigure};
use super::source::RegionKind;
use super::tracked::{TrackedFile, TrackedFiles};
use super::word_list::WordList;

/// The beginning of the tests of a file.
const TEST_MODULE: &str = "#[cfg(test)]\nmod tests {";

/// Endings of a bare participle.
const PARTICIPLE_ENDINGS: &[&str] = &["ed", "wn", "ght", "ept", "eld", "ound", "oken"];

/// Participles, and words like them, with other endings.
const PARTICIPLES: &[&str] = &[
    "Sent", "Kept", "Seen", "Held", "Heard", "Known", "Done", "Left", "Read", "Written", "Shown",
    "Begun", "Came", "Gone", "Given", "Taken", "Made", "Told",
];

/// A type that a file defines.
#[derive(Debug, PartialEq, Eq)]
struct TypeDefinition {
    name: String,
    path: String,
    line: usize,
    /// True in a test file, and in the tests of a source file.
    is_test: bool,
}

/// Finds types that share a name, and names that say too little.
pub(super) fn survey(files: &TrackedFiles, list: &WordList) -> SurveyPart {
    let rust = files.files.iter().filter(|file| file.is_rust());
    let types: Vec<TypeDefinition> = rust.flat_map(definitions).collect();
    let (tests, product): (Vec<_>, Vec<_>) = types.into_iter().partition(|found| found.is_test);
    let by_name = group(&product, |found| found.name.clone());
    let mut findings = defined_twice(&product, WordRule::TypeTwice);
    findings.extend(defined_twice(&tests, WordRule::TestTypeTwice));
    for found in group(&product, in_crate).values().map(|found| found[0]) {
        if is_participle(&found.name) {
            let problem =
                "is a bare participle: a noun phrase of two words says of what".to_owned();
            findings.push(finding(WordRule::Participle, found, &problem));
        }
    }
    for found in &product {
        if let Some(replacement) = list.retired_type(&found.name) {
            findings.push(finding(
                WordRule::RetiredType,
                found,
                &format!("is retired: use {replacement}"),
            ));
        }
    }
    let count = |is: fn(&str) -> bool| by_name.keys().filter(|name| is(name)).count();
    let again = by_name.values().filter(|found| found.len() > 1).count();
    let figures = vec![
        WorkspaceFigure::at_most("type-names-defined-twice-in-workspace", 60, again),
        WorkspaceFigure::share_at_most("one-word-types", 45, count(is_one_word), by_name.len()),
        WorkspaceFigure::share_at_most("participle-types", 3, count(is_participle), by_name.len()),
    ];
    SurveyPart { findings, figures }
}

fn finding(rule: WordRule, found: &TypeDefinition, problem: &str) -> RuleFinding {
    RuleFinding {
        rule,
        path: found.path.clone(),
        line: found.line,
        subject: found.name.clone(),
        problem: format!("`{}` {problem}", found.name),
    }
}

/// Returns a finding for each name that a crate defines more than once.
fn defined_twice(types: &[TypeDefinition], rule: WordRule) -> Vec<RuleFinding> {
    let groups = group(types, in_crate);
    let twice = groups.into_values().filter(|found| found.len() > 1);
    twice
        .map(|found| {
            let others = found[1..]
                .iter()
                .map(|other| format!("{}:{}", other.path, other.line));
            let others: Vec<String> = others.collect();
            finding(
                rule,
                found[0],
                &format!("is also defined in {}", others.join(", ")),
            )
        })
        .collect()
}

/// Returns the key under which the types of one crate that share a name are grouped.
fn in_crate(found: &TypeDefinition) -> (String, String) {
    (scope_of(&found.path).to_owned(), found.name.clone())
}

fn group<K: Ord>(
    types: &[TypeDefinition],
    key: impl Fn(&TypeDefinition) -> K,
) -> BTreeMap<K, Vec<&TypeDefinition>> {
    let mut groups: BTreeMap<K, Vec<&TypeDefinition>> = BTreeMap::new();
    for found in types {
        groups.entry(key(found)).or_default().push(found);
    }
    groups
}

/// Returns the types that a file defines. An associated type of a trait is not a definition.
fn definitions(file: &TrackedFile) -> Vec<TypeDefinition> {
    let tests_from = if file.is_product() {
        file.text.find(TEST_MODULE).unwrap_or(file.text.len())
    } else {
        0
    };
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let mut regions = file.regions.iter().peekable();
    for text in file.text.split_inclusive('\n') {
        while regions.next_if(|region| region.end <= at).is_some() {}
        let is_code = regions
            .peek()
            .is_some_and(|region| region.kind == RegionKind::Code);
        if let Some(name) = type_name(text).filter(|_| is_code) {
            let (name, path) = (name.to_owned(), file.path.clone());
            found.push(TypeDefinition {
                name,
                path,
                line,
                is_test: at >= tests_from,
            });
        }
        (at, line) = (at + text.len(), line + 1);
    }
    found
}

/// Returns the name of the type that a line defines.
fn type_name(line: &str) -> Option<&str> {
    let code = line.trim_start_matches(' ');
    let is_indented = code.len() < line.len();
    let code = without_visibility(code);
    let (keyword, rest) = code.split_once(char::is_whitespace)?;
    if !matches!(keyword, "struct" | "enum" | "trait" | "type")
        || (keyword == "type" && is_indented)
    {
        return None;
    }
    let name = rest.trim_start();
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &name[..end.unwrap_or(name.len())];
    (!name.is_empty()).then_some(name)
}

fn without_visibility(code: &str) -> &str {
    let Some(rest) = code.strip_prefix("pub") else {
        return code;
    };
    let rest = match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')').map_or(rest, |(_, behind)| behind),
        None => rest,
    };
    if rest.starts_with(char::is_whitespace) {
        rest.trim_start()
    } else {
        code
    }
}

/// Returns true if a name is one word: a capital letter and small letters.
fn is_one_word(name: &str) -> bool {
    let mut letters = name.bytes();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_uppercase())
        && name.len() > 1
        && letters.all(|letter| letter.is_ascii_lowercase())
}

/// Returns true if a name is one participle, or one word with the ending of a participle. The word
/// list excepts nouns with such an ending.
fn is_participle(name: &str) -> bool {
    let ending = |ending: &&str| name.len() > ending.len() && name.ends_with(*ending);
    PARTICIPLES.contains(&name) || (is_one_word(name) && PARTICIPLE_ENDINGS.iter().any(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<(String, bool)> {
        let file = TrackedFile::new(path, text.to_owned());
        definitions(&file)
            .into_iter()
            .map(|found| (found.name, found.is_test))
            .collect()
    }

    #[test]
    fn definitions_leave_out_comments_strings_and_associated_types() {
        let text = "pub(crate) struct Open<T>(T);\n/*\nstruct Closed;\n*/\nconst A: &str = \"\nenum Text {\";\n\
                    trait Shape {\n    type Inside;\n    enum_ = 1;\n}\ntype Alias = u8;\npub  enum Wide {}\n";
        let found: Vec<String> = names("crates/a/src/b.rs", text)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(found, ["Open", "Shape", "Alias", "Wide"]);
    }

    #[test]
    fn types_of_tests_are_counted_apart() {
        let text = "struct One;\n#[cfg(test)]\nmod tests {\n    struct Two;\n}\n";
        let expected = [("One".to_owned(), false), ("Two".to_owned(), true)];
        assert_eq!(names("crates/a/src/b.rs", text), expected);
        assert!(
            names("crates/a/tests/it/b.rs", text)
                .iter()
                .all(|(_, is_test)| *is_test)
        );
    }

    #[test]
    fn a_name_is_defined_twice_inside_one_crate_alone() {
        let file = |path: &str| TrackedFile::new(path, "struct Same;\n".to_owned());
        let paths = [
            "crates/a/src/b.rs",
            "crates/a/src/c.rs",
            "crates/d/src/e.rs",
            "crates/a/tests/f.rs",
        ];
        let files = TrackedFiles {
            files: paths.map(file).into(),
            paths: Vec::new(),
        };
        let part = survey(&files, &WordList::default());
        let sentences: Vec<String> = part.findings.iter().map(RuleFinding::sentence).collect();
        assert_eq!(
            sentences,
            ["crates/a/src/b.rs:1: `Same` is also defined in crates/a/src/c.rs:1"]
        );
        assert_eq!(part.findings[0].rule, WordRule::TypeTwice);
    }

    #[test]
    fn participles_are_one_word() {
        let participles = ["Arrived", "Kept", "Bound", "Flown", "Came", "Sought"];
        assert!(participles.iter().all(|name| is_participle(name)));
        let others = ["KeptFile", "Ed", "Hub", "Keeper", "HTTPed"];
        assert!(!others.iter().any(|name| is_participle(name)));
    }
}
