//! The words of a link and the separators between them.
//!
//! [`LinkWords`] decides whether a link names a work, a part of the work, or another work.

use url::Url;

use super::labels;
use super::own_work_names::normal;

/// Words of query keys whose values are names of works.
const NAMING_KEYS: [&str; 10] = [
    "id", "doi", "pii", "article", "file", "doc", "paper", "number", "path", "uri",
];

/// The words of a link's path, and of the query values that name something.
#[derive(Debug)]
pub(super) struct LinkWords {
    /// The words of the path, followed by those of each query value.
    parts: Vec<Vec<Word>>,
}

#[derive(Debug)]
struct Word {
    /// The separator before the word; a slash at the beginning.
    before: char,
    text: String,
}

impl LinkWords {
    pub(super) fn of(link: &Url) -> Self {
        let path = match ojs_article(link.path()) {
            // The number after the article's is that of a galley, which may belong to another
            // article.
            Some(article) => words(article),
            None => words(link.path()),
        };
        let named = link.query_pairs().filter(|(key, _)| {
            let key = key.to_ascii_lowercase();
            key.split(|c: char| !c.is_alphanumeric())
                .any(|word| NAMING_KEYS.iter().any(|naming| word.ends_with(naming)))
        });
        let values = named.map(|(_, value)| words(&value));
        Self {
            parts: std::iter::once(path).chain(values).collect(),
        }
    }

    /// Tells whether a normalised name occurs here as a whole. Only a new segment of the path, or
    /// words for "the file of this", may follow. `.2`, `-6_1` or `.s001` make another name.
    pub(super) fn name(&self, name: &str) -> bool {
        let name: Vec<&str> = name.split('-').collect();
        self.parts
            .iter()
            .any(|part| (0..part.len()).any(|at| stands_at(part, at, &name)))
    }
}

fn stands_at(words: &[Word], at: usize, name: &[&str]) -> bool {
    let Some(here) = words.get(at..at + name.len()) else {
        return false;
    };
    let (Some((last, first)), Some((last_name, first_names))) =
        (here.split_last(), name.split_last())
    else {
        return false;
    };
    let is_last =
        last.text == *last_name || last.text.strip_prefix(last_name).is_some_and(is_version);
    let is_named = is_last
        && first
            .iter()
            .zip(first_names)
            .all(|(word, name)| word.text == *name);
    // `bfm:978-...` is the front matter of a book.
    is_named && here[0].before != ':' && words.get(at + name.len()).is_none_or(may_follow)
}

fn may_follow(next: &Word) -> bool {
    let is_number = next.text.bytes().all(|byte| byte.is_ascii_digit());
    next.before == '/'
        || is_version(&next.text)
        || (labels::is_plain_name(&next.text) && !is_number)
}

/// Tells whether a word is a version, such as `v2`.
pub(super) fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|number| {
        !number.is_empty() && number.len() < 4 && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns the article of `/article/download/ARTICLE/GALLEY`, with the path before it.
pub(super) fn ojs_article(path: &str) -> Option<&str> {
    let begin = ["/article/download/", "/article/view/"]
        .iter()
        .find_map(|part| path.find(part).map(|at| at + part.len()))?;
    path[begin..].find('/').map(|end| &path[..begin + end])
}

fn words(text: &str) -> Vec<Word> {
    let decoded = percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned();
    let mut found: Vec<Word> = Vec::new();
    let mut before = '/';
    let mut open = false;
    for c in decoded.chars() {
        if !c.is_alphanumeric() {
            // Of several separators the slash counts.
            before = if open || before != '/' { c } else { before };
            open = false;
            continue;
        }
        if !open {
            found.push(Word {
                before,
                text: String::new(),
            });
            (open, before) = (true, ' ');
        }
        if let Some(word) = found.last_mut() {
            word.text.extend(c.to_lowercase());
        }
    }
    found.retain(|word| !normal(&word.text).is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(link: &str, name: &str) -> bool {
        LinkWords::of(&format!("http://x.example{link}").parse().unwrap()).name(&normal(name))
    }

    #[test]
    fn a_name_counts_as_a_whole() {
        let doi = "10.1234/reeds.5512";
        for link in [
            "/doi/pdf/10.1234/reeds.5512",
            "/10.1234%2Freeds.5512.pdf",
            "/10.1234_reeds.5512.full.pdf",
            "/article-pdf/doi/10.1234/reeds.5512/5866098/a.pdf",
            "/pdf/10.1234/reeds.5512v2.pdf",
            "/get?doi=10.1234/reeds.5512&type=printable",
        ] {
            assert!(names(link, doi), "{link}");
        }
        for link in [
            "/doi/pdf/10.1234/reeds.5512.2",
            "/doi/pdf/10.1234/reeds.5512_1.pdf",
            "/pdf/10.1234/reeds.5512.s001",
            "/pdf/10.1234/reeds.55123",
            "/pdf/10.1234/reeds.5512-f1.pdf",
            "/get?ref=http://a.example/10.1234/reeds.5512",
            "/get.pdf?cited_in=10.1234/reeds.5512",
        ] {
            assert!(!names(link, doi), "{link}");
        }
        assert!(
            names("/viewer/pdf?articleId=5512", "5512")
                && names("/articles/5512/pdf", "5512")
                && names("/1-s2.0-S0092867-main.pdf", "S0092867")
        );
        assert!(!names("/content/pdf/bfm:978-3-030/1", "978-3-030"));
        assert!(
            names("/index.php/j/article/download/5512/7001", "5512")
                && !names("/index.php/j/article/download/4100/5512", "5512")
        );
    }
}
