//! `[events]` of an experiment file as options of the command line.

use clap::Args;

use fluxline_daq::builder::{Expectation, Late, WindowClock};
use fluxline_daq::experiment::{Build, Events};

use crate::failure::Failure;
use crate::words::{Word, words};

/// The settings of the event builder. Each option overrides the key of `[events]` with its name.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Events")]
pub struct EventArguments {
    /// The rule that joins packets to events; default: from the experiment or the description
    #[arg(long, value_parser = words::<Build>(BUILDS))]
    pub events: Option<Build>,
    /// Sources that an event needs: a number, or their labels, separated by commas
    #[arg(long, value_delimiter = ',', num_args = 1, value_name = "COUNT|LABEL,...")]
    pub require: Vec<String>,
    /// The longest silence of a source, while others send, that events wait for (ms)
    #[arg(long, value_name = "MS")]
    pub timeout_ms: Option<u64>,
    /// The longest wait for a source that sends but lags behind the others (ms)
    #[arg(long, value_name = "MS")]
    pub lag_max_ms: Option<u64>,
    /// The largest delay of packets that overtake each other (ms)
    #[arg(long, value_name = "MS")]
    pub jitter_ms: Option<u64>,
    /// The treatment of packets that come after their event was closed
    #[arg(long, value_parser = words::<Late>(LATE))]
    pub late: Option<Late>,
    /// Width of a time window (µs), with --events window
    #[arg(long, value_name = "US")]
    pub window_us: Option<u64>,
    /// Time that a window stays open after its end (µs), with --events window
    #[arg(long, value_name = "US")]
    pub lateness_us: Option<u64>,
    /// The clock of time windows, with --events window
    #[arg(long, value_parser = words::<WindowClock>(WINDOW_CLOCKS))]
    pub window_clock: Option<WindowClock>,
    /// Most events under construction; 0: as many as --bytes-max allows
    #[arg(long, value_name = "EVENTS")]
    pub open_max: Option<u32>,
    /// Most bytes under construction
    #[arg(long, value_name = "BYTES")]
    pub bytes_max: Option<u64>,
}

/// Words of `--events`; leaving the option out is the file's `auto`.
const BUILDS: &[Word] = &[
    ("packet", "Every packet is an event"),
    ("key", "Packets of one key are an event, over all sources"),
    ("source", "Packets of one key and one source are an event"),
    ("window", "Packets of one time window are an event"),
];

/// Words of `--late`.
const LATE: &[Word] =
    &[("record", "Rows of their own, with status late"), ("drop", "Counted, and not recorded")];

/// Words of `--window-clock`.
const WINDOW_CLOCKS: &[Word] =
    &[("arrival", "When packets arrived"), ("sensor", "The sensors' times")];

impl EventArguments {
    /// Overrides settings of `events`.
    ///
    /// Errors: an option that the resulting way of building events does not use.
    pub fn apply(&self, events: &mut Events) -> Result<(), Failure> {
        replace(&mut events.build, self.events);
        self.check_use(events.build)?;
        if !self.require.is_empty() {
            events.require = match &self.require[..] {
                [one] if one.parse::<u32>().is_ok() => {
                    Expectation::of_count(one.parse().unwrap_or_default())
                }
                labels => Expectation::Sources(labels.to_vec()),
            };
        }
        replace(&mut events.window_clock, self.window_clock);
        replace(&mut events.late, self.late);
        replace(&mut events.timeout_ms, self.timeout_ms);
        replace(&mut events.lag_max_ms, self.lag_max_ms);
        replace(&mut events.jitter_ms, self.jitter_ms);
        replace(&mut events.window_us, self.window_us);
        replace(&mut events.lateness_us, self.lateness_us);
        replace(&mut events.open_max, self.open_max);
        replace(&mut events.bytes_max, self.bytes_max);
        Ok(())
    }

    /// Rejects an option that would be ignored: the user would not notice the mistake.
    fn check_use(&self, build: Build) -> Result<(), Failure> {
        let of_windows = [
            ("--window-us", self.window_us.is_some()),
            ("--lateness-us", self.lateness_us.is_some()),
            ("--window-clock", self.window_clock.is_some()),
        ];
        let of_several = [("--require", !self.require.is_empty())];
        let unused = |options: &[(&'static str, bool)]| {
            options.iter().find(|(_, given)| *given).map(|(name, _)| *name)
        };
        if let Some(option) = unused(&of_windows).filter(|_| build != Build::Window) {
            return Err(Failure::input(format_args!(
                "{option} is for events that are time windows: add --events window."
            )));
        }
        if let Some(option) =
            unused(&of_several).filter(|_| !matches!(build, Build::Key | Build::Window))
        {
            return Err(Failure::input(format_args!(
                "{option} is for events of several sources: add --events key or --events window."
            )));
        }
        Ok(())
    }
}

fn replace<T>(value: &mut T, by: Option<T>) {
    if let Some(by) = by {
        *value = by;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::EventArguments;
    use fluxline_daq::builder::Expectation;
    use fluxline_daq::experiment::{Build, Events};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        events: EventArguments,
    }

    fn applied(line: &[&str]) -> Result<Events, String> {
        let line = Line::parse_from([&["x"], line].concat());
        let mut events = Events::default();
        line.events.apply(&mut events).map_err(|failure| failure.message)?;
        Ok(events)
    }

    #[test]
    fn every_key_of_events_is_an_option() {
        let keys = serde_json::to_value(Events::default()).expect("JSON");
        let command = <Line as clap::CommandFactory>::command();
        for key in keys.as_object().expect("a table").keys() {
            let option = if key == "build" { "events" } else { key };
            let there = command.get_arguments().any(|argument| argument.get_long() == Some(option));
            assert!(there, "--{option}");
        }
    }

    #[test]
    fn a_number_counts_sources_and_words_name_them() {
        let events = applied(&["--events", "key", "--require", "4"]).expect("applied");
        assert_eq!((events.build, events.require), (Build::Key, Expectation::Count(4)));
        let events = applied(&["--events", "key", "--require", "a,b=1"]).expect("applied");
        assert_eq!(events.require, Expectation::Sources(vec!["a".into(), "b=1".into()]));
        let events = applied(&["--timeout-ms", "7", "--bytes-max", "9"]).expect("applied");
        assert_eq!((events.timeout_ms, events.bytes_max), (7, 9));
    }

    #[test]
    fn an_option_that_would_do_nothing_is_an_error() {
        for (line, wanted) in [
            (&["--window-us", "5"][..], "--events window"),
            (&["--require", "4"], "--events key"),
            (&["--events", "packet", "--require", "4"], "--events key"),
        ] {
            let message = applied(line).expect_err("refused");
            assert!(
                message.contains(line[line.len() - 2]) && message.contains(wanted),
                "{message}"
            );
        }
    }
}
