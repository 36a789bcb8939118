//! One row of `results.csv`: a line of a list, and what became of it.

use std::borrow::Cow;

use super::{DeliveredWork, ResultStatus};

/// A line of a list, and what became of it.
#[derive(Clone, Copy, Debug)]
pub struct ResultRow<'a> {
    /// The place of the line.
    pub place: RowPlace<'a>,
    /// Its result.
    pub status: ResultStatus,
    /// Its work, or what is wrong with the line.
    pub work: Result<&'a DeliveredWork, &'a str>,
}

/// The place of a line, and its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowPlace<'a> {
    /// The line, short and without secrets.
    pub input: &'a str,
    /// The file, `-` for stdin, `command line`, or a page of a query.
    pub file: &'a str,
    /// The number of the line; `None` for a work that no line names any more.
    pub line: Option<u64>,
}

/// A column: its name, and its value.
type Column = (&'static str, fn(&ResultRow<'_>) -> Option<ColumnValue>);

/// The value of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnValue {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

impl ColumnValue {
    /// Returns the value as text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(number) => Cow::Owned(number.to_string()),
        }
    }
}

fn some(text: &str) -> Option<ColumnValue> {
    (!text.is_empty()).then(|| ColumnValue::Text(text.to_owned()))
}

fn own(text: Option<String>) -> Option<ColumnValue> {
    text.filter(|text| !text.is_empty()).map(ColumnValue::Text)
}

fn of_file(
    row: &ResultRow<'_>,
    read: impl FnOnce(&super::DeliveredFile) -> Option<String>,
) -> Option<ColumnValue> {
    own(row.work.ok()?.files.first().and_then(read))
}

/// The columns, in their order. The table grows at its end.
const COLUMNS: [Column; 21] = [
    ("input", |row| some(row.place.input)),
    ("file", |row| some(row.place.file)),
    ("line", |row| row.place.line.map(ColumnValue::Number)),
    ("id", |row| some(&row.work.ok()?.work_id)),
    ("doi", |row| own(row.work.ok()?.doi.clone())),
    ("title", |row| own(row.work.ok()?.title.clone())),
    ("status", |row| some(row.status.as_str())),
    ("reason", |row| some(&row.reason())),
    ("until", |row| {
        let wait = row.work.ok()?.wait.as_ref()?;
        own(Some(wait.ready_at().to_string()))
    }),
    ("path", |row| of_file(row, |file| Some(file.path.clone()))),
    ("sha256", |row| {
        of_file(row, |file| Some(file.sha256.clone()))
    }),
    ("bytes", |row| {
        let file = row.work.ok()?.files.first()?;
        file.bytes.map(ColumnValue::Number)
    }),
    ("licence", |row| {
        of_file(row, super::DeliveredFile::licence_name)
    }),
    ("version", |row| of_file(row, |file| file.version.clone())),
    ("source", |row| of_file(row, |file| file.source.clone())),
    ("url", |row| of_file(row, |file| file.url.clone())),
    ("licence_declared", |row| {
        of_file(row, |file| Some(file.licence.as_ref()?.declared.clone()))
    }),
    ("more_paths", |row| {
        let files = row.work.ok()?.files.iter().skip(1);
        let paths: Vec<&str> = files.map(|file| file.path.as_str()).collect();
        some(&paths.join("; "))
    }),
    ("host", |row| some(&row.work.ok()?.wait.as_ref()?.host)),
    ("detail", |row| some(&row.work.ok()?.detail)),
    ("run", |row| own(row.work.ok()?.run_id.clone())),
];

impl ResultRow<'_> {
    /// Returns the names of the columns.
    pub fn columns() -> impl Iterator<Item = &'static str> {
        COLUMNS.iter().map(|(name, _)| *name)
    }

    /// Returns the values, column by column.
    pub fn values(&self) -> impl Iterator<Item = Option<ColumnValue>> + '_ {
        COLUMNS.iter().map(|(_, read)| read(self))
    }

    /// Says why the line has no file; nothing if it has one.
    fn reason(&self) -> String {
        match (self.status, self.work) {
            (_, Err(problem)) => problem.to_owned(),
            (ResultStatus::Repeated, Ok(_)) => "an earlier line names the same work".to_owned(),
            (_, Ok(work)) => work.reason.clone(),
        }
    }
}
