//! The works of a directory in the formats of reference managers, tables and knowledge graphs.
//!
//! Every format is a pure function of one work, or of one line of the list; works stream from the
//! queue, so that a list of any length fits.

mod bibtex;
mod csl;
mod json_ld;
mod ris;
mod ro_crate;

use std::io::{self, Write};
use std::sync::Arc;

use docstokg_bulk::queue::{ItemRow, QueueError, WorkQueue};
use docstokg_hub::clock::Timestamp;
use parking_lot::Mutex;

pub(crate) use csl::item as csl_item;

use crate::identifier::Identifier;
use crate::metadata::{MetadataStatement, SourcedStatement, WorkMetadata};
use crate::results::{DeliveredWork, ResultRow, ResultTable};
use crate::work::Identifiers;
use ro_crate::CrateWriter;

/// A format of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// BibTeX, with the paths of files.
    Bibtex,
    /// RIS, with the paths of files.
    Ris,
    /// CSL-JSON.
    Csl,
    /// The table of all lines.
    Csv,
    /// Linked data in the words of schema.org.
    JsonLd,
    /// The metadata file of an RO-Crate.
    RoCrate,
}

impl ExportFormat {
    /// Every format.
    pub const ALL: [Self; 6] = [
        Self::Bibtex,
        Self::Ris,
        Self::Csl,
        Self::Csv,
        Self::JsonLd,
        Self::RoCrate,
    ];

    /// Returns the word of the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bibtex => "bibtex",
            Self::Ris => "ris",
            Self::Csl => "csl",
            Self::Csv => "csv",
            Self::JsonLd => "jsonld",
            Self::RoCrate => "ro-crate",
        }
    }

    /// Returns the file of the directory that the format belongs into, if it has one.
    #[must_use]
    pub const fn file_name(self) -> Option<&'static str> {
        match self {
            Self::RoCrate => Some("ro-crate-metadata.json"),
            _ => None,
        }
    }
}

/// The contents of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The format.
    pub format: ExportFormat,
    /// The prefix of the paths of files: the way from the export to the directory, with a slash
    /// at its end.
    pub path_prefix: String,
    /// Works without a file are exported as well. Tables always have them.
    pub with_missing: bool,
    /// When it is made.
    pub now: Timestamp,
}

/// A work with its merged metadata.
#[derive(Clone, Debug)]
pub(crate) struct ExportedWork {
    pub(crate) work: DeliveredWork,
    pub(crate) metadata: WorkMetadata,
}

impl ExportedWork {
    /// Joins a work with the statements of its sources.
    pub(crate) fn of(row: ItemRow, metadata: Vec<(String, Timestamp, String)>) -> Self {
        let work = DeliveredWork::of(row);
        let mut identifiers = Identifiers::default();
        let names = [Some(&work.work_id), work.doi.as_ref()];
        for name in names.into_iter().flatten() {
            if let Ok(identifier) = Identifier::parse(name) {
                identifiers.insert(identifier);
            }
        }
        let mut statements = SourcedStatement::of_rows(metadata);
        // What the record knows is the last resort.
        statements.push(SourcedStatement {
            source: "manifest".to_owned(),
            at: Timestamp::EPOCH,
            statement: MetadataStatement {
                title: work.title.clone(),
                issued: work.year.map(|year| year.to_string()),
                ..MetadataStatement::default()
            },
        });
        let metadata = WorkMetadata::merge(&work.work_id, identifiers, statements);
        Self { work, metadata }
    }

    /// Returns the title, or the id of a work without one.
    fn title(&self) -> &str {
        let title = self.metadata.statement.title.as_deref();
        title.unwrap_or(&self.work.work_id)
    }

    /// Returns the year of publication.
    fn year(&self) -> Option<String> {
        let issued = self.metadata.statement.issued.as_deref()?;
        issued.get(..4).map(str::to_owned)
    }
}

/// The separation of the entries of a format.
struct TextFormat {
    begin: &'static str,
    between: &'static str,
    end: &'static str,
    entry: fn(&ExportedWork, &str) -> String,
}

impl TextFormat {
    fn of(format: ExportFormat) -> Option<Self> {
        let lines = |entry| Self {
            begin: "",
            between: "",
            end: "",
            entry,
        };
        match format {
            ExportFormat::Bibtex => Some(lines(bibtex::entry)),
            ExportFormat::Ris => Some(lines(ris::entry)),
            ExportFormat::Csl => Some(Self {
                begin: "[\n",
                between: ",\n",
                end: "\n]\n",
                entry: csl::entry,
            }),
            ExportFormat::JsonLd => Some(Self {
                begin: json_ld::BEGIN,
                between: ",\n",
                end: "\n]}\n",
                entry: json_ld::entry,
            }),
            ExportFormat::Csv | ExportFormat::RoCrate => None,
        }
    }
}

/// A place to write that a thread of the queue may use.
pub type ExportOutput = Box<dyn Write + Send>;

/// Writes the works of a directory.
///
/// # Errors
/// The queue cannot be read, or the output cannot be written.
pub async fn export(
    queue: &WorkQueue,
    options: &ExportOptions,
    out: ExportOutput,
) -> Result<(), QueueError> {
    match options.format {
        ExportFormat::Csv => write_csv(queue, out).await,
        ExportFormat::RoCrate => write_crate(queue, options, out).await,
        format => match TextFormat::of(format) {
            Some(layout) => write_texts(queue, options, layout, out).await,
            None => Ok(()),
        },
    }
}

fn unwritable(queue: &WorkQueue) -> impl Fn(io::Error) -> QueueError + use<> {
    let path = queue.path().display().to_string();
    move |error| QueueError::Sqlite {
        path: path.clone(),
        why: format!("its export cannot be written: {error}"),
    }
}

/// A writer that works pass through, and the first failure.
struct PassState<T> {
    writer: T,
    failed: Option<io::Error>,
}

/// Passes every work of a queue to a writer.
///
/// # Errors
/// The queue cannot be read, or the writer fails.
pub(crate) async fn each_work<T: Send + 'static>(
    queue: &WorkQueue,
    writer: T,
    with_missing: bool,
    write: fn(&mut T, &ExportedWork) -> io::Result<()>,
) -> Result<T, QueueError> {
    let state = Arc::new(Mutex::new(Some(PassState {
        writer,
        failed: None,
    })));
    let side = Arc::clone(&state);
    let pass = queue.each_described_item(move |row, metadata| {
        if let Some(state) = &mut *side.lock()
            && state.failed.is_none()
        {
            let work = ExportedWork::of(row, metadata);
            if with_missing || !work.work.files.is_empty() {
                state.failed = write(&mut state.writer, &work).err();
            }
        }
    });
    pass.await?;
    finish(queue, &state)
}

/// Passes every row of the table of results to a writer.
///
/// # Errors
/// The queue cannot be read, or the writer fails.
pub(crate) async fn each_row<T: Send + 'static>(
    queue: &WorkQueue,
    writer: T,
    write: fn(&mut T, &ResultRow<'_>) -> io::Result<()>,
) -> Result<T, QueueError> {
    let state = Arc::new(Mutex::new(Some(PassState {
        writer: (ResultTable::default(), writer),
        failed: None,
    })));
    let side = Arc::clone(&state);
    let lines = queue.each_line(move |line| {
        if let Some(state) = &mut *side.lock()
            && state.failed.is_none()
        {
            let (table, writer) = &mut state.writer;
            state.failed = table.line(line, |row| write(writer, row)).err();
        }
    });
    lines.await?;
    let side = Arc::clone(&state);
    let works = queue.each_unlisted_item(move |item| {
        if let Some(state) = &mut *side.lock()
            && state.failed.is_none()
        {
            let (table, writer) = &mut state.writer;
            state.failed = table.item(item, |row| write(writer, row)).err();
        }
    });
    works.await?;
    finish(queue, &state).map(|(_, writer)| writer)
}

fn finish<T>(queue: &WorkQueue, state: &Mutex<Option<PassState<T>>>) -> Result<T, QueueError> {
    let failed = unwritable(queue);
    match state.lock().take() {
        Some(PassState {
            failed: Some(error),
            ..
        }) => Err(failed(error)),
        Some(state) => Ok(state.writer),
        None => Err(failed(io::Error::other("the pass was cut off"))),
    }
}

async fn write_csv(queue: &WorkQueue, mut out: ExportOutput) -> Result<(), QueueError> {
    let failed = unwritable(queue);
    ResultRow::write_header(&mut out).map_err(&failed)?;
    let mut out = each_row(queue, out, |out, row| row.write_csv(out)).await?;
    out.flush().map_err(failed)
}

/// An output with the layout of its entries.
struct TextWriter {
    out: ExportOutput,
    layout: TextFormat,
    prefix: String,
    is_first: bool,
}

impl TextWriter {
    fn work(&mut self, work: &ExportedWork) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.out.write_all(self.layout.between.as_bytes())?;
        }
        let entry = (self.layout.entry)(work, &self.prefix);
        self.out.write_all(entry.as_bytes())
    }
}

async fn write_texts(
    queue: &WorkQueue,
    options: &ExportOptions,
    layout: TextFormat,
    mut out: ExportOutput,
) -> Result<(), QueueError> {
    let failed = unwritable(queue);
    out.write_all(layout.begin.as_bytes()).map_err(&failed)?;
    let end = layout.end;
    let writer = TextWriter {
        out,
        layout,
        prefix: options.path_prefix.clone(),
        is_first: true,
    };
    let mut writer = each_work(queue, writer, options.with_missing, TextWriter::work).await?;
    let out = &mut writer.out;
    out.write_all(end.as_bytes())
        .and_then(|()| out.flush())
        .map_err(failed)
}

/// Writes the metadata of a crate: a first pass names its files, a second describes them.
async fn write_crate(
    queue: &WorkQueue,
    options: &ExportOptions,
    out: ExportOutput,
) -> Result<(), QueueError> {
    let failed = unwritable(queue);
    let writer = CrateWriter::begin(out, options.now).map_err(&failed)?;
    let mut writer = each_work(queue, writer, false, CrateWriter::name_files).await?;
    writer.end_names().map_err(&failed)?;
    let writer = each_work(queue, writer, false, CrateWriter::describe).await?;
    writer.finish().map_err(failed)
}

#[cfg(test)]
mod tests;
