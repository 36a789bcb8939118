//! Reading of the names of works, in every usual spelling, and the canonical spelling of each.
//!
//! Lists of works come from reference managers, spreadsheets and browser tabs. The same DOI arrives
//! as text, as a link, percent-encoded, in quotes, or with the full stop of its sentence.
//! [`Identifier::parse`] reads all of these, or describes what the text is not and what is
//! accepted. No request is sent: the resolvers find out whether the work exists.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Url;

mod arxiv;
mod doi;
mod doi_in_url;
mod error;
mod openalex;
mod pubmed;
mod spelling;
mod title;

pub use arxiv::ArxivId;
pub use doi::Doi;
pub use error::IdentifierError;
pub use openalex::OpenAlexId;
pub use pubmed::{Pmcid, Pmid};
pub use title::WorkTitle;

pub(crate) use spelling::without_trailing_punctuation;
use spelling::{preview, unwrap};

/// A name of a work, in its canonical spelling.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Identifier {
    /// A digital object identifier.
    Doi(Doi),
    /// An arXiv identifier, old or new, with or without a version.
    Arxiv(ArxivId),
    /// A `PubMed` number.
    Pmid(Pmid),
    /// A `PubMed` Central identifier, with or without a version.
    Pmcid(Pmcid),
    /// An `OpenAlex` work.
    OpenAlex(OpenAlexId),
    /// Any other page or file on the web.
    Url(Url),
    /// The title of a work whose identifiers are not known.
    Title(WorkTitle),
}

impl Identifier {
    /// Reads an identifier in any usual spelling.
    ///
    /// - A DOI of the form `10.48550/arXiv.*` is the arXiv work.
    /// - A link to doi.org, arxiv.org, `PubMed`, PMC or `OpenAlex` is the identifier in the link.
    /// - Any other `http` or `https` link is an [`Identifier::Url`].
    /// - A text behind `title:` is an [`Identifier::Title`].
    ///
    /// ```
    /// use docstokg_content::identifier::Identifier;
    ///
    /// let read = |text| Identifier::parse(text).map(|id| id.to_string());
    /// assert_eq!(read("https://doi.org/10.1371/JOURNAL.PONE.0000308").as_deref(), Ok("doi:10.1371/journal.pone.0000308"));
    /// assert_eq!(read("arXiv:1706.03762v2").as_deref(), Ok("arxiv:1706.03762v2"));
    /// assert!(read("308").is_err(), "a bare number could be anything");
    /// ```
    ///
    /// # Errors
    /// Returns an [`IdentifierError`] that describes what the text looks like and what is accepted.
    /// The message never repeats a password.
    pub fn parse(text: &str) -> Result<Self, IdentifierError> {
        let text = unwrap(text);
        if text.is_empty() {
            return Err(IdentifierError::Empty);
        }
        if let Some(title) = WorkTitle::read(text) {
            return Ok(Self::Title(title));
        }
        if let Some(found) = Doi::read(text) {
            let doi = found?;
            return Ok(doi.arxiv().map_or(Self::Doi(doi), Self::Arxiv));
        }
        if let Some(found) = ArxivId::read(text) {
            return found.map(Self::Arxiv);
        }
        if let Some(found) = Pmid::read(text) {
            return found.map(Self::Pmid);
        }
        if let Some(found) = Pmcid::read(text) {
            return found.map(Self::Pmcid);
        }
        if let Some(found) = OpenAlexId::read(text) {
            return found.map(Self::OpenAlex);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(IdentifierError::BareNumber(preview(text)));
        }
        web_address(text).map(Self::Url)
    }

    /// Returns the text by which duplicates of a work are found. The version of an arXiv id is part
    /// of it: somebody who names a version wants that file. A URL has its canonical form.
    ///
    /// ```
    /// use docstokg_content::identifier::Identifier;
    ///
    /// for text in ["1706.03762", "https://arxiv.org/abs/1706.03762", "10.48550/arXiv.1706.03762"] {
    ///     assert_eq!(Identifier::parse(text)?.work_key(), "arxiv:1706.03762");
    /// }
    /// assert_eq!(Identifier::parse("1706.03762v2")?.work_key(), "arxiv:1706.03762v2");
    /// # Ok::<(), docstokg_content::identifier::IdentifierError>(())
    /// ```
    #[must_use]
    pub fn work_key(&self) -> String {
        match self {
            Self::Arxiv(id) => {
                let version = id.version().map(|version| format!("v{version}"));
                format!(
                    "arxiv:{}{}",
                    id.without_class(),
                    version.unwrap_or_default()
                )
            }
            Self::Pmcid(id) => format!("pmcid:PMC{}", id.number()),
            Self::Url(url) => docstokg_policy::canonical::for_index(url).into(),
            Self::Title(title) => format!("title:{}", title.key()),
            Self::Doi(_) | Self::Pmid(_) | Self::OpenAlex(_) => self.to_string(),
        }
    }

    /// Returns the kind in one word, as columns and messages name it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Doi(_) => "doi",
            Self::Arxiv(_) => "arxiv",
            Self::Pmid(_) => "pmid",
            Self::Pmcid(_) => "pmcid",
            Self::OpenAlex(_) => "openalex",
            Self::Url(_) => "url",
            Self::Title(_) => "title",
        }
    }
}

/// Reads a text without a known identifier as a web address, or returns an [`IdentifierError`].
fn web_address(text: &str) -> Result<Url, IdentifierError> {
    let unrecognised = || IdentifierError::Unrecognised(preview(text));
    // A text without a scheme is not an address. An unclosed quote should not lead to a message of
    // the URL parser.
    let (scheme, rest) = text.split_once(':').ok_or_else(unrecognised)?;
    if scheme.is_empty()
        || !scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    {
        return Err(unrecognised());
    }
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(if rest.starts_with("//") {
            IdentifierError::Scheme(scheme.to_ascii_lowercase())
        } else {
            unrecognised()
        });
    }
    let mut url = Url::parse(text).map_err(|error| IdentifierError::Address {
        why: error.to_string(),
    })?;
    // The fragment is for the reader of a page; servers never see it.
    url.set_fragment(None);
    if !url.username().is_empty() || url.password().is_some() {
        return Err(IdentifierError::Userinfo {
            host: url.host_str().unwrap_or_default().to_owned(),
        });
    }
    Ok(url)
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Doi(id) => write!(f, "doi:{id}"),
            Self::Arxiv(id) => write!(f, "arxiv:{id}"),
            Self::Pmid(id) => write!(f, "pmid:{id}"),
            Self::Pmcid(id) => write!(f, "pmcid:{id}"),
            Self::OpenAlex(id) => write!(f, "openalex:{id}"),
            Self::Url(url) => write!(f, "{url}"),
            Self::Title(title) => write!(f, "{title}"),
        }
    }
}

impl FromStr for Identifier {
    type Err = IdentifierError;

    fn from_str(text: &str) -> Result<Self, IdentifierError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Identifier {
    type Error = IdentifierError;

    fn try_from(text: String) -> Result<Self, IdentifierError> {
        Self::parse(&text)
    }
}

impl From<Identifier> for String {
    fn from(identifier: Identifier) -> Self {
        identifier.to_string()
    }
}

/// Implements the text form of an identifier type: `FromStr`, and serde through it.
macro_rules! as_text {
    ($name:ident, $kind:literal) => {
        impl std::str::FromStr for $name {
            type Err = crate::identifier::IdentifierError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let text = crate::identifier::spelling::unwrap(text);
                Self::read_bare(text)
                    .or_else(|| Self::read(text))
                    .unwrap_or_else(|| Err(crate::identifier::IdentifierError::not_a($kind, text)))
            }
        }

        impl TryFrom<String> for $name {
            type Error = crate::identifier::IdentifierError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(identifier: $name) -> Self {
                identifier.to_string()
            }
        }
    };
}
use as_text;
