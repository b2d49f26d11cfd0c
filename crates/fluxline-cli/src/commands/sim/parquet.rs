//! Columns of numbers as a Parquet file.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::ArrowError;
use fluxline_sim::report::Column;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::failure::Failure;

/// Returns the bytes of a Parquet file with these columns, all of one length. NaN becomes null.
pub fn bytes(columns: Vec<(&str, Column)>) -> Result<Vec<u8>, Failure> {
    let fault = |error: &dyn std::fmt::Display| {
        Failure::failed(format_args!("a table cannot be written as Parquet: {error}."))
    };
    let batch = batch(columns).map_err(|error| fault(&error))?;
    write(&batch).map_err(|error| fault(&error))
}

fn batch(columns: Vec<(&str, Column)>) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| {
        let (array, nullable): (ArrayRef, bool) = match column {
            Column::Float(values) => {
                let values = values.into_iter().map(|value| Some(value).filter(|v| v.is_finite()));
                (Arc::new(values.collect::<Float64Array>()), true)
            }
            Column::Count(values) => (Arc::new(UInt64Array::from(values)), false),
            Column::Index(values) => (Arc::new(UInt32Array::from(values)), false),
            Column::Text(values) => (Arc::new(StringArray::from(values)), false),
        };
        (name, array, nullable)
    }))
}

fn write(batch: &RecordBatch) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.into_inner()
}
