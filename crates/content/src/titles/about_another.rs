//! Titles of comments, replies and corrections, which contain the title of another text.

use super::{BEGINNING_CHARS, beginning, letters, plain};

/// Beginnings of titles that refer to another text: comments, replies, corrections and retractions.
const ABOUT_ANOTHER: [&[&str]; 4] = [
    &["comment on", "comments on", "commentary on", "comment:"],
    &[
        "reply to",
        "reply:",
        "author reply",
        "response to",
        "response:",
        "author response",
    ],
    &[
        "correction to",
        "corrections to",
        "correction:",
        "author correction",
        "publisher correction",
        "corrigendum",
        "erratum",
        "errata",
        "addendum to",
        "addendum:",
    ],
    &[
        "retraction of",
        "retraction:",
        "retraction note",
        "expression of concern",
        "editorial expression of concern",
    ],
];
/// Words between such a beginning and the other title.
const LINKS: [&str; 5] = ["", "to", "on", "of", "for"];

/// Returns the index in [`ABOUT_ANOTHER`] of the kind of text that a title, or the beginning of a
/// page, announces.
pub(super) fn kind_about_another(title: &str) -> Option<usize> {
    let title = plain(title);
    let title = title.trim_start_matches(|c: char| !c.is_alphanumeric());
    let mut kinds = ABOUT_ANOTHER.iter();
    kinds.position(|kind| {
        let mut behind = kind.iter().filter_map(|words| title.strip_prefix(words));
        behind.any(|behind| !behind.starts_with(char::is_alphanumeric))
    })
}

/// Tells whether a title, or the beginning of a page, announces a text about another text.
#[must_use]
pub fn is_about_another(title: &str) -> bool {
    kind_about_another(title).is_some()
}

/// Tells whether a text contains the title of the work that it discusses, after words such as
/// "Comment on".
#[must_use]
pub fn is_commented_in(title: &str, text: &str) -> bool {
    let title = beginning(title);
    let text = plain(text);
    let is_next = |behind: &str| {
        let behind = letters(behind);
        LINKS
            .iter()
            .filter_map(|link| behind.strip_prefix(link))
            .any(|behind| behind.starts_with(&title))
    };
    let words = ABOUT_ANOTHER.into_iter().flatten();
    !title.is_empty()
        && words.copied().any(|words| {
            let mut places = text.match_indices(words);
            places.any(|(at, _)| is_next(head(&text[at + words.len()..])))
        })
}

/// Returns the beginning of a text, long enough for a title with separators between its letters.
fn head(text: &str) -> &str {
    let end = text.char_indices().nth(4 * BEGINNING_CHARS);
    end.map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::super::{Likeness, compare};
    use super::*;

    #[test]
    fn a_text_about_another_one_has_another_title() {
        let title = "Assessment of virus infection in pathogen-free chickens";
        let about = |words: &str| format!("{words} {title}");
        for words in [
            "Comment on",
            "\u{201c}Comment on",
            "Reply to:",
            "Correction to:",
            "Erratum:",
        ] {
            assert_eq!(
                compare(title, &about(words)),
                Likeness::Different,
                "{words}"
            );
            assert_eq!(compare(&about(words), &about(words)), Likeness::Same);
            let page = format!("Journal 3 (2019) {} A. Rivers", about(words));
            assert!(is_commented_in(title, &page), "{words}");
        }
        assert_eq!(
            compare(&about("Comment on"), &about("Reply to")),
            Likeness::Different
        );
        let pages = [
            format!("COMMENT {title}"),
            format!("{title} A reader's comment on another matter"),
            format!("Comment on something else. {title}"),
        ];
        for page in pages {
            assert!(!is_commented_in(title, &page), "{page}");
        }
        for own in [
            "Corrections of lenses",
            "Responses of reeds",
            "Commenting on art",
        ] {
            assert!(!is_about_another(own), "{own}");
        }
    }
}
