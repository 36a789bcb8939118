//! Licences: free text and addresses as SPDX names, and the list of those that are accepted.

use serde::{Deserialize, Serialize};

/// A licence as a source states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Licence {
    /// What the source says.
    pub stated: String,
    /// Its SPDX name, where the statement is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spdx: Option<String>,
}

/// What a licence is accepted or refused by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LicenceGate(Vec<String>);

/// What the gate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is on the list.
    Accepted,
    /// The source states none: it is recorded as unknown.
    NotStated,
    /// It is not on the list.
    Refused(String),
}

impl Licence {
    /// Reads a statement: an SPDX name, an address of a licence, or a label. `None` where it says
    /// nothing.
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

    /// Returns the SPDX name, or the statement where there is none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.spdx.as_deref().unwrap_or(&self.stated)
    }
}

impl LicenceGate {
    /// Makes a gate of SPDX names, addresses or labels. An empty list or `*` accepts everything.
    #[must_use]
    pub fn new(accepted: &[String]) -> Self {
        let name = |text: &String| {
            Licence::read(text).map_or_else(|| text.clone(), |licence| licence.name().to_owned())
        };
        Self(accepted.iter().map(name).collect())
    }

    /// Judges what a source states.
    #[must_use]
    pub fn judge(&self, licence: Option<&Licence>) -> Judgement {
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

/// Finds the SPDX name of a licence by its page at the Open Source Initiative, which is named for it.
fn open_source(page: &str) -> Option<String> {
    let page = page.split(['?', '#']).next().unwrap_or(page);
    let name = [".php", ".html", "-php"]
        .iter()
        .find_map(|ending| page.strip_suffix(ending))
        .unwrap_or(page)
        .replace("-license", "");
    OSI_NAMES
        .iter()
        .find(|known| {
            let known = known.to_ascii_lowercase();
            // The page of a version of the GPL names neither `only` nor `or-later`.
            known == name || known.strip_suffix("-only") == Some(name.as_str())
        })
        .map(|known| (*known).to_owned())
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
    let (kind, version) = match rest.rsplit_once('-') {
        Some((kind, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => {
            (kind, version)
        }
        // Without a version it is no licence in particular.
        _ => return None,
    };
    creative_commons(kind, version)
}

fn creative_commons(kind: &str, version: &str) -> Option<String> {
    let known = ["by", "by-sa", "by-nc", "by-nc-sa", "by-nd", "by-nc-nd"];
    let versions = ["1.0", "2.0", "2.5", "3.0", "4.0"];
    let version = if version.contains('.') {
        version.to_owned()
    } else {
        format!("{version}.0")
    };
    (known.contains(&kind) && versions.contains(&version.as_str()))
        .then(|| format!("CC-{}-{version}", kind.to_ascii_uppercase()))
}

/// Addresses that stand for one licence.
const ADDRESSES: &[(&str, &str)] = &[
    (
        "https://creativecommons.org/publicdomain/zero/1.0",
        "CC0-1.0",
    ),
    (
        "https://creativecommons.org/publicdomain/mark/1.0",
        "PDM-1.0",
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

/// The beginnings of the pages of licences at the Open Source Initiative.
const OPEN_SOURCE: [&str; 2] = [
    "https://opensource.org/licenses/",
    "https://opensource.org/license/",
];

/// SPDX names of the licences that have a page there.
const OSI_NAMES: &[&str] = &[
    "0BSD",
    "AAL",
    "AFL-3.0",
    "AGPL-3.0-only",
    "APSL-2.0",
    "Apache-1.1",
    "Apache-2.0",
    "Artistic-1.0",
    "Artistic-1.0-Perl",
    "Artistic-2.0",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-2-Clause-Patent",
    "BSD-3-Clause",
    "BSL-1.0",
    "BlueOak-1.0.0",
    "CDDL-1.0",
    "CECILL-2.1",
    "CERN-OHL-P-2.0",
    "CERN-OHL-S-2.0",
    "CERN-OHL-W-2.0",
    "CPAL-1.0",
    "CPL-1.0",
    "ECL-1.0",
    "ECL-2.0",
    "EFL-2.0",
    "EPL-1.0",
    "EPL-2.0",
    "EUPL-1.1",
    "EUPL-1.2",
    "GPL-2.0-only",
    "GPL-3.0-only",
    "HPND",
    "IPL-1.0",
    "ISC",
    "LGPL-2.0-only",
    "LGPL-2.1-only",
    "LGPL-3.0-only",
    "LPPL-1.3c",
    "MIT",
    "MIT-0",
    "MPL-1.0",
    "MPL-1.1",
    "MPL-2.0",
    "MS-PL",
    "MS-RL",
    "MulanPSL-2.0",
    "NASA-1.3",
    "NCSA",
    "NPOSL-3.0",
    "OFL-1.1",
    "OLDAP-2.8",
    "OSL-1.0",
    "OSL-2.1",
    "OSL-3.0",
    "PHP-3.0",
    "PHP-3.01",
    "PostgreSQL",
    "Python-2.0",
    "QPL-1.0",
    "SISSL",
    "Sleepycat",
    "UPL-1.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "VSL-1.0",
    "W3C",
    "Xnet",
    "ZPL-2.0",
    "ZPL-2.1",
    "Zlib",
];

/// Names that stand for one licence, words joined by hyphens.
const NAMES: &[(&str, &str)] = &[
    ("cc0", "CC0-1.0"),
    ("cc0-1.0", "CC0-1.0"),
    ("cc-0", "CC0-1.0"),
    ("cc-0-1.0", "CC0-1.0"),
    ("cc-zero", "CC0-1.0"),
    ("creative-commons-zero", "CC0-1.0"),
    ("ogl-uk-3.0", "OGL-UK-3.0"),
    ("ogl-3.0", "OGL-UK-3.0"),
    ("open-government-v3.0", "OGL-UK-3.0"),
    ("apache-2.0", "Apache-2.0"),
    ("apache-version-2.0", "Apache-2.0"),
    ("apache-2.0-only", "Apache-2.0"),
    ("mit", "MIT"),
    ("bsd-3-clause", "BSD-3-Clause"),
    ("gpl-3.0", "GPL-3.0-only"),
    ("gpl-3.0-only", "GPL-3.0-only"),
    ("gnu-gpl-3.0", "GPL-3.0-only"),
    ("lgpl-3.0-only", "LGPL-3.0-only"),
    ("odc-by-1.0", "ODC-By-1.0"),
    ("odbl-1.0", "ODbL-1.0"),
    ("pddl-1.0", "PDDL-1.0"),
    ("pdm-1.0", "PDM-1.0"),
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
            ("CC BY", None),
            ("CC BY 9.0", None),
            ("all rights reserved", None),
        ] {
            let read = Licence::read(stated).unwrap();
            assert_eq!(read.spdx.as_deref(), spdx, "{stated}");
        }
        for nothing in ["", " ", "null", "unkown", "Not specified"] {
            assert_eq!(Licence::read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_gate_says_what_to_do() {
        let gate = LicenceGate::new(&OntologySettings::default().accept_licenses().value.0);
        let judge = |text: &str| gate.judge(Licence::read(text).as_ref());
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
            own.judge(Licence::read("https://hpo.jax.org/app/license").as_ref()),
            Judgement::Accepted
        );
        assert_eq!(
            own.judge(Licence::read("http://creativecommons.org/licenses/by/3.0/").as_ref()),
            Judgement::Accepted
        );
        for all in [vec![], vec!["*".to_owned()]] {
            assert_eq!(
                LicenceGate::new(&all).judge(Licence::read("secret").as_ref()),
                Judgement::Accepted
            );
        }
    }
}
