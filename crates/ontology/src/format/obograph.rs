//! OBO Graph JSON, streamed: one node or edge is in memory at a time, and every field is optional.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::ReadOptions;
use super::canonical::StatementHash;
use super::guard::{CountedReader, SharedWatch, json::JsonGuard};
use super::report::{
    ContentHash, DeclaredLicence, DeclaredVersion, FormatProblem, ValidationReport, VersionOrigin,
};
use super::statements::{FormatProblems, shorten};
use super::tally::{DistinctTerms, SeenTerms, term_key};
use super::vocabulary::{OWL_VERSION_INFO, states_licence};

/// The scheme of hashes over nodes (id, type, label, definition, obsolete) and edges.
const SCHEME: &str = "sum-sha256-obograph-nodes-edges-1";
/// Maximum number of values that are kept of a list in the metadata.
const MAX_LIST: usize = 1000;

/// A part of a graph, as the callback of [`read_obograph`] receives it.
pub(crate) enum GraphPart {
    Node(GraphNode),
    Edge(Edge),
    Head {
        id: Option<String>,
        meta: Option<GraphMeta>,
        imports: Vec<String>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GraphNode {
    pub id: Option<String>,
    pub lbl: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub meta: Option<GraphMeta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Edge {
    #[serde(alias = "subj")]
    pub sub: Option<String>,
    pub pred: Option<String>,
    pub obj: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct GraphMeta {
    pub definition: Option<PropertyValue>,
    pub deprecated: Option<bool>,
    pub version: Option<String>,
    basic_property_values: CappedList<PropertyValue>,
    pub synonyms: CappedList<PropertyValue>,
    pub xrefs: CappedList<PropertyValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PropertyValue {
    pub pred: Option<String>,
    pub val: Option<String>,
}

/// A list that keeps its first [`MAX_LIST`] values.
#[derive(Debug)]
pub(crate) struct CappedList<T>(Vec<T>);

impl<T> CappedList<T> {
    /// Returns the values that are kept.
    pub(crate) fn values(&self) -> &[T] {
        &self.0
    }
}

impl<T> Default for CappedList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for CappedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = CappedList<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(CappedList::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while values.len() < MAX_LIST {
                    match seq.next_element()? {
                        Some(value) => values.push(value),
                        None => return Ok(CappedList(values)),
                    }
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(CappedList(values))
            }
        }
        deserializer.deserialize_any(List(PhantomData))
    }
}

type OnPart<'a> = dyn FnMut(GraphPart) + 'a;

/// The outermost object: `graphs`, or the fields of one graph.
struct GraphDocument<'a, 'b>(&'a mut OnPart<'b>);
/// The list of [`Graph`]s.
struct Graphs<'a, 'b>(&'a mut OnPart<'b>);
/// A graph of an OBO Graph document.
struct Graph<'a, 'b>(&'a mut OnPart<'b>);
/// The nodes or edges of a [`Graph`].
struct GraphParts<'a, 'b, T>(&'a mut OnPart<'b>, fn(T) -> GraphPart);

macro_rules! seeds {
    ($($name:ident $method:ident;)*) => {$(
        impl<'de> DeserializeSeed<'de> for $name<'_, '_> {
            type Value = ();
            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                deserializer.$method(self)
            }
        }
    )*};
}

seeds! {
    GraphDocument deserialize_map;
    Graphs deserialize_seq;
    Graph deserialize_map;
}

impl<'de> Visitor<'de> for GraphDocument<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an OBO graph document")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut has_graph = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "graphs" => {
                    has_graph = true;
                    map.next_value_seed(Graphs(self.0))?;
                }
                "nodes" => {
                    has_graph = true;
                    map.next_value_seed(GraphParts(self.0, GraphPart::Node))?;
                }
                "edges" => map.next_value_seed(GraphParts(self.0, GraphPart::Edge))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if has_graph {
            Ok(())
        } else {
            Err(serde::de::Error::custom("there are no graphs"))
        }
    }
}

impl<'de> Visitor<'de> for Graphs<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of graphs")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Graph(self.0))?.is_some() {}
        Ok(())
    }
}

impl<'de> Visitor<'de> for Graph<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a graph")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut id, mut meta, mut imports) = (None, None, CappedList::<String>::default());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "nodes" => map.next_value_seed(GraphParts(self.0, GraphPart::Node))?,
                "edges" => map.next_value_seed(GraphParts(self.0, GraphPart::Edge))?,
                "id" => id = map.next_value()?,
                "meta" => meta = map.next_value()?,
                "imports" => imports = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        (self.0)(GraphPart::Head {
            id,
            meta,
            imports: imports.0,
        });
        Ok(())
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for GraphParts<'_, '_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for GraphParts<'_, '_, T> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes or edges")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(part) = seq.next_element::<T>()? {
            (self.0)((self.1)(part));
        }
        Ok(())
    }
}

/// Reads an OBO Graph document and returns its length in bytes.
///
/// # Errors
/// The I/O error of `reader`.
pub(crate) fn read_obograph(
    reader: impl Read,
    options: &ReadOptions,
    problems: &mut FormatProblems,
    on_part: &mut OnPart<'_>,
) -> io::Result<u64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = CountedReader::new(reader, Arc::clone(&count), options.limits.max_bytes);
    let too_large = Arc::clone(&counted.exceeded);
    let watch = SharedWatch::default();
    let guard = JsonGuard::new(counted, &options.limits, Arc::clone(&watch));
    let reader = BufReader::with_capacity(256 << 10, guard);
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let read = GraphDocument(on_part)
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end());
    if let Err(error) = read {
        if let Some(problem) = watch.lock().failure.take() {
            problems.error(problem);
        } else if error.is_io() && !too_large.load(Ordering::Relaxed) {
            return Err(error.into());
        } else {
            problems.error(FormatProblem {
                line: (error.line() > 0).then_some(error.line() as u64),
                column: (error.line() > 0).then_some(error.column() as u64),
                message: shorten(&error.to_string()),
            });
        }
    }
    Ok(count.load(Ordering::Relaxed))
}

pub(crate) fn validate_obograph(
    reader: impl Read,
    options: &ReadOptions,
    report: &mut ValidationReport,
    problems: &mut FormatProblems,
) -> io::Result<()> {
    let mut distinct = DistinctTerms::new(&options.limits);
    let mut seen = SeenTerms::default();
    let mut hash = StatementHash::default();
    let mut nodes_without_id = 0_u64;
    let bytes = read_obograph(reader, options, problems, &mut |part| {
        report.statements += u64::from(!matches!(part, GraphPart::Head { .. }));
        hash_part(&part, &mut hash);
        match part {
            GraphPart::Node(node) => match &node.id {
                Some(id) => {
                    let key = term_key(id);
                    seen.terms.push(key);
                    if node.meta.is_some_and(|meta| meta.deprecated == Some(true)) {
                        seen.obsolete.push(key);
                    }
                }
                None => nodes_without_id += 1,
            },
            GraphPart::Edge(_) => (),
            GraphPart::Head { id, meta, imports } => read_head(report, id, meta, imports),
        }
        if seen.terms.len() > 4096 {
            distinct.add(&mut seen);
        }
    })?;
    distinct.add(&mut seen);
    if nodes_without_id > 0 {
        problems.warning(FormatProblem::of_file(format!(
            "{nodes_without_id} nodes have no id"
        )));
    }
    report.bytes = bytes;
    report.terms = distinct.terms();
    report.obsolete = distinct.obsolete();
    report.terms_exact = distinct.is_exact();
    report.content_hash = Some(ContentHash {
        scheme: SCHEME.to_owned(),
        hex: hash.to_string(),
    });
    Ok(())
}

fn hash_part(part: &GraphPart, hash: &mut StatementHash) {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let fields = match part {
        GraphPart::Node(node) => {
            let meta = node.meta.as_ref();
            let definition = meta.and_then(|meta| meta.definition.as_ref());
            let obsolete = meta.and_then(|meta| meta.deprecated).unwrap_or(false);
            let definition = definition
                .map(|definition| text(&definition.val))
                .unwrap_or_default();
            vec![
                text(&node.id),
                text(&node.kind),
                text(&node.lbl),
                definition,
                obsolete.to_string(),
            ]
        }
        GraphPart::Edge(edge) => vec![text(&edge.sub), text(&edge.pred), text(&edge.obj)],
        GraphPart::Head { .. } => return,
    };
    hash.add_line(fields.join("\u{1f}").as_bytes());
}

/// Reads the head of the first graph, which is the ontology. Further graphs are its imports.
fn read_head(
    report: &mut ValidationReport,
    id: Option<String>,
    meta: Option<GraphMeta>,
    imports: Vec<String>,
) {
    if report.ontology_iri.is_some() {
        return;
    }
    report.ontology_iri = id
        .map(|id| id.trim().to_owned())
        .filter(|id| !id.is_empty());
    report.imports = imports;
    let Some(meta) = meta else { return };
    if let Some(value) = meta.version.filter(|version| !version.trim().is_empty()) {
        report.versions.push(DeclaredVersion {
            value,
            origin: VersionOrigin::VersionIri,
        });
    }
    for PropertyValue { pred, val } in meta.basic_property_values.0 {
        let (Some(property), Some(value)) = (pred, val) else {
            continue;
        };
        if property == OWL_VERSION_INFO {
            report.versions.push(DeclaredVersion {
                value,
                origin: VersionOrigin::VersionInfo,
            });
        } else if states_licence(&property) {
            report.licences.push(DeclaredLicence { property, value });
        }
    }
}
