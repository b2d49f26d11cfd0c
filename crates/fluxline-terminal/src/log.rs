//! The log of `--log`: lines of text or JSON on standard error, and their level.
//!
//! Without `--log` and without FLUXLINE_LOG nothing is logged, and an event costs a comparison.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::failure::Failure;
use crate::output;

/// The environment's level.
const VARIABLE: &str = "FLUXLINE_LOG";

/// True when there is a log.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text for each event
    Text,
    /// One JSON document in a line for each event
    Json,
}

/// The least important events of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Faults that ended an input
    Error,
    /// Notes of a run, silent sources among them
    Warn,
    /// Starts, stops, changes of state and new sources, too
    Info,
    /// Everything that is logged
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        }
    }
}

/// Begins the log that the command line and the environment ask for. The command line decides
/// where both name a level.
pub fn begin(format: Option<LogFormat>, level: Option<LogLevel>) -> Result<(), Failure> {
    let of_environment = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let of_environment = of_environment.map(|text| {
        LogLevel::from_str(&text, true).map_err(|_| {
            Failure::input(format_args!(
                "{VARIABLE} is `{}`; set it to error, warn, info or debug.",
                output::escaped_line(&text)
            ))
        })
    });
    let of_environment = of_environment.transpose()?;
    if format.is_none() && level.is_none() && of_environment.is_none() {
        return Ok(());
    }
    let level = level.or(of_environment).unwrap_or(LogLevel::Info);
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::from(level));
    let log = log.with_writer(Lines).with_target(false);
    let result = match format.unwrap_or(LogFormat::Text) {
        LogFormat::Text => tracing::subscriber::set_global_default(log.with_ansi(false).finish()),
        LogFormat::Json => {
            tracing::subscriber::set_global_default(log.json().flatten_event(true).finish())
        }
    };
    IS_ON.store(result.is_ok(), Ordering::Relaxed);
    Ok(())
}

/// Returns true when there is a log: what it has is then not printed a second time.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Standard error, as the rest of the program writes to it.
struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line
    }
}

/// One line of the log, which is written at once.
struct Line;

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        output::inform(format_args!("{}", text.trim_end_matches('\n').replace('\n', "\\n")));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
