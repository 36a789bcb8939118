//! The metadata of an RO-Crate 1.1: a flat list of entities that name each other.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Write};

use docstokg_hub::clock::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{ExportOutput, ExportedWork, json_ld};
use crate::digest::Fingerprint;

/// Everything that is not plainly harmless in a relative address.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// The files of a run that are part of the crate beside papers.
const DELIVERABLES: [(&str, &str, &str); 1] = [(
    "results.csv",
    "text/csv",
    "The lines of the list, and what became of them",
)];

/// The entity that stands for the licences of all files.
const LICENCES: &str = "#licences";

/// Writes a crate: first the names of its files, then what they are.
pub(super) struct CrateWriter {
    out: ExportOutput,
    /// Files that were named, and later those that were described: two works may share one.
    files: HashSet<Fingerprint>,
    licences: BTreeSet<String>,
}

impl CrateWriter {
    /// Writes what stands before the names of files.
    pub(super) fn begin(mut out: ExportOutput, now: Timestamp) -> io::Result<Self> {
        let descriptor = json!({
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "conformsTo": { "@id": "https://w3id.org/ro/crate/1.1" },
            "about": { "@id": "./" },
        });
        let licences = json!({
            "@id": LICENCES,
            "@type": "CreativeWork",
            "name": "The licence of each file",
            "description": "Every file has the licence that its own entity states, if one is known.",
        });
        writeln!(
            out,
            "{{\"@context\": \"https://w3id.org/ro/crate/1.1/context\", \"@graph\": [\n{descriptor},\n{licences},"
        )?;
        for (path, media_type, description) in DELIVERABLES {
            let file = json!({
                "@id": path, "@type": "File", "name": path,
                "encodingFormat": media_type, "description": description,
            });
            writeln!(out, "{file},")?;
        }
        let root = json!({
            "@id": "./",
            "@type": "Dataset",
            "name": "Scholarly works",
            "description": "Scholarly works downloaded by docstokg, with their metadata and sources",
            "datePublished": now.to_string(),
            "license": { "@id": LICENCES },
        });
        // The list of parts ends the entity, so that it can grow.
        let root = root.to_string();
        let parts = DELIVERABLES.map(|(path, _, _)| json!({ "@id": path }).to_string());
        let open = root.strip_suffix('}').unwrap_or(&root);
        write!(out, "{open}, \"hasPart\": [{}", parts.join(", "))?;
        Ok(Self {
            out,
            files: HashSet::new(),
            licences: BTreeSet::new(),
        })
    }

    /// Names the files of a work as parts of the crate.
    pub(super) fn name_files(&mut self, work: &ExportedWork) -> io::Result<()> {
        for file in &work.work.files {
            if self.files.insert(Fingerprint::of(&file.path)) {
                write!(self.out, ", {}", json!({ "@id": address(&file.path) }))?;
            }
        }
        Ok(())
    }

    /// Ends the names of files.
    pub(super) fn end_names(&mut self) -> io::Result<()> {
        self.files.clear();
        write!(self.out, "]}}")
    }

    /// Describes a work, its authors and its files.
    pub(super) fn describe(&mut self, work: &ExportedWork) -> io::Result<()> {
        let id = format!("#work-{}", work.work.item);
        let mut node = json_ld::described(work);
        node["@id"] = json!(id);
        // Entities are flat: what has a type of its own is named, or left to the text.
        flatten(&mut node, "publisher");
        flatten(&mut node, "isPartOf");
        if let Some(fields) = node.as_object_mut() {
            fields.remove("license");
        }
        if !work.work.link.is_empty() {
            node["url"] = json!(work.work.link);
        }
        let ids = identifiers(&node);
        json_ld::put(&mut node, "identifier", ids);
        let authors = &work.metadata.statement.authors;
        let mut names = Vec::new();
        for (nth, author) in authors.iter().enumerate() {
            let mut person = json_ld::person(author);
            let name = format!("{id}-author-{}", nth + 1);
            person["@id"] = json!(name);
            names.push(json!({ "@id": name }));
            self.entity(&person)?;
        }
        json_ld::put(&mut node, "author", Value::Array(names));
        let files = work.work.files.iter();
        let files: Vec<Value> = files
            .map(|file| json!({ "@id": address(&file.path) }))
            .collect();
        json_ld::put(&mut node, "encoding", Value::Array(files));
        self.entity(&node)?;
        self.describe_files(work, &id)
    }

    fn describe_files(&mut self, work: &ExportedWork, id: &str) -> io::Result<()> {
        for file in &work.work.files {
            if !self.files.insert(Fingerprint::of(&file.path)) {
                continue;
            }
            let mut node = json_ld::described_file(file);
            node["@id"] = json!(address(&file.path));
            node["@type"] = json!("File");
            node["name"] = json!(work.title());
            node["about"] = json!({ "@id": id });
            json_ld::put(&mut node, "isBasedOn", json!(file.url));
            let provider = file.source.as_ref();
            json_ld::put(&mut node, "sdPublisher", json!(provider));
            if let Some(name) = file.licence_name() {
                let licence = self.licence(&name)?;
                node["license"] = json!({ "@id": licence });
            }
            self.entity(&node)?;
        }
        Ok(())
    }

    /// Returns the identity of a licence, and describes a new one.
    fn licence(&mut self, name: &str) -> io::Result<String> {
        let is_listed = spdx_name(name);
        let id = if is_listed {
            format!("https://spdx.org/licenses/{name}")
        } else {
            format!("#licence-{:.16}", Fingerprint::of(name))
        };
        if self.licences.insert(id.clone()) {
            let description = if is_listed {
                "An SPDX licence"
            } else {
                "As the source states it"
            };
            let node = json!({
                "@id": id, "@type": "CreativeWork", "name": name, "description": description,
            });
            self.entity(&node)?;
        }
        Ok(id)
    }

    fn entity(&mut self, node: &Value) -> io::Result<()> {
        let mut node = node.clone();
        for value in node
            .as_object_mut()
            .into_iter()
            .flat_map(|it| it.values_mut())
        {
            // The profile wants one value alone, and not as a list.
            if let Some([single]) = value.as_array().map(Vec::as_slice) {
                *value = single.clone();
            }
        }
        write!(self.out, ",\n{node}")
    }

    /// Ends the document.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}

/// Writes a path as a relative address.
fn address(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// Tells whether a licence is one of the list of SPDX.
fn spdx_name(name: &str) -> bool {
    let read = docstokg_lookup::licence::SourceLicence::read(name);
    read.and_then(|licence| licence.spdx).as_deref() == Some(name)
}

/// Puts the name of a nested entity in its place.
fn flatten(node: &mut Value, key: &str) {
    let name = node.get(key).and_then(|nested| nested.get("name")).cloned();
    if let Some(name) = name {
        node[key] = name;
    }
}

/// Writes identifiers as texts: `doi:10.1234/a`.
fn identifiers(node: &Value) -> Value {
    let listed = node.get("identifier").and_then(Value::as_array);
    let text = |id: &Value| {
        let (kind, value) = (id["propertyID"].as_str()?, id["value"].as_str()?);
        Some(json!(format!("{kind}:{value}")))
    };
    listed.into_iter().flatten().filter_map(text).collect()
}
