//! The lines of the inputs: each with its item, or with why it names none.

use std::collections::HashMap;

use docstokg_policy::time::Timestamp;
use rusqlite::{Connection, Row, Statement, params};

use super::records::{ItemRow, read_item};
use super::{QueueError, WorkQueue};

/// A line of an input, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its place among the items of the line, from 0, if the line names several.
    pub part: u64,
    /// Its text, short and without secrets.
    pub text: String,
}

/// A line that names no item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnrecognisedLine {
    /// The input that it was read from.
    pub source: String,
    /// The line.
    pub line: NewLine,
    /// The problem that it has.
    pub problem: String,
}

/// A recorded line, with its item and the latest manifest record of that.
#[derive(Clone, Debug)]
pub struct LineRow {
    /// The input that it was read from.
    pub source: String,
    /// Its number, from 1.
    pub number: u64,
    /// Its text, short and without secrets.
    pub text: String,
    /// Its item, or what is wrong with the line.
    pub item: Result<ItemRow, String>,
}

/// Numbers of the lines that are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Lines that name an item.
    pub named: u64,
    /// The different items that they name.
    pub items: u64,
    /// Lines that name no item.
    pub unrecognised: u64,
}

/// Writes lines within a transaction.
pub(super) struct LineWriter<'a> {
    database: &'a Connection,
    insert: rusqlite::CachedStatement<'a>,
    sources: HashMap<String, i64>,
    now: Timestamp,
}

impl<'a> LineWriter<'a> {
    pub(super) fn new(database: &'a Connection, now: Timestamp) -> rusqlite::Result<Self> {
        let insert = database.prepare_cached(
            "INSERT OR REPLACE INTO lines (source, line, part, item, text, problem, read_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        Ok(Self {
            database,
            insert,
            sources: HashMap::new(),
            now,
        })
    }

    /// Writes a line with the number of its item, or what is wrong with it.
    pub(super) fn insert(
        &mut self,
        source: &str,
        line: &NewLine,
        item: Result<i64, &str>,
    ) -> rusqlite::Result<()> {
        let known = self.sources.get(source).copied();
        let source = if let Some(id) = known {
            id
        } else {
            let id = source_id(self.database, source)?;
            self.sources.insert(source.to_owned(), id);
            id
        };
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.insert
            .execute(params![
                source,
                number(line.number),
                number(line.part),
                item.ok(),
                line.text,
                item.err(),
                self.now.as_secs_f64()
            ])
            .map(|_| ())
    }
}

fn source_id(database: &Connection, name: &str) -> rusqlite::Result<i64> {
    database
        .prepare_cached("INSERT OR IGNORE INTO sources (name) VALUES (?1)")?
        .execute([name])?;
    let mut id = database.prepare_cached("SELECT id FROM sources WHERE name = ?1")?;
    id.query_row([name], |row| row.get(0))
}

impl WorkQueue {
    /// Records lines that name no item.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn add_unrecognised(
        &self,
        lines: Vec<UnrecognisedLine>,
        now: Timestamp,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut writer = LineWriter::new(to, now)?;
            for line in lines {
                writer.insert(&line.source, &line.line, Err(&line.problem))?;
            }
            Ok(())
        })
        .await
    }

    /// Forgets the lines of these sources that have not been read since an instant: the sources have
    /// been read to their end, and the lines are no longer in them.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn forget_lines_before(
        &self,
        since: Timestamp,
        sources: Vec<String>,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut forget = to.prepare_cached(
                "DELETE FROM lines WHERE read_at < ?1 AND source = (SELECT id FROM sources WHERE name = ?2)",
            )?;
            for source in sources {
                forget.execute(params![since.as_secs_f64(), source])?;
            }
            Ok(())
        })
        .await
    }

    /// Counts the recorded lines.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn line_counts(&self) -> Result<LineCounts, QueueError> {
        self.change(|to| {
            to.query_row(
                "SELECT count(item), count(DISTINCT item), count(*) - count(item) FROM lines",
                [],
                |row| {
                    let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                    Ok(LineCounts {
                        named: number(0)?,
                        items: number(1)?,
                        unrecognised: number(2)?,
                    })
                },
            )
        })
        .await
    }

    /// Passes all recorded lines to `take`, input after input, each with its item.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn each_line(
        &self,
        mut take: impl FnMut(LineRow) + Send + 'static,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut lines = to.prepare(
                "SELECT sources.name, line, text, problem, item FROM lines JOIN sources ON sources.id = lines.source ORDER BY lines.source, line, part",
            )?;
            let mut items = ItemReader::new(to)?;
            let mut rows = lines.query([])?;
            while let Some(row) = rows.next()? {
                take(items.line(row)?);
            }
            Ok(())
        })
        .await
    }
}

/// Reads the items of lines.
struct ItemReader<'a>(Statement<'a>);

impl<'a> ItemReader<'a> {
    fn new(database: &'a Connection) -> rusqlite::Result<Self> {
        let query = format!("{} WHERE items.id = ?1", super::records::SELECT_ITEMS);
        database.prepare(&query).map(Self)
    }

    fn line(&mut self, row: &Row<'_>) -> rusqlite::Result<LineRow> {
        let item = match row.get::<_, Option<i64>>(4)? {
            Some(id) => Ok(self.0.query_row([id], read_item)?),
            None => Err(row.get::<_, Option<String>>(3)?.unwrap_or_default()),
        };
        Ok(LineRow {
            source: row.get(0)?,
            number: row.get::<_, i64>(1)?.unsigned_abs(),
            text: row.get(2)?,
            item,
        })
    }
}
