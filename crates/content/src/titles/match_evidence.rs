//! Evidence that a record found by its title is the work searched for.

use super::{Likeness, compare, is_equal, is_telling, letters, words};

/// The longest title that is compared letter by letter, in characters.
const MAX_COMPARED_CHARS: usize = 400;
/// Minimum similarity of the letters of two titles.
const MIN_SIMILARITY: f64 = 0.9;

/// The fields by which a work is described, in the input or in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description<'a> {
    pub(crate) title: &'a str,
    pub(crate) year: Option<i32>,
    /// The first author: the family name, or the whole name in any order.
    pub(crate) first_author: Option<&'a str>,
}

/// The evidence for a match, the strongest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MatchEvidence {
    is_author_same: bool,
    is_year_same: bool,
    is_title_equal: bool,
}

impl MatchEvidence {
    /// Compares a record with the wanted work. Returns `None` if a field contradicts, or the
    /// evidence does not suffice.
    ///
    /// - The titles have the same letters, or nine of ten; a subtitle may be missing.
    /// - Years differ by one at most: an article appears online before its issue.
    /// - The family name of the record's first author is in the wanted name.
    /// - A title that other works may share needs year or author as well.
    pub(crate) fn of(wanted: Description<'_>, record: Description<'_>) -> Option<Self> {
        let is_title_equal = is_equal(wanted.title, record.title);
        let is_similar = is_title_equal
            || (compare(wanted.title, record.title) == Likeness::Same
                && are_similar(wanted.title, record.title));
        let is_other_year = matches!((wanted.year, record.year), (Some(one), Some(other)) if one.abs_diff(other) > 1);
        let authors = wanted.first_author.zip(record.first_author);
        let is_author_same = authors.is_some_and(|(wanted, family)| names_author(wanted, family));
        if !is_similar || is_other_year || (authors.is_some() && !is_author_same) {
            return None;
        }
        let is_year_same = wanted.year.is_some() && record.year.is_some();
        let suffices = is_author_same
            || (is_title_equal && is_telling(wanted.title))
            || (is_year_same && is_telling(wanted.title));
        suffices.then_some(Self {
            is_author_same,
            is_year_same,
            is_title_equal,
        })
    }

    /// Describes the evidence, for people.
    pub(crate) fn sentence(self) -> String {
        let mut parts = vec![if self.is_title_equal {
            "same title"
        } else {
            "similar title"
        }];
        parts.extend(self.is_year_same.then_some("year"));
        parts.extend(self.is_author_same.then_some("first author"));
        match parts.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => parts.concat(),
        }
    }
}

/// Tells whether two titles differ in few letters, or only in a subtitle.
fn are_similar(one: &str, other: &str) -> bool {
    let head = |title: &str| {
        letters(title)
            .chars()
            .take(MAX_COMPARED_CHARS)
            .collect::<String>()
    };
    let without_subtitle = |title: &str| {
        let main = title.split(": ").next().unwrap_or(title);
        is_telling(main).then(|| head(main))
    };
    let (whole, other_whole) = (head(one), head(other));
    strsim::normalized_levenshtein(&whole, &other_whole) >= MIN_SIMILARITY
        || without_subtitle(one).is_some_and(|main| main == other_whole)
        || without_subtitle(other).is_some_and(|main| main == whole)
}

/// Tells whether all words of a family name are in a name.
fn names_author(name: &str, family: &str) -> bool {
    let name = words(name);
    let family = words(family);
    !family.is_empty() && family.iter().all(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description<'a>(
        title: &'a str,
        year: Option<i32>,
        first_author: Option<&'a str>,
    ) -> Description<'a> {
        Description {
            title,
            year,
            first_author,
        }
    }

    #[test]
    fn a_record_is_accepted_only_with_evidence() {
        let title = "Growth of reed beds along the shores of shallow lakes";
        let correction = format!("Correction to: {title}");
        let wanted = description(title, Some(2019), Some("Holm, A."));
        let sentence =
            |wanted, record| MatchEvidence::of(wanted, record).map(MatchEvidence::sentence);
        for (record, found) in [
            (
                description(title, Some(2019), Some("Holm")),
                Some("same title, year and first author"),
            ),
            (
                description(
                    "Growth of Reed Beds along the Shores of Shallow Lakes.",
                    Some(2020),
                    Some("holm"),
                ),
                Some("same title, year and first author"),
            ),
            (
                description(
                    "Growth of reed beds along the shores of shallow lakes: a survey",
                    None,
                    Some("Holm"),
                ),
                Some("similar title and first author"),
            ),
            (
                description(
                    "Growth of reedbeds along the shore of shallow lakes",
                    Some(2019),
                    None,
                ),
                Some("similar title and year"),
            ),
            (description(title, Some(2016), Some("Holm")), None),
            (description(title, Some(2019), Some("Berg")), None),
            (
                description(
                    "Growth of algae along the shores of shallow lakes",
                    Some(2019),
                    Some("Holm"),
                ),
                None,
            ),
            (description(&correction, Some(2019), Some("Holm")), None),
        ] {
            assert_eq!(sentence(wanted, record).as_deref(), found, "{record:?}");
        }
        let short = description("Reed bed growth", None, None);
        assert_eq!(sentence(short, short), None, "others may have this title");
        let short = description("Reed bed growth", None, Some("A. van der Holm"));
        let record = description("Reed bed growth", None, Some("van der Holm"));
        assert_eq!(
            sentence(short, record).as_deref(),
            Some("same title and first author")
        );
    }
}
