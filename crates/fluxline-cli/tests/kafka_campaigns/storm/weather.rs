//! The deeds of a storm, drawn from a seed: processes are killed, stopped and started again.

use std::fmt;
use std::time::{Duration, Instant};

use fluxline_core::random::Draw;

use super::boards::wall_ns;
use super::judge::consumed;
use super::lab::{READOUTS, StormLab};
use crate::process::{Process, WITHIN};

/// Stop of a builder: longer than the silence after which it counts as dead (3 s), and than the
/// group waits for it (6 s).
const LONGER_THAN_DEAD: Duration = Duration::from_millis(7_000);
/// Time that packets need at most from a readout to the brokers, while these answer.
const HANDED_OVER_WITHIN: Duration = Duration::from_secs(3);
/// Time that a readout needs at most for its backlog after the brokers came back.
const BACKLOG_WITHIN: Duration = Duration::from_secs(15);

/// A deed of the storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    KillBuilder,
    StopBuilder,
    KillBroker,
    StopBroker,
    KillReadout,
    StopReadout,
    KillConsumer,
}

const DEEDS: [Deed; 7] = [
    Deed::KillBuilder,
    Deed::StopBuilder,
    Deed::KillBroker,
    Deed::StopBroker,
    Deed::KillReadout,
    Deed::StopReadout,
    Deed::KillConsumer,
];

/// A span of time since 1970 \[ns\].
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub from: u64,
    pub to: u64,
}

impl Span {
    /// Returns true when a time is in the span, or nearer to it than `margin`.
    pub fn is_near(&self, time: u64, margin: Duration) -> bool {
        let margin = margin.as_nanos() as u64;
        self.from.saturating_sub(margin) <= time && time < self.to.saturating_add(margin)
    }
}

/// A builder that is stopped until a time.
struct Stopped {
    builder: Process,
    until: Instant,
}

/// The storm.
pub struct Storm<'a> {
    lab: &'a StormLab,
    draw: Draw,
    began: Instant,
    bag: Vec<Deed>,
    /// The readouts, which are never away for long.
    pub readouts: Vec<Process>,
    builders: Vec<Process>,
    stopped: Vec<Stopped>,
    consumer: Process,
    started: u32,
    consumers: u32,
    /// Deeds so far.
    pub deeds: Vec<Deed>,
    /// The times in which the brokers did not answer.
    pub outages: Vec<Span>,
    /// The times in which a readout did not go on, or was away.
    pub pauses: Vec<Span>,
    /// The times in which packets to a readout may be lost with it: readout and time.
    pub losses: Vec<(usize, Span)>,
}

impl fmt::Display for Storm<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for deed in DEEDS {
            let count = self.deeds.iter().filter(|its| **its == deed).count();
            write!(out, "{deed:?} {count}, ")?;
        }
        Ok(())
    }
}

impl<'a> Storm<'a> {
    /// Starts two readouts, three builders and a consumer.
    pub fn begin(lab: &'a StormLab, draw: Draw) -> Storm<'a> {
        let builders = vec![lab.node("builder", "b0"), lab.node("builder", "b1")];
        let mut storm = Storm {
            lab,
            draw,
            began: Instant::now(),
            bag: Vec::new(),
            readouts: Vec::new(),
            builders,
            stopped: Vec::new(),
            // The first node makes the topic.
            consumer: lab.consumer(0),
            started: 2,
            consumers: 1,
            deeds: Vec::new(),
            outages: Vec::new(),
            pauses: Vec::new(),
            losses: Vec::new(),
        };
        let other = lab.node(READOUTS[1], "x");
        storm.readouts = vec![started(lab, READOUTS[0], "x"), other];
        storm.readouts[1].wait_for("reads out");
        storm.builders.iter().for_each(|builder| builder.wait_for("builds"));
        storm.start_builder();
        storm
    }

    /// Does one deed. Each kind comes as often as the others.
    pub fn rage(&mut self) {
        if self.bag.is_empty() {
            self.bag.extend(DEEDS);
        }
        let place = self.draw.below(self.bag.len() as u64) as usize;
        let deed = self.bag.swap_remove(place);
        self.deeds.push(deed);
        println!("{:.1} s: {deed:?}", self.began.elapsed().as_secs_f64());
        match deed {
            Deed::KillBuilder => self.kill_builder(),
            Deed::StopBuilder => self.stop_builder(),
            Deed::KillBroker | Deed::StopBroker => self.hit_broker(deed),
            Deed::KillReadout => self.kill_readout(),
            Deed::StopReadout => self.stop_readout(),
            Deed::KillConsumer => self.start_consumer(),
        }
        self.look_after();
        let pause = self.millis(100, 1_200);
        std::thread::sleep(pause);
    }

    /// Returns true when each kind of deed came.
    pub fn has_done_everything(&self) -> bool {
        self.deeds.len() >= DEEDS.len()
    }

    /// Returns the times in which packets may be late.
    pub fn troubles(&self) -> Vec<Span> {
        let losses = self.losses.iter().map(|(_, span)| *span);
        self.outages.iter().chain(&self.pauses).copied().chain(losses).collect()
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.draw.below(to - from))
    }

    fn start_builder(&mut self) {
        let id = format!("b{}", self.started);
        self.started += 1;
        self.builders.push(self.lab.node("builder", &id));
    }

    fn take_builder(&mut self) -> Process {
        let place = self.draw.below(self.builders.len() as u64) as usize;
        self.builders.swap_remove(place)
    }

    /// Kills a builder, and starts another one, perhaps under the same name.
    fn kill_builder(&mut self) {
        let builder = self.take_builder();
        let name = builder.name.replace("builder-", "");
        drop(builder);
        let pause = self.millis(0, 1_500);
        std::thread::sleep(pause);
        match self.draw.chance(0.5) {
            true => self.builders.push(self.lab.node("builder", &name)),
            false => self.start_builder(),
        }
    }

    /// Stops a builder for so long that others take its partitions.
    fn stop_builder(&mut self) {
        self.start_builder();
        let builder = self.take_builder();
        builder.signal("-STOP");
        let until = Instant::now() + LONGER_THAN_DEAD + self.millis(0, 3_000);
        self.stopped.push(Stopped { builder, until });
    }

    fn hit_broker(&mut self, deed: Deed) {
        let (from, time) = (wall_ns(), self.millis(100, 2_500));
        match deed {
            Deed::KillBroker => self.lab.broker.kill(time),
            _ => self.lab.broker.pause(time),
        }
        self.outages.push(Span { from, to: wall_ns() });
    }

    fn kill_readout(&mut self) {
        let which = self.draw.below(2) as usize;
        let killed = wall_ns();
        let again = self.millis(0, 800);
        let id = format!("x{}", self.deeds.len());
        let mut next = None;
        for (place, readout) in std::mem::take(&mut self.readouts).into_iter().enumerate() {
            if place != which {
                self.readouts.push(readout);
                continue;
            }
            drop(readout);
            std::thread::sleep(again);
            next = Some(started(self.lab, READOUTS[which], &id));
        }
        self.readouts.insert(which, next.expect("the one that was killed"));
        let back = wall_ns();
        // Records that the brokers had not taken died with the readout.
        let margin = |time: Duration| time.as_nanos() as u64;
        let kept = self.outages.iter().filter(|outage| outage.is_near(killed, BACKLOG_WITHIN));
        let from = kept.map(|outage| outage.from).min().unwrap_or(killed).min(killed);
        let from = from - margin(HANDED_OVER_WITHIN);
        self.losses.push((which, Span { from, to: back + margin(Duration::from_millis(500)) }));
        self.pauses.push(Span { from: killed, to: back });
    }

    fn stop_readout(&mut self) {
        let (from, which) = (wall_ns(), self.draw.below(2) as usize);
        let time = self.millis(200, 2_000);
        self.readouts[which].signal("-STOP");
        std::thread::sleep(time);
        self.readouts[which].signal("-CONT");
        self.pauses.push(Span { from, to: wall_ns() });
    }

    fn start_consumer(&mut self) {
        // Two of them would write the same file.
        self.consumer.kill();
        self.consumer = self.lab.consumer(self.consumers);
        self.consumers += 1;
    }

    /// Lets stopped builders go on, and starts others where some have ended.
    fn look_after(&mut self) {
        for stopped in std::mem::take(&mut self.stopped) {
            if Instant::now() < stopped.until {
                self.stopped.push(stopped);
                continue;
            }
            stopped.builder.signal("-CONT");
            self.builders.push(stopped.builder);
        }
        // A client ends when the brokers are away for too long, or when its group did not wait for
        // it: it is started again.
        if self.consumer.ended().is_some() {
            self.start_consumer();
        }
        // Without brokers, no process can join; one that builds waits for them.
        let mut again = 0;
        self.builders.retain(|builder| {
            let (ended, said) = (builder.ended().is_some(), builder.said());
            let has_joined = said.contains("builds");
            assert!(!(ended && has_joined), "{} ended: {said}", builder.name);
            again += u32::from(ended);
            !ended
        });
        (0..again).for_each(|_| self.start_builder());
        while self.builders.len() > 4 {
            drop(self.take_builder());
        }
    }

    /// Ends the storm: everybody goes on. Returns the readouts and the builders.
    pub fn calm(&mut self) -> (Vec<Process>, Vec<Process>) {
        while let Some(Stopped { builder, until }) = self.stopped.pop() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            builder.signal("-CONT");
            self.builders.push(builder);
        }
        self.await_builders();
        (std::mem::take(&mut self.readouts), std::mem::take(&mut self.builders))
    }

    /// Waits until each builder takes part in the run: one that comes after its end would wait for
    /// the next run.
    fn await_builders(&mut self) {
        let began = Instant::now();
        loop {
            self.look_after();
            let mut builders = self.builders.iter();
            let Some(late) = builders.find(|of| !of.said().contains("builds")) else { return };
            assert!(began.elapsed() < WITHIN, "{} does not join: {}", late.name, late.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the consumer has this many events.
    pub fn finish_consumer(&mut self, events: u64) {
        let began = Instant::now();
        while consumed(self.lab) < events {
            if self.consumer.ended().is_some() {
                self.start_consumer();
            }
            let said = self.consumer.said();
            assert!(began.elapsed() < WITHIN, "{} of {events}: {said}", consumed(self.lab));
            std::thread::sleep(Duration::from_millis(200));
        }
        self.consumer.kill();
    }
}

/// Starts a readout, as often as the brokers do not answer; waits until it reads out.
fn started(lab: &StormLab, node: &str, id: &str) -> Process {
    loop {
        let readout = lab.node(node, id);
        let began = Instant::now();
        while readout.ended().is_none() {
            if readout.said().contains("reads out") {
                return readout;
            }
            assert!(began.elapsed() < WITHIN, "{node} does not begin: {}", readout.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        let said = readout.said();
        assert!(said.contains("no Kafka broker answers"), "{node}: {said}");
        println!("{node} did not join after {:.1?}: {said}", began.elapsed());
    }
}
