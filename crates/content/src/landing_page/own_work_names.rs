//! The names of a page's work in links: its DOI, PII, arXiv id, or the article id of the page's
//! URL.

use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use url::Url;

use super::labels;
use super::link_words::{LinkWords, is_version, ojs_article};
use crate::titles;
use crate::work::{LearnedMetadata, Work};

/// The names of the page's own work, normalised like the URLs in which they are searched.
#[derive(Debug, Default)]
pub(super) struct OwnNames {
    /// DOIs, and their suffixes if these are long enough to be unique.
    dois: Vec<String>,
    /// Article ids: PII, arXiv id, and the last segment of the page's path that has digits.
    ids: Vec<String>,
    /// The page's path without its file extension.
    path: String,
    /// The query of the page selects the article, so that all articles share the path.
    by_query: bool,
    host: String,
    /// The words of the title and of the page's path, which prove nothing about a link.
    words: HashSet<String>,
}

/// The certainty that a link is about the page's own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkCertainty {
    /// The link contains the DOI.
    Doi,
    /// The link contains the article id, or is the page's own path with `pdf` or the like after it.
    Id,
    /// The link contains no name of the work.
    Nothing,
}

impl OwnNames {
    /// Collects the names from the [`Work`], from the page's metadata and from its URL.
    pub(super) fn new(
        page: &Url,
        learned: &LearnedMetadata,
        stated: &[String],
        work: Option<&Work>,
    ) -> Self {
        let mut own = Self {
            path: stem(page),
            by_query: page.query().is_some(),
            host: host(page),
            ..Self::default()
        };
        let known = work.map(|work| &work.identifiers);
        for ids in known.into_iter().chain([&learned.identifiers]) {
            own.dois
                .extend(ids.doi.iter().flat_map(|doi| forms_of_doi(doi.as_str())));
            own.ids.extend(ids.arxiv.iter().map(|id| normal(id.base())));
        }
        own.dois.extend(
            crate::identifier::Doi::in_url(page)
                .iter()
                .flat_map(|doi| forms_of_doi(doi.as_str())),
        );
        let parts = page
            .path_segments()
            .into_iter()
            .flatten()
            .rev()
            .map(decoded);
        own.ids.extend(
            parts
                .map(|part| without_ending(&part).to_owned())
                .find(|part| part.bytes().any(|byte| byte.is_ascii_digit())),
        );
        own.ids
            .extend(page.query_pairs().map(|(_, value)| value.into_owned()));
        own.ids.extend(stated.iter().cloned());
        own.ids = own
            .ids
            .iter()
            .map(|id| normal(id))
            .flat_map(|id| [without_version(&id), id])
            .filter(|id| is_telling(id))
            .collect();
        let titles = [
            learned.title.as_deref(),
            work.and_then(|work| work.title.as_deref()),
        ];
        own.words
            .extend(titles.into_iter().flatten().flat_map(titles::words));
        own.words.extend(titles::words(&decoded(page.path())));
        own.words
            .extend(own.dois.iter().flat_map(|doi| titles::words(doi)));
        own
    }

    /// Returns the [`LinkCertainty`] that a link is about this work.
    pub(super) fn carried_by(&self, link: &Url) -> LinkCertainty {
        let words = LinkWords::of(link);
        if self.dois.iter().any(|doi| words.name(doi)) {
            return LinkCertainty::Doi;
        }
        let home = self.is_home(link);
        // On another host, a short number may belong to any article.
        let telling = |id: &&String| home || id.len() > 4;
        if self.ids.iter().filter(telling).any(|id| words.name(id))
            || (home && !self.by_query && self.extended_by(link))
        {
            return LinkCertainty::Id;
        }
        LinkCertainty::Nothing
    }

    /// Tells whether a link without a name of this work names another work. Such a name is a
    /// different DOI, a longer name with the same beginning, or another article of the same system.
    pub(super) fn is_anothers(&self, link: &Url) -> bool {
        let doi = crate::identifier::Doi::in_url(link).map(|doi| normal(doi.as_str()));
        let text = normal(link.path());
        let longer = self
            .dois
            .iter()
            .chain(&self.ids)
            .any(|name| text.contains(name.as_str()));
        let article = ojs_article(link.path()).and_then(|path| path.rsplit('/').next().map(normal));
        longer
            || doi.is_some_and(|doi| !self.dois.contains(&doi))
            || article.is_some_and(|article| !self.ids.contains(&article))
    }

    /// Tells whether a link leads to the page's host.
    pub(super) fn is_home(&self, link: &Url) -> bool {
        host(link) == self.host
    }

    /// Tells whether the file name of a link means no more than "the file of this". Beside the
    /// work's names, only generic words, numbers, versions, and words of the title or path may
    /// occur. `f1`, `mmc1` or `supp2` name parts of a work.
    pub(super) fn is_plainly_named_by(&self, link: &Url) -> bool {
        let last = link
            .path_segments()
            .and_then(|mut parts| parts.rfind(|part| !part.is_empty()))
            .unwrap_or_default();
        let mut name = format!("-{}-", normal(last));
        for own in self.dois.iter().chain(&self.ids) {
            name = name.replace(&format!("-{own}-"), "-");
        }
        let is_own_with_version = |word: &str| {
            self.ids
                .iter()
                .any(|id| word.strip_prefix(id.as_str()).is_some_and(is_version))
        };
        name.split('-').filter(|word| !word.is_empty()).all(|word| {
            labels::is_plain_name(word) || self.has_word(word) || is_own_with_version(word)
        })
    }

    /// Tells whether the words on a link are the work's title or names, or empty as on a picture.
    pub(super) fn is_said_by(&self, label: &str) -> bool {
        titles::words(label)
            .iter()
            .all(|word| self.has_word(word) || labels::is_generic(word) || self.ids.contains(word))
    }

    /// Tells whether a word occurs in the title or in the page's own path.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Tells whether a link is the page's own path, followed only by words for "the file of this".
    fn extended_by(&self, link: &Url) -> bool {
        let path = decoded(link.path()).to_ascii_lowercase();
        let Some(rest) = path
            .strip_prefix(&self.path)
            .filter(|_| self.path.matches('/').count() > 1)
        else {
            return false;
        };
        !rest.is_empty()
            && !rest.starts_with(char::is_alphanumeric)
            && titles::words(rest)
                .iter()
                .all(|word| labels::is_generic(word))
    }
}

/// Returns the host of a URL without `www.`.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    host.strip_prefix("www.")
        .map_or(host.clone(), str::to_owned)
}

/// Returns the page's path in lower case, without file extension and final slash.
fn stem(page: &Url) -> String {
    let path = decoded(page.path()).to_ascii_lowercase();
    without_ending(path.trim_end_matches('/'))
        .trim_end_matches('/')
        .to_owned()
}

fn without_ending(part: &str) -> &str {
    [
        ".html",
        ".htm",
        ".php",
        ".aspx",
        ".xhtml",
        ".full",
        ".abstract",
        ".short",
        ".long",
        ".extract",
    ]
    .iter()
    .find_map(|ending| part.strip_suffix(ending))
    .unwrap_or(part)
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Normalises a text for the search of names: lower case, and `-` for everything but letters and
/// digits.
pub(super) fn normal(text: &str) -> String {
    let mut form = String::with_capacity(text.len());
    for c in decoded(text).chars().flat_map(char::to_lowercase) {
        if c.is_alphanumeric() {
            form.push(c);
        } else if !form.ends_with('-') {
            form.push('-');
        }
    }
    form.trim_matches('-').to_owned()
}

fn forms_of_doi(doi: &str) -> Vec<String> {
    let suffix = doi
        .split_once('/')
        .map(|(_, suffix)| normal(suffix))
        .filter(|suffix| {
            suffix.len() >= 6
                && suffix.bytes().any(|byte| byte.is_ascii_digit())
                && !is_year(suffix)
        });
    std::iter::once(normal(doi)).chain(suffix).collect()
}

/// Removes the version from an id such as `hal-01234567v2`.
fn without_version(id: &str) -> String {
    match id.rsplit_once('v') {
        Some((head, version))
            if head.ends_with(|c: char| c.is_ascii_digit())
                && !version.is_empty()
                && version.bytes().all(|b| b.is_ascii_digit()) =>
        {
            head.to_owned()
        }
        _ => id.to_owned(),
    }
}

/// Tells whether an id is unique to an article, unlike a year, an ISSN, a volume or a word.
fn is_telling(id: &str) -> bool {
    let digits = id.bytes().filter(u8::is_ascii_digit).count();
    let issn = id.len() == 9 && id.as_bytes()[4] == b'-' && digits >= 7;
    id.len() >= 4 && digits > 0 && !is_year(id) && !issn
}

fn is_year(text: &str) -> bool {
    text.parse::<u32>()
        .is_ok_and(|number| (1_800..2_200).contains(&number))
        && text.len() == 4
}
