//! Functions over a list of sources: the search by name, and tables of their services and
//! credentials.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::source_spec::{SourceCredential, SourceEndpoint, SourceSpec};

/// A type that has a [`SourceSpec`], such as a source of papers or of ontologies.
pub trait HasSourceSpec {
    /// Returns the [`SourceSpec`].
    fn source(&self) -> &SourceSpec;
}

impl<T: HasSourceSpec + ?Sized> HasSourceSpec for &T {
    fn source(&self) -> &SourceSpec {
        (**self).source()
    }
}

/// Finds the source with a name.
#[must_use]
pub fn named<T: HasSourceSpec>(sources: impl IntoIterator<Item = T>, name: &str) -> Option<T> {
    sources
        .into_iter()
        .find(|listed| listed.source().name == name)
}

/// Returns the [`SourceEndpoint`]s of sources, each once: sources may share a service.
pub fn endpoints<T: HasSourceSpec + ?Sized + 'static>(
    sources: impl IntoIterator<Item = &'static T>,
) -> impl Iterator<Item = &'static SourceEndpoint> {
    let endpoints = |listed: &'static T| listed.source().endpoints.iter();
    let mut keys = BTreeSet::new();
    let endpoints = sources.into_iter().flat_map(endpoints).copied();
    endpoints.filter(move |endpoint| keys.insert(endpoint.key))
}

/// Returns the [`SourceCredential`]s of all sources.
pub fn credentials<T: HasSourceSpec + ?Sized + 'static>(
    sources: impl IntoIterator<Item = &'static T>,
) -> impl Iterator<Item = &'static SourceCredential> {
    let credentials = |listed: &'static T| listed.source().credentials.iter();
    sources.into_iter().flat_map(credentials).copied()
}

/// Writes a table in Markdown.
#[must_use]
pub fn markdown<const N: usize>(
    columns: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), " --- |".repeat(N));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_one_row_for_each_source() {
        let rows = ["arxiv", "doaj"].map(|name| [name.to_owned(), name.to_uppercase()]);
        assert_eq!(
            markdown(["name", "title"], rows),
            "| name | title |\n| --- | --- |\n| arxiv | ARXIV |\n| doaj | DOAJ |\n"
        );
    }
}
