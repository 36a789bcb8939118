//! The normalised form of an RDF file: its statements as sorted canonical N-Triples, each once.
//!
//! Lines are sorted by their bytes, in temporary files if the input is large. The output appears
//! under its name when it is complete. Blank nodes are named `b0`, `b1` and so on in the order of
//! the file: the same file always gives the same bytes. Two serialisations of one graph may differ
//! in lines with blank nodes.
//!
//! An OBO file is normalised as the statements of its mapping to OWL. Its blank nodes are named by
//! their content, so that files with the same stanzas in another order give the same bytes.

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use docstokg_hub::files::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::canonical::{BlankLabels, write_line};
use super::obo::{OboNames, read_obo_statements};
use super::report::FormatProblem;
use super::sort::LineSorter;
use super::statement::RdfStatement;
use super::statements::{FormatProblems, Stop, read_counted};
use super::{OntologyFormat, ReadOptions};

/// Memory of lines before they are written to temporary files, in bytes.
const SORT_MEMORY_BYTES: usize = 48 << 20;
/// Maximum number of blank nodes that are numbered.
const MAX_BLANK_NODES: usize = 4_000_000;

/// The result of [`normalize`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NormalizedFile {
    /// Number of distinct statements, one per line.
    pub statements: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
    /// True if the lines are N-Quads, because statements are in named graphs.
    pub has_named_graphs: bool,
    /// Number of statements with a blank node.
    pub statements_with_blank_nodes: u64,
}

/// The reason why [`normalize`] failed.
#[derive(Debug, thiserror::Error)]
pub enum NormalizeError {
    /// The format has neither RDF statements nor a mapping to them.
    #[error("{0} has no normalised form: only RDF formats and OBO have one")]
    NoNormalForm(OntologyFormat),
    /// The file is invalid; this is the first error.
    #[error("the file cannot be normalised: {0}")]
    Invalid(FormatProblem),
    /// The file could not be read, or the normalised form could not be written.
    #[error("cannot read the file or write its normalised form: {0}")]
    Io(#[from] io::Error),
}

/// Writes the normalised form of a file to `target`, which is replaced in one step.
///
/// Temporary files lie in the directory of `target`. Memory does not grow with the file, except for
/// about 40 bytes per blank node.
///
/// # Errors
/// [`NormalizeError`] if the format has no normalised form, the file has an error, or a file
/// operation fails. Then `target` is unchanged.
pub fn normalize(
    reader: impl Read + Send,
    format: OntologyFormat,
    options: &ReadOptions,
    target: &Path,
) -> Result<NormalizedFile, NormalizeError> {
    if !format.has_normal_form() {
        return Err(NormalizeError::NoNormalForm(format));
    }
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut sorter = LineSorter::new(directory, SORT_MEMORY_BYTES);
    let mut result = NormalizedFile {
        statements: 0,
        bytes: 0,
        sha256: String::new(),
        has_named_graphs: false,
        statements_with_blank_nodes: 0,
    };
    if format == OntologyFormat::Obo {
        let names = collect_obo(reader, options, &mut sorter, &mut result)?;
        sorter = with_relations_resolved(sorter, directory, &names)?;
    } else {
        collect(reader, format, options, &mut sorter, &mut result)?;
    }
    write_sorted(sorter, directory, target, &mut result)?;
    Ok(result)
}

fn collect(
    reader: impl Read + Send,
    format: OntologyFormat,
    options: &ReadOptions,
    sorter: &mut LineSorter,
    result: &mut NormalizedFile,
) -> Result<(), NormalizeError> {
    let mut problems = FormatProblems::new(&options.limits);
    let mut labels = BlankNodeNumbers::default();
    let mut line = Vec::new();
    let mut failure = None;
    let mut expanded = 0_u64;
    let count = Arc::new(AtomicU64::new(0));
    read_counted(
        reader,
        format,
        options,
        &count,
        &mut problems,
        &mut |quad| {
            result.has_named_graphs |= !quad.graph_name.is_default_graph();
            line.clear();
            write_line(&quad, &mut labels, &mut line);
            expanded += line.len() as u64;
            if labels.numbers.len() > MAX_BLANK_NODES {
                return Err(Stop::Refused(FormatProblem::of_file(format!(
                    "the file has more than {MAX_BLANK_NODES} blank nodes"
                ))));
            }
            if expanded
                > options
                    .limits
                    .expansion_allowed(count.load(Ordering::Relaxed))
            {
                return Err(Stop::Refused(FormatProblem::of_file(
                    "the statements expand to too much text",
                )));
            }
            result.statements_with_blank_nodes +=
                u64::from(RdfStatement::of(&quad).has_blank_node());
            sorter.push(&line).map_err(|error| {
                failure = Some(error);
                Stop::Done
            })
        },
    )?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    if let Some(url) = problems.contexts_not_loaded.first() {
        let message = format!("the remote context {url} is not loaded");
        return Err(NormalizeError::Invalid(FormatProblem::of_file(message)));
    }
    match problems.errors.into_iter().next() {
        Some(problem) => Err(NormalizeError::Invalid(problem)),
        None => Ok(()),
    }
}

/// Collects the statements of an OBO file, and returns the names of the file.
fn collect_obo(
    reader: impl Read,
    options: &ReadOptions,
    sorter: &mut LineSorter,
    result: &mut NormalizedFile,
) -> Result<OboNames, NormalizeError> {
    let mut problems = FormatProblems::new(&options.limits);
    let mut line = Vec::new();
    let mut failure = None;
    let names = read_obo_statements(reader, options, &mut problems, &mut |quad| {
        line.clear();
        write_line(&quad, &mut ContentLabels, &mut line);
        result.statements_with_blank_nodes += u64::from(RdfStatement::of(&quad).has_blank_node());
        if failure.is_none() {
            failure = sorter.push(&line).err();
        }
    })?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    match problems.errors.into_iter().next() {
        Some(problem) => Err(NormalizeError::Invalid(problem)),
        None => Ok(names),
    }
}

/// Gives relations with a short name their IRI, which stands at the end of an OBO file.
fn with_relations_resolved(
    sorter: LineSorter,
    directory: &Path,
    names: &OboNames,
) -> io::Result<LineSorter> {
    if !names.has_aliases() {
        return Ok(sorter);
    }
    let mut resolved = LineSorter::new(directory, SORT_MEMORY_BYTES);
    sorter.finish(&mut |line| {
        let text = std::str::from_utf8(line).unwrap_or_default();
        match names.resolved(text) {
            Some(text) => resolved.push(text.as_bytes()),
            None => resolved.push(line),
        }
    })?;
    Ok(resolved)
}

/// Keeps labels that name blank nodes by their content.
struct ContentLabels;

impl BlankLabels for ContentLabels {
    fn write_label(&mut self, label: &str, line: &mut Vec<u8>) {
        line.extend_from_slice(b"_:");
        line.extend_from_slice(label.as_bytes());
    }
}

fn write_sorted(
    sorter: LineSorter,
    directory: &Path,
    target: &Path,
    result: &mut NormalizedFile,
) -> Result<(), NormalizeError> {
    let file = tempfile::NamedTempFile::new_in(directory)?;
    let mut writer = BufWriter::with_capacity(256 << 10, file);
    let mut digest = Sha256::new();
    sorter.finish(&mut |line| {
        result.statements += 1;
        result.bytes += line.len() as u64 + 1;
        digest.update(line);
        digest.update(b"\n");
        writer.write_all(line)?;
        writer.write_all(b"\n")
    })?;
    let file = writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(target).map_err(|error| error.error)?;
    result.sha256 = hex(&digest.finalize());
    Ok(())
}

/// Numbers blank nodes in their order of appearance. Labels are compared by a hash.
#[derive(Default)]
struct BlankNodeNumbers {
    numbers: HashMap<u64, u32>,
}

impl BlankLabels for BlankNodeNumbers {
    fn write_label(&mut self, label: &str, line: &mut Vec<u8>) {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = *self
            .numbers
            .entry(super::tally::term_key(label))
            .or_insert(next);
        let _ = write!(line, "_:b{number}");
    }
}
