//! The other process as the one that measures sees it: started, given orders, measured, ended.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::push::{PushConsumer, PushProducer, PushRefused};
use fluxline::shm::Shm;
use fluxline_proto::fabric::{EndpointId, Fabric, Local, PostError, RemoteId, Target, Work};

use super::node::{self, ADAPTIVE, HERE, LARGE_RING_BYTES, RING_BYTES, THERE};
use super::order::{Order, Task, Way};
use super::other;
use super::rows::median;
use super::watch::Watch;
use super::{BATCH, BURSTS, BenchError};
use crate::run::Stop;

/// Records between two looks at the other's life, where those are measured.
pub const LOOK_RECORDS: u64 = 1024;

/// So many bursts without an interruption are enough to go by them.
const WHOLE_MIN: usize = 5;

/// The median over [`BURSTS`].
fn in_bursts(mut measure: impl FnMut() -> Result<f64, BenchError>) -> Result<f64, BenchError> {
    let rates: Result<Vec<f64>, BenchError> = (0..BURSTS).map(|_| measure()).collect();
    Ok(median(&rates?).unwrap_or(f64::NAN))
}

/// A pair of processes that have found each other.
pub struct Pair {
    watch: Watch,
    group: String,
    node: Shm,
    endpoint: EndpointId,
    adaptive_endpoint: EndpointId,
    /// By [`Way`].
    rings: [PushProducer; 4],
    back: PushConsumer,
    back_large: PushConsumer,
    /// Of 1 MiB, at the nodes that sleep at once and after a while.
    region: RemoteId,
    adaptive_region: RemoteId,
}

impl Pair {
    /// Starts the other process on `core`, and meets it.
    pub fn start(group: &str, core: usize, stop: &Stop) -> Result<Pair, BenchError> {
        // What failed half-way has ended the other process before its files are looked for.
        Pair::start_here(group, core, stop).inspect_err(|_| Pair::clean(group))
    }

    fn start_here(group: &str, core: usize, stop: &Stop) -> Result<Pair, BenchError> {
        let mut node = node::open(group, HERE, Duration::ZERO)?;
        let back = node::export(&mut node, "back", RING_BYTES, false)?;
        let back_large = node::export(&mut node, "back-large", LARGE_RING_BYTES, false)?;
        let host = |source| BenchError::Host { what: "starting the other process", source };
        let child = Command::new(std::env::current_exe().map_err(host)?)
            .args(["bench-other", group, &core.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(host)?;
        let mut watch = Watch::new(child, stop.clone());
        let (endpoint, adaptive_endpoint) = Pair::meet(&mut watch, &mut node)?;
        let mut ring = |called| {
            let remote = node::import(&mut node, endpoint, called)?;
            Ok::<_, BenchError>(node.push_producer(remote)?)
        };
        let rings = [ring("small")?, ring("large")?, ring("blocking")?, ring("adaptive")?];
        let region = node::import(&mut node, endpoint, "region")?;
        let adaptive_region = node::import(&mut node, adaptive_endpoint, "region")?;
        let group = group.to_owned();
        Ok(Pair {
            watch,
            group,
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

    fn meet(watch: &mut Watch, node: &mut Shm) -> Result<(EndpointId, EndpointId), BenchError> {
        let endpoint = watch.until(|| node::connect(node, THERE))?;
        // This way and the way back, in either order.
        watch.until(|| node::connected(node))?;
        watch.until(|| node::connected(node))?;
        let adaptive = watch.until(|| node::connect(node, ADAPTIVE))?;
        watch.until(|| node::connected(node))?;
        Ok((endpoint, adaptive))
    }

    fn clean(group: &str) {
        node::clean_after(group, &[THERE, ADAPTIVE]);
    }

    /// Tells the other process what comes next.
    fn order(&mut self, order: Order) -> Result<(), BenchError> {
        let ring = &mut self.rings[Way::Small as usize];
        if let Err(refused) = ring.push(&order.to_bytes()) {
            self.watch.look()?; // it says how the other process ended
            return Err(refused.into());
        }
        ring.publish();
        Ok(())
    }

    /// The word that the other process ends a task with.
    fn answer(&mut self) -> Result<u64, BenchError> {
        loop {
            if let Some(record) = node::next(&mut self.back)? {
                return record
                    .word(0)
                    .ok_or_else(|| BenchError::Defect { what: "a short answer".into() });
            }
            self.watch.spin()?;
        }
    }

    /// Round trips \[ns\] of records, sorted.
    pub fn round_trips(&mut self, order: Order) -> Result<Vec<u64>, BenchError> {
        self.order(order)?;
        let record = vec![1; order.bytes];
        let ring = &mut self.rings[order.way as usize];
        let large = order.way == Way::Large;
        let back = if large { &mut self.back_large } else { &mut self.back };
        // A sleeper is given the time to fall asleep.
        let pause = matches!(order.way, Way::Blocking).then_some(Duration::from_micros(300));
        let mut trips = Vec::with_capacity(order.count as usize);
        for _ in 0..order.count {
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
            let began = Instant::now();
            if let Err(refused) = ring.push(&record) {
                self.watch.look()?;
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

    /// Round trips \[ns\] of puts with a notification to a node that waits by `Shm::wait`, each
    /// `pause` after the one before, sorted.
    pub fn wake_ups(
        &mut self,
        adaptive: bool,
        pause: Duration,
        count: u64,
    ) -> Result<Vec<u64>, BenchError> {
        let way = if adaptive { Way::Adaptive } else { Way::Blocking };
        self.order(Order { way, ..Order::new(Task::AnswerNotices, 8, count) })?;
        let mut trips = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let paused = Instant::now();
            if !adaptive {
                std::thread::sleep(pause);
            }
            while paused.elapsed() < pause {
                std::hint::spin_loop();
            }
            let began = Instant::now();
            self.put(adaptive, &[1; 8])?;
            while node::next(&mut self.back)?.is_none() {
                self.watch.spin()?;
            }
            trips.push(began.elapsed().as_nanos() as u64);
        }
        trips.sort_unstable();
        Ok(trips)
    }

    fn put(&mut self, adaptive: bool, bytes: &[u8]) -> Result<(), BenchError> {
        let (endpoint, remote) = if adaptive {
            (self.adaptive_endpoint, self.adaptive_region)
        } else {
            (self.endpoint, self.region)
        };
        let to = Target { remote, offset: 0 };
        loop {
            let from = Local::Bytes(bytes);
            let work = Work::Put { from, to, notify: Some(1), complete_at: None };
            match self.node.post(endpoint, 0, work) {
                Ok(()) => return Ok(()),
                Err(PostError::Full) => self.watch.spin()?,
                Err(error) => {
                    self.watch.look()?;
                    return Err(error.into());
                }
            }
        }
    }

    /// Records per second, all taken and their first words summed; `batch` are published at once.
    pub fn delivered(&mut self, order: Order, batch: u64) -> Result<f64, BenchError> {
        self.burst(order, batch).map(|(rate, _)| rate)
    }

    /// The same, and whether both had their cores all the time.
    fn burst(&mut self, order: Order, batch: u64) -> Result<(f64, bool), BenchError> {
        let before = other::turns()?;
        self.order(order)?;
        let ring = &mut self.rings[order.way as usize];
        let mut record = vec![0; order.bytes];
        let began = Instant::now();
        for number in 0..order.count {
            record[..8].copy_from_slice(&number.to_le_bytes());
            while let Err(refused) = ring.push(&record) {
                if refused != PushRefused::Full {
                    self.watch.look()?;
                    return Err(refused.into());
                }
                self.watch.spin()?;
            }
            if number % batch == batch - 1 {
                ring.publish();
            }
            if order.looks && number.is_multiple_of(LOOK_RECORDS) {
                self.node.poll(clock::now());
            }
        }
        ring.publish();
        let (sum, expected) = (self.answer()?, order.count * (order.count - 1) / 2);
        if sum != expected {
            let what = format!("the sum of all records is {sum} and not {expected}");
            return Err(BenchError::Defect { what });
        }
        let rate = order.count as f64 / began.elapsed().as_secs_f64();
        let whole = self.answer()? == 0 && other::turns()? == before;
        Ok((rate, whole))
    }

    /// The same in [`BURSTS`], with as many to a batch as suits the size: the median of those in
    /// which both had their cores all the time; of all, if these are not a few.
    pub fn delivered_in_bursts(&mut self, order: Order) -> Result<f64, BenchError> {
        let batch = if order.bytes > 1024 { 1 } else { BATCH };
        let burst = Order { count: order.count.div_ceil(BURSTS), ..order };
        let all: Result<Vec<_>, BenchError> =
            (0..BURSTS).map(|_| self.burst(burst, batch)).collect();
        let all = all?;
        let rates = |only_whole: bool| -> Vec<f64> {
            all.iter().filter(|(_, whole)| *whole || !only_whole).map(|(rate, _)| *rate).collect()
        };
        let whole = rates(true);
        let rates = if whole.len() < WHOLE_MIN { rates(false) } else { whole };
        Ok(median(&rates).unwrap_or(f64::NAN))
    }

    /// The same of puts.
    pub fn puts_in_bursts(&mut self, bytes: usize, count: u64) -> Result<f64, BenchError> {
        in_bursts(|| self.puts(bytes, count.div_ceil(BURSTS)))
    }

    /// GB/s of puts with a notification each, whose bytes the other process does not look at.
    fn puts(&mut self, bytes: usize, count: u64) -> Result<f64, BenchError> {
        self.order(Order::new(Task::CountNotices, bytes, count))?;
        let data = vec![7; bytes];
        let began = Instant::now();
        for _ in 0..count {
            self.put(false, &data)?;
        }
        let told = self.answer()?;
        if told != count {
            let what = format!("{told} of {count} puts were told of");
            return Err(BenchError::Defect { what });
        }
        Ok(count as f64 * bytes as f64 / 1e9 / began.elapsed().as_secs_f64())
    }

    /// CPU time \[%\] of the other process while its node waits for nothing.
    pub fn idle_percent(&mut self, limit: Duration) -> Result<f64, BenchError> {
        self.order(Order::new(Task::Idle, 8, limit.as_millis() as u64))?;
        // Asleep here too: two processes that spin would measure each other.
        std::thread::sleep(limit);
        Ok(self.answer()? as f64 / limit.as_nanos() as f64 * 100.0)
    }

    /// Ends both.
    pub fn end(mut self) -> Result<(), BenchError> {
        self.order(Order::new(Task::End, 8, 0))?;
        self.watch.end()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Only where it did not end by order is there something to do.
        self.watch.kill();
        Pair::clean(&self.group);
    }
}
