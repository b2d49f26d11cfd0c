//! Measurements between two hosts: one message, and streams in one direction or both.

use super::packet::Blank;
use super::{Config, ConfigError, Entry, Network};
use crate::core::interconnect::{Class, Interconnect, Report};
use crate::{Agenda, Duration, Instant};

/// Returns the one-way time of a message as a ping-pong measures it, with a call of `call` at each
/// end.
///
/// # Errors
/// Those of [`Config::check`].
pub fn one_way(config: &Config, call: Duration, bytes: u32) -> Result<Duration, ConfigError> {
    let streams = Streams { bytes, count: 1, outstanding: 1, call, ways: Ways::One };
    Ok(streams.run(config)?.since(Instant::START))
}

/// The direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// Host 0 sends to host 1.
    One,
    /// Both hosts send.
    Both,
}

impl Ways {
    /// Returns the number of senders.
    fn senders(self) -> u32 {
        match self {
            Ways::One => 1,
            Ways::Both => 2,
        }
    }
}

/// Messages that hosts 0 and 1 send to each other.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// The length of a message \[bytes\].
    pub bytes: u32,
    /// Messages of each sender.
    pub count: u32,
    /// Most messages of a sender that are not acknowledged.
    pub outstanding: u32,
    /// Processor time of a call.
    pub call: Duration,
    /// The direction.
    pub ways: Ways,
}

/// An entry of a measurement.
#[derive(Clone, Copy, Debug)]
enum Due {
    Network(Entry),
    /// A host has prepared a message.
    Send(u32),
}

impl From<Entry> for Due {
    fn from(entry: Entry) -> Due {
        Due::Network(entry)
    }
}

/// A host of a measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    left: u32,
    under_way: u32,
    is_preparing: bool,
    /// The time from which its processor is free.
    free: Instant,
}

impl Streams {
    /// Returns the rate of all data together \[MB/s\].
    ///
    /// # Errors
    /// Those of [`Config::check`].
    pub fn rate(&self, config: &Config) -> Result<f64, ConfigError> {
        let messages = f64::from(self.count) * f64::from(self.ways.senders());
        let bytes = f64::from(self.bytes) * messages;
        Ok(bytes / self.run(config)?.since(Instant::START).as_us())
    }

    /// Returns the time at which the last program has its last message.
    fn run(&self, config: &Config) -> Result<Instant, ConfigError> {
        let mut network = Network::<Blank>::new(config.clone())?;
        let mut agenda = Agenda::<Due>::default();
        let mut hosts = [Host::default(); 2];
        let mut last = Instant::START;
        for node in 0..self.ways.senders() {
            hosts[node as usize].left = self.count;
            self.prepare(node, &mut hosts, &mut agenda);
        }
        while let Some(due) = agenda.take(Instant::NEVER) {
            match due {
                Due::Network(entry) => network.handle(entry, &mut agenda),
                Due::Send(node) => {
                    let number = u64::from(hosts[node as usize].left);
                    let blank = Blank { target: 1 - node, bytes: self.bytes, number };
                    let refused = network.send(node, blank, &mut agenda).is_err();
                    let host = &mut hosts[node as usize];
                    host.under_way += u32::from(!refused);
                    host.left -= u32::from(!refused);
                    host.is_preparing = false;
                    self.prepare(node, &mut hosts, &mut agenda);
                }
            }
            while let Some(report) = network.next_report() {
                match report {
                    Report::Received { node, .. } => {
                        let host = &mut hosts[node as usize];
                        while network.take(node, Class::Request, &mut agenda).is_some() {
                            host.free = host.free.max(agenda.now()) + self.call;
                            last = last.max(host.free);
                        }
                    }
                    Report::Done { node, .. } | Report::Lost { node, .. } => {
                        hosts[node as usize].under_way -= 1;
                        self.prepare(node, &mut hosts, &mut agenda);
                    }
                    Report::Space { .. } | Report::Dropped { .. } => {}
                }
            }
        }
        Ok(last)
    }

    /// Lets a host prepare its next message, unless enough are under way.
    fn prepare(&self, node: u32, hosts: &mut [Host; 2], agenda: &mut Agenda<Due>) {
        let host = &mut hosts[node as usize];
        if host.left > 0 && host.under_way < self.outstanding && !host.is_preparing {
            host.is_preparing = true;
            host.free = host.free.max(agenda.now()) + self.call;
            agenda.schedule(host.free, Due::Send(node));
        }
    }
}

impl crate::Entry for Due {
    fn component(&self) -> u32 {
        match self {
            Due::Network(entry) => entry.component(),
            Due::Send(node) => *node,
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Due::Network(entry) => entry.kind(),
            Due::Send(_) => 0x40,
        }
    }
}
