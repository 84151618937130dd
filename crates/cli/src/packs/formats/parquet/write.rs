//! Parquet from packs: a column for the keys and one for each entry name.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use shardpack::Record;
use shardpack::set::PackSet;
use shardpack::sink::OutputFile;

use super::KEY;
use crate::output::{CliError, fail};

/// Writes all records of a set to one file and calls `on_record` for each. Reads the set twice: once for the names.
pub(crate) fn write(set: &PackSet, path: &Path, mut on_record: impl FnMut(&Record)) -> Result<(), CliError> {
    let columns = Columns::of(set)?;
    let failed = |error: ParquetError| CliError::io(path, io::Error::other(error));
    let level = ZstdLevel::try_new(3).map_err(failed)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        // Contents are long and seldom the same.
        .set_dictionary_enabled(false)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .build();
    let file = OutputFile::create(path).map_err(|error| CliError::io(path, error))?;
    let schema = columns.schema().map_err(failed)?;
    let mut file =
        SerializedFileWriter::new(io::BufWriter::new(file), schema, Arc::new(properties)).map_err(failed)?;
    let (mut group, mut bytes) = (Vec::new(), 0);
    for record in set.iter_records() {
        let record = record?;
        on_record(&record);
        bytes += record.file_entries.iter().map(|entry| entry.data.len()).sum::<usize>();
        group.push(record);
        if bytes >= GROUP_BYTES || group.len() >= GROUP_RECORDS_MAX {
            columns.write(&mut file, std::mem::take(&mut group)).map_err(failed)?;
            bytes = 0;
        }
    }
    if !group.is_empty() {
        columns.write(&mut file, group).map_err(failed)?;
    }
    let buffered = file.into_inner().map_err(failed)?;
    let file = buffered.into_inner().map_err(|error| CliError::io(path, error.into()))?;
    file.finish(true).map_err(|error| CliError::io(path, error))
}

/// Entry names, each with the type that all its contents have.
struct Columns(BTreeMap<String, Option<LogicalType>>);

impl Columns {
    fn of(set: &PackSet) -> Result<Self, CliError> {
        let mut columns: BTreeMap<String, Option<LogicalType>> = BTreeMap::new();
        for record in set.iter_records() {
            for entry in record?.file_entries {
                let is_text = std::str::from_utf8(&entry.data).is_ok();
                let logical = match entry.content_type.as_str() {
                    "application/json" if is_text => Some(LogicalType::Json),
                    text if text.starts_with("text/") && is_text => Some(LogicalType::String),
                    _ => None,
                };
                if entry.file_name == KEY {
                    return fail(format!("an entry is called {KEY}, as the column of keys is"));
                }
                let known = columns.entry(entry.file_name).or_insert_with(|| logical.clone());
                if *known != logical {
                    *known = None;
                }
            }
            if columns.len() > COLUMNS_MAX {
                return fail("there are more than a thousand entry names, and each would be a column");
            }
        }
        Ok(Self(columns))
    }

    fn schema(&self) -> Result<Arc<Type>, ParquetError> {
        let column = |name: &str, repetition: Repetition, logical: Option<LogicalType>| {
            let column = Type::primitive_type_builder(name, Physical::BYTE_ARRAY).with_repetition(repetition);
            column.with_logical_type(logical).build().map(Arc::new)
        };
        let mut fields = vec![column(KEY, Repetition::REQUIRED, Some(LogicalType::String))?];
        for (name, logical) in &self.0 {
            fields.push(column(name, Repetition::OPTIONAL, logical.clone())?);
        }
        Type::group_type_builder("schema").with_fields(fields).build().map(Arc::new)
    }

    /// Writes records as one row group, column by column. Every column takes its contents out of the records.
    fn write<W: io::Write + Send>(
        &self,
        file: &mut SerializedFileWriter<W>,
        mut records: Vec<Record>,
    ) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        let keys: Vec<_> = records
            .iter_mut()
            .map(|record| ByteArray::from(std::mem::take(&mut record.key).into_bytes()))
            .collect();
        let mut names = self.0.keys();
        let mut is_key = true;
        while let Some(mut column) = group.next_column()? {
            if std::mem::take(&mut is_key) {
                column.typed::<ByteArrayType>().write_batch(&keys, None, None)?;
            } else if let Some(name) = names.next() {
                let (mut values, mut levels) = (Vec::new(), Vec::new());
                for record in &mut records {
                    let entry = record.file_entries.iter_mut().find(|entry| entry.file_name == *name);
                    levels.push(i16::from(entry.is_some()));
                    values.extend(entry.map(|entry| ByteArray::from(std::mem::take(&mut entry.data))));
                }
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            column.close()?;
        }
        group.close().map(drop)
    }
}

/// Entry contents.
const GROUP_BYTES: usize = 64 << 20;
const GROUP_RECORDS_MAX: usize = 100_000;
const COLUMNS_MAX: usize = 1000;
