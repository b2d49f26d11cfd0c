//! Errors of the library as exceptions of Python, with the same words.

use fluxline::OpenError;
use fluxline_core::fabric::connect::NoConnection;
use fluxline_core::fabric::push::{NextError, PushOpenError, PushRefused};
use fluxline_core::fabric::{
    AccessError, ExportError, ImportError, NameError, PostError, RegisterError, Status,
};
use fluxline_daq::record::ReadError;
use fluxline_export::typed::TypedError;
use pyo3::types::PyAnyMethods;
use pyo3::{PyErr, Python};

mod exceptions {
    use pyo3::import_exception;
    import_exception!(fluxline.errors, BenchError);
    import_exception!(fluxline.errors, Full);
    import_exception!(fluxline.errors, Gone);
    import_exception!(fluxline.errors, InputError);
    import_exception!(fluxline.errors, LinkError);
    import_exception!(fluxline.errors, RegionGone);
    import_exception!(fluxline.errors, RunError);
    import_exception!(fluxline.errors, SimulationError);
    import_exception!(fluxline.errors, Timeout);
}

/// The class of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Bench,
    Full,
    Gone,
    Input,
    Link,
    RegionGone,
    Run,
    Simulation,
    Timeout,
}

/// A failure: the class of its exception, and a sentence.
#[derive(Clone, Debug)]
pub struct Fault {
    class: Class,
    sentence: String,
}

impl Fault {
    /// Makes a fault of a class from a sentence.
    pub fn new(class: Class, sentence: impl ToString) -> Fault {
        Fault { class, sentence: sentence.to_string() }
    }

    /// Makes a fault of an argument.
    pub fn input(sentence: impl ToString) -> Fault {
        Fault::new(Class::Input, sentence)
    }

    /// Makes a fault of the link, the host or the peer.
    pub fn link(sentence: impl ToString) -> Fault {
        Fault::new(Class::Link, sentence)
    }

    /// Makes the fault of a call whose time is up.
    pub fn timeout(what: &str, seconds: f64) -> Fault {
        Fault::new(Class::Timeout, format_args!("{what}: nothing came within {seconds} s"))
    }

    /// Returns the fault of a completion that failed.
    pub fn of_status(status: Status) -> Fault {
        let class = match status {
            Status::Withdrawn => Class::RegionGone,
            Status::Flushed | Status::PeerGone | Status::Disconnected => Class::Gone,
            Status::Rights | Status::OutOfRegion | Status::Unaligned | Status::WrongKey => {
                Class::Input
            }
            _ => Class::Link,
        };
        Fault::new(class, status)
    }

    /// Returns the sentence.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Returns true when a later try may succeed.
    pub fn is_full(&self) -> bool {
        self.class == Class::Full
    }
}

impl From<Fault> for PyErr {
    fn from(Fault { class, sentence }: Fault) -> PyErr {
        match class {
            Class::Bench => exceptions::BenchError::new_err(sentence),
            Class::Full => exceptions::Full::new_err(sentence),
            Class::Gone => exceptions::Gone::new_err(sentence),
            Class::Input => exceptions::InputError::new_err(sentence),
            Class::Link => exceptions::LinkError::new_err(sentence),
            Class::RegionGone => exceptions::RegionGone::new_err(sentence),
            Class::Run => exceptions::RunError::new_err(sentence),
            Class::Simulation => exceptions::SimulationError::new_err(sentence),
            Class::Timeout => exceptions::Timeout::new_err(sentence),
        }
    }
}

/// Warns that recorded data could not be read. Errors: Python turns warnings into exceptions.
pub fn warn(py: Python<'_>, sentence: &str) -> Result<(), Fault> {
    let errors = py.import("fluxline.errors");
    let category = errors.and_then(|errors| errors.getattr("DamageWarning"));
    let warned = category.and_then(|category| {
        let text = std::ffi::CString::new(sentence.replace('\0', " ")).unwrap_or_default();
        PyErr::warn(py, &category, &text, 1)
    });
    warned.map_err(|_| Fault::new(Class::Run, sentence))
}

/// Errors with one class each.
macro_rules! classes {
    ($($error:ty => $class:ident),* $(,)?) => {$(
        impl From<$error> for Fault {
            fn from(error: $error) -> Fault {
                Fault::new(Class::$class, error)
            }
        }
    )*};
}
classes!(
    ExportError => Input,
    NameError => Input,
    OpenError => Link,
    PushOpenError => Link,
    ReadError => Run,
    RegisterError => Link,
);

impl From<TypedError> for Fault {
    fn from(error: TypedError) -> Fault {
        let is_run = matches!(error, TypedError::Read(_) | TypedError::Assembly { .. });
        Fault::new(if is_run { Class::Run } else { Class::Input }, error)
    }
}

impl From<NoConnection> for Fault {
    fn from(error: NoConnection) -> Fault {
        match error {
            NoConnection::Refused(_) => Fault::link(error),
            _ => Fault::new(Class::Timeout, error),
        }
    }
}

impl From<AccessError> for Fault {
    fn from(error: AccessError) -> Fault {
        let gone = matches!(error, AccessError::UnknownRegion);
        Fault::new(if gone { Class::RegionGone } else { Class::Input }, error)
    }
}

impl From<ImportError> for Fault {
    fn from(error: ImportError) -> Fault {
        let gone = matches!(error, ImportError::NotConnected);
        Fault::new(if gone { Class::Gone } else { Class::Link }, error)
    }
}

impl From<PostError> for Fault {
    fn from(error: PostError) -> Fault {
        let class = match error {
            PostError::Full => Class::Full,
            PostError::NotConnected => Class::Gone,
            PostError::Unsupported { .. } | PostError::Source => Class::Link,
            _ => Class::Input,
        };
        Fault::new(class, error)
    }
}

impl From<PushRefused> for Fault {
    fn from(error: PushRefused) -> Fault {
        let class = match error {
            PushRefused::Full => Class::Full,
            PushRefused::ConsumerGone => Class::Gone,
            PushRefused::TooLong { .. } | PushRefused::Finished => Class::Input,
            _ => Class::Link,
        };
        Fault::new(class, error)
    }
}

impl From<NextError> for Fault {
    fn from(error: NextError) -> Fault {
        let gone = matches!(error, NextError::Gone);
        Fault::new(if gone { Class::Gone } else { Class::Link }, error)
    }
}
