//! Names of authors: their parts, and full names taken apart.

use serde::{Deserialize, Serialize};

/// Words of names that are organisations.
const ORGANISATION_WORDS: [&str; 9] = [
    "collaboration",
    "consortium",
    "group",
    "team",
    "university",
    "institute",
    "association",
    "network",
    "committee",
];

/// Words behind a family name that belong to the person.
const SUFFIXES: [&str; 7] = ["jr", "jr.", "sr", "sr.", "ii", "iii", "iv"];

/// The name of an author: of a person with a family name, or of an organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PersonName {
    /// The family name, without particles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The given names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// The words before the family name: `van der`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub particle: Option<String>,
    /// The words behind the family name: `Jr.`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// The whole name of an organisation, or of a person with one name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The ORCID, without its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orcid: Option<String>,
}

impl PersonName {
    /// Makes a name of its parts, as registries state them; `None` without a family name.
    #[must_use]
    pub fn of_parts(given: Option<&str>, family: Option<&str>) -> Option<Self> {
        let given = given.and_then(tidy);
        let family = family.and_then(tidy)?;
        let words: Vec<&str> = family.split(' ').collect();
        let particles = words.iter().take_while(|word| is_particle(word)).count();
        let particles = particles.min(words.len() - 1);
        Some(Self {
            particle: joined(&words[..particles]),
            family: joined(&words[particles..]),
            given,
            ..Self::default()
        })
    }

    /// Takes a full name apart: `Jan van der Berg`, or `van der Berg, Jan`. A name of one word, or of
    /// an organisation, stays whole.
    #[must_use]
    pub fn of_full_name(text: &str) -> Option<Self> {
        let text = tidy(text)?;
        let lower = text.to_lowercase();
        if ORGANISATION_WORDS.iter().any(|word| lower.contains(word)) {
            return Some(Self::of_organisation(&text));
        }
        if let Some((family, given)) = text.split_once(',') {
            return Self::of_parts(Some(given), Some(family));
        }
        let mut words: Vec<&str> = text.split(' ').collect();
        let suffix = words
            .pop_if(|last| SUFFIXES.contains(&last.to_lowercase().as_str()))
            .map(str::to_owned);
        if words.len() < 2 {
            return Some(Self::of_organisation(&text));
        }
        let particle = (1..words.len() - 1).find(|at| is_particle(words[*at]));
        let (given, family) = words.split_at(particle.unwrap_or(words.len() - 1));
        let name = Self::of_parts(Some(&given.join(" ")), Some(&family.join(" ")))?;
        Some(Self { suffix, ..name })
    }

    /// Makes the name of an organisation.
    #[must_use]
    pub fn of_organisation(name: &str) -> Self {
        Self {
            name: tidy(name),
            ..Self::default()
        }
    }

    /// Adds an ORCID, with or without its address.
    #[must_use]
    pub fn orcid(mut self, declared: Option<&str>) -> Self {
        let id = declared.and_then(|text| text.trim().rsplit('/').next());
        let is_one = |id: &&str| {
            id.len() == 19
                && id
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'X')
        };
        self.orcid = id.filter(is_one).map(str::to_owned);
        self
    }

    /// Returns the family name with its particles, or the whole name.
    #[must_use]
    pub fn last(&self) -> String {
        let parts = [&self.particle, &self.family, &self.name];
        let parts: Vec<&str> = parts.into_iter().filter_map(Option::as_deref).collect();
        parts.join(" ")
    }

    /// Returns the name as one reads it: `Jan van der Berg Jr.`
    #[must_use]
    pub fn full(&self) -> String {
        let last = self.last();
        let parts = [self.given.as_deref(), Some(&last), self.suffix.as_deref()];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        parts.join(" ")
    }
}

/// Tells whether a word of a name stands before the family name: it begins with a small letter.
fn is_particle(word: &str) -> bool {
    word.chars().next().is_some_and(char::is_lowercase)
}

fn joined(words: &[&str]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(" "))
}

/// Tidies the white space of a name; `None` if nothing is left.
fn tidy(text: &str) -> Option<String> {
    crate::titles::clean(text)
}
