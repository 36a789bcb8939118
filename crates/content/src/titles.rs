//! Titles: removal of markup and entities, and the comparison of two titles.

mod about_another;
mod match_evidence;

use std::collections::HashSet;

use about_another::kind_about_another;
pub use about_another::{is_about_another, is_commented_in};
pub(crate) use match_evidence::{Description, MatchEvidence};

/// Markup that publishers leave in titles.
const TITLE_MARKUP: [&str; 14] = [
    "i", "b", "em", "strong", "sub", "sup", "scp", "sc", "u", "tt", "p", "br", "span", "title",
];

/// Entities that remain in titles after one level of decoding.
const ENTITIES: [(&str, &str); 12] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("ndash", "\u{2013}"),
    ("mdash", "\u{2014}"),
    ("lsquo", "\u{2018}"),
    ("rsquo", "\u{2019}"),
    ("ldquo", "\u{201c}"),
    ("rdquo", "\u{201d}"),
];

/// Words that do not distinguish works.
const STOP_WORDS: [&str; 22] = [
    "a", "an", "and", "as", "at", "by", "de", "des", "for", "from", "in", "la", "le", "of", "on",
    "or", "the", "to", "und", "using", "via", "with",
];

/// The number of letters at the beginning of a title that are searched in a text.
const BEGINNING_CHARS: usize = 40;
/// Minimum number of letters of a title that is searched in a text.
const SHORTEST_BEGINNING: usize = 12;
/// The average word length above which words count as several words run together.
const LONG_WORD_CHARS: usize = 10;

/// The similarity of two titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The titles name the same work.
    Same,
    /// The titles share too much to be different, and too little to be the same.
    Unclear,
    /// The titles name different works.
    Different,
}

/// The longest text that is read for a title, in bytes.
const MAX_TITLE_BYTES: usize = 4 << 10;

/// Returns a title without markup, entities and control characters. White space is normalised and
/// the length bounded. Returns `None` if the result is empty.
#[must_use]
pub fn clean(text: &str) -> Option<String> {
    plain_text(text, MAX_TITLE_BYTES)
}

/// Returns the beginning of a text without markup, entities and control characters, with its white
/// space tidied; `None` when nothing is left.
pub(crate) fn plain_text(text: &str, max_bytes: usize) -> Option<String> {
    let end = (0..=text.len().min(max_bytes))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let mut plain = text[..end.unwrap_or(0)].to_owned();
    // Some registries encode twice; a third level was never seen.
    for _ in 0..3 {
        let next = without_entities(&without_markup(&plain));
        if next == plain {
            break;
        }
        plain = next;
    }
    let words = plain.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Removes known markup. Other angle brackets are part of the title.
fn without_markup(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(before);
        let tag = after.split_once('>').filter(|(tag, _)| {
            let name = tag
                .trim_matches('/')
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            !tag.starts_with(char::is_whitespace) && TITLE_MARKUP.contains(&name.as_str())
                || name.starts_with("mml:")
                || name.starts_with("jats:")
        });
        if tag.is_none() {
            plain.push('<');
        }
        rest = tag.map_or(after, |(_, behind)| behind);
    }
    plain.push_str(rest);
    plain
}

/// Decodes one level of entities.
fn without_entities(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let decoded = after
            .split_once(';')
            .and_then(|(name, behind)| Some((entity(name)?, behind)));
        let (character, behind) = decoded.unwrap_or_else(|| ("&".to_owned(), after));
        plain.push_str(&character);
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

fn entity(name: &str) -> Option<String> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code)
            .filter(|c| !c.is_control())
            .map(String::from);
    }
    ENTITIES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, character)| (*character).to_owned())
}

/// Ligatures in the text of files with their letters, the longest first.
const LIGATURES: [(&str, &str); 5] = [
    ("\u{fb03}", "ffi"),
    ("\u{fb04}", "ffl"),
    ("\u{fb00}", "ff"),
    ("\u{fb01}", "fi"),
    ("\u{fb02}", "fl"),
];

/// Returns a text in lower case and without ligatures.
fn plain(text: &str) -> String {
    LIGATURES
        .iter()
        .fold(text.to_lowercase(), |text, (ligature, letters)| {
            text.replace(ligature, letters)
        })
}

/// Returns the letters and digits of a text without separators. The words of a PDF may run into
/// each other, or be hyphenated at the end of a line.
pub(crate) fn letters(text: &str) -> String {
    plain(text)
        .chars()
        .filter(|c| c.is_alphanumeric())
        .collect()
}

/// Returns the words of a text, in lower case.
pub(crate) fn words(text: &str) -> Vec<String> {
    let text = plain(text);
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn telling(text: &str) -> HashSet<String> {
    words(text)
        .into_iter()
        .filter(|word| !STOP_WORDS.contains(&word.as_str()))
        .collect()
}

/// Returns the first [`BEGINNING_CHARS`] letters of a title. The result is empty for a title with
/// fewer than [`SHORTEST_BEGINNING`] letters.
fn beginning(title: &str) -> String {
    let beginning: String = letters(title).chars().take(BEGINNING_CHARS).collect();
    if beginning.len() < SHORTEST_BEGINNING {
        return String::new();
    }
    beginning
}

/// Returns the [`Likeness`] of two titles, by their common words. A title may be cut or lack its
/// subtitle. A text about another text is different, although it contains all words of that title.
#[must_use]
pub fn compare(one: &str, other: &str) -> Likeness {
    if kind_about_another(one) != kind_about_another(other) {
        return Likeness::Different;
    }
    let (one, other) = (telling(one), telling(other));
    let fewer = one.len().min(other.len());
    if fewer == 0 {
        return Likeness::Unclear;
    }
    likeness_of_share(one.intersection(&other).count(), fewer)
}

/// Minimum number of words that make a title unique to a work.
const TELLING_WORDS: usize = 4;

/// Tells whether a title has enough words to name only one work.
#[must_use]
pub fn is_telling(title: &str) -> bool {
    // Languages without spaces between words have few long words.
    telling(title).len() >= TELLING_WORDS
        || (letters(title).chars().count() >= BEGINNING_CHARS && telling(title).len() <= 2)
}

/// Tells whether two titles have the same letters and digits.
#[must_use]
pub fn is_equal(one: &str, other: &str) -> bool {
    letters(one) == letters(other)
}

/// Tells whether a text contains the beginning of a title, ignoring separators between letters.
#[must_use]
pub fn stands_in(title: &str, text: &str) -> bool {
    let beginning = beginning(title);
    !beginning.is_empty() && are_in(&beginning, text)
}

/// Tells whether a text contains a sequence of letters, ignoring separators. Fonts without a letter
/// table lose ligatures, so the sequence may lack them.
fn are_in(beginning: &str, text: &str) -> bool {
    let text = letters(text);
    text.contains(beginning) || without_ligatures(&text).contains(&without_ligatures(beginning))
}

fn without_ligatures(letters: &str) -> String {
    let without = |text: String, (_, ligature): &(_, &str)| text.replace(ligature, "");
    LIGATURES.iter().fold(letters.to_owned(), without)
}

/// Searches the words of a title in a longer text, such as the first page of a file, and returns
/// their [`Likeness`].
#[must_use]
pub fn find_in(title: &str, text: &str) -> Likeness {
    if stands_in(title, text) {
        return Likeness::Same;
    }
    let all = words(text);
    let length: usize = all.iter().map(|word| word.chars().count()).sum();
    let (title, text) = (telling(title), telling(text));
    // Words that run into each other are not found and prove nothing.
    if title.is_empty() || text.len() < 20 || length > LONG_WORD_CHARS * all.len() {
        return Likeness::Unclear;
    }
    likeness_of_share(title.intersection(&text).count(), title.len())
}

/// Minimum number of letters of a text for a judgement of its readability.
const READABLE_LETTERS: usize = 200;
/// Groups of letters that are frequent in the languages of papers. A readable text has at least one
/// group per hundred letters. That is half the number of the poorest pages, and far more than in
/// files without letter tables.
const FREQUENT_GROUPS: [&str; 14] = [
    "the", "and", "ing", "ent", "ion", "que", "der", "ein", "des", "est", "con", "par", "che",
    "ado",
];

/// Tells whether the text of a page is readable: a file may lack the table of its letters.
#[must_use]
pub fn is_readable(text: &str) -> bool {
    let text = letters(text);
    let length = text.chars().count();
    let groups = FREQUENT_GROUPS.iter();
    let frequent: usize = groups.map(|group| text.matches(group).count()).sum();
    length >= READABLE_LETTERS && 100 * frequent >= length
}

/// Tells whether a readable text lacks a title: neither its beginning nor most of its words occur.
#[must_use]
pub fn is_missing_from(title: &str, text: &str) -> bool {
    let beginning: String = letters(title).chars().take(BEGINNING_CHARS).collect();
    !beginning.is_empty()
        && !are_in(&beginning, text)
        && !has_most_words_of(title, text)
        && is_readable(text)
}

/// Tells whether a text contains four fifths of the words of a title, in any position. Other papers
/// on the same subject contain fewer.
#[must_use]
pub fn has_most_words_of(title: &str, text: &str) -> bool {
    let (title, text) = (telling(title), telling(text));
    !title.is_empty() && 5 * title.intersection(&text).count() >= 4 * title.len()
}

/// Returns the [`Likeness`] by the share of common words: three fifths are the same, less than two
/// fifths are different.
fn likeness_of_share(shared: usize, of: usize) -> Likeness {
    if 5 * shared >= 3 * of {
        Likeness::Same
    } else if 5 * shared >= 2 * of {
        Likeness::Unclear
    } else {
        Likeness::Different
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_whose_ligatures_a_font_lost_is_found() {
        let title = "Simplified data flows in official offline fluids";
        for page in [
            title.to_owned(),
            title.replace("fi", "\u{fb01}"),
            title.replace(' ', ""),
            "SimpliedDataows in o\u{a0}cial oine uids".to_owned(),
        ] {
            assert!(stands_in(title, &page), "{page}");
            let page = format!(
                "{page} {}",
                "and the rest of the words of a page ".repeat(20)
            );
            assert!(!is_missing_from(title, &page), "{page}");
        }
        assert!(!stands_in(title, "Simple data in oceans of uids"));
    }

    #[test]
    fn markup_and_entities_are_taken_out_however_often_they_were_encoded() {
        assert_eq!(
            clean("On <i>E. coli</i> &amp; friends").as_deref(),
            Some("On E. coli & friends")
        );
        assert_eq!(
            clean("&amp;lt;i&amp;gt;Homo&amp;lt;/i&amp;gt; sapiens").as_deref(),
            Some("Homo sapiens")
        );
        assert_eq!(
            clean("&#8220;Open&#x201D; access&nbsp;now").as_deref(),
            Some("\u{201c}Open\u{201d} access now")
        );
        assert_eq!(
            clean("a < b and b > c, A&M; R&D").as_deref(),
            Some("a < b and b > c, A&M; R&D")
        );
        assert_eq!(clean(" <br/> "), None);
        assert_eq!(
            clean("red\u{1b}[31m \u{9b}2J\u{7}bell").as_deref(),
            Some("red [31m 2J bell")
        );
        let long = clean(&"é".repeat(1 << 20)).unwrap();
        assert!(long.len() <= MAX_TITLE_BYTES && long.starts_with('é'));
    }

    #[test]
    fn a_title_is_missing_only_from_text_that_can_be_read() {
        let page = "The retention of water in the peat of these bogs depends on the season and on \
                    what is growing there, and the measurement of the content of water was done in \
                    the same way at every station during the whole of the investigation of the area, \
                    which was begun in the spring of the year before and ended in the autumn.";
        assert!(is_readable(page));
        assert!(is_missing_from(
            "Assessment of virus infection in hens",
            page
        ));
        assert!(!is_missing_from(
            "Retention of water in the peat of bogs",
            page
        ));
        // The letters of a file without a letter table, and a page with few words.
        let shifted: String = page
            .chars()
            .map(|c| {
                if c.is_ascii_lowercase() {
                    char::from(b'a' + (c as u8 - b'a' + 7) % 26)
                } else {
                    c
                }
            })
            .collect();
        for unreadable in [&shifted, "Accepted manuscript", ""] {
            assert!(!is_missing_from(
                "Assessment of virus infection in hens",
                unreadable
            ));
        }
        let german = "Die Bestimmung des Wassergehaltes in den Torfen der Moore erfolgte nach der gleichen \
                      Vorschrift wie in den fr\u{fc}heren Untersuchungen, und die Ergebnisse wurden mit denen \
                      der anderen Stationen verglichen, die in der Umgebung des Sees eingerichtet worden sind.";
        assert!(is_readable(german));
    }

    #[test]
    fn titles_are_compared_by_the_words_they_share() {
        let title = "Assessment of virus infection in pathogen-free chickens";
        assert_eq!(
            compare(
                title,
                "ASSESSMENT OF VIRUS INFECTION IN PATHOGEN FREE CHICKENS: a cohort"
            ),
            Likeness::Same
        );
        assert_eq!(
            compare(title, "Media kit and advertising rates"),
            Likeness::Different
        );
        assert_eq!(compare(title, ""), Likeness::Unclear);
        let page = "Journal of Poultry vol 3 page 1 assessment of virus infection in pathogen free chickens by several \
                    authors of whom none is named here because this is only a test page";
        assert_eq!(find_in(title, page), Likeness::Same);
        assert_eq!(
            find_in("Grants manual of the commission", page),
            Likeness::Different
        );
        // Text as in files: ligatures, words hyphenated at the end of a line, words that run into
        // each other.
        let cut = page
            .replace("infection", "in\u{fb01}nite infec- tion")
            .replace("assessment", "assess- ment")
            .replace("in\u{fb01}nite ", "");
        assert_eq!(find_in(title, &cut), Likeness::Same);
        let glued = "JournalofPoultry vol3page1 assessmentofvirusinfectioninpathogenfreechickens byseveralauthors ofwhomnoneisnamed".repeat(3);
        assert_eq!(find_in(title, &glued), Likeness::Same);
        let other = (0..30)
            .map(|n| format!("somethingquitedifferent{n}"))
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(find_in(title, &other), Likeness::Unclear);
    }
}
