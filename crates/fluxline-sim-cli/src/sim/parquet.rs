//! Columns of numbers as a Parquet file.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, Schema};
use fluxline_sim::report::{Column, Field};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::failure::Failure;

/// A note about a table: a name and a text.
pub struct Note {
    pub key: &'static str,
    pub value: String,
}

/// Returns the bytes of a Parquet file with these columns, all of one length. NaN becomes null. The
/// notes are metadata of the file, and units are metadata of their columns.
pub fn bytes(columns: Vec<Field>, notes: &[Note]) -> Result<Vec<u8>, Failure> {
    let fault = |error: &dyn std::fmt::Display| {
        Failure::failed(format_args!("a table cannot be written as Parquet: {error}."))
    };
    let batch = batch(columns, notes).map_err(|error| fault(&error))?;
    write(&batch, notes).map_err(|error| fault(&error))
}

fn batch(columns: Vec<Field>, notes: &[Note]) -> Result<RecordBatch, ArrowError> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for Field { name, unit, column } in columns {
        let (array, nullable): (ArrayRef, bool) = match column {
            Column::Float(values) => {
                let values = values.into_iter().map(|value| Some(value).filter(|v| v.is_finite()));
                (Arc::new(values.collect::<Float64Array>()), true)
            }
            Column::Count(values) => (Arc::new(UInt64Array::from(values)), false),
            Column::Index(values) => (Arc::new(UInt32Array::from(values)), false),
            Column::Text(values) => (Arc::new(StringArray::from(values)), false),
        };
        let field = arrow_schema::Field::new(name, array.data_type().clone(), nullable);
        let unit = Some(unit).filter(|unit| !unit.is_empty());
        let metadata = unit.map(|unit| ("unit".to_owned(), unit.to_owned()));
        fields.push(field.with_metadata(metadata.into_iter().collect::<HashMap<_, _>>()));
        arrays.push(array);
    }
    let notes = notes.iter().map(|note| (note.key.to_owned(), note.value.clone()));
    RecordBatch::try_new(
        Arc::new(Schema::new_with_metadata(fields, notes.collect::<HashMap<_, _>>())),
        arrays,
    )
}

fn write(batch: &RecordBatch, notes: &[Note]) -> Result<Vec<u8>, ParquetError> {
    let notes = notes.iter().map(|note| KeyValue::new(note.key.to_owned(), note.value.clone()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(notes.collect()))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.into_inner()
}
