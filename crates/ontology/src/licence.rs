//! The list of accepted licences.

use docstokg_lookup::licence::SourceLicence;

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
    /// use docstokg_lookup::licence::SourceLicence;
    /// use docstokg_ontology::licence::{Judgement, LicenceGate};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OntologySettings;

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
