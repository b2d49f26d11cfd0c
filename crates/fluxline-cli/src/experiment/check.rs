//! What must hold of an experiment's numbers; each message says what to write.

use super::{
    Build, Emulator, Events, Experiment, Raw, Record, Require, Source, Speed, SpeedWord, Sync,
    WindowClock,
};

impl Source {
    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let slots = self.ring_slots;
        if !slots.is_power_of_two() || !(2..=1 << 20).contains(&slots) {
            return Err(format!(
                "source `{name}`: ring-slots = {slots}; write a power of two from 2 to 1048576."
            ));
        }
        if let Some(udp) = &self.udp {
            if udp.listen.is_empty() {
                return Err(format!(
                    "source `{name}`: listen is empty; write for example [\"0.0.0.0:6006\"]."
                ));
            }
            if !(1..=65_535).contains(&udp.datagram_bytes_max) {
                return Err(format!(
                    "source `{name}`: datagram-bytes-max = {}; write 1 to 65535.",
                    udp.datagram_bytes_max
                ));
            }
        }
        if let Some(shm) = &self.shm
            && (!shm.ring_bytes.is_power_of_two() || !(4096..=1 << 40).contains(&shm.ring_bytes))
        {
            return Err(format!(
                "source `{name}`: ring-bytes = {}; write a power of two of 4096 or more.",
                shm.ring_bytes
            ));
        }
        if let Some(roce) = &self.roce {
            roce.check(name)?;
        }
        if let Some(pcap) = &self.pcap {
            check_speed(name, pcap.speed)?;
        }
        if let Some(raw) = &self.raw {
            raw.check(name)?;
        }
        if let Some(emulator) = &self.emulator {
            emulator.check(name)?;
        }
        Ok(())
    }
}

/// Checks a length of time that a run or an emulator is given; `what` is what the message calls it.
pub fn check_seconds(what: &str, seconds: f64) -> Result<(), String> {
    if seconds >= 0.0 && seconds.is_finite() {
        return Ok(());
    }
    Err(format!("{what} = {seconds} is no time; write seconds, or 0 for no limit."))
}

fn check_speed(name: &str, speed: Speed) -> Result<(), String> {
    match speed {
        Speed::Rate(rate) if !(rate > 0.0 && rate.is_finite()) => Err(format!(
            "source `{name}`: speed = {rate}; write datagrams per second above 0, \"full\" or \
             \"recorded\"."
        )),
        _ => Ok(()),
    }
}

impl Raw {
    fn check(&self, name: &str) -> Result<(), String> {
        if self.record_bytes.is_some() == self.length_prefix.is_some() {
            return Err(format!("source `{name}`: write either record-bytes or length-prefix."));
        }
        if self.record_bytes.is_some_and(|bytes| !(1..=65_535).contains(&bytes)) {
            return Err(format!("source `{name}`: record-bytes must be 1 to 65535."));
        }
        if self.speed == Speed::Word(SpeedWord::Recorded) {
            return Err(format!(
                "source `{name}`: a raw file has no times; write speed = \"full\" or a rate."
            ));
        }
        check_speed(name, self.speed)
    }
}

impl Emulator {
    /// Checks the numbers; `name` is the source's, for the message.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let faults = &self.faults;
        let shares = [
            ("drop", faults.drop),
            ("duplicate", faults.duplicate),
            ("reorder", faults.reorder),
            ("corrupt", faults.corrupt),
            ("stall", faults.stall),
            ("restart", faults.restart),
            ("jitter", self.jitter),
        ];
        for (key, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("source `{name}`: {key} = {share}; write 0 to 1."));
            }
        }
        if !(self.rate >= 0.0 && self.rate.is_finite()) {
            return Err(format!(
                "source `{name}`: rate = {}; write packets per second, or 0 for full speed.",
                self.rate
            ));
        }
        if !(1..=65_536).contains(&self.sources) {
            return Err(format!("source `{name}`: sources = {}; write 1 to 65536.", self.sources));
        }
        Ok(())
    }
}

impl Events {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.timeout_ms == 0 {
            return Err("[events] timeout-ms = 0 would close every event at once; write at \
                        least 1."
                .into());
        }
        if self.window_us == 0 {
            return Err("[events] window-us must be at least 1.".into());
        }
        if self.bytes_max == 0 {
            return Err("[events] bytes-max must be at least 1.".into());
        }
        if matches!(&self.require, Require::Labels(labels) if labels.is_empty()) {
            return Err(
                "[events] require = [] asks for no source; write labels or a number.".into()
            );
        }
        Ok(())
    }
}

impl Experiment {
    /// Raw files have no times of arrival to cut into windows.
    pub(super) fn check_windows(&self) -> Result<(), String> {
        let Events { build, window_clock, .. } = &self.events;
        let by_arrival = *build == Build::Window && *window_clock == WindowClock::Arrival;
        match self.sources.iter().find(|source| by_arrival && source.raw.is_some()) {
            Some(source) => Err(format!(
                "source `{}`: raw files have no times of arrival; write window-clock = \"sensor\" \
                 below [events].",
                source.name
            )),
            None => Ok(()),
        }
    }
}

impl Record {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.batch_bytes == 0 || self.batch_bytes > 1 << 30 {
            return Err(format!(
                "[record] batch-bytes = {}; write 1 to 1073741824.",
                self.batch_bytes
            ));
        }
        if self.batches_max == 0 {
            return Err("[record] batches-max must be at least 1.".into());
        }
        match self.sync {
            Sync::Seconds(seconds) if !(seconds > 0.0 && seconds.is_finite()) => Err(format!(
                "[record] sync = {seconds}; write \"none\", \"batch\" or seconds above 0."
            )),
            _ => Ok(()),
        }
    }
}
