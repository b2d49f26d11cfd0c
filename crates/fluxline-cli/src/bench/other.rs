//! The other process of the benchmark: does what it is ordered to until it is ordered to end, or
//! until the one that ordered it is gone.

use std::time::{Duration, Instant};

use fluxline::push::{PushConsumer, PushProducer};
use fluxline::shm::Shm;
use fluxline::{clock, pin};
use fluxline_proto::fabric::{Completion, Fabric};

use super::BenchError;
use super::node::{self, ADAPTIVE, GRANT, HERE, LARGE_RING_BYTES, RING_BYTES, SPIN, THERE};
use super::order::{Order, Task, Way};
use super::pair::LOOK_RECORDS;
use super::watch::MEET_LIMIT;
use crate::run::Stop;

/// Fruitless looks between two looks at the other's life: some milliseconds.
const LOOK_SPINS: u32 = 1 << 20;
/// How long a consumer that sleeps does at most before it looks for the other's life.
const SLEEP: Duration = Duration::from_millis(50);

/// Works for the process that measures, on `core`.
pub fn work(group: &str, core: usize) -> Result<(), BenchError> {
    // Ctrl-C is for the process that measures; this one ends with it.
    let _stop = Stop::on_signal();
    pin::pin_current_thread(core)?;
    let done = Other::meet(group).and_then(|mut other| other.work());
    // Where the other was killed.
    node::clean_after(group, &[HERE]);
    done
}

struct Other {
    life: Life,
    adaptive: Shm,
    /// By [`Way`].
    rings: [PushConsumer; 4],
    back: PushProducer,
    back_large: PushProducer,
    /// How often this thread had been given its core when it last took records.
    turns: u64,
}

/// The node, and whether the process that measures lives.
struct Life {
    node: Shm,
    spins: u32,
    gone: bool,
}

impl Life {
    /// Called for every fruitless look.
    #[inline]
    fn spin(&mut self) {
        self.spins = self.spins.wrapping_add(1);
        if self.spins.is_multiple_of(LOOK_SPINS) {
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        let what = self.node.poll(clock::now());
        self.gone |= matches!(what, Some(Completion::Broken { .. }));
    }
}

/// Asks again and again until there is something.
fn until<T>(mut ask: impl FnMut() -> Result<Option<T>, BenchError>) -> Result<T, BenchError> {
    let began = Instant::now();
    while began.elapsed() < MEET_LIMIT {
        if let Some(found) = ask()? {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Err(BenchError::NotMet)
}

impl Other {
    fn meet(group: &str) -> Result<Other, BenchError> {
        let mut adaptive = node::open(group, ADAPTIVE, SPIN)?;
        let region = adaptive.register(1 << 20)?;
        adaptive.export(region, fluxline_proto::fabric::Name::parse("region")?, GRANT)?;
        let mut node = node::open(group, THERE, Duration::ZERO)?;
        let rings = [
            node::export(&mut node, "small", RING_BYTES, false)?,
            node::export(&mut node, "large", LARGE_RING_BYTES, false)?,
            node::export(&mut node, "blocking", RING_BYTES, true)?,
            node::export(&mut node, "adaptive", RING_BYTES, true)?,
        ];
        let region = node.register(1 << 20)?;
        node.export(region, fluxline_proto::fabric::Name::parse("region")?, GRANT)?;
        until(|| node::connected(&mut node))?;
        let endpoint = until(|| node::connect(&mut node, HERE))?;
        until(|| node::connected(&mut node))?;
        let mut ring = |called| {
            let remote = node::import(&mut node, endpoint, called)?;
            Ok::<_, BenchError>(node.push_producer(remote)?)
        };
        let (back, back_large) = (ring("back")?, ring("back-large")?);
        until(|| node::connected(&mut adaptive))?;
        let life = Life { node, spins: 0, gone: false };
        Ok(Other { life, adaptive, rings, back, back_large, turns: 0 })
    }

    fn work(&mut self) -> Result<(), BenchError> {
        while !self.life.gone {
            let Some(record) = node::next(&mut self.rings[Way::Small as usize])? else {
                self.life.spin();
                continue;
            };
            let what = || BenchError::Defect { what: "an order that is none".into() };
            let order = Order::from_bytes(&record.to_vec()).ok_or_else(what)?;
            match order.task {
                Task::End => return Ok(()),
                Task::Echo | Task::Answer => self.echo(order)?,
                Task::Take => {
                    let sum = self.take(order)?;
                    self.reply(sum)?;
                    // Since the last time, not since the order: the look would count as taking.
                    let before = std::mem::replace(&mut self.turns, turns()?);
                    self.reply(self.turns - before)?;
                }
                Task::CountNotices => {
                    let told = self.count_notices(order.count);
                    self.reply(told)?;
                }
                Task::AnswerNotices => self.answer_notices(order)?,
                Task::Idle => {
                    let spent = self.idle(Duration::from_millis(order.count))?;
                    self.reply(spent)?;
                }
            }
        }
        Ok(())
    }

    fn reply(&mut self, value: u64) -> Result<(), BenchError> {
        self.back.push(&value.to_le_bytes())?;
        self.back.publish();
        Ok(())
    }

    fn echo(&mut self, order: Order) -> Result<(), BenchError> {
        let (own, mut copy) = (vec![1; order.bytes], Vec::with_capacity(order.bytes + 8));
        let ring = &mut self.rings[order.way as usize];
        let large = order.way == Way::Large;
        let back = if large { &mut self.back_large } else { &mut self.back };
        let mut left = order.count;
        while left > 0 && !self.life.gone {
            if let Some(record) = node::next(ring)? {
                let echo = order.task == Task::Echo;
                if echo {
                    record.copy_to(&mut copy);
                }
                back.push(if echo { &copy } else { &own })?;
                back.publish();
                left -= 1;
                continue;
            }
            if order.way == Way::Blocking {
                ring.wait(SLEEP);
            }
            self.life.spin();
        }
        Ok(())
    }

    /// Sums the first words of all records; looks at the others where that was ordered.
    fn take(&mut self, order: Order) -> Result<u64, BenchError> {
        let (mut sum, mut seen, mut rest) = (0_u64, 0, 0_u64);
        let ring = &mut self.rings[order.way as usize];
        let mut idle_since = None;
        while seen < order.count && !self.life.gone {
            if let Some(record) = node::next(ring)? {
                sum = sum.wrapping_add(record.word(0).unwrap_or(0));
                if order.reads_all {
                    rest = record.words().skip(1).fold(rest, u64::wrapping_add);
                }
                seen += 1;
                if order.looks && seen % LOOK_RECORDS == 0 {
                    self.life.look();
                }
                idle_since = None;
                continue;
            }
            self.life.spin();
            if order.way == Way::Adaptive {
                let since = *idle_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= SPIN {
                    ring.wait(SLEEP);
                }
            }
        }
        std::hint::black_box(rest);
        Ok(sum)
    }

    fn count_notices(&mut self, count: u64) -> u64 {
        let mut told = 0;
        while told < count && !self.life.gone {
            match self.life.node.poll(clock::now()) {
                Some(Completion::Notified { .. }) => told += 1,
                Some(Completion::Broken { .. }) => self.life.gone = true,
                _ => {}
            }
        }
        told
    }

    fn answer_notices(&mut self, order: Order) -> Result<(), BenchError> {
        let mut left = order.count;
        while left > 0 && !self.life.gone {
            let adaptive = order.way == Way::Adaptive;
            let node = if adaptive { &mut self.adaptive } else { &mut self.life.node };
            node.wait(SLEEP);
            match node.poll(clock::now()) {
                Some(Completion::Notified { .. }) => {
                    left -= 1;
                    self.reply(1)?;
                }
                Some(Completion::Broken { .. }) => self.life.gone = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// CPU time \[ns\] that this thread takes while its node waits.
    fn idle(&mut self, limit: Duration) -> Result<u64, BenchError> {
        let before = cpu_time()?;
        let began = Instant::now();
        while let Some(left) = limit.checked_sub(began.elapsed())
            && !self.life.gone
        {
            self.life.node.wait(left);
            self.life.look();
        }
        Ok(cpu_time()? - before)
    }
}

/// What this thread has been given of its core \[ns\].
fn cpu_time() -> Result<u64, BenchError> {
    schedstat(0)
}

/// How often this thread has been given its core. No more than before: it had it all the time.
pub fn turns() -> Result<u64, BenchError> {
    schedstat(2)
}

/// A number of this thread. Source: Linux Documentation/scheduler/sched-stats.rst.
fn schedstat(at: usize) -> Result<u64, BenchError> {
    let host = |source| BenchError::Host { what: "reading /proc/thread-self/schedstat", source };
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").map_err(host)?;
    let found = text.split_whitespace().nth(at).and_then(|word| word.parse().ok());
    found.ok_or_else(|| host(std::io::ErrorKind::InvalidData.into()))
}
