//! Links to the article's file, among all links of a page.
//!
//! A page also links to cited reports, data sheets, guides and media kits. A link counts in two
//! cases:
//!
//! - Its URL names the work (DOI, PII, article id).
//! - It is the only link to the page's own host whose label names the file and nothing else.
//!
//! All other links are ignored: no file is better than a wrong file.

use scraper::{ElementRef, Html};
use url::Url;

use super::blocks::{Blocks, LinkBlock, is_foreign_heading};
use super::labels::{Label, is_other_file, is_other_name};
use super::own_work_names::{LinkCertainty, OwnNames};
use super::platforms;
use super::processor::ProcessorDeadline;
use crate::titles;

/// Maximum number of links that are taken from a page: the contents of an issue list hundreds.
const MAX_TAKEN_LINKS: usize = 8;

/// The links of a page that may be the article's file.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// The links that name the work, best first.
    pub(super) named: Vec<Url>,
    /// The only link that names the work together with something else; absent if several links do.
    /// The flag tells whether its label names the file and its host is the page's.
    pub(super) doubtful: Option<(Url, bool)>,
    /// The only link that is recognised by its label alone; absent if several links are.
    pub(super) labelled: Option<Url>,
    /// The limit [`MAX_READ_LINKS`] or the time ended the reading before the last link.
    pub(super) is_cut: bool,
}

/// Maximum number of links that are read: no honest page has more.
const MAX_READ_LINKS: usize = 10_000;

/// The number of links between two checks of the [`ProcessorDeadline`].
const LINKS_AT_ONCE: usize = 64;

/// A link on the page, with its words.
struct PageLink<'a> {
    element: ElementRef<'a>,
    target: &'a str,
    under_foreign_heading: bool,
}

/// Collects the links of a page that may be the article's file.
///
/// If the page itself declares a file, only links with the words of a file are taken.
pub(super) fn collect(
    document: &Html,
    base: &Url,
    own: &OwnNames,
    states_pdf: bool,
    deadline: ProcessorDeadline,
) -> Links {
    let mut collected = CollectedLinks::default();
    let mut blocks = Blocks::default();
    for (number, link) in links(document).into_iter().enumerate() {
        let is_time_to_look = number % LINKS_AT_ONCE == LINKS_AT_ONCE - 1;
        if number == MAX_READ_LINKS || (is_time_to_look && deadline.is_over()) {
            collected.is_cut = true;
            break;
        }
        let Ok(mut url) = base.join(link.target.trim()) else {
            continue;
        };
        url.set_fragment(None);
        let label = label(link.element);
        let says = Label::read(&label);
        let Some(url) = platforms::as_file(&url, says_pdf(link.element, &label)) else {
            collected.take_rival(url, &link, &label, says);
            continue;
        };
        let block = blocks.around(link.element);
        if block == LinkBlock::Foreign || is_something_else(&url, &label, own) {
            continue;
        }
        if states_pdf && says != Label::TheFile && !own.is_said_by(&label) {
            continue;
        }
        let carries = own.carried_by(&url);
        if carries != LinkCertainty::Nothing {
            collected.take_named(url, carries, says, own);
        } else if block == LinkBlock::Own
            && !link.under_foreign_heading
            && own.is_home(&url)
            && says == Label::TheFile
            && !own.is_anothers(&url)
        {
            collected.take_labelled(url);
        }
    }
    collected.into_links()
}

/// The rank of a link that names the work: the current version before earlier versions, the page's
/// own host before others, the DOI before other names.
type Rank = (bool, bool, LinkCertainty);

/// The links found so far.
#[derive(Default)]
struct CollectedLinks {
    named: Vec<(Rank, Url)>,
    /// Links that name the work, but may lead to its data or its slides.
    doubtful: Vec<(Url, bool)>,
    labelled: Vec<Url>,
    /// Links that a person would take for the file, whatever their URL looks like.
    rivals: Vec<Url>,
    is_cut: bool,
}

impl CollectedLinks {
    fn take_rival(&mut self, url: Url, link: &PageLink<'_>, label: &str, says: Label) {
        let is_href = link.element.attr("href") == Some(link.target);
        let names_pdf = || titles::words(label).iter().any(|word| word.contains("pdf"));
        if self.rivals.is_empty() && is_href && says == Label::TheFile && names_pdf() {
            self.rivals.push(url);
        }
    }

    fn take_named(&mut self, url: Url, carries: LinkCertainty, says: Label, own: &OwnNames) {
        if own.is_plainly_named_by(&url) {
            let rank = (platforms::is_old_version(&url), !own.is_home(&url), carries);
            self.named.push((rank, url));
        } else if self.doubtful.len() < 2 && self.doubtful.iter().all(|(other, _)| *other != url) {
            // Two links suffice to know that the label is not unique.
            let is_labelled = says == Label::TheFile && own.is_home(&url);
            self.doubtful.push((url, is_labelled));
        }
    }

    fn take_labelled(&mut self, url: Url) {
        if self.labelled.len() < 2 && !self.labelled.contains(&url) {
            self.labelled.push(url);
        }
    }

    fn into_links(mut self) -> Links {
        self.named.sort_by_key(|(rank, _)| *rank);
        let named = self.named.into_iter().map(|(_, url)| url);
        // Several files with the same label are a list, in which the article's file is not marked.
        let is_only = self.labelled.len() == 1 && self.rivals.is_empty();
        // If some links were not read, no link is known to be the only match.
        let is_cut = self.is_cut;
        Links {
            named: named.take(MAX_TAKEN_LINKS).collect(),
            doubtful: self
                .doubtful
                .pop()
                .filter(|_| self.doubtful.is_empty() && !is_cut),
            labelled: self.labelled.pop().filter(|_| is_only && !is_cut),
            is_cut,
        }
    }
}

/// Returns all elements of a page that lead to a URL, in document order.
fn links(document: &Html) -> Vec<PageLink<'_>> {
    let mut found = Vec::new();
    let mut under_foreign_heading = false;
    for element in document
        .root_element()
        .descendants()
        .filter_map(ElementRef::wrap)
    {
        let value = element.value();
        match value.name() {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                under_foreign_heading = is_foreign_heading(&beginning_of(element));
            }
            "a" | "button" => {
                let targets = value
                    .attrs()
                    .filter(|(name, _)| *name == "href" || name.starts_with("data-"));
                found.extend(targets.map(|(_, target)| PageLink {
                    element,
                    target,
                    under_foreign_heading,
                }));
            }
            "form" => found.extend(value.attr("action").map(|target| PageLink {
                element,
                target,
                under_foreign_heading,
            })),
            _ => {}
        }
    }
    found
}

/// Maximum number of characters of an element's text that are read. Nested elements would otherwise
/// each contain the rest of the page.
const MAX_ELEMENT_CHARS: usize = 400;

fn beginning_of(element: ElementRef<'_>) -> String {
    element
        .text()
        .flat_map(str::chars)
        .take(MAX_ELEMENT_CHARS)
        .collect()
}

/// Returns the visible words on a link, or else its text for screen readers.
fn label(element: ElementRef<'_>) -> String {
    let text = beginning_of(element);
    let value = element.value();
    let spoken = || {
        ["aria-label", "title", "value"]
            .iter()
            .find_map(|name| value.attr(name))
            .unwrap_or_default()
            .to_owned()
    };
    let text = if text.trim().is_empty() {
        spoken()
    } else {
        text
    };
    if text.trim().is_empty()
        && value
            .attr("class")
            .is_some_and(|class| class.to_ascii_lowercase().contains("pdf"))
    {
        return "pdf".to_owned();
    }
    text
}

/// Tells whether the words or the class of a link name a PDF.
fn says_pdf(element: ElementRef<'_>, label: &str) -> bool {
    let class = element.value().attr("class").unwrap_or_default();
    [label, class]
        .iter()
        .any(|text| text.to_ascii_lowercase().contains("pdf"))
}

/// Tells whether the words of a link's URL or label name a supplement, a figure, a guide or the
/// like, and are not words of [`OwnNames`].
///
/// Words in the page's own path or title belong to the work, and do not count.
pub(super) fn is_something_else(url: &Url, label: &str, own: &OwnNames) -> bool {
    let any = |text: &str, is: fn(&str) -> bool| {
        titles::words(text)
            .into_iter()
            .filter(|word| !own.has_word(word))
            .any(|word| is(&word))
    };
    let label_is_url = label.contains("://");
    let file = url
        .path_segments()
        .and_then(|mut parts| parts.rfind(|part| !part.is_empty()))
        .unwrap_or_default();
    any(url.path(), is_other_file)
        || any(url.query().unwrap_or_default(), is_other_file)
        || any(file, is_other_name)
        || (!label_is_url && any(label, is_other_name))
}
