//! The files for the person who ordered the papers: `report.html`, `missing.csv` and
//! `downloaded.csl.json`.
//!
//! The report begins with works, not with requests. It counts the works that were ordered,
//! downloaded, not openly available, failed, or waiting. Every missing work has its reason in plain
//! words, and the best link for a person.

mod html;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use docstokg_bulk::queue::{QueueError, WorkQueue};
use docstokg_hub::files::{beside, write_whole};

use super::{RunOptions, RunReport};
use crate::export::{ExportedWork, csl_item, each_row, each_work};
use crate::results::{ResultRow, ResultStatus, csv_cell};

/// Maximum number of works of each kind on the page; the files contain all.
const MAX_LISTED_WORKS: usize = 2_000;

/// A file that is written work by work, and replaces its final path only when complete.
struct GrowingFile {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
}

impl GrowingFile {
    fn create(path: PathBuf) -> io::Result<Self> {
        let part = beside(&path);
        Ok(Self {
            file: BufWriter::new(File::create(&part)?),
            path,
            part,
        })
    }

    fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        std::fs::rename(&self.part, &self.path)
    }
}

/// Writes the lists of works as they come, and gathers those of the page.
struct WorkLists {
    missing: GrowingFile,
    references: GrowingFile,
    is_first: bool,
    page: html::PageWorks,
}

impl WorkLists {
    fn create(out: &Path) -> io::Result<Self> {
        let (mut missing, references) = (
            GrowingFile::create(out.join("missing.csv"))?,
            GrowingFile::create(out.join("downloaded.csl.json"))?,
        );
        missing
            .file
            .write_all(b"id,title,reason,link,host,until\n")?;
        Ok(Self {
            missing,
            references,
            is_first: true,
            page: html::PageWorks::default(),
        })
    }

    fn take(&mut self, exported: &ExportedWork) -> io::Result<()> {
        let work = &exported.work;
        if work.status == ResultStatus::Downloaded {
            let before = if std::mem::replace(&mut self.is_first, false) {
                "[\n"
            } else {
                ",\n"
            };
            write!(self.references.file, "{before}{}", csl_item(exported, ""))?;
        } else {
            let wait = work.wait.as_ref();
            let until = wait.map_or_else(String::new, |wait| wait.ready_at().to_string());
            let cells: [&str; 6] = [
                &work.work_id,
                work.title.as_deref().unwrap_or_default(),
                &work.reason,
                &work.link,
                wait.map_or("", |wait| &wait.host),
                &until,
            ];
            let cells = cells.map(csv_cell);
            writeln!(self.missing.file, "{}", cells.join(","))?;
        }
        self.page.take(work);
        Ok(())
    }

    /// Finishes the lists, and returns the [`html::PageWorks`].
    fn finish(mut self) -> io::Result<html::PageWorks> {
        self.references
            .file
            .write_all(if self.is_first { b"[]\n" } else { b"\n]\n" })?;
        self.missing.finish()?;
        self.references.finish()?;
        Ok(self.page)
    }
}

/// Writes the tables of lines: all of them, and those that were not recognised.
struct LineTables {
    results: GrowingFile,
    unrecognised: GrowingFile,
    has_unrecognised: bool,
}

impl LineTables {
    fn create(out: &Path) -> io::Result<Self> {
        let (mut results, mut unrecognised) = (
            GrowingFile::create(out.join("results.csv"))?,
            GrowingFile::create(out.join("unrecognised.csv"))?,
        );
        ResultRow::write_header(&mut results.file)?;
        unrecognised.file.write_all(b"file,line,input,problem\n")?;
        Ok(Self {
            results,
            unrecognised,
            has_unrecognised: false,
        })
    }

    fn take(&mut self, row: &ResultRow<'_>) -> io::Result<()> {
        if let Err(problem) = row.work {
            self.has_unrecognised = true;
            let line = row.place.line.unwrap_or_default().to_string();
            let cells = [row.place.file, &line, row.place.input, problem].map(csv_cell);
            writeln!(self.unrecognised.file, "{}", cells.join(","))?;
        }
        row.write_csv(&mut self.results.file)
    }

    fn finish(self) -> io::Result<()> {
        let unrecognised = self.unrecognised.path.clone();
        self.results.finish()?;
        self.unrecognised.finish()?;
        if !self.has_unrecognised {
            std::fs::remove_file(unrecognised)?;
        }
        Ok(())
    }
}

/// Writes the files for the person who ordered the papers.
///
/// # Errors
/// The queue cannot be read, or a file cannot be written.
pub async fn deliver(
    queue: &WorkQueue,
    options: &RunOptions,
    report: &RunReport,
) -> Result<(), QueueError> {
    let out = &options.out;
    let unwritable = |error: io::Error| QueueError::Sqlite {
        path: out.display().to_string(),
        why: format!("the report cannot be written: {error}"),
    };
    let tables = LineTables::create(out).map_err(unwritable)?;
    let tables = each_row(queue, tables, LineTables::take).await?;
    tables.finish().map_err(unwritable)?;
    let lists = WorkLists::create(out).map_err(unwritable)?;
    let lists = each_work(queue, lists, true, WorkLists::take).await?;
    let works = lists.finish().map_err(unwritable)?;
    write_whole(&out.join("report.html"), &works.write(report)).map_err(unwritable)
}
