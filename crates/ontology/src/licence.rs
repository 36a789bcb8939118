//! Licences: SPDX names of texts and addresses, and the list of accepted licences.

use serde::{Deserialize, Serialize};
use spdx::flags::IS_DEPRECATED;
use spdx::identifiers::LICENSES;

/// A licence as a source declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLicence {
    /// The text of the source.
    pub stated: String,
    /// The SPDX name, if the text is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spdx: Option<String>,
}

/// The list of accepted licences, which accepts or refuses a [`SourceLicence`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LicenceGate(Vec<String>);

/// The decision of a [`LicenceGate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The licence is on the list.
    Accepted,
    /// The source declares no licence: the record says that it is unknown.
    NotStated,
    /// The licence, named here, is not on the list.
    Refused(String),
}

impl SourceLicence {
    /// Reads a statement: an SPDX name, an address of a licence, or a label. Returns `None` for a
    /// text without a licence.
    #[must_use]
    pub fn read(statement: &str) -> Option<Self> {
        let stated = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let empty = [
            "",
            "null",
            "none",
            "unknown",
            "unkown",
            "not specified",
            "n/a",
        ];
        if empty.contains(&stated.to_ascii_lowercase().as_str()) {
            return None;
        }
        let spdx = spdx_of(&stated);
        Some(Self { stated, spdx })
    }

    /// Returns the SPDX name, or else the text of the source.
    #[must_use]
    pub fn name(&self) -> &str {
        self.spdx.as_deref().unwrap_or(&self.stated)
    }
}

impl LicenceGate {
    /// Creates a gate of SPDX names, addresses or labels. An empty list or `*` accepts everything.
    #[must_use]
    pub fn new(accepted: &[String]) -> Self {
        let name = |text: &String| {
            SourceLicence::read(text)
                .map_or_else(|| text.clone(), |licence| licence.name().to_owned())
        };
        Self(accepted.iter().map(name).collect())
    }

    /// Judges the licence that a source declares.
    ///
    /// ```
    /// use docstokg_ontology::licence::{Judgement, LicenceGate, SourceLicence};
    ///
    /// let gate = LicenceGate::new(&["CC-BY-4.0".to_owned()]);
    /// let licence = SourceLicence::read("https://creativecommons.org/licenses/by/4.0/");
    /// assert_eq!(gate.judge(licence.as_ref()), Judgement::Accepted);
    /// assert!(matches!(gate.judge(SourceLicence::read("MIT").as_ref()), Judgement::Refused(_)));
    /// ```
    #[must_use]
    pub fn judge(&self, licence: Option<&SourceLicence>) -> Judgement {
        let Some(licence) = licence else {
            return Judgement::NotStated;
        };
        let name = licence.name();
        let is_accepted = self.0.is_empty()
            || self
                .0
                .iter()
                .any(|accepted| accepted == "*" || accepted.eq_ignore_ascii_case(name));
        if is_accepted {
            return Judgement::Accepted;
        }
        Judgement::Refused(format!(
            "its licence is {name}, which is not in accept_licenses ({}); add '{name}' there to \
             accept it",
            self.0.join(", ")
        ))
    }
}

/// Finds the SPDX name of a statement.
fn spdx_of(stated: &str) -> Option<String> {
    let text = stated
        .trim()
        .trim_end_matches('/')
        .to_ascii_lowercase()
        .replace("http://", "https://")
        .replace("https://www.", "https://");
    for (address, name) in ADDRESSES {
        if text.starts_with(address) {
            return Some((*name).to_owned());
        }
    }
    if let Some(rest) = text.strip_prefix("https://creativecommons.org/licenses/") {
        let mut parts = rest.split('/');
        let (kind, version) = (parts.next()?, parts.next()?);
        return creative_commons(kind, version);
    }
    if let Some(name) = OPEN_SOURCE
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
    {
        return open_source(name);
    }
    if text.starts_with("https://") {
        return None;
    }
    spdx_of_words(&text)
}

/// Finds the SPDX name of a licence by its page at the Open Source Initiative; the address of the
/// page has the name.
fn open_source(page: &str) -> Option<String> {
    let page = page.split(['?', '#']).next().unwrap_or(page);
    let name = [".php", ".html", "-php"]
        .iter()
        .find_map(|ending| page.strip_suffix(ending))
        .unwrap_or(page)
        .replace("-license", "");
    listed_name(&name)
}

/// Finds a name in the list of SPDX, in any case.
fn listed_name(name: &str) -> Option<String> {
    let find = |name: &str| {
        LICENSES
            .iter()
            .find(|known| known.name.eq_ignore_ascii_case(name))
            .filter(|known| known.flags & IS_DEPRECATED == 0)
    };
    // The deprecated `GPL-3.0` names neither `only` nor `or-later`.
    let listed = find(name).or_else(|| find(&format!("{name}-only")))?;
    Some(listed.name.to_owned())
}

/// Finds the SPDX name of a statement in words.
fn spdx_of_words(text: &str) -> Option<String> {
    let words: String = text
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '.' {
                letter
            } else {
                ' '
            }
        })
        .collect();
    let words: Vec<&str> = words
        .split_whitespace()
        .filter(|word| {
            !matches!(
                *word,
                "deed" | "license" | "licence" | "international" | "unported" | "the"
            )
        })
        .collect();
    let joined = words.join("-");
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == joined) {
        return Some((*name).to_owned());
    }
    listed_name(&joined).or_else(|| {
        let rest = joined
            .strip_prefix("cc-")
            .or_else(|| joined.strip_prefix("creative-commons-"))?;
        let rest = rest
            .replace("attribution", "by")
            .replace("noncommercial", "nc")
            .replace("non-commercial", "nc")
            .replace("sharealike", "sa")
            .replace("share-alike", "sa")
            .replace("noderivatives", "nd");
        // A text without a version names no particular licence.
        let (kind, version) = rest.rsplit_once('-')?;
        creative_commons(kind, version)
    })
}

fn creative_commons(kind: &str, version: &str) -> Option<String> {
    let minor = if version.contains('.') { "" } else { ".0" };
    listed_name(&format!("CC-{kind}-{version}{minor}"))
}

/// Addresses that stand for one licence.
const ADDRESSES: &[(&str, &str)] = &[
    (
        "https://creativecommons.org/publicdomain/zero/1.0",
        "CC0-1.0",
    ),
    (
        "https://creativecommons.org/publicdomain/mark/1.0",
        "CC-PDM-1.0",
    ),
    (
        "https://nationalarchives.gov.uk/doc/open-government-licence/version/3",
        "OGL-UK-3.0",
    ),
    ("https://apache.org/licenses/license-2.0", "Apache-2.0"),
    ("https://opendatacommons.org/licenses/by/1", "ODC-By-1.0"),
    ("https://opendatacommons.org/licenses/by/1-0", "ODC-By-1.0"),
    ("https://opendatacommons.org/licenses/pddl", "PDDL-1.0"),
    ("https://opendatacommons.org/licenses/odbl", "ODbL-1.0"),
    ("https://gnu.org/licenses/gpl-3.0", "GPL-3.0-only"),
    ("https://gnu.org/licenses/lgpl-3.0", "LGPL-3.0-only"),
    (
        "https://w3.org/consortium/legal/2015/doc-license",
        "W3C-20150513",
    ),
];

/// Prefixes of the addresses of licences at the Open Source Initiative.
const OPEN_SOURCE: [&str; 2] = [
    "https://opensource.org/licenses/",
    "https://opensource.org/license/",
];

/// Names that stand for one licence besides those of SPDX, as words joined by hyphens.
const NAMES: &[(&str, &str)] = &[
    ("cc0", "CC0-1.0"),
    ("cc-0", "CC0-1.0"),
    ("cc-0-1.0", "CC0-1.0"),
    ("cc-zero", "CC0-1.0"),
    ("creative-commons-zero", "CC0-1.0"),
    ("ogl-3.0", "OGL-UK-3.0"),
    ("open-government-v3.0", "OGL-UK-3.0"),
    ("apache-version-2.0", "Apache-2.0"),
    ("apache-2.0-only", "Apache-2.0"),
    ("gnu-gpl-3.0", "GPL-3.0-only"),
    ("pdm-1.0", "CC-PDM-1.0"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OntologySettings;

    #[test]
    fn statements_become_spdx_names() {
        for (stated, spdx) in [
            (
                "http://creativecommons.org/licenses/by/4.0/",
                Some("CC-BY-4.0"),
            ),
            (
                "https://creativecommons.org/licenses/by/4.0",
                Some("CC-BY-4.0"),
            ),
            ("CC BY 4.0", Some("CC-BY-4.0")),
            ("CC-BY 4.0", Some("CC-BY-4.0")),
            ("CC BY 4.0 DEED", Some("CC-BY-4.0")),
            (
                "Creative Commons Attribution 4.0 International",
                Some("CC-BY-4.0"),
            ),
            ("cc-by-nc-sa-3.0", Some("CC-BY-NC-SA-3.0")),
            ("CC BY 3", Some("CC-BY-3.0")),
            (
                "https://creativecommons.org/publicdomain/zero/1.0/",
                Some("CC0-1.0"),
            ),
            ("CC0", Some("CC0-1.0")),
            ("CC-0", Some("CC0-1.0")),
            ("GPL-3.0", Some("GPL-3.0-only")),
            (
                "http://www.gnu.org/licenses/gpl-3.0.en.html",
                Some("GPL-3.0-only"),
            ),
            ("Apache License, Version 2.0", Some("Apache-2.0")),
            (
                "http://opensource.org/licenses/Artistic-2.0",
                Some("Artistic-2.0"),
            ),
            ("https://opensource.org/license/mit/", Some("MIT")),
            (
                "http://www.opensource.org/licenses/mit-license.php",
                Some("MIT"),
            ),
            (
                "https://opensource.org/licenses/GPL-2.0",
                Some("GPL-2.0-only"),
            ),
            ("https://opensource.org/licenses/MIT-0", Some("MIT-0")),
            ("https://opensource.org/licenses/category", None),
            ("https://hpo.jax.org/app/license", None),
            ("EUPL 1.2", Some("EUPL-1.2")),
            ("cc-by-3.0-us", Some("CC-BY-3.0-US")),
            ("LGPL-2.1", Some("LGPL-2.1-only")),
            ("bzip2-1.0.5", None),
            ("CC BY", None),
            ("CC BY 9.0", None),
            ("all rights reserved", None),
        ] {
            let read = SourceLicence::read(stated).unwrap();
            assert_eq!(read.spdx.as_deref(), spdx, "{stated}");
        }
        for nothing in ["", " ", "null", "unkown", "Not specified"] {
            assert_eq!(SourceLicence::read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_gate_says_what_to_do() {
        let gate = LicenceGate::new(&OntologySettings::default().accept_licenses().value.0);
        let judge = |text: &str| gate.judge(SourceLicence::read(text).as_ref());
        assert_eq!(judge("CC BY 4.0"), Judgement::Accepted);
        assert_eq!(judge(""), Judgement::NotStated);
        let Judgement::Refused(why) = judge("https://hpo.jax.org/app/license") else {
            panic!()
        };
        assert!(
            why.contains("add 'https://hpo.jax.org/app/license'"),
            "{why}"
        );
        let own = LicenceGate::new(&[
            "https://hpo.jax.org/app/license".to_owned(),
            "cc by 3.0".to_owned(),
        ]);
        assert_eq!(
            own.judge(SourceLicence::read("https://hpo.jax.org/app/license").as_ref()),
            Judgement::Accepted
        );
        assert_eq!(
            own.judge(SourceLicence::read("http://creativecommons.org/licenses/by/3.0/").as_ref()),
            Judgement::Accepted
        );
        for all in [vec![], vec!["*".to_owned()]] {
            assert_eq!(
                LicenceGate::new(&all).judge(SourceLicence::read("secret").as_ref()),
                Judgement::Accepted
            );
        }
    }
}
