//! Memory that Rust and Python share: the only unsafe code of the package.
//!
//! [`Input`] and [`Output`] are arrays of the caller, checked once: contiguous, and of the expected
//! type. [`Memory`] lends the bytes of a region to Python by the buffer protocol, so that NumPy
//! makes an array of them without a copy. docs/adr/0028 has the reasons.
#![allow(unsafe_code, reason = "pointers of the buffer protocol, each with its proof")]

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_buffer::Buffer;
use fluxline_core::fabric;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::fault::{Class, Fault};

/// Bytes of the caller, of any type of element.
pub struct Input {
    buffer: PyUntypedBuffer,
}

/// Elements of the caller that are to be filled.
pub struct Output {
    buffer: PyUntypedBuffer,
}

/// Checks that an object is one contiguous piece of memory.
fn contiguous(name: &str, object: &Bound<'_, PyAny>) -> Result<PyUntypedBuffer, Fault> {
    let kind = || object.get_type().to_string();
    let buffer = PyUntypedBuffer::get(object).map_err(|_| {
        let kind = kind();
        Fault::input(format_args!("{name} is {kind}; pass bytes or a NumPy array"))
    })?;
    if buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(Fault::input(format_args!(
        "{name} is not contiguous in C order; pass numpy.ascontiguousarray({name})"
    )))
}

impl Input {
    /// Takes an array or bytes. Errors: it is not contiguous, or has no memory.
    pub fn of(name: &str, object: &Bound<'_, PyAny>) -> Result<Input, Fault> {
        Ok(Input { buffer: contiguous(name, object)? })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match NonNull::new(self.buffer.buf_ptr()) {
            // SAFETY: the exporter keeps `len_bytes` bytes at this address until the buffer is
            // released, which happens when `self` is dropped; they are contiguous, as `of` checked.
            // Any bytes are valid `u8`. The caller must not write the array from another thread
            // during a call, as with every function that reads an array.
            Some(first) => unsafe {
                std::slice::from_raw_parts(first.as_ptr().cast(), self.buffer.len_bytes())
            },
            None => &[],
        }
    }
}

impl Input {
    /// Returns the bytes of a row; None: the array is not two-dimensional, or a row is empty.
    pub fn row_bytes(&self) -> Option<usize> {
        match *self.buffer.shape() {
            [_, elements] if elements > 0 => Some(elements * self.buffer.item_size()),
            _ => None,
        }
    }
}

/// A type of element that the caller may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// NumPy's name.
    pub name: &'static str,
    formats: &'static [&'static str],
    bytes: usize,
}

/// The type of single bytes.
pub const U8: Element = Element { name: "uint8", formats: &["B", "b", "c"], bytes: 1 };
/// The type of words of 64 bits.
pub const I64: Element = Element { name: "int64", formats: &["q", "l"], bytes: 8 };

impl Output {
    /// Takes an array that may be written. Errors: it is read-only, not contiguous, or its elements
    /// are others.
    pub fn of(name: &str, element: Element, object: &Bound<'_, PyAny>) -> Result<Output, Fault> {
        let buffer = contiguous(name, object)?;
        let format = buffer.format().to_str().unwrap_or("?").trim_start_matches(['@', '=', '<']);
        if buffer.item_size() != element.bytes || !element.formats.contains(&format) {
            let wanted = element.name;
            return Err(Fault::input(format_args!(
                "{name} has elements of type {format:?}; pass an array of numpy.{wanted}"
            )));
        }
        if buffer.readonly() {
            return Err(Fault::input(format_args!(
                "{name} is read-only; pass an array that may be written"
            )));
        }
        Ok(Output { buffer })
    }

    /// Returns the bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        match NonNull::new(self.buffer.buf_ptr()) {
            // SAFETY: as in `Input::bytes`, and writable, as `of` checked. `&mut self` keeps this
            // side from a second borrow; the caller must not use the array in another thread
            // during a call, as with every function that fills an array.
            Some(first) => unsafe {
                std::slice::from_raw_parts_mut(first.as_ptr().cast(), self.buffer.len_bytes())
            },
            None => &mut [],
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.buffer.item_count()
    }

    /// Writes a word. Elements are [`I64`].
    pub fn set(&mut self, index: usize, value: u64) {
        if let Some(word) = self.bytes().get_mut(index * 8..index * 8 + 8) {
            word.copy_from_slice(&value.to_ne_bytes());
        }
    }
}

/// The bytes of a region, as all objects that show them share them.
pub struct Lent {
    memory: Arc<dyn fabric::Memory>,
    is_gone: AtomicBool,
}

impl Lent {
    /// Wraps the memory of a region.
    pub fn new(memory: Arc<dyn fabric::Memory>) -> Arc<Lent> {
        Arc::new(Lent { memory, is_gone: AtomicBool::new(false) })
    }

    /// Notes that the region has ended: later calls fail, arrays stay.
    pub fn end(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    fn bytes(&self) -> Result<&dyn fabric::Memory, Fault> {
        match self.is_gone.load(Ordering::Relaxed) {
            false => Ok(&*self.memory),
            true => {
                Err(Fault::new(Class::RegionGone, "the region was withdrawn; register another"))
            }
        }
    }
}

/// Bytes that peers may write at any time: an own region, or the window into a peer's.
///
/// NumPy reads and writes them without a copy (`array`). An array keeps the bytes alive, also after
/// the region's end: then no peer sees them any more.
#[pyclass(frozen, subclass, module = "fluxline")]
pub struct Memory {
    lent: Arc<Lent>,
}

impl Memory {
    /// Shows the bytes of a region.
    pub fn new(lent: Arc<Lent>) -> Memory {
        Memory { lent }
    }

    fn bytes(&self) -> Result<&dyn fabric::Memory, Fault> {
        self.lent.bytes()
    }
}

#[pymethods]
impl Memory {
    fn __len__(&self) -> usize {
        usize::try_from(self.lent.memory.bytes()).unwrap_or(usize::MAX)
    }

    /// Returns a NumPy array of the bytes, without a copy: numpy.frombuffer(region, dtype, count,
    /// offset). Its elements change when a peer writes them.
    #[pyo3(signature = (dtype = None, *, offset = 0, count = None))]
    fn array<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        offset: u64,
        count: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        slf.get().bytes()?;
        let numpy = py.import("numpy")?;
        let options = PyDict::new(py);
        options.set_item("dtype", dtype.map_or_else(|| numpy.getattr("uint8"), Ok)?)?;
        options.set_item("count", count.unwrap_or(-1))?;
        options.set_item("offset", offset)?;
        let array = numpy.call_method("frombuffer", (slf,), Some(&options));
        array.map_err(|error| match error.is_instance_of::<PyBufferError>(py) {
            true => error,
            false => Fault::input(error.value(py)).into(),
        })
    }

    /// Copies bytes out.
    #[pyo3(signature = (offset = 0, count = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        count: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let memory = self.bytes()?;
        let left = memory.bytes().saturating_sub(offset);
        let count = count.unwrap_or(usize::try_from(left).unwrap_or(usize::MAX));
        memory.check(offset, count as u64).map_err(Fault::from)?;
        PyBytes::new_with(py, count, |into| {
            memory.read(offset, into).map_err(|error| Fault::from(error).into())
        })
    }

    /// Copies bytes out, into an array of uint8.
    #[pyo3(signature = (into, offset = 0))]
    fn read_into(&self, into: &Bound<'_, PyAny>, offset: u64) -> PyResult<()> {
        let mut into = Output::of("into", U8, into)?;
        Ok(self.bytes()?.read(offset, into.bytes()).map_err(Fault::from)?)
    }

    /// Copies bytes in.
    #[pyo3(signature = (data, offset = 0))]
    fn write(&self, data: &Bound<'_, PyAny>, offset: u64) -> PyResult<()> {
        let data = Input::of("data", data)?;
        Ok(self.bytes()?.write(offset, data.bytes()).map_err(Fault::from)?)
    }

    /// Loads the word at `offset`: all that was written before its store is seen, too.
    #[pyo3(signature = (offset = 0))]
    fn load(&self, offset: u64) -> PyResult<u64> {
        Ok(self.bytes()?.load(offset).map_err(Fault::from)?)
    }

    /// Stores a word: who loads it sees all that was written before.
    fn store(&self, offset: u64, value: u64) -> PyResult<()> {
        Ok(self.bytes()?.store(offset, value).map_err(Fault::from)?)
    }

    /// Adds to the word at `offset`, and returns the old value.
    #[pyo3(signature = (offset, add = 1))]
    fn fetch_add(&self, offset: u64, add: u64) -> PyResult<u64> {
        Ok(self.bytes()?.fetch_add(offset, add).map_err(Fault::from)?)
    }

    /// Replaces the word at `offset` if it is `expected`, and returns the old value.
    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> PyResult<u64> {
        Ok(self.bytes()?.compare_swap(offset, expected, desired).map_err(Fault::from)?)
    }

    /// Lends the bytes to Python.
    ///
    /// # Safety
    /// `view` is a buffer that Python passes to be filled, as the protocol demands.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let memory = slf.get().bytes()?;
        let Some(first) = memory.address() else {
            return Err(PyBufferError::new_err(
                "the bytes of this region have no address; use read and write",
            ));
        };
        let bytes = isize::try_from(memory.bytes()).map_err(|_| {
            PyBufferError::new_err("the region is larger than the address space of an array")
        })?;
        // SAFETY: `view` is writable (see above). PyBuffer_FillInfo takes a new reference to `slf`
        // and keeps it in the view until the view is released. `slf` is frozen and holds an `Arc`
        // of the memory, whose bytes stay at `first` as long as the `Arc` lives (the promise of
        // `fabric::Memory::address`). Peers and threads may write the bytes at any time; only code
        // outside of Rust reads them through this pointer, and the documentation names the race.
        let done = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), first.as_ptr().cast(), bytes, 0, flags)
        };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// The values of a column, which nobody changes; NumPy shows them without a copy.
#[pyclass(frozen, module = "fluxline._fluxline")]
#[derive(Clone)]
pub struct Values {
    buffer: Buffer,
}

impl Values {
    /// Wraps the memory of a column.
    pub fn new(buffer: Buffer) -> Values {
        Values { buffer }
    }
}

#[pymethods]
impl Values {
    fn __len__(&self) -> usize {
        self.buffer.len()
    }

    /// Lends the bytes to Python, for reading.
    ///
    /// # Safety
    /// `view` is a buffer that Python passes to be filled, as the protocol demands.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let buffer = &slf.get().buffer;
        let first = buffer.as_ptr().cast_mut().cast();
        // A slice is never longer than `isize::MAX` bytes.
        let bytes = buffer.len() as isize;
        // SAFETY: as in `Memory`: the view keeps `slf`, which is frozen and holds the `Buffer`. The
        // view is read-only (1), so nobody writes the bytes, which other arrays may share.
        let done = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), first, bytes, 1, flags) };
        if done == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
