//! Checks of an experiment's numbers; each message says what to write.

use std::fmt::Display;

use super::problem::Problem;
use super::{Build, Emulator, Events, Experiment, Raw, Record, Source};
use crate::builder::{Expectation, WindowClock};
use crate::capture::replay::Speed;
use crate::record::SyncPolicy;

impl Source {
    pub(super) fn check(&self) -> Result<(), Problem> {
        let name = &self.name;
        let slots = self.ring_slots;
        if !slots.is_power_of_two() || !(2..=1 << 20).contains(&slots) {
            let text = format!(
                "source `{name}`: ring-slots = {slots}; write a power of two from 2 to 1048576."
            );
            return Err(Problem::at("ring-slots", text));
        }
        if let Some(udp) = &self.udp {
            if udp.listen.is_empty() {
                let text = format!(
                    "source `{name}`: listen is empty; write for example [\"0.0.0.0:6006\"]."
                );
                return Err(Problem::at("udp.listen", text));
            }
            if !(1..=65_535).contains(&udp.datagram_bytes_max) {
                let text = format!(
                    "source `{name}`: datagram-bytes-max = {}; write 1 to 65535.",
                    udp.datagram_bytes_max
                );
                return Err(Problem::at("udp.datagram-bytes-max", text));
            }
        }
        if let Some(shm) = &self.shm
            && (!shm.ring_bytes.is_power_of_two() || !(4096..=1 << 40).contains(&shm.ring_bytes))
        {
            let text = format!(
                "source `{name}`: ring-bytes = {}; write a power of two of 4096 or more.",
                shm.ring_bytes
            );
            return Err(Problem::at("shm.ring-bytes", text));
        }
        if let Some(program) = &self.program
            && !(1..=65_535).contains(&program.datagram_bytes_max)
        {
            let bytes = program.datagram_bytes_max;
            let text = format!("source `{name}`: datagram-bytes-max = {bytes}; write 1 to 65535.");
            return Err(Problem::at("program.datagram-bytes-max", text));
        }
        if let Some(roce) = &self.roce {
            roce.check(name).map_err(|text| Problem::at("roce", text))?;
        }
        if let Some(pcap) = &self.pcap {
            check_speed(name, pcap.speed).map_err(|problem| problem.below("pcap"))?;
        }
        if let Some(raw) = &self.raw {
            raw.check(name).map_err(|problem| problem.below("raw"))?;
        }
        if let Some(emulator) = &self.emulator {
            emulator.check(name).map_err(|problem| problem.below("emulator"))?;
        }
        Ok(())
    }
}

/// Checks a length of time of a run or an emulator; `what` is its name in the message.
pub fn check_seconds(what: &str, seconds: f64) -> Result<(), String> {
    if seconds >= 0.0 && seconds.is_finite() {
        return Ok(());
    }
    Err(format!("{what} = {seconds} is not a time; write seconds, or 0 for no limit."))
}

fn check_speed(name: &str, speed: Speed) -> Result<(), Problem> {
    let Speed::Rate(rate) = speed else { return Ok(()) };
    if rate > 0.0 && rate.is_finite() {
        return Ok(());
    }
    let text = format!(
        "source `{name}`: speed = {rate}; write datagrams per second above 0, \"full\" or \
         \"recorded\"."
    );
    Err(Problem::at("speed", text))
}

impl Raw {
    fn check(&self, name: &str) -> Result<(), Problem> {
        let wrong =
            |key: &str, text: &str| Err(Problem::at(key, format!("source `{name}`: {text}")));
        if self.record_bytes.is_some() == self.length_prefix.is_some() {
            return wrong("record-bytes", "write either record-bytes or length-prefix.");
        }
        if self.record_bytes.is_some_and(|bytes| !(1..=65_535).contains(&bytes)) {
            return wrong("record-bytes", "record-bytes must be 1 to 65535.");
        }
        if self.speed == Speed::Recorded {
            return wrong("speed", "a raw file has no times; write speed = \"full\" or a rate.");
        }
        check_speed(name, self.speed)
    }
}

impl Emulator {
    /// Checks the numbers; `name` is the source's, for the message.
    pub fn check(&self, name: &str) -> Result<(), Problem> {
        let faults = &self.faults;
        let shares = [
            ("faults.drop", faults.drop),
            ("faults.duplicate", faults.duplicate),
            ("faults.reorder", faults.reorder),
            ("faults.corrupt", faults.corrupt),
            ("faults.stall", faults.stall),
            ("faults.restart", faults.restart),
            ("jitter", self.jitter),
        ];
        let wrong = |path: &str, value: &dyn Display, remedy: &str| {
            let key = path.rsplit('.').next().unwrap_or(path);
            Err(Problem::at(path, format!("source `{name}`: {key} = {value}; write {remedy}.")))
        };
        if let Some((path, share)) = shares.iter().find(|of| !(0.0..=1.0).contains(&of.1)) {
            return wrong(path, share, "0 to 1");
        }
        if !(self.rate >= 0.0 && self.rate.is_finite()) {
            return wrong("rate", &self.rate, "packets per second, or 0 for full speed");
        }
        if !(1..=65_536).contains(&self.sources) {
            return wrong("sources", &self.sources, "1 to 65536");
        }
        Ok(())
    }
}

impl Events {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.timeout_ms == 0 {
            let text = "[events] timeout-ms = 0 would close every event at once; write at least 1.";
            return Err(Problem::at("events.timeout-ms", text));
        }
        if self.window_us == 0 {
            return Err(Problem::at("events.window-us", "[events] window-us must be at least 1."));
        }
        if self.bytes_max == 0 {
            let text = "[events] bytes-max must be at least 1.";
            return Err(Problem::at("events.bytes-max", text));
        }
        if matches!(&self.require, Expectation::Sources(labels) if labels.is_empty()) {
            let text = "[events] require = [] asks for no source; write labels or a number.";
            return Err(Problem::at("events.require", text));
        }
        Ok(())
    }
}

impl Experiment {
    /// Checks that windows by arrival are not used with raw files, which have no times of arrival.
    pub(super) fn check_windows(&self) -> Result<(), Problem> {
        let Events { build, window_clock, .. } = &self.events;
        let by_arrival = *build == Build::Window && *window_clock == WindowClock::Arrival;
        match self.sources.iter().find(|source| by_arrival && source.raw.is_some()) {
            Some(source) => {
                let text = format!(
                    "source `{}`: raw files have no times of arrival; write window-clock = \
                     \"sensor\" below [events].",
                    source.name
                );
                Err(Problem::at("events.build", text))
            }
            None => Ok(()),
        }
    }
}

impl Record {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.batch_bytes == 0 || self.batch_bytes > 1 << 30 {
            let text =
                format!("[record] batch-bytes = {}; write 1 to 1073741824.", self.batch_bytes);
            return Err(Problem::at("record.batch-bytes", text));
        }
        if self.batches_max == 0 {
            let text = "[record] batches-max must be at least 1.";
            return Err(Problem::at("record.batches-max", text));
        }
        match self.sync {
            SyncPolicy::EverySeconds(seconds) if !(seconds > 0.0 && seconds.is_finite()) => {
                let text = format!(
                    "[record] sync = {seconds}; write \"none\", \"batch\" or seconds above 0."
                );
                Err(Problem::at("record.sync", text))
            }
            _ => Ok(()),
        }
    }
}
