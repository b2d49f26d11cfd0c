//! Arrow data as Python reads it: by the Arrow PyCapsule interface, and as NumPy arrays.
//!
//! The capsules are the package's own: crates that make them pin other versions of arrow or pyo3.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader, StructArray};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, DataType, Metadata, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::buffer::Values;
use crate::fault::{Class, Fault};

/// The columns of a table: names, types, units.
#[pyclass(frozen, module = "fluxline")]
pub struct Schema {
    schema: SchemaRef,
}

impl Schema {
    /// Wraps a schema.
    pub fn new(schema: SchemaRef) -> Schema {
        Schema { schema }
    }
}

fn defect(error: &ArrowError) -> Fault {
    Fault::new(Class::Run, format_args!("{error}; report this as a defect of Fluxline"))
}

fn schema_capsule<'py>(
    py: Python<'py>,
    schema: &arrow_schema::Schema,
) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| defect(&error))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

fn notes<'py>(py: Python<'py>, metadata: &Metadata) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (key, value) in metadata.iter() {
        all.set_item(key, value)?;
    }
    Ok(all)
}

#[pymethods]
impl Schema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The types of the columns, in Arrow's words.
    #[getter]
    fn types(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    /// The notes of the table: its run, the program's version.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        notes(py, self.schema.metadata())
    }

    /// The notes of each column: `unit`, `help` and others.
    #[getter]
    fn field_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for field in self.schema.fields() {
            all.set_item(field.name(), notes(py, field.metadata())?)?;
        }
        Ok(all)
    }

    /// Returns a batch without rows.
    fn empty(&self) -> Batch {
        Batch::new(RecordBatch::new_empty(Arc::clone(&self.schema)))
    }

    fn __len__(&self) -> usize {
        self.schema.fields().len()
    }

    fn __repr__(&self) -> String {
        let fields = self.schema.fields().iter();
        let fields = fields.map(|field| format!("{}: {}", field.name(), field.data_type()));
        format!("Schema({})", fields.collect::<Vec<_>>().join(", "))
    }
}

/// Some rows of a table.
#[pyclass(frozen, module = "fluxline")]
pub struct Batch {
    rows: RecordBatch,
}

impl Batch {
    /// Wraps rows.
    pub fn new(rows: RecordBatch) -> Batch {
        Batch { rows }
    }

    fn column(&self, name: &str) -> Result<&ArrayRef, Fault> {
        self.rows.column_by_name(name).ok_or_else(|| {
            let names = self.rows.schema_ref().fields().iter().map(|field| field.name().as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            Fault::input(format_args!("the batch has no column {name:?}; choose from {names}"))
        })
    }
}

#[pymethods]
impl Batch {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    /// The columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema::new(self.rows.schema())
    }

    fn __len__(&self) -> usize {
        self.rows.num_rows()
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // a consumer casts what it gets
        let data = StructArray::from(self.rows.clone()).into_data();
        let (array, _) = to_ffi(&data).map_err(|error| defect(&error))?;
        let array: FFI_ArrowArray = array;
        let schema = schema_capsule(py, self.rows.schema_ref())?;
        (schema, PyCapsule::new_with_value(py, array, c"arrow_array")?).into_pyobject(py)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.rows.schema_ref())
    }

    /// Returns the rows as a table of one batch.
    fn batches(&self) -> Batches {
        let rows = self.rows.clone();
        Batches::new(rows.schema(), Box::new(std::iter::once(Ok(rows))), None)
    }

    /// Returns the parts of a column that NumPy can show without a copy; `Table.numpy` has the
    /// arrays.
    fn parts(&self, name: &str) -> PyResult<Parts> {
        Ok(Parts::of(name, self.column(name)?)?)
    }

    fn __repr__(&self) -> String {
        let columns = self.rows.num_columns();
        format!("Batch({} rows, {columns} columns)", self.rows.num_rows())
    }
}

/// The memory of a column: its values, and for lists the ends of the rows.
#[pyclass(frozen, get_all, module = "fluxline._fluxline")]
pub struct Parts {
    /// The values of all rows, one after the other.
    values: Values,
    /// NumPy's name of their type.
    dtype: String,
    /// Values in each row of a list, where all rows have as many.
    width: Option<usize>,
    /// The first value of each row, and the end of the last row; int64, of lists alone.
    offsets: Option<Values>,
    /// A true byte for each row without a value; None: all have one.
    nulls: Option<Values>,
    /// The texts, of a column of text alone.
    texts: Option<Vec<Option<String>>>,
}

impl Parts {
    fn none() -> Parts {
        Parts {
            values: Values::new(Buffer::from_vec(Vec::<u8>::new())),
            dtype: "uint8".to_owned(),
            width: None,
            offsets: None,
            nulls: None,
            texts: None,
        }
    }

    fn of(name: &str, column: &ArrayRef) -> Result<Parts, Fault> {
        let nulls = column
            .nulls()
            .filter(|nulls| nulls.null_count() > 0)
            .map(|nulls| nulls.iter().map(|is_valid| u8::from(!is_valid)).collect::<Vec<u8>>())
            .map(|nulls| Values::new(Buffer::from_vec(nulls)));
        if let Some(texts) = texts(column) {
            return Ok(Parts { texts: Some(texts), ..Parts::none() });
        }
        let parts = match column.data_type() {
            DataType::List(_) => {
                let list = column.as_list::<i32>();
                let offsets: Vec<i64> =
                    list.value_offsets().iter().map(|at| (*at).into()).collect();
                Parts::of_list(name, list.values(), offsets)?
            }
            DataType::LargeList(_) => {
                let list = column.as_list::<i64>();
                Parts::of_list(name, list.values(), list.value_offsets().to_vec())?
            }
            DataType::FixedSizeList(_, width) => {
                let list = column.as_fixed_size_list();
                let (values, dtype) = plain(name, list.values())?;
                let width = Some(usize::try_from(*width).unwrap_or(0));
                Parts { values, dtype, width, ..Parts::none() }
            }
            _ => {
                let (values, dtype) = plain(name, column)?;
                Parts { values, dtype, ..Parts::none() }
            }
        };
        Ok(Parts { nulls, ..parts })
    }

    fn of_list(name: &str, values: &ArrayRef, offsets: Vec<i64>) -> Result<Parts, Fault> {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let values = values.slice(first as usize, (last - first) as usize);
        let (values, dtype) = plain(name, &values)?;
        let mut widths = offsets.windows(2).map(|pair| pair[1] - pair[0]);
        let width = widths.next().filter(|first| widths.all(|width| width == *first));
        let width = width.and_then(|width| usize::try_from(width).ok());
        let offsets: Vec<i64> = offsets.into_iter().map(|at| at - first).collect();
        let offsets = Some(Values::new(Buffer::from_vec(offsets)));
        Ok(Parts { values, dtype, width, offsets, ..Parts::none() })
    }
}

/// Returns the texts of a column; `None`: it has none.
fn texts(column: &ArrayRef) -> Option<Vec<Option<String>>> {
    if let Some(dictionary) = column.as_any_dictionary_opt() {
        let words = texts(dictionary.values())?;
        let keys = dictionary.normalized_keys();
        let word = |(row, key): (usize, usize)| {
            column.is_valid(row).then(|| words.get(key).cloned().flatten()).flatten()
        };
        return Some(keys.into_iter().enumerate().map(word).collect());
    }
    let texts = column.as_string_opt::<i32>()?;
    Some(texts.iter().map(|text| text.map(str::to_owned)).collect())
}

/// Returns the values of a column of plain numbers, and NumPy's name of their type.
fn plain(name: &str, column: &ArrayRef) -> Result<(Values, String), Fault> {
    let dtype = match column.data_type() {
        DataType::Timestamp(unit, _) => {
            let unit = match unit {
                arrow_schema::TimeUnit::Second => "s",
                arrow_schema::TimeUnit::Millisecond => "ms",
                arrow_schema::TimeUnit::Microsecond => "us",
                arrow_schema::TimeUnit::Nanosecond => "ns",
            };
            format!("datetime64[{unit}]")
        }
        kind if kind.is_primitive() => kind.to_string().to_lowercase(),
        kind => {
            return Err(Fault::input(format_args!(
                "column {name:?} has type {kind}, which NumPy cannot show as numbers; use arrow()"
            )));
        }
    };
    let data = column.to_data();
    let width = column.data_type().primitive_width().unwrap_or(1);
    let buffer = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
    Ok((Values::new(buffer), dtype))
}

/// Rows of a table, batch by batch: an iterator, and an Arrow stream.
#[pyclass(frozen, module = "fluxline._fluxline")]
pub struct Batches {
    reader: Arc<Mutex<Limited>>,
}

/// The reader of any table.
type Reader = Box<dyn Iterator<Item = Result<RecordBatch, Fault>> + Send>;

/// A reader whose batches have a limited number of rows.
struct Limited {
    schema: SchemaRef,
    reader: Reader,
    rows_max: usize,
    rest: Option<RecordBatch>,
}

impl Iterator for Limited {
    type Item = Result<RecordBatch, Fault>;

    fn next(&mut self) -> Option<Result<RecordBatch, Fault>> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.reader.next()? {
                Ok(batch) => batch,
                Err(fault) => return Some(Err(fault)),
            },
        };
        let rows = batch.num_rows();
        if rows > self.rows_max {
            self.rest = Some(batch.slice(self.rows_max, rows - self.rows_max));
            return Some(Ok(batch.slice(0, self.rows_max)));
        }
        Some(Ok(batch))
    }
}

/// The stream of another library's reader.
struct Stream {
    schema: SchemaRef,
    reader: Arc<Mutex<Limited>>,
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let next = self.reader.lock().unwrap_or_else(PoisonError::into_inner).next()?;
        Some(next.map_err(|fault| ArrowError::ExternalError(fault.sentence().into())))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Batches {
    /// Wraps a reader; `rows_max`: rows of a batch at most.
    pub fn new(schema: SchemaRef, reader: Reader, rows_max: Option<usize>) -> Batches {
        let rows_max = rows_max.unwrap_or(usize::MAX);
        let limited = Limited { schema, reader, rows_max, rest: None };
        Batches { reader: Arc::new(Mutex::new(limited)) }
    }

    fn schema_of(&self) -> SchemaRef {
        Arc::clone(&self.reader.lock().unwrap_or_else(PoisonError::into_inner).schema)
    }
}

#[pymethods]
impl Batches {
    /// The columns.
    #[getter]
    fn schema(&self, py: Python<'_>) -> Schema {
        py.detach(|| Schema::new(self.schema_of()))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let next = py.detach(|| {
            self.reader.lock().unwrap_or_else(PoisonError::into_inner).next().transpose()
        })?;
        Ok(next.map(Batch::new))
    }

    /// Hands the rest of the rows to another library.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a consumer casts what it gets
        let schema = py.detach(|| self.schema_of());
        let stream = Stream { schema, reader: Arc::clone(&self.reader) };
        let stream = FFI_ArrowArrayStream::new(Box::new(stream));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
