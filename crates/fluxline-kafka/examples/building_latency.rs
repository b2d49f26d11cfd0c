//! demonstrates: the time from a packet to its committed event through a broker
//!
//! run: tools/kafka/speed.py --only latency, which starts a broker and prints a table

mod support;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fluxline_core::{Moment, Span};
use fluxline_daq::builder::{BuilderConfig, Mode, Scope};
use fluxline_daq::formats;
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::{
    BuiltSource, Log, NodeConfig, Output, OutputBatch, ReadoutNode, RunPlan, Step, Worker,
};
use fluxline_kafka::settings::Settings;
use support::{datagram, packet};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const BOARDS: u16 = 4;
const PAYLOAD: usize = 1000;
/// Events at the beginning that are not counted: connections are made meanwhile.
const WARM_UP: Duration = Duration::from_secs(2);

/// The arguments.
struct Setup {
    settings: Settings,
    name: String,
    run: u64,
    record_age: Span,
    batch_age: Span,
    events: u64,
    period: Duration,
}

/// Times of each event since the beginning \[ns\]; zero: not yet.
struct Times {
    began: Instant,
    sent: Vec<AtomicU64>,
    handed: Vec<AtomicU64>,
    built: Vec<AtomicU64>,
    committed: Vec<AtomicU64>,
}

fn main() -> Result<(), Failure> {
    let setup = Setup::read()?;
    let list = || (0..setup.events).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    let times = Times {
        began: Instant::now(),
        sent: list(),
        handed: list(),
        built: list(),
        committed: list(),
    };
    let log = setup.log()?;
    let partitions = log.partitions();
    drop(log);
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_micros(200)))?;
    let to = socket.local_addr()?;
    let ready = Barrier::new(partitions as usize + 2);
    std::thread::scope(|scope| {
        let (setup, times, ready) = (&setup, &times, &ready);
        for partition in 0..partitions {
            scope.spawn(move || or_exit(build(setup, times, partition, ready)));
        }
        scope.spawn(move || or_exit(read_out(setup, times, &socket, ready)));
        ready.wait();
        or_exit(send(setup, times, to));
    });
    print(&setup, &times);
    Ok(())
}

/// Ends the program at an error: the other threads wait for this one.
fn or_exit(result: Result<(), Failure>) {
    if let Err(error) = result {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

impl Setup {
    fn read() -> Result<Setup, Failure> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [brokers, name, record_age, linger, batch_age, rate, seconds] = arguments.as_slice()
        else {
            return Err(
                "usage: building_latency BROKERS NAME RECORD-AGE-US LINGER-MS BATCH-AGE-US \
                EVENTS-PER-SECOND SECONDS"
                    .into(),
            );
        };
        let options = BTreeMap::from([("linger.ms".to_owned(), linger.clone())]);
        let (rate, seconds): (u64, u64) = (rate.parse()?, seconds.parse()?);
        Ok(Setup {
            settings: Settings { brokers: brokers.clone(), options },
            name: name.clone(),
            run: SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64,
            record_age: Span::from_ns(record_age.parse::<u64>()? * 1000),
            batch_age: Span::from_ns(batch_age.parse::<u64>()? * 1000),
            events: rate * (seconds + WARM_UP.as_secs()),
            period: Duration::from_secs(1) / rate as u32,
        })
    }

    fn log(&self) -> Result<KafkaLog, Failure> {
        Ok(KafkaLog::open(&self.settings, &self.name, self.run)?)
    }

    fn builder(&self) -> BuilderConfig {
        let mode = Mode::Key(Scope::Global);
        BuilderConfig { mode, batch_age: self.batch_age, ..BuilderConfig::default() }
    }
}

impl Times {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

/// Sends the packets of all boards.
fn send(setup: &Setup, times: &Times, to: std::net::SocketAddr) -> Result<(), Failure> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let began = Instant::now();
    for key in 0..setup.events {
        let due = setup.period * key as u32;
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        times.sent[key as usize].store(times.now(), Ordering::Relaxed);
        for board in 0..BOARDS {
            socket.send_to(&packet(board, key as u32, key, (0, 1), PAYLOAD), to)?;
        }
    }
    Ok(())
}

fn wall() -> Moment {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_ns(now.as_nanos() as u64)
}

/// Takes the packets until all have come, or none comes for 5 s.
fn read_out(
    setup: &Setup,
    times: &Times,
    socket: &UdpSocket,
    ready: &Barrier,
) -> Result<(), Failure> {
    let mut log = setup.log()?;
    let config = NodeConfig {
        run: setup.run,
        node: 0,
        start: 0,
        mode: Mode::Key(Scope::Global),
        record_bytes: 256 << 10,
        record_age: setup.record_age,
        memory_bytes: 64 << 20,
    };
    let description = formats::load("counter", &BTreeMap::new())?.description;
    let mut node = ReadoutNode::new(config, vec![("a".to_owned(), description)], log.partitions());
    ready.wait();
    let (mut buffer, mut taken, mut records) = ([0; 2048], 0, 0);
    let (mut since, mut quiet) = (0..0, Instant::now());
    while taken < setup.events * u64::from(BOARDS) && quiet.elapsed() < Duration::from_secs(5) {
        if let Ok(bytes) = socket.recv(&mut buffer) {
            node.take(0, wall(), &datagram(wall(), &buffer[..bytes]));
            taken += 1;
            since.end = taken / u64::from(BOARDS);
            quiet = Instant::now();
        }
        node.poll(wall());
        // Records that the log does not take yet wait, so that the socket is read in time.
        let _ = node.hand_over(&mut log);
        if node.counts().records > records {
            records = node.counts().records;
            since.clone().for_each(|key| {
                times.handed[key as usize].store(times.now(), Ordering::Relaxed);
            });
            since.start = since.end;
        }
    }
    let lost = setup.events * u64::from(BOARDS) - taken;
    if lost > 0 {
        println!("{lost} packets lost at the socket");
    }
    node.finish(wall());
    while node.hand_over(&mut log).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(log.flush(Duration::from_secs(30))?)
}

/// Notes the events of batches.
struct Notes<'a> {
    times: &'a Times,
    keys: Vec<u64>,
}

impl Output for Notes<'_> {
    fn write(&mut self, _: u32, _: &[BuiltSource], batch: &OutputBatch) -> Result<(), String> {
        let now = self.times.now();
        for key in batch.events.events.iter().filter_map(|row| row.key) {
            if let Some(built) = self.times.built.get(key as usize) {
                built.store(now, Ordering::Relaxed);
                self.keys.push(key);
            }
        }
        Ok(())
    }
}

fn build(setup: &Setup, times: &Times, partition: u32, ready: &Barrier) -> Result<(), Failure> {
    let mut log = setup.log()?;
    let plan = RunPlan {
        run: setup.run,
        name: "latency".to_owned(),
        nodes: 1,
        partitions: log.partitions(),
        builder: setup.builder(),
    };
    let mut worker = Worker::claim(&mut log, &plan, partition, "latency")?;
    ready.wait();
    let mut notes = Notes { times, keys: Vec::new() };
    loop {
        let step = worker.step(&mut log, &mut notes)?;
        let now = times.now();
        if worker.uncommitted() > 0 {
            continue;
        }
        notes.keys.drain(..).for_each(|key| {
            times.committed[key as usize].store(now, Ordering::Relaxed);
        });
        if step == Step::Over {
            return Ok(());
        }
    }
}

fn print(setup: &Setup, times: &Times) {
    let first = (WARM_UP.as_nanos() / setup.period.as_nanos()) as usize;
    let row = |name: &str, from: &[AtomicU64], to: &[AtomicU64]| {
        let mut spans: Vec<u64> = (first..setup.events as usize)
            .map(|key| (from[key].load(Ordering::Relaxed), to[key].load(Ordering::Relaxed)))
            .filter(|(from, to)| *from > 0 && to > from)
            .map(|(from, to)| to - from)
            .collect();
        spans.sort_unstable();
        let at = |share: f64| {
            let place = (spans.len() as f64 * share) as usize;
            spans.get(place).copied().unwrap_or(0) as f64 / 1e6
        };
        println!(
            "{name:24} p50 {:7.2}  p90 {:7.2}  p99 {:7.2}  p99.9 {:7.2} ms  ({} events)",
            at(0.5),
            at(0.9),
            at(0.99),
            at(0.999),
            spans.len()
        );
    };
    row("packet to record", &times.sent, &times.handed);
    row("record to closed event", &times.handed, &times.built);
    row("closed event to commit", &times.built, &times.committed);
    row("packet to commit", &times.sent, &times.committed);
}
