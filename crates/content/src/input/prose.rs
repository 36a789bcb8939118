//! Identifiers in sentences: references, e-mails, and pages saved as text.
//!
//! DOIs are recognised wherever they begin, arXiv ids and `PubMed` ids by their labels or links, and
//! PMCIDs by their spelling. Links without an identifier are not taken.

use crate::identifier::{Doi, Identifier};
use crate::work::Identifiers;

/// Maximum number of works that are read out of one line.
const MAX_WORKS_PER_LINE: usize = 1_000;
/// Characters that end an identifier in a sentence.
const ENDS: [char; 9] = [
    '"', '\u{201c}', '\u{201d}', '>', '|', '`', '\\', '\u{bb}', '\u{ab}',
];
/// Beginnings of an identifier, before which a comma or semicolon ends the one before.
const BEGINNINGS: [&str; 6] = ["10.", "doi", "http", "arxiv", "pmc", "pmid"];

/// Reads the works that a line names, each with its identifiers. `PMID` and `PMCID` with a colon
/// belong to the DOI before them, as citations have them.
pub(super) fn works(line: &str) -> Vec<Identifiers> {
    let mut works: Vec<Identifiers> = Vec::new();
    let mut label = None;
    for word in line.split_whitespace().flat_map(split_word) {
        if works.len() == MAX_WORKS_PER_LINE {
            break;
        }
        let named = label.take();
        let Some((found, is_labelled)) = identifier(word, named) else {
            label = IdentifierLabel::of(word);
            continue;
        };
        let mut identifiers = Identifiers::default();
        identifiers.insert(found.clone());
        let joined = works.last_mut().filter(|last| {
            let is_free = match &found {
                Identifier::Pmid(_) => last.pmid.is_none(),
                Identifier::Pmcid(_) => last.pmcid.is_none(),
                _ => false,
            };
            is_labelled && is_free && last.doi.is_some()
        });
        if let Some(work) = joined {
            work.merge(identifiers);
        } else if !works.contains(&identifiers) {
            works.push(identifiers);
        }
    }
    works
}

/// The label of the next word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdentifierLabel {
    Arxiv,
    Pmid,
    Pmcid,
}

impl IdentifierLabel {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Arxiv, "arxiv"),
        (Self::Pmid, "pmid"),
        (Self::Pmcid, "pmcid"),
    ];

    /// Reads a word that consists of a label.
    fn of(word: &str) -> Option<Self> {
        let name = word.trim_matches(|c: char| !c.is_alphanumeric());
        let mut all = Self::ALL.into_iter();
        all.find(|(_, known)| name.eq_ignore_ascii_case(known))
            .map(|(label, _)| label)
    }

    /// Splits a word that begins with a label and a colon.
    fn split(word: &str) -> Option<(Self, &str)> {
        let (name, rest) = word.split_once([':', '='])?;
        let rest = rest.trim_start_matches([':', '=']);
        (!rest.is_empty()).then_some((Self::of(name)?, rest))
    }

    fn read(self, word: &str) -> Option<Identifier> {
        let word = bare(word);
        let found = match self {
            Self::Arxiv => format!("arxiv:{word}"),
            Self::Pmid => format!("pmid:{word}"),
            Self::Pmcid => word.to_owned(),
        };
        Identifier::parse(&found).ok()
    }
}

/// Reads the identifier of a word, and whether a label names it.
fn identifier(word: &str, label: Option<IdentifierLabel>) -> Option<(Identifier, bool)> {
    let labelled = label
        .map(|label| (label, word))
        .or_else(|| IdentifierLabel::split(word));
    if let Some(found) = labelled.and_then(|(label, word)| label.read(word)) {
        return Some((found, true));
    }
    if let Some(at) = word.find("http://").or_else(|| word.find("https://")) {
        let found = Identifier::parse(bare(&word[at..])).ok()?;
        let Identifier::Url(url) = &found else {
            return Some((found, false));
        };
        return Doi::in_url(url).map(|doi| (of_doi(doi), false));
    }
    if let Some(at) = doi_begins(word) {
        return word[at..]
            .parse::<Doi>()
            .ok()
            .map(|doi| (of_doi(doi), false));
    }
    let word = bare(word);
    let is_pmcid = word
        .get(..3)
        .is_some_and(|begin| begin.eq_ignore_ascii_case("pmc"));
    if is_pmcid && let Ok(found @ Identifier::Pmcid(_)) = Identifier::parse(word) {
        return Some((found, false));
    }
    // `arxiv.org/abs/2101.00001` and `doi.org/...` without a scheme.
    match Identifier::parse(word) {
        Ok(found @ Identifier::Arxiv(_)) if word.contains("arxiv.org/") => Some((found, false)),
        _ => None,
    }
}

fn of_doi(doi: Doi) -> Identifier {
    doi.arxiv().map_or(Identifier::Doi(doi), Identifier::Arxiv)
}

/// Finds the beginning of a DOI in a word: `10.`, at least four digits and a slash, behind a
/// character that is not a part of a number or word.
fn doi_begins(word: &str) -> Option<usize> {
    word.match_indices("10.").map(|(at, _)| at).find(|at| {
        let before = word[..*at].chars().next_back();
        let rest = &word[at + 3..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_registrant = rest[digits..].starts_with(['/', '.', '%']);
        before.is_none_or(|c| !c.is_alphanumeric() && c != '.') && digits >= 4 && is_registrant
    })
}

/// Removes the brackets and punctuation around a word.
fn bare(word: &str) -> &str {
    let word = word.trim_start_matches(['(', '[', '{', '<', '\'', '\u{2018}', ',', ';']);
    crate::identifier::without_trailing_punctuation(word)
}

/// Splits a word at the characters that end an identifier, and at a comma or semicolon before the
/// next identifier.
fn split_word(word: &str) -> Vec<&str> {
    // The DOIs of old Wiley articles contain brackets and semicolons.
    if word.to_ascii_lowercase().contains("(sici)") {
        return vec![word];
    }
    let parts = word.split(|c: char| ENDS.contains(&c) || c == '<');
    parts
        .flat_map(|part| part.split("]("))
        .flat_map(split_list)
        .collect()
}

/// Splits at commas and semicolons that an identifier follows.
fn split_list(part: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _) in part.match_indices([',', ';']) {
        let behind = &part[at + 1..];
        let begins = |name: &&str| {
            let head = behind.get(..name.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(name))
        };
        if BEGINNINGS.iter().any(begins) {
            parts.push(&part[from..at]);
            from = at + 1;
        }
    }
    parts.push(&part[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<String> {
        let shown = |ids: Identifiers| {
            let mut parts = Vec::new();
            parts.extend(ids.doi.map(|id| id.to_string()));
            parts.extend(ids.arxiv.map(|id| format!("arxiv:{id}")));
            parts.extend(ids.pmid.map(|id| format!("pmid:{id}")));
            parts.extend(ids.pmcid.map(|id| id.to_string()));
            parts.join("+")
        };
        works(line).into_iter().map(shown).collect()
    }

    #[test]
    fn identifiers_are_read_out_of_sentences() {
        for (line, found) in [
            ("See (doi:10.1000/a), and 10.1000/b.", "10.1000/a 10.1000/b"),
            (
                "[Holm](https://doi.org/10.1000/a) [10.1000/b](https://doi.org/10.1000/b)",
                "10.1000/a 10.1000/b",
            ),
            ("<a href=\"https://doi.org/10.1000/a\">DOI</a>", "10.1000/a"),
            (
                "Holm 2019. doi: 10.1000/a. PMID: 31000001; PMCID: PMC7.",
                "10.1000/a+pmid:31000001+PMC7",
            ),
            (
                "PMC7, PMC8 and arXiv:2101.00001v2 [cs.CL]",
                "PMC7 PMC8 arxiv:2101.00001v2",
            ),
            ("arXiv preprint arXiv: 2101.00001, 2021", "arxiv:2101.00001"),
            (
                "10.1000/a;10.1000/b,doi:10.1000/c",
                "10.1000/a 10.1000/b 10.1000/c",
            ),
            ("\\cite{x} \\doi{10.1000/a}", "10.1000/a"),
            (
                "read https://onlinelibrary.wiley.com/doi/full/10.1000/a today",
                "10.1000/a",
            ),
            ("at arxiv.org/abs/2101.00001.", "arxiv:2101.00001"),
            (
                "of 10.1002/(SICI)1097-0258(19970615)16:11<1261::AID-SIM535>3.0.CO;2-Z again",
                "10.1002/(sici)1097-0258(19970615)16:11<1261::aid-sim535>3.0.co;2-z",
            ),
            (
                "10.1641/0006-3568(2001)051[0933:TEOTWA]2.0.CO;2 in BioScience",
                "10.1641/0006-3568(2001)051[0933:teotwa]2.0.co;2",
            ),
            ("10.1000/a and again 10.1000/A", "10.1000/a"),
            (
                "https://doi.org/10.48550/arXiv.2101.00001 (preprint)",
                "arxiv:2101.00001",
            ),
            (
                "version 10.15 of 2101.00001 costs 10.50/unit, PMC, http://x.example/a",
                "",
            ),
            ("a sentence without any", ""),
        ] {
            assert_eq!(read(line).join(" "), found, "{line}");
        }
    }

    #[test]
    fn a_line_of_identifiers_ends_at_the_limit() {
        let many: Vec<String> = (0..2_000).map(|n| format!("10.1000/{n}")).collect();
        assert_eq!(works(&many.join(" ")).len(), MAX_WORKS_PER_LINE);
    }
}
