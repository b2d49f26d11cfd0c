//! The far end: carries out orders until the order to end, or until the near end is gone.

use std::time::{Duration, Instant};

use fluxline::push::{PushConsumer, PushProducer};
use fluxline::shm::Shm;
use fluxline::{clock, pin};
use fluxline_core::fabric::{Completion, Fabric};
use serde_json::{Value, json};

use super::node::{
    self, ADAPTIVE, FAR, LARGE_RING_BYTES, NEAR, RING_BYTES, RingPlan, SPIN, Waiting,
};
use super::order::{CHECK_RECORDS, Checking, Order, Reading, RingKind, Task};
use super::watch::Watch;
use crate::environment::{Conversation, Service};
use crate::{Error, Stop};

/// The service of the far end.
pub const SERVICE: Service = Service { name: "rings", run: serve };
/// The key of the far end's first word: the core on which it runs.
pub const CORE: &str = "core";
/// A consumer checks that the near end lives at least this often.
const SLEEP: Duration = Duration::from_millis(50);

/// Says on which core it runs, sleeps until the near end connects, and works.
fn serve(parameters: &Value, conversation: &mut dyn Conversation) -> Result<Value, Error> {
    let group = parameters["group"].as_str().unwrap_or_default().to_owned();
    let done = Worker::meet(&group, conversation).and_then(|mut worker| worker.work());
    // Where the near end was killed.
    node::clean_after(&group, &[NEAR]);
    done.map(|()| Value::Null)
}

struct Worker<'a> {
    near: NearEnd<'a>,
    adaptive: Shm,
    /// By [`RingKind`].
    rings: [PushConsumer; 4],
    back: PushProducer,
    back_large: PushProducer,
    /// The number of turns on its core when this thread last took records.
    turns: u64,
}

/// The node, and the life sign of the near end.
struct NearEnd<'a> {
    node: Shm,
    watch: Watch<'a>,
    polls: u32,
    is_gone: bool,
}

/// Fruitless polls between two looks at the connection on shared memory: some milliseconds.
const LOOK_POLLS: u32 = 1 << 20;

impl NearEnd<'_> {
    /// Called for every fruitless poll. Cost: an addition.
    #[inline]
    fn spin(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(LOOK_POLLS) {
            self.check();
        }
    }

    /// Looks at both connections.
    #[cold]
    fn check(&mut self) {
        self.look();
        self.is_gone |= self.watch.check().is_err();
    }

    /// Looks at the connection on shared memory.
    #[cold]
    fn look(&mut self) {
        let completion = self.node.poll(clock::now());
        self.is_gone |= matches!(completion, Some(Completion::Broken { .. }));
    }
}

impl<'a> Worker<'a> {
    fn meet(group: &str, conversation: &'a mut dyn Conversation) -> Result<Worker<'a>, Error> {
        let mut adaptive = node::open(group, ADAPTIVE, SPIN)?;
        node::export_region(&mut adaptive)?;
        let mut node = node::open(group, FAR, Duration::ZERO)?;
        let mut ring =
            |name, bytes, waiting| node::export_ring(&mut node, &RingPlan { name, bytes, waiting });
        let rings = [
            ring("small", RING_BYTES, Waiting::Polls)?,
            ring("large", LARGE_RING_BYTES, Waiting::Polls)?,
            ring("blocking", RING_BYTES, Waiting::Sleeps)?,
            ring("adaptive", RING_BYTES, Waiting::Sleeps)?,
        ];
        node::export_region(&mut node)?;
        conversation.send(&json!({ CORE: pin::allowed_cores().first() }))?;
        let mut watch = Watch::new(conversation, Stop::default());
        // Asleep: the near end measures its floors on this core.
        while node::connected(&mut node).is_none() {
            watch.check()?;
            node.wait(SLEEP);
        }
        let endpoint = watch.until(|| node::connect(&mut node, NEAR))?;
        watch.until(|| Ok(node::connected(&mut node)))?;
        let mut ring = |name| {
            let remote = node::import(&mut node, endpoint, name)?;
            Ok::<_, Error>(node.push_producer(remote)?)
        };
        let (back, back_large) = (ring("back")?, ring("back-large")?);
        watch.until(|| Ok(node::connected(&mut adaptive)))?;
        let near = NearEnd { node, watch, polls: 0, is_gone: false };
        Ok(Worker { near, adaptive, rings, back, back_large, turns: 0 })
    }

    fn work(&mut self) -> Result<(), Error> {
        while !self.near.is_gone {
            let Some(record) = node::next(&mut self.rings[RingKind::Small as usize])? else {
                self.near.spin();
                continue;
            };
            let garbage = || Error::Garbled { what: "an order that makes no sense".into() };
            let order = Order::from_bytes(&record.to_vec()).ok_or_else(garbage)?;
            match order.task {
                Task::End => return Ok(()),
                Task::Echo | Task::Answer => self.echo(order)?,
                Task::Take => {
                    let sum = self.take(order)?;
                    self.reply(sum)?;
                    // Since the last time, not since the order: reading the number would count.
                    let before = std::mem::replace(&mut self.turns, turns()?);
                    self.reply(self.turns - before)?;
                }
                Task::CountNotices => {
                    let notified = self.count_notices(order.count);
                    self.reply(notified)?;
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

    fn reply(&mut self, value: u64) -> Result<(), Error> {
        self.back.push(&value.to_le_bytes())?;
        self.back.publish();
        Ok(())
    }

    fn echo(&mut self, order: Order) -> Result<(), Error> {
        let own = vec![1; order.bytes];
        let ring = &mut self.rings[order.ring as usize];
        let large = order.ring == RingKind::Large;
        let back = if large { &mut self.back_large } else { &mut self.back };
        let mut left = order.count;
        while left > 0 && !self.near.is_gone {
            if let Some(record) = node::next(ring)? {
                match order.task {
                    Task::Echo => back.push_record(record)?,
                    _ => back.push(&own)?,
                }
                back.publish();
                left -= 1;
                continue;
            }
            if order.ring == RingKind::Blocking {
                ring.wait(SLEEP);
            }
            self.near.spin();
        }
        Ok(())
    }

    /// Sums the first words of all records; reads the other bytes where that is ordered.
    fn take(&mut self, order: Order) -> Result<u64, Error> {
        let (mut sum, mut seen, mut rest) = (0_u64, 0, 0_u64);
        let ring = &mut self.rings[order.ring as usize];
        let mut idle_since = None;
        while seen < order.count && !self.near.is_gone {
            if let Some(record) = node::next(ring)? {
                sum = sum.wrapping_add(record.word(0).unwrap_or(0));
                if order.reading == Reading::All {
                    rest = record.words().skip(1).fold(rest, u64::wrapping_add);
                }
                seen += 1;
                if order.checking == Checking::Regularly && seen % CHECK_RECORDS == 0 {
                    self.near.look();
                }
                idle_since = None;
                continue;
            }
            self.near.spin();
            if order.ring == RingKind::Adaptive {
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
        let mut notified = 0;
        while notified < count && !self.near.is_gone {
            match self.near.node.poll(clock::now()) {
                Some(Completion::Notified { .. }) => notified += 1,
                Some(Completion::Broken { .. }) => self.near.is_gone = true,
                _ => {}
            }
        }
        notified
    }

    fn answer_notices(&mut self, order: Order) -> Result<(), Error> {
        let mut left = order.count;
        while left > 0 && !self.near.is_gone {
            let adaptive = order.ring == RingKind::Adaptive;
            let node = if adaptive { &mut self.adaptive } else { &mut self.near.node };
            node.wait(SLEEP);
            match node.poll(clock::now()) {
                Some(Completion::Notified { .. }) => {
                    left -= 1;
                    self.reply(1)?;
                }
                Some(Completion::Broken { .. }) => self.near.is_gone = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// Measures the CPU time of this thread while its node waits \[ns\].
    fn idle(&mut self, limit: Duration) -> Result<u64, Error> {
        let before = cpu_time()?;
        let began = Instant::now();
        while let Some(left) = limit.checked_sub(began.elapsed())
            && !self.near.is_gone
        {
            self.near.node.wait(left);
            self.near.look();
        }
        Ok(cpu_time()? - before)
    }
}

/// Reads the CPU time of this thread \[ns\].
fn cpu_time() -> Result<u64, Error> {
    schedstat(0)
}

/// Reads how often this thread has been given its core. The same number as before: it had the core
/// all the time.
pub fn turns() -> Result<u64, Error> {
    schedstat(2)
}

/// Reads a number of this thread. Source: Linux Documentation/scheduler/sched-stats.rst.
fn schedstat(at: usize) -> Result<u64, Error> {
    let host =
        |source| Error::Host { what: "reading /proc/thread-self/schedstat".to_owned(), source };
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").map_err(host)?;
    let found = text.split_whitespace().nth(at).and_then(|word| word.parse().ok());
    found.ok_or_else(|| host(std::io::ErrorKind::InvalidData.into()))
}
