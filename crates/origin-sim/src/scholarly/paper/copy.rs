//! Copies of works at publishers and in repositories, with their faults.

use super::super::Faults;
use super::super::file::TextVersion;
use super::super::hosts::{Behaviour, Publisher, REPOSITORIES, Signal};

/// The part of a [`struct@Copy`] that a catalogue lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CopyMention {
    No,
    /// The catalogue lists the page but not the file.
    Page,
    /// The catalogue lists the page and the file.
    File,
}

/// The fault of a [`struct@Copy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Trouble {
    Nothing,
    /// The first transfer breaks off in the middle; later transfers succeed.
    CutOnce,
    /// The file itself is damaged, in every transfer.
    Spoilt,
}

/// A copy of a work at a publisher or in a repository.
#[derive(Debug)]
pub(in super::super) struct Copy {
    pub(in super::super) publisher: &'static Publisher,
    pub(in super::super) page: String,
    pub(in super::super) path: String,
    pub(in super::super) version: TextVersion,
    pub(in super::super) trouble: Trouble,
    pub(in super::super) openalex: CopyMention,
    pub(in super::super) unpaywall: CopyMention,
    /// The time of the archived copy in the Wayback Machine, if there is one.
    pub(in super::super) archived: Option<String>,
}

impl Copy {
    pub(super) fn new(publisher: &'static Publisher, number: usize, version: TextVersion) -> Self {
        Self {
            publisher,
            page: page_path(publisher, number),
            path: file_path(publisher, number),
            version,
            trouble: Trouble::Nothing,
            openalex: if number.is_multiple_of(2) {
                CopyMention::File
            } else {
                CopyMention::Page
            },
            unpaywall: if number.is_multiple_of(3) {
                CopyMention::Page
            } else {
                CopyMention::File
            },
            archived: None,
        }
    }

    /// Returns the URL of the page.
    pub(in super::super) fn page_url(&self) -> String {
        format!("http://{}{}", self.publisher.host, self.page)
    }

    /// Returns the URL of the file.
    pub(in super::super) fn url(&self) -> String {
        format!("http://{}{}", self.publisher.host, self.path)
    }

    /// Returns true if a client that obeys robots.txt and limits can get the whole file.
    pub(in super::super) fn is_obtainable(&self, faults: Faults) -> bool {
        let kept_back = matches!(
            self.publisher.behaviour,
            Behaviour::BotChallenge
                | Behaviour::Down
                | Behaviour::Stub
                | Behaviour::Disallows
                | Behaviour::Gone
        );
        faults == Faults::None || !(kept_back || self.trouble == Trouble::Spoilt)
    }
}

fn is_repository(publisher: &Publisher) -> bool {
    REPOSITORIES.iter().any(|known| known == publisher)
}

pub(super) fn page_path(publisher: &Publisher, number: usize) -> String {
    if is_repository(publisher) {
        format!("/record/{number}")
    } else {
        format!("/article/{number}")
    }
}

fn file_path(publisher: &Publisher, number: usize) -> String {
    match publisher.signal {
        Signal::Anchor => format!("/doi/pdfdirect/{number}"),
        _ if is_repository(publisher) => format!("/record/{number}/files/paper.pdf"),
        _ => format!("/pdf/{number}.pdf"),
    }
}
