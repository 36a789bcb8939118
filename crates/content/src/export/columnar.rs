//! The table of results as Parquet: texts and whole numbers, in groups of rows.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::ExportOutput;
use crate::results::{ColumnValue, ResultRow};

/// The rows of one group, which are in memory together.
const ROWS_PER_GROUP: usize = 10_000;

/// Writes a table.
pub(super) struct TableWriter {
    file: SerializedFileWriter<ExportOutput>,
    /// The values of the group by column.
    columns: Vec<Vec<Option<ColumnValue>>>,
    rows: usize,
}

fn failed(error: parquet::errors::ParquetError) -> io::Error {
    io::Error::other(error)
}

impl TableWriter {
    /// Begins a table with the columns of results.
    pub(super) fn new(out: ExportOutput) -> io::Result<Self> {
        let columns = ResultRow::columns().count();
        let schema = schema().map_err(failed)?;
        let properties = Arc::new(
            WriterProperties::builder()
                .set_compression(Compression::GZIP(parquet::basic::GzipLevel::default()))
                .build(),
        );
        Ok(Self {
            file: SerializedFileWriter::new(out, schema, properties).map_err(failed)?,
            columns: vec![Vec::new(); columns],
            rows: 0,
        })
    }

    /// Adds a row.
    pub(super) fn row(&mut self, row: &ResultRow<'_>) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row.values()) {
            column.push(value);
        }
        self.rows += 1;
        if self.rows < ROWS_PER_GROUP {
            return Ok(());
        }
        self.write_group().map_err(failed)
    }

    /// Ends the table.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group().map_err(failed)?;
        }
        let mut out = self.file.into_inner().map_err(failed)?;
        out.flush()
    }

    fn write_group(&mut self) -> Result<(), parquet::errors::ParquetError> {
        let mut group = self.file.next_row_group()?;
        let mut columns = self.columns.iter_mut();
        while let (Some(mut writer), Some(values)) = (group.next_column()?, columns.next()) {
            let values = std::mem::take(values);
            let levels: Vec<i16> = values
                .iter()
                .map(|value| i16::from(value.is_some()))
                .collect();
            if let parquet::column::writer::ColumnWriter::Int64ColumnWriter(_) = writer.untyped() {
                let numbers: Vec<i64> = values.iter().flatten().map(number).collect();
                writer
                    .typed::<Int64Type>()
                    .write_batch(&numbers, Some(&levels), None)?;
            } else {
                let texts = values.iter().flatten();
                let texts: Vec<ByteArray> = texts
                    .map(|value| ByteArray::from(value.text().as_bytes().to_vec()))
                    .collect();
                writer
                    .typed::<ByteArrayType>()
                    .write_batch(&texts, Some(&levels), None)?;
            }
            writer.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

fn number(value: &ColumnValue) -> i64 {
    match value {
        ColumnValue::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX),
        ColumnValue::Text(_) => 0,
    }
}

/// Describes the columns.
fn schema() -> Result<TypePtr, parquet::errors::ParquetError> {
    let column = |(at, name): (usize, &str)| {
        let (physical, logical) = if ResultRow::is_number(at) {
            (PhysicalType::INT64, None)
        } else {
            (PhysicalType::BYTE_ARRAY, Some(LogicalType::String))
        };
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        column.build().map(Arc::new)
    };
    let columns: Result<Vec<TypePtr>, _> = ResultRow::columns().enumerate().map(column).collect();
    let schema = Type::group_type_builder("results").with_fields(columns?);
    schema.build().map(Arc::new)
}
