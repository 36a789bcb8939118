//! Comparison of two plans: ontologies whose download is new or changed.

use serde::Serialize;

use crate::lock::{LockEntry, LockFile};

/// The differences between a plan and an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanDiff {
    /// Ontologies that are new.
    pub added: Vec<String>,
    /// Ontologies that are gone.
    pub removed: Vec<String>,
    /// Ontologies with a [`ChangedField`].
    pub changed: Vec<ChangedOntology>,
}

/// An ontology that changed between two plans.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedOntology {
    /// The name of the ontology.
    pub id: String,
    /// The values that changed.
    pub fields: Vec<ChangedField>,
}

/// A value that changed, in a [`ChangedOntology`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedField {
    /// The name of the field.
    pub field: &'static str,
    /// The earlier value; `None` if it was not known.
    pub before: Option<String>,
    /// The later value; `None` if it is not known.
    pub after: Option<String>,
}

impl PlanDiff {
    /// Compares two plans by ontology. A value that only one of the plans knows (such as a size
    /// without probes) does not count as a change.
    #[must_use]
    pub fn between(before: &LockFile, after: &LockFile) -> Self {
        let mut diff = Self::default();
        for entry in &after.entries {
            match before.entries.iter().find(|other| other.id == entry.id) {
                None => diff.added.push(entry.id.to_string()),
                Some(other) => {
                    let fields = fields(other, entry);
                    if !fields.is_empty() {
                        diff.changed.push(ChangedOntology {
                            id: entry.id.to_string(),
                            fields,
                        });
                    }
                }
            }
        }
        // A deferred ontology was requested again, so the later plan does not remove the entry.
        let is_gone = |entry: &&LockEntry| {
            !after.entries.iter().any(|other| other.id == entry.id)
                && !after
                    .deferred
                    .iter()
                    .any(|waiting| waiting.id == entry.id.as_str())
        };
        let gone = before.entries.iter().filter(is_gone);
        diff.removed = gone.map(|entry| entry.id.to_string()).collect();
        diff
    }

    /// Returns true if the plans do not differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

fn fields(before: &LockEntry, after: &LockEntry) -> Vec<ChangedField> {
    let values = |entry: &LockEntry| {
        [
            ("url", Some(entry.url.to_string())),
            ("version", entry.version.clone()),
            ("license", entry.license.clone()),
            ("media_type", entry.media_type.clone()),
            ("service", Some(entry.resolver.clone())),
            ("last_modified", entry.last_modified.clone()),
            (
                "content_length",
                entry.content_length.map(|length| length.to_string()),
            ),
            ("revision", entry.revision.clone()),
            ("checksum", entry.checksum.as_ref().map(ToString::to_string)),
        ]
    };
    let pairs = values(before).into_iter().zip(values(after));
    pairs
        .filter(|((_, before), (_, after))| before.is_some() && after.is_some() && before != after)
        .map(|((field, before), (_, after))| ChangedField {
            field,
            before,
            after,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(entries: &[(&str, &str, Option<u64>)]) -> LockFile {
        let entry = |(id, version, length): &(&str, &str, Option<u64>)| {
            serde_json::json!({
                "id": id, "resolver": "obo", "url": "https://a.org/x",
                "version": version, "content_length": length,
            })
        };
        let entries: Vec<_> = entries.iter().map(entry).collect();
        serde_json::from_value(serde_json::json!({
            "schema_version": "1.0", "generated_at": "", "entries": entries,
        }))
        .unwrap()
    }

    #[test]
    fn plan_diff_ignores_fields_that_are_unknown() {
        let before = lock(&[("a", "1", Some(5)), ("b", "1", None), ("gone", "1", None)]);
        let after = lock(&[("a", "2", Some(6)), ("b", "1", Some(7)), ("new", "1", None)]);
        let diff = PlanDiff::between(&before, &after);
        assert_eq!(
            (&diff.added, &diff.removed),
            (&vec!["new".to_owned()], &vec!["gone".to_owned()])
        );
        assert_eq!(diff.changed.len(), 1);
        let names: Vec<&str> = diff.changed[0]
            .fields
            .iter()
            .map(|field| field.field)
            .collect();
        assert_eq!(names, ["version", "content_length"]);
        assert!(PlanDiff::between(&after, &after).is_empty());
    }

    #[test]
    fn a_deferred_ontology_is_not_removed() {
        let before = lock(&[("a", "1", None), ("later", "1", None)]);
        let waiting = crate::lock::UnpinnedOntology {
            id: "later".to_owned(),
            host: "a.org".to_owned(),
            until: "2026-07-01T00:00:00.000Z".to_owned(),
            why: "503".to_owned(),
        };
        let after = LockFile {
            deferred: vec![waiting],
            ..lock(&[("a", "1", None)])
        };
        assert!(PlanDiff::between(&before, &after).is_empty());
    }
}
