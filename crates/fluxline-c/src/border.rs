//! The border of every call: pointers in, a code and a sentence out, no panic across.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use fluxline_core::fabric::{Name, Status};

use crate::FluxlineCode;

thread_local! {
    static ERROR: RefCell<CString> = RefCell::default();
}

/// The reason why a call failed.
pub(crate) struct Refused {
    code: FluxlineCode,
    sentence: String,
}

impl Refused {
    pub fn of(code: FluxlineCode, why: &impl Display) -> Refused {
        Refused { code, sentence: why.to_string() }
    }

    pub fn argument(why: impl Display) -> Refused {
        Refused::of(FluxlineCode::Argument, &why)
    }

    pub fn host(why: impl Display) -> Refused {
        Refused::of(FluxlineCode::Refused, &why)
    }

    pub fn nothing() -> Refused {
        Refused { code: FluxlineCode::Nothing, sentence: String::new() }
    }

    pub fn gone(why: impl Display) -> Refused {
        Refused::of(FluxlineCode::Gone, &why)
    }

    pub fn code(&self) -> FluxlineCode {
        self.code
    }

    /// Returns the same sentence with another code.
    pub fn with_code(self, code: FluxlineCode) -> Refused {
        Refused { code, ..self }
    }

    pub fn timeout(timeout_ms: u32) -> Refused {
        Refused::of(FluxlineCode::Timeout, &format_args!("nothing came within {timeout_ms} ms"))
    }
}

/// Runs a call; keeps the sentence of a failure, and panics on this side.
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Refused>) -> FluxlineCode {
    // A panic may leave the handle in an inconsistent state; the error sentence asks the caller to
    // close it.
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        let sentence = "a defect of the library; close the handle and report it";
        Err(Refused::of(FluxlineCode::Defect, &sentence))
    });
    let Err(Refused { code, sentence }) = result else { return FluxlineCode::Done };
    if code != FluxlineCode::Nothing {
        let sentence = CString::new(sentence.replace('\0', " ")).unwrap_or_default();
        ERROR.with_borrow_mut(|error| *error = sentence);
    }
    code
}

/// The last sentence of this thread.
pub(crate) fn error() -> *const c_char {
    ERROR.with_borrow(|error| error.as_ptr())
}

/// Returns the sentence of a status by its number.
pub(crate) fn status_name(number: u32) -> *const c_char {
    static SENTENCES: OnceLock<Vec<CString>> = OnceLock::new();
    let sentences = SENTENCES.get_or_init(|| {
        let sentence = |status: Status| CString::new(status.to_string()).unwrap_or_default();
        Status::ALL.into_iter().map(sentence).collect()
    });
    let unknown = c"a status that this version does not know".as_ptr();
    sentences.get(number as usize).map_or(unknown, |sentence| sentence.as_ptr())
}

pub(crate) fn done(status: Status) -> Result<(), Refused> {
    if status.is_done() { Ok(()) } else { Err(Refused::host(status)) }
}

fn null(what: &str) -> Refused {
    Refused::argument(format_args!("{what} is null"))
}

/// The value behind a handle.
pub(crate) fn handle<'a, T>(handle: *mut T) -> Result<&'a mut T, Refused> {
    // SAFETY: a handle that is not null came from `make` and was not ended, and no other call
    // uses it now: the caller's promise (head of lib.rs and of the header).
    unsafe { handle.as_mut() }.ok_or_else(|| null("the handle"))
}

/// Hands a new handle to the caller.
pub(crate) fn make<T>(out: Out<*mut T>, value: T) {
    out.put(Box::into_raw(Box::new(value)));
}

/// Ends a handle; null is ignored.
pub(crate) fn end<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    // SAFETY: as in `handle`; made by `Box::into_raw` in `make`.
    let value = unsafe { Box::from_raw(handle) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

/// The caller's place for a result: checked before anything is done, so that nothing is made that
/// nobody gets.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The caller's place. Errors: it is null.
    pub fn new(place: *mut T) -> Result<Out<T>, Refused> {
        if place.is_null() { Err(null("the place for a result")) } else { Ok(Out(place)) }
    }

    /// Writes the result.
    pub fn put(self, value: T) {
        // SAFETY: not null; writable and aligned by the caller's promise.
        unsafe { self.0.write(value) };
    }
}

/// The caller's places for several results, one behind the other.
pub(crate) struct OutAll<T> {
    first: *mut T,
    count: usize,
}

impl<T> OutAll<T> {
    /// The caller's places. Errors: they are null.
    pub fn new(first: *mut T, count: usize) -> Result<OutAll<T>, Refused> {
        match first.is_null() {
            true => Err(null("the place for results")),
            false => Ok(OutAll { first, count }),
        }
    }
}

/// Hands new handles to the caller, as many as there are places.
pub(crate) fn make_all<T>(out: OutAll<*mut T>, values: impl Iterator<Item = T>) {
    for (index, value) in (0..out.count).zip(values) {
        // SAFETY: not null; `count` places are writable and aligned by the caller's promise.
        unsafe { out.first.add(index).write(Box::into_raw(Box::new(value))) };
    }
}

/// A string of the caller's.
pub(crate) fn text<'a>(text: *const c_char) -> Result<&'a str, Refused> {
    if text.is_null() {
        return Err(null("a string"));
    }
    // SAFETY: not null; ends with a zero and lives through the call by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Refused::argument("a string is not UTF-8"))
}

/// A name of the caller's.
pub(crate) fn name(given: *const c_char) -> Result<Name, Refused> {
    Name::parse(text(given)?).map_err(Refused::argument)
}

/// Bytes of the caller's.
pub(crate) fn bytes<'a>(from: *const c_void, count: usize) -> Result<&'a [u8], Refused> {
    if count == 0 {
        return Ok(&[]);
    }
    if from.is_null() || isize::try_from(count).is_err() {
        return Err(null("the address of bytes"));
    }
    // SAFETY: not null, not longer than an object may be; readable through the call by the
    // caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(from.cast(), count) })
}

/// Structures of the caller's.
pub(crate) fn items<'a, T>(from: *const T, count: usize) -> Result<&'a [T], Refused> {
    if count == 0 {
        return Ok(&[]);
    }
    let all = count.checked_mul(size_of::<T>()).and_then(|all| isize::try_from(all).ok());
    if from.is_null() || all.is_none() {
        return Err(null("the address of structures"));
    }
    // SAFETY: as in `bytes`; aligned and with valid values of enumerations by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(from, count) })
}

/// Room of the caller's.
pub(crate) fn bytes_mut<'a>(into: *mut c_void, count: usize) -> Result<&'a mut [u8], Refused> {
    if count == 0 {
        return Ok(&mut []);
    }
    if into.is_null() || isize::try_from(count).is_err() {
        return Err(null("the address of room"));
    }
    // SAFETY: as in `bytes`, and writable by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(into.cast(), count) })
}
