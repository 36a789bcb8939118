//! Licences: SPDX names of texts and addresses.

use serde::{Deserialize, Serialize};
use spdx::flags::IS_DEPRECATED;
use spdx::identifiers::LICENSES;

/// A licence as a source declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLicence {
    /// The text of the source.
    #[serde(rename = "stated")]
    pub declared: String,
    /// The SPDX name, if the text is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spdx: Option<String>,
}

impl SourceLicence {
    /// Reads a statement: an SPDX name, an address of a licence, or a label. Returns `None` for a
    /// text without a licence.
    #[must_use]
    pub fn read(statement: &str) -> Option<Self> {
        let declared = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let empty = [
            "",
            "null",
            "none",
            "unknown",
            "unkown",
            "not specified",
            "n/a",
        ];
        if empty.contains(&declared.to_ascii_lowercase().as_str()) {
            return None;
        }
        let spdx = spdx_of(&declared);
        Some(Self { declared, spdx })
    }

    /// Returns the statement as an SPDX expression. SPDX names versions of Creative Commons licences
    /// only; a statement without a version is `LicenseRef-CC-BY` and the like, as SPDX lets other
    /// licences be named.
    #[must_use]
    pub fn expression(&self) -> Option<String> {
        if self.spdx.is_some() {
            return self.spdx.clone();
        }
        let words = self.declared.to_ascii_lowercase().replace([' ', '_'], "-");
        let kind = words.strip_prefix("cc-")?;
        let is_known = CREATIVE_COMMONS_KINDS.contains(&kind);
        is_known.then(|| format!("LicenseRef-CC-{}", kind.to_ascii_uppercase()))
    }

    /// Returns the SPDX name, or the statement of the source.
    #[must_use]
    pub fn name(&self) -> &str {
        self.spdx.as_deref().unwrap_or(&self.declared)
    }
}

/// Finds the SPDX name of a statement.
fn spdx_of(declared: &str) -> Option<String> {
    let text = declared
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

/// The kinds of Creative Commons licences.
const CREATIVE_COMMONS_KINDS: [&str; 6] = ["by", "by-sa", "by-nc", "by-nc-sa", "by-nd", "by-nc-nd"];

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

    #[test]
    fn statements_become_spdx_names() {
        for (declared, spdx) in [
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
            ("cc-by-4.0", Some("CC-BY-4.0")),
            ("implied-oa", None),
            ("https://www.elsevier.com/tdm/userlicense/1.0/", None),
            ("CC BY 9.0", None),
            ("all rights reserved", None),
        ] {
            let read = SourceLicence::read(declared).unwrap();
            assert_eq!(read.spdx.as_deref(), spdx, "{declared}");
        }
        for nothing in ["", " ", "null", "unkown", "Not specified"] {
            assert_eq!(SourceLicence::read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_creative_commons_licence_without_a_version_is_still_named() {
        for (declared, expression) in [
            ("CC BY", Some("LicenseRef-CC-BY")),
            ("cc-by", Some("LicenseRef-CC-BY")),
            ("cc by-nc-nd", Some("LicenseRef-CC-BY-NC-ND")),
            (
                "https://creativecommons.org/licenses/by/4.0/",
                Some("CC-BY-4.0"),
            ),
            ("publisher-specific-oa", None),
        ] {
            let read = SourceLicence::read(declared).unwrap();
            assert_eq!(read.expression().as_deref(), expression, "{declared}");
        }
    }
}
