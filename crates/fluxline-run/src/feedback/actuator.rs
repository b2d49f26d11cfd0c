//! The actuator node: takes the writes of all builders, in their order, and measures their delays.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use fluxline::clock;
use fluxline_cluster::edges::{Inlets, Taking};
use fluxline_core::{Moment, Span};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::part::{ActuatorPart, LeftBehind};
use super::write::{Head, Kind};
use crate::monitor::Monitor;
use crate::stop::Stop;

/// The longest sleep without a write.
const REST: Span = Span::from_ms(1);
/// The longest delay that is distinguished \[ns\].
const DELAY_MAX_NS: u64 = 3_600_000_000_000;
/// The parts of the delay, in the order of their times.
const PARTS: [&str; 4] =
    ["sampled_to_written", "sampled_to_closed", "closed_to_decided", "decided_to_written"];
/// The first line of `loop.csv`.
const COLUMNS: &str =
    "builder,sequence,key,generation,sampled_ns,closed_ns,decided_ns,written_ns,decision";

/// The clock of the actuator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActuatorClock {
    /// This host's.
    Host,
    /// That of a simulated link, which is 0 at this time of day.
    Virtual { epoch: Moment },
}

/// The actuator in its thread.
pub(crate) struct Actuator<I> {
    inlets: I,
    lanes: Vec<Lane>,
    clock: ActuatorClock,
    deadline: Option<Span>,
    file: Option<BufWriter<File>>,
    histograms: [Histogram<u64>; 4],
    late: u64,
    unmeasured: u64,
    monitor: Monitor,
    /// Ends an actuator whose builders are other processes; `None`: they end it.
    stop: Option<Stop>,
    left_behind: LeftBehind,
}

/// The writes of one builder.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// The sequence number of the next write.
    next: u64,
    arrived: u64,
    missing: u64,
    has_ended: bool,
    is_over: bool,
}

impl<I: Inlets> Actuator<I> {
    /// Makes the actuator of `builders`, which has a lane for each in `inlets`.
    pub fn new(inlets: I, builders: usize, clock: ActuatorClock, monitor: Monitor) -> Actuator<I> {
        let histogram = || {
            let made = Histogram::new_with_bounds(1, DELAY_MAX_NS, 3);
            made.unwrap_or_else(|error| unreachable!("bounds that are constants: {error}"))
        };
        Actuator {
            inlets,
            lanes: vec![Lane::default(); builders],
            clock,
            deadline: None,
            file: None,
            histograms: std::array::from_fn(|_| histogram()),
            late: 0,
            unmeasured: 0,
            monitor,
            stop: None,
            left_behind: LeftBehind::default(),
        }
    }

    /// Counts writes whose delay is longer as late.
    pub fn with_deadline(self, deadline: Option<Span>) -> Actuator<I> {
        Actuator { deadline, ..self }
    }

    /// Ends at this stop, when builders are other processes.
    pub fn with_stop(self, stop: Option<Stop>) -> Actuator<I> {
        Actuator { stop, ..self }
    }

    /// Ends the lanes of builders whose functions are left behind.
    pub fn with_left_behind(self, left_behind: LeftBehind) -> Actuator<I> {
        Actuator { left_behind, ..self }
    }

    /// Writes each decision into a file of the run folder.
    pub fn with_file(mut self, folder: Option<&Path>) -> Actuator<I> {
        let Some(folder) = folder else { return self };
        let path = folder.join("loop.csv");
        let made = File::create(&path).and_then(|file| {
            let mut file = BufWriter::new(file);
            writeln!(file, "{COLUMNS}")?;
            Ok(file)
        });
        match made {
            Ok(file) => self.file = Some(file),
            Err(error) => self.fail_file(&error),
        }
        self
    }

    fn fail_file(&mut self, error: &std::io::Error) {
        self.file = None;
        self.monitor.fault(format_args!(
            "loop.csv cannot be written ({error}): decisions are counted, and no longer in the file"
        ));
    }

    /// Takes writes until all builders have ended; returns the counts.
    pub fn run(mut self) -> ActuatorPart {
        let mut is_flushed = false;
        loop {
            self.inlets.progress();
            let mut worked = false;
            for lane in 0..self.lanes.len() {
                worked |= self.take_lane(lane);
            }
            if self.lanes.iter().all(|lane| lane.is_over) {
                break;
            }
            if worked {
                is_flushed = false;
                continue;
            }
            if self.stop.as_ref().is_some_and(Stop::is_over) {
                break;
            }
            if !std::mem::replace(&mut is_flushed, true) {
                self.flush();
            }
            for (builder, lane) in self.lanes.iter_mut().enumerate() {
                lane.is_over |= self.left_behind.has(builder);
            }
            self.inlets.rest(REST);
        }
        self.flush();
        self.part()
    }

    fn flush(&mut self) {
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            self.fail_file(&error);
        }
    }

    /// Takes what has come of a builder; returns true when something had.
    fn take_lane(&mut self, lane: usize) -> bool {
        let mut worked = false;
        while !self.lanes[lane].is_over {
            match self.inlets.take(lane) {
                Taking::Record(record) => self.take(lane, &record),
                Taking::Empty => break,
                Taking::Gone => {
                    self.lanes[lane].is_over = true;
                    if self.inlets.has_crashed() {
                        self.monitor.fault("actuator-0 has crashed: it takes no writes any more");
                    } else if !self.lanes[lane].has_ended {
                        self.monitor.fault(format_args!(
                            "builder-{lane} ended before its last decision: the actuator keeps the \
                             decision before"
                        ));
                    }
                }
            }
            worked = true;
        }
        worked
    }

    fn take(&mut self, lane: usize, record: &[u8]) {
        let written = match self.clock {
            ActuatorClock::Host => clock::now(),
            ActuatorClock::Virtual { epoch } => {
                epoch + self.inlets.link_time().since(Moment::default())
            }
        };
        let Some((head, decision)) = Head::read(record) else {
            self.monitor.fault(format_args!(
                "a record of builder-{lane} at actuator-0 is of another version of this program; \
                 run the same version on all nodes"
            ));
            return;
        };
        let of = &mut self.lanes[lane];
        match head.kind {
            Kind::Hello => {}
            Kind::Write if head.sequence < of.next => self.monitor.fault(format_args!(
                "write {} of builder-{lane} came twice or out of order, and was left out; please \
                 report it",
                head.sequence
            )),
            Kind::Write => {
                // A stranger with the key may write any number.
                of.missing = of.missing.saturating_add(head.sequence - of.next);
                of.next = head.sequence.saturating_add(1);
                of.arrived += 1;
                self.measure(&head, written);
                self.put_row(lane, &head, written, decision);
            }
            Kind::End => {
                of.missing = of.missing.saturating_add(head.sequence.saturating_sub(of.next));
                of.next = of.next.max(head.sequence);
                of.has_ended = true;
            }
        }
    }

    /// Adds the delays of a write.
    fn measure(&mut self, head: &Head, written: Moment) {
        let mut add = |part: usize, from: Moment, to: Moment| {
            self.histograms[part].saturating_record(to.since(from).as_ns().max(1));
        };
        add(2, head.closed, head.decided);
        add(3, head.decided, written);
        let Some(sampled) = head.sampled else {
            self.unmeasured += 1;
            return;
        };
        add(0, sampled, written);
        add(1, sampled, head.closed);
        let is_late = self.deadline.is_some_and(|most| written.since(sampled) > most);
        self.late += u64::from(is_late);
    }

    fn put_row(&mut self, lane: usize, head: &Head, written: Moment, decision: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let number = |of: Option<u64>| of.map_or_else(String::new, |of| of.to_string());
        let hex: String = decision.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = writeln!(
            file,
            "{lane},{},{},{},{},{},{},{},{hex}",
            head.sequence,
            number(head.key),
            head.generation,
            number(head.sampled.map(Moment::as_ns)),
            head.closed.as_ns(),
            head.decided.as_ns(),
            written.as_ns(),
        );
        if let Err(error) = line {
            self.fail_file(&error);
        }
    }

    fn part(&self) -> ActuatorPart {
        let delays = PARTS.iter().zip(&self.histograms);
        let delays: Map<String, Value> = delays
            .filter(|(_, histogram)| !histogram.is_empty())
            .map(|(name, histogram)| ((*name).to_owned(), delays_of(histogram)))
            .collect();
        ActuatorPart {
            arrived: self.lanes.iter().map(|lane| lane.arrived).collect(),
            missing: self.lanes.iter().map(|lane| lane.missing).collect(),
            late: self.late,
            unmeasured: self.unmeasured,
            delays: delays.into(),
        }
    }
}

/// Returns the delays of a histogram, each to a thousandth.
fn delays_of(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "writes": histogram.len(),
        "p50_ns": at(0.5),
        "p90_ns": at(0.9),
        "p99_ns": at(0.99),
        "p999_ns": at(0.999),
        "p9999_ns": at(0.9999),
        "max_ns": histogram.max(),
    })
}
