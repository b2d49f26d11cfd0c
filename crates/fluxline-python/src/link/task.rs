//! Work that takes time: a call waits for it, and `await` does so in asyncio.

use std::sync::{Arc, Mutex, PoisonError};

use fluxline_core::Span;
use pyo3::prelude::*;

use super::core::{Core, Shared, span};
use super::rings::Rings;
use crate::fault::Fault;

/// The longest sleep between two looks at Ctrl-C.
const SLICE: Span = Span::from_ms(20);

/// The result of a task, before it is an object of Python.
pub enum Value {
    None,
    Number(u64),
    Object(Make),
}

/// Makes an object of Python for a node.
pub type Make = Box<dyn FnOnce(Python<'_>, &Arc<Shared>) -> PyResult<Py<PyAny>> + Send>;

/// The thing that wakes a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The link.
    Link,
    /// Records of a receiver.
    Receiver(u32),
    /// Room in a peer's ring, which no event tells.
    Room,
}

/// Returns the value once it is there.
type Step = Box<dyn FnMut(&mut Core) -> Result<Option<Value>, Fault> + Send>;
/// Ends the interest in the value.
type Abandon = Box<dyn FnOnce(&mut Core) + Send>;

/// Work that has begun.
pub struct Work {
    what: &'static str,
    wake: Wake,
    step: Step,
    abandon: Option<Abandon>,
}

impl Work {
    /// Begins work whose `step` is called until it returns a value.
    pub fn new(
        what: &'static str,
        step: impl FnMut(&mut Core) -> Result<Option<Value>, Fault> + Send + 'static,
    ) -> Work {
        Work { what, wake: Wake::Link, step: Box::new(step), abandon: None }
    }

    /// Sets what wakes it.
    pub fn woken_by(self, wake: Wake) -> Work {
        Work { wake, ..self }
    }

    /// Sets what ends the interest in it.
    pub fn or_else(self, abandon: impl FnOnce(&mut Core) + Send + 'static) -> Work {
        Work { abandon: Some(Box::new(abandon)), ..self }
    }

    /// Drives the node and looks for the value. Errors end the work.
    fn turn(&mut self, core: &mut Core) -> Result<Option<Value>, Fault> {
        core.drive();
        let mut found = (self.step)(core);
        if core.has_posted() {
            // The queue had room at last; nothing else would wake the link for this work.
            core.drive();
            if matches!(found, Ok(None)) {
                found = (self.step)(core);
            }
        }
        let value = match found {
            Ok(None) => core.check_room().map(|()| None),
            found => found,
        };
        if value.is_err() {
            self.end(core);
        }
        value
    }

    /// Sleeps until there may be a value, for a slice at most.
    fn sleep(&self, core: &mut Core, longest: Span) {
        let pause = if self.wake == Wake::Room { Rings::pause() } else { SLICE };
        let until = core.fabric.now() + pause.min(longest);
        let Core { rings, fabric, .. } = core;
        match self.wake {
            Wake::Link | Wake::Room => fabric.wait(until),
            Wake::Receiver(ring) => rings.wait(&mut **fabric, ring, until),
        }
    }

    fn end(&mut self, core: &mut Core) {
        if let Some(abandon) = self.abandon.take() {
            abandon(core);
        }
    }
}

/// One look at a task.
enum Look {
    Done(Value),
    Later,
    /// The time is up.
    Over,
}

/// Waits for the value of a task, for a time of the link; detached from the interpreter while it
/// sleeps. Errors: those of the work, a time-out, and exceptions of signal handlers.
pub fn finish(
    py: Python<'_>,
    shared: &Shared,
    mut work: Work,
    timeout: Option<f64>,
) -> PyResult<Value> {
    let until = shared.with(py, |core| Ok(core.after(timeout)))?;
    loop {
        let work = &mut work;
        let look = py.detach(|| {
            shared.with_detached(|core| {
                if let Some(value) = work.turn(core)? {
                    return Ok(Look::Done(value));
                }
                let now = core.fabric.now();
                if until.is_some_and(|until| now >= until) {
                    work.end(core);
                    return Ok(Look::Over);
                }
                work.sleep(core, until.map_or(SLICE, |until| until.since(now)));
                Ok(Look::Later)
            })
        });
        match look? {
            Look::Done(value) => return Ok(value),
            Look::Over => return Err(Fault::timeout(work.what, timeout.unwrap_or(0.0)).into()),
            Look::Later => py.check_signals().inspect_err(|_| {
                let _ = shared.with(py, |core| {
                    work.end(core);
                    Ok(())
                });
            })?,
        }
    }
}

/// Work that has begun and is not waited for: `await` it, or call `result`.
#[pyclass(frozen, module = "fluxline")]
pub struct Task {
    shared: Arc<Shared>,
    wake: Wake,
    state: Mutex<State>,
}

enum State {
    Running(Work),
    Done(Py<PyAny>),
    Over,
}

impl Task {
    /// Wraps work of a node.
    pub fn new(shared: &Arc<Shared>, work: Work) -> Task {
        let wake = work.wake;
        Task { shared: Arc::clone(shared), wake, state: Mutex::new(State::Running(work)) }
    }

    fn take(&self) -> State {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut state, State::Over)
    }

    fn put(&self, new: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // At the end of the interpreter nobody waits for the node's other work either.
        Python::try_attach(|py| self.cancel(py));
    }
}

#[pymethods]
impl Task {
    /// Waits for the result.
    #[pyo3(signature = (timeout = None))]
    fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        match self.take() {
            State::Done(value) => Ok(value),
            State::Over => Err(over().into()),
            State::Running(work) => {
                object(py, &self.shared, finish(py, &self.shared, work, timeout)?)
            }
        }
    }

    /// Looks whether the result is there, without waiting; it is in `result` then.
    fn step(&self, py: Python<'_>) -> PyResult<bool> {
        let mut work = match self.take() {
            State::Running(work) => work,
            State::Done(value) => {
                self.put(State::Done(value));
                return Ok(true);
            }
            State::Over => return Err(over().into()),
        };
        let turned = py.detach(|| self.shared.with_detached(|core| work.turn(core)))?;
        match turned {
            Some(value) => self.put(State::Done(object(py, &self.shared, value)?)),
            None => {
                self.put(State::Running(work));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the interest in the result.
    fn cancel(&self, py: Python<'_>) {
        if let State::Running(mut work) = self.take() {
            let _ = self.shared.with(py, |core| {
                work.end(core);
                Ok(())
            }); // a closed node has ended it already
        }
    }

    /// The descriptor that is readable when something arrived; None: the link has none.
    #[getter]
    fn descriptor(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.shared.with(py, |core| Ok(core.fabric.descriptor()))?)
    }

    /// The time until the link has work although nothing arrives [s]; None: never.
    #[getter]
    fn deadline(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.shared.with(py, |core| Ok(seconds_to_deadline(core)))?)
    }

    /// True when only virtual time brings the result: it passes while a thread waits.
    #[getter]
    fn is_virtual(&self) -> bool {
        self.shared.url.starts_with("sim:")
    }

    /// True when nothing wakes the task: look again after a moment.
    #[getter]
    fn is_polled(&self) -> bool {
        self.wake == Wake::Room
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let wait = slf.py().import("fluxline._waiting")?.call_method1("finish", (slf,))?;
        wait.call_method0("__await__")
    }
}

fn over() -> Fault {
    Fault::input("the result of this task was taken already")
}

/// Returns the time until the link has work although nothing arrives \[s\].
pub fn seconds_to_deadline(core: &Core) -> Option<f64> {
    let now = core.fabric.now();
    core.fabric.deadline().map(|at| at.since(now).as_ns() as f64 / 1e9)
}

/// Returns a time of the caller's. Errors: it is not a number of seconds.
pub fn checked(timeout: f64) -> Result<Span, Fault> {
    match timeout.is_nan() {
        false => Ok(span(timeout)),
        true => Err(Fault::input("the timeout is not a number; give seconds")),
    }
}

/// Returns a value as an object of Python.
pub fn object(py: Python<'_>, shared: &Arc<Shared>, value: Value) -> PyResult<Py<PyAny>> {
    match value {
        Value::None => Ok(py.None()),
        Value::Number(number) => Ok(number.into_pyobject(py)?.into_any().unbind()),
        Value::Object(make) => make(py, shared),
    }
}
