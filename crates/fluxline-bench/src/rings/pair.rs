//! The far end as the near end sees it: met, ordered, measured, ended.

use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::push::{PushConsumer, PushProducer, PushRefused};
use fluxline::shm::Shm;
use fluxline_core::fabric::{EndpointId, Fabric, Local, PostError, RemoteId, Target, Work};
use serde_json::{Value, json};

use super::node::{self, ADAPTIVE, FAR, LARGE_RING_BYTES, NEAR, RING_BYTES, RingPlan, Waiting};
use super::order::{BATCH, BURSTS, CHECK_RECORDS, Checking, Order, RingKind, Task};
use super::watch::Watch;
use super::worker::{self, CORE, SERVICE};
use crate::Error;
use crate::environment::{Conversation, Environment};
use crate::statistics::median;

/// This many bursts without an interruption are enough to take their median.
const WHOLE_MIN: usize = 5;
/// The far end says within this time on which core it runs.
const CORE_LIMIT: Duration = Duration::from_secs(10);
/// The far end closes its nodes within this time after the near end failed.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The median over [`BURSTS`].
fn in_bursts(mut measure: impl FnMut() -> Result<f64, Error>) -> Result<f64, Error> {
    let rates: Result<Vec<f64>, Error> = (0..BURSTS).map(|_| measure()).collect();
    Ok(median(&rates?).unwrap_or(f64::NAN))
}

/// The work of the near end while the far end waits; its argument is the core of the far end.
pub type NearWork<'a> = &'a mut dyn FnMut(Meeting<'_>, usize) -> Result<(), Error>;

/// Has the far end wait in `group` and runs `work` here. Removes the files of a far end that was
/// killed.
pub fn with_far(
    environment: &mut dyn Environment,
    group: &str,
    work: NearWork<'_>,
) -> Result<(), Error> {
    let stop = environment.stop().clone();
    let parameters = json!({ "group": group });
    let ended = environment.call(&SERVICE, &parameters, &mut |conversation| {
        let core = conversation.receive(CORE_LIMIT)?.unwrap_or_default();
        let core = core[CORE].as_u64().and_then(|core| usize::try_from(core).ok());
        let core =
            core.ok_or_else(|| Error::Garbled { what: "no core on which it measures".to_owned() })?;
        let watch = Watch::new(conversation, stop.clone());
        match work(Meeting { watch, group }, core) {
            Ok(()) => Ok(Value::Null),
            Err(error) => {
                let error = cause(error, conversation);
                // The far side waits on shared memory, and may not know yet that it has to leave.
                // Where it is gone, nobody has to.
                let _ = conversation.send(&Value::Null);
                Err(error)
            }
        }
    });
    if ended.is_err() {
        close(group);
    }
    ended.map(|_| ())
}

/// The end of the far process explains more than the ring that broke by it.
fn cause(error: Error, conversation: &mut dyn Conversation) -> Error {
    match conversation.receive(Duration::ZERO) {
        Err(gone @ Error::PeerGone { .. }) if error.ends_session() => gone,
        _ => error,
    }
}

/// Waits until the far end has closed its nodes, or removes them.
fn close(group: &str) {
    let began = Instant::now();
    while !node::clean_after(group, &[FAR, ADAPTIVE]) && began.elapsed() < CLOSE_LIMIT {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The far end sleeps until the near end connects: nothing of it spins.
pub struct Meeting<'a> {
    /// Watches the far end.
    pub watch: Watch<'a>,
    group: &'a str,
}

/// Two ends that have met on shared memory.
pub struct Pair<'a> {
    /// Watches the far end.
    pub watch: Watch<'a>,
    node: Shm,
    endpoint: EndpointId,
    adaptive_endpoint: EndpointId,
    /// By [`RingKind`].
    rings: [PushProducer; 4],
    back: PushConsumer,
    back_large: PushConsumer,
    /// The regions of the nodes that sleep at once and after a while.
    region: RemoteId,
    adaptive_region: RemoteId,
}

/// The node of the far end that is notified.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Notified {
    /// The one that sleeps at once.
    Blocking,
    /// The one that polls for a while before it sleeps.
    Adaptive,
}

/// A plan of wake-ups.
pub struct WakeUps {
    /// The node that is woken.
    pub notified: Notified,
    /// The time from an answer to the next put.
    pub pause: Duration,
    /// The number of wake-ups.
    pub count: u64,
}

/// The rate of one burst.
struct Burst {
    /// Records per second.
    rate: f64,
    /// Both ends had their cores all the time.
    is_whole: bool,
}

impl<'a> Meeting<'a> {
    /// Meets the far end on shared memory.
    pub fn meet(self) -> Result<Pair<'a>, Error> {
        let Meeting { mut watch, group } = self;
        let mut node = node::open(group, NEAR, Duration::ZERO)?;
        let ring = |name, bytes| RingPlan { name, bytes, waiting: Waiting::Polls };
        let back = node::export_ring(&mut node, &ring("back", RING_BYTES))?;
        let back_large = node::export_ring(&mut node, &ring("back-large", LARGE_RING_BYTES))?;
        let endpoint = watch.until(|| node::connect(&mut node, FAR))?;
        // This way and the way back, in either order.
        watch.until(|| Ok(node::connected(&mut node)))?;
        watch.until(|| Ok(node::connected(&mut node)))?;
        let adaptive_endpoint = watch.until(|| node::connect(&mut node, ADAPTIVE))?;
        watch.until(|| Ok(node::connected(&mut node)))?;
        let mut ring = |name| {
            let remote = node::import(&mut node, endpoint, name)?;
            Ok::<_, Error>(node.push_producer(remote)?)
        };
        let rings = [ring("small")?, ring("large")?, ring("blocking")?, ring("adaptive")?];
        let region = node::import(&mut node, endpoint, node::REGION)?;
        let adaptive_region = node::import(&mut node, adaptive_endpoint, node::REGION)?;
        Ok(Pair {
            watch,
            node,
            endpoint,
            adaptive_endpoint,
            rings,
            back,
            back_large,
            region,
            adaptive_region,
        })
    }
}

impl Pair<'_> {
    /// Orders the next task.
    fn order(&mut self, order: Order) -> Result<(), Error> {
        let ring = &mut self.rings[RingKind::Small as usize];
        if let Err(refused) = ring.push(&order.to_bytes()) {
            self.watch.check()?; // it says how the far end ended
            return Err(refused.into());
        }
        ring.publish();
        Ok(())
    }

    /// Waits for the word that ends a task.
    fn answer(&mut self) -> Result<u64, Error> {
        loop {
            if let Some(record) = node::next(&mut self.back)? {
                let short = || Error::Defect { what: "a short answer".into() };
                return record.word(0).ok_or_else(short);
            }
            self.watch.spin()?;
        }
    }

    /// Measures round trips of records \[ns\], sorted.
    pub fn round_trips(&mut self, order: Order) -> Result<Vec<u64>, Error> {
        self.order(order)?;
        let record = vec![1; order.bytes];
        let ring = &mut self.rings[order.ring as usize];
        let large = order.ring == RingKind::Large;
        let back = if large { &mut self.back_large } else { &mut self.back };
        // A sleeper is given the time to fall asleep.
        let pause = matches!(order.ring, RingKind::Blocking).then_some(Duration::from_micros(300));
        let mut trips = Vec::with_capacity(order.count as usize);
        for _ in 0..order.count {
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
            let began = Instant::now();
            if let Err(refused) = ring.push(&record) {
                self.watch.check()?;
                return Err(refused.into());
            }
            ring.publish();
            while node::next(back)?.is_none() {
                self.watch.spin()?;
            }
            trips.push(began.elapsed().as_nanos() as u64);
        }
        trips.sort_unstable();
        Ok(trips)
    }

    /// Measures round trips of puts with a notification to a node that waits by `Shm::wait`
    /// \[ns\], sorted.
    pub fn wake_ups(&mut self, plan: &WakeUps) -> Result<Vec<u64>, Error> {
        let WakeUps { notified, pause, count } = *plan;
        let ring = match notified {
            Notified::Adaptive => RingKind::Adaptive,
            Notified::Blocking => RingKind::Blocking,
        };
        self.order(Order { ring, ..Order::new(Task::AnswerNotices, 8, count) })?;
        let mut trips = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let paused = Instant::now();
            if notified == Notified::Blocking {
                std::thread::sleep(pause);
            }
            while paused.elapsed() < pause {
                std::hint::spin_loop();
            }
            let began = Instant::now();
            self.put(notified, &[1; 8])?;
            while node::next(&mut self.back)?.is_none() {
                self.watch.spin()?;
            }
            trips.push(began.elapsed().as_nanos() as u64);
        }
        trips.sort_unstable();
        Ok(trips)
    }

    fn put(&mut self, notified: Notified, bytes: &[u8]) -> Result<(), Error> {
        let (endpoint, remote) = match notified {
            Notified::Adaptive => (self.adaptive_endpoint, self.adaptive_region),
            Notified::Blocking => (self.endpoint, self.region),
        };
        let to = Target { remote, offset: 0 };
        loop {
            let from = Local::Bytes(bytes);
            let work = Work::Put { from, to, notify: Some(1), complete_at: None };
            match self.node.post(endpoint, 0, work) {
                Ok(()) => return Ok(()),
                Err(PostError::Full) => self.watch.spin()?,
                Err(error) => {
                    self.watch.check()?;
                    return Err(error.into());
                }
            }
        }
    }

    /// Measures records per second, all taken and their first words summed. `batch` records are
    /// published together.
    pub fn delivered(&mut self, order: Order, batch: u64) -> Result<f64, Error> {
        self.burst(order, batch).map(|burst| burst.rate)
    }

    fn burst(&mut self, order: Order, batch: u64) -> Result<Burst, Error> {
        let before = worker::turns()?;
        self.order(order)?;
        let ring = &mut self.rings[order.ring as usize];
        let mut record = vec![0; order.bytes];
        let began = Instant::now();
        for number in 0..order.count {
            record[..8].copy_from_slice(&number.to_le_bytes());
            while let Err(refused) = ring.push(&record) {
                if refused != PushRefused::Full {
                    self.watch.check()?;
                    return Err(refused.into());
                }
                self.watch.spin()?;
            }
            if number % batch == batch - 1 {
                ring.publish();
            }
            if order.checking == Checking::Regularly && number.is_multiple_of(CHECK_RECORDS) {
                self.node.poll(clock::now());
            }
        }
        ring.publish();
        let (sum, expected) = (self.answer()?, order.count * (order.count - 1) / 2);
        if sum != expected {
            let what = format!("the sum of all records is {sum} and not {expected}");
            return Err(Error::Defect { what });
        }
        let rate = order.count as f64 / began.elapsed().as_secs_f64();
        let is_whole = self.answer()? == 0 && worker::turns()? == before;
        Ok(Burst { rate, is_whole })
    }

    /// Measures the same in [`BURSTS`]. Returns the median of the bursts in which no end lost its
    /// core, or of all if these are too few.
    pub fn delivered_in_bursts(&mut self, order: Order) -> Result<f64, Error> {
        let batch = if order.bytes > 1024 { 1 } else { BATCH };
        let burst = Order { count: order.count.div_ceil(BURSTS), ..order };
        let all: Result<Vec<Burst>, Error> =
            (0..BURSTS).map(|_| self.burst(burst, batch)).collect();
        let all = all?;
        let whole: Vec<f64> =
            all.iter().filter(|burst| burst.is_whole).map(|burst| burst.rate).collect();
        let rates = if whole.len() < WHOLE_MIN {
            all.iter().map(|burst| burst.rate).collect()
        } else {
            whole
        };
        Ok(median(&rates).unwrap_or(f64::NAN))
    }

    /// Measures puts in [`BURSTS`] \[GB/s\].
    pub fn puts_in_bursts(&mut self, bytes: usize, count: u64) -> Result<f64, Error> {
        in_bursts(|| self.puts(bytes, count.div_ceil(BURSTS)))
    }

    /// Measures puts with a notification each \[GB/s\]; the far end does not read their bytes.
    fn puts(&mut self, bytes: usize, count: u64) -> Result<f64, Error> {
        self.order(Order::new(Task::CountNotices, bytes, count))?;
        let data = vec![7; bytes];
        let began = Instant::now();
        for _ in 0..count {
            self.put(Notified::Blocking, &data)?;
        }
        let notified = self.answer()?;
        if notified != count {
            let what = format!("{notified} of {count} puts were notified");
            return Err(Error::Defect { what });
        }
        Ok(count as f64 * bytes as f64 / 1e9 / began.elapsed().as_secs_f64())
    }

    /// Measures the CPU time that the far end uses while its node waits for nothing \[%\].
    pub fn idle_percent(&mut self, limit: Duration) -> Result<f64, Error> {
        self.order(Order::new(Task::Idle, 8, limit.as_millis() as u64))?;
        // Asleep here too: two processes that spin would measure each other.
        std::thread::sleep(limit);
        Ok(self.answer()? as f64 / limit.as_nanos() as f64 * 100.0)
    }

    /// Ends the far end.
    pub fn end(mut self) -> Result<(), Error> {
        self.order(Order::new(Task::End, 8, 0))
    }
}
