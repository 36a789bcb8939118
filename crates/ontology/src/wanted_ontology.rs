//! A requested ontology: its name, its sources and its formats.
//!
//! `sources.yaml` has a list of them, with common values under `defaults`.

mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use url::Url;

pub use file::{SpecDefaults, SpecFile};

/// The name of an ontology in the library. The name is a directory, so its characters are limited.
///
/// ```
/// use docstokg_ontology::wanted_ontology::OntologyId;
///
/// assert_eq!(OntologyId::parse(" HP ")?.as_str(), "hp");
/// assert!(OntologyId::parse("../hp").is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OntologyId(String);

/// Maximum length of a name, in bytes.
const MAX_ID: usize = 80;

impl OntologyId {
    /// Reads a name: letters, digits, `.`, `-` and `_`, beginning with a letter or digit.
    ///
    /// # Errors
    /// A sentence with an example if the text is not a name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let fits =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        let begins = text.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if !begins || text.len() > MAX_ID || !text.chars().all(fits) {
            return Err(format!(
                "'{text}' is not the id of an ontology: use up to {MAX_ID} letters, digits, '.', \
                 '-' and '_', beginning with a letter or digit"
            ));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }

    /// Names an import by the end of its address, reduced to safe letters, and a mark that
    /// distinguishes the import from others.
    #[must_use]
    pub(crate) fn of_import(stem: &str, mark: &str) -> Self {
        let fits = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let stem: String = stem.chars().filter(fits).take(40).collect();
        Self(format!("import-{stem}-{mark}").to_ascii_lowercase())
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OntologyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for OntologyId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<OntologyId> for String {
    fn from(id: OntologyId) -> Self {
        id.0
    }
}

/// A format that the user may request, by the extension of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetFormat {
    /// RDF/XML, as OWL files mostly are.
    Owl,
    /// OBO, the text format.
    Obo,
    /// OBO Graph JSON, in `.json` files.
    Json,
    /// Turtle, in `.ttl` files.
    Ttl,
    /// RDF/XML, in `.rdf` files.
    Rdf,
    /// N-Triples, in `.nt` files.
    Nt,
    /// JSON-LD, in `.jsonld` files.
    Jsonld,
    /// A zip archive, such as a taxonomy package.
    Zip,
}

impl TargetFormat {
    /// All formats, in the order of the enum.
    pub const ALL: [Self; 8] = [
        Self::Owl,
        Self::Obo,
        Self::Json,
        Self::Ttl,
        Self::Rdf,
        Self::Nt,
        Self::Jsonld,
        Self::Zip,
    ];

    /// Returns the extension of files in this format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owl => "owl",
            Self::Obo => "obo",
            Self::Json => "json",
            Self::Ttl => "ttl",
            Self::Rdf => "rdf",
            Self::Nt => "nt",
            Self::Jsonld => "jsonld",
            Self::Zip => "zip",
        }
    }

    /// Returns true if files with this extension may have the format of this name. `.owl` files
    /// have one of several.
    #[must_use]
    pub(crate) fn holds(self, format: &str) -> bool {
        use crate::format::OntologyFormat;
        let formats: &[OntologyFormat] = match self {
            Self::Owl => &[
                OntologyFormat::RdfXml,
                OntologyFormat::OwlXml,
                OntologyFormat::Turtle,
                OntologyFormat::OwlFunctional,
                OntologyFormat::OwlManchester,
            ],
            Self::Rdf => &[OntologyFormat::RdfXml],
            Self::Obo => &[OntologyFormat::Obo],
            Self::Json => &[OntologyFormat::OboGraph, OntologyFormat::JsonLd],
            Self::Ttl => &[OntologyFormat::Turtle, OntologyFormat::NTriples],
            Self::Nt => &[OntologyFormat::NTriples],
            Self::Jsonld => &[OntologyFormat::JsonLd],
            Self::Zip => return true,
        };
        formats.iter().any(|known| known.name() == format)
    }

    /// Guesses the format of a file by its name; a name in `.gz` by the name inside.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        let (_, extension) = name.rsplit_once('.')?;
        match extension {
            "n3" | "turtle" => Some(Self::Ttl),
            "xml" => Some(Self::Rdf),
            _ => extension.parse().ok(),
        }
    }
}

impl FromStr for TargetFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim().trim_start_matches('.').to_ascii_lowercase();
        let known = Self::ALL.into_iter().find(|format| format.as_str() == text);
        known.ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|format| format.as_str()).collect();
            format!(
                "'{text}' is not a format; the formats are {}",
                all.join(", ")
            )
        })
    }
}

/// A declared checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChecksum {
    /// The [`ChecksumAlgorithm`] of the value.
    pub algorithm: ChecksumAlgorithm,
    /// The checksum in lower-case hex.
    pub value: String,
}

/// The algorithm of a [`FileChecksum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumAlgorithm {
    /// SHA-256, 64 hexadecimal digits.
    Sha256,
    /// SHA-512, 128 hexadecimal digits.
    Sha512,
    /// MD5, as old mirrors declare it: enough against damage, not against malice.
    Md5,
}

impl ChecksumAlgorithm {
    const ALL: [(Self, &'static str, usize); 3] = [
        (Self::Sha256, "sha256", 64),
        (Self::Sha512, "sha512", 128),
        (Self::Md5, "md5", 32),
    ];

    /// Returns the word used in files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(known, ..)| *known == self)
            .map_or("", |(_, word, _)| word)
    }
}

impl FileChecksum {
    /// Reads `sha256:HEX`, `md5:HEX` or hex alone, whose length gives the algorithm.
    ///
    /// # Errors
    /// A sentence if the text is not in one of these forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong =
            || format!("'{text}' is not a checksum; write sha256:HEX, sha512:HEX or md5:HEX");
        let (word, value) = match text.split_once([':', '=']) {
            Some((word, value)) => (
                Some(word.trim().to_ascii_lowercase().replace('-', "")),
                value.trim(),
            ),
            None => (None, text),
        };
        if !value.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let fits = |(_, known, length): &&(ChecksumAlgorithm, &str, usize)| {
            value.len() == *length && word.as_ref().is_none_or(|word| word == known)
        };
        let (algorithm, ..) = ChecksumAlgorithm::ALL.iter().find(fits).ok_or_else(wrong)?;
        Ok(Self {
            algorithm: *algorithm,
            value: value.to_ascii_lowercase(),
        })
    }

    /// Finds the checksum in a file of checksums: hex alone, or lines of `HEX  NAME`.
    ///
    /// ```
    /// use docstokg_ontology::wanted_ontology::FileChecksum;
    ///
    /// let (one, other) = ("a".repeat(64), "b".repeat(64));
    /// let file = format!("{one}  hp.owl\n{other}  hp.obo\n");
    /// assert_eq!(FileChecksum::find(&file, "hp.obo")?.to_string(), format!("sha256:{other}"));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// A sentence if no line has the name.
    pub fn find(text: &str, filename: &str) -> Result<Self, String> {
        let mut others = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let Some(Ok(checksum)) = words.next().map(Self::parse) else {
                continue;
            };
            let name = words.next().and_then(|name| name.rsplit(['/', '*']).next());
            if name == Some(filename) {
                return Ok(checksum);
            }
            others.push(checksum);
        }
        match others.as_slice() {
            // The only line applies, with any file name.
            [only] => Ok(only.clone()),
            [] => Err("it holds no checksum".to_owned()),
            _ => Err(format!(
                "none of its {} checksums is that of {filename}",
                others.len()
            )),
        }
    }
}

impl fmt::Display for FileChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.value)
    }
}

/// A requested ontology, from the command line or a [`SpecFile`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedOntology {
    /// The name of the ontology in the library.
    pub id: OntologyId,
    /// The sources to query, in this order; empty for those of the configuration.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The wanted formats, the best first; empty for any format of the source.
    #[serde(default)]
    pub formats: Vec<TargetFormat>,
    /// The address of the file, for direct addresses and packages.
    #[serde(default)]
    pub url: Option<Url>,
    /// The requested version, if the user named one.
    #[serde(default)]
    pub version: Option<String>,
    /// The licence that the user knows, if the source declares no licence.
    #[serde(default)]
    pub license: Option<String>,
    /// The [`FileChecksum`] that the file must have.
    #[serde(default)]
    pub checksum: Option<FileChecksum>,
    /// The address at which the checksum is declared.
    #[serde(default)]
    pub checksum_url: Option<Url>,
    /// Options of single sources: `acronym`, `prefix`, `product`.
    #[serde(default)]
    pub extras: BTreeMap<String, String>,
}

impl WantedOntology {
    /// Requests an ontology by its id alone.
    #[must_use]
    pub fn new(id: OntologyId) -> Self {
        Self {
            id,
            sources: Vec::new(),
            formats: Vec::new(),
            url: None,
            version: None,
            license: None,
            checksum: None,
            checksum_url: None,
            extras: BTreeMap::new(),
        }
    }

    /// Returns the user's value for an option of a source.
    #[must_use]
    pub fn extra(&self, name: &str) -> Option<&str> {
        self.extras.get(name).map(String::as_str)
    }

    /// Returns true if a [`TargetFormat`] is requested. OWL files are mostly RDF/XML, so each of
    /// the two formats counts for the other.
    #[must_use]
    pub fn takes(&self, format: TargetFormat) -> bool {
        let same = |wanted: &TargetFormat| match (wanted, format) {
            (TargetFormat::Owl | TargetFormat::Rdf, TargetFormat::Owl | TargetFormat::Rdf) => true,
            (wanted, format) => *wanted == format,
        };
        self.formats.is_empty() || self.formats.iter().any(same)
    }

    /// Returns the formats to look for, the best first.
    #[must_use]
    pub fn formats_or<'a>(&'a self, otherwise: &'a [TargetFormat]) -> &'a [TargetFormat] {
        if self.formats.is_empty() {
            otherwise
        } else {
            &self.formats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_safe_directory_names() {
        assert_eq!(OntologyId::parse("HP").unwrap().as_str(), "hp");
        for bad in [
            "",
            "..",
            ".hp",
            "a/b",
            "a b",
            "a\nb",
            "-x",
            "é",
            &"x".repeat(81),
        ] {
            assert!(OntologyId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn checksums_are_read_inline_and_from_lists() {
        let hex = "A".repeat(64);
        assert_eq!(
            FileChecksum::parse(&hex).unwrap().algorithm,
            ChecksumAlgorithm::Sha256
        );
        assert_eq!(
            FileChecksum::parse(&format!("sha256:{hex}")).unwrap().value,
            "a".repeat(64)
        );
        assert!(FileChecksum::parse(&format!("md5:{hex}")).is_err());
        assert!(FileChecksum::parse("sha1:xyz").is_err());
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let list = format!("{one}  a.owl\n{two} *./dir/b.owl\n");
        assert_eq!(FileChecksum::find(&list, "b.owl").unwrap().value, two);
        assert!(
            FileChecksum::find(&list, "c.owl")
                .unwrap_err()
                .contains("none of its 2")
        );
        assert_eq!(
            FileChecksum::find(&format!("{one}\n"), "x").unwrap().value,
            one
        );
        assert!(FileChecksum::find("<html>", "x").is_err());
    }

    #[test]
    fn formats_follow_from_names() {
        for (name, format) in [
            ("hp.owl", Some(TargetFormat::Owl)),
            ("chebi.OBO.gz", Some(TargetFormat::Obo)),
            ("2024-01-01.n3", Some(TargetFormat::Ttl)),
            ("x.xml", Some(TargetFormat::Rdf)),
            ("noname", None),
            ("x.pdf", None),
        ] {
            assert_eq!(TargetFormat::of_name(name), format, "{name}");
        }
    }
}
