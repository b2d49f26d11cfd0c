//! Push rings and puts between two processes on two cores, beside the floors of the machine.
//!
//! This program starts itself as the other process, which echoes or checks what it is sent.
//! Floors are measured in the same rounds: two cache lines bounced between the cores, a copy in
//! one core's own cache, a block written by one core and read by the other. Rounds are
//! interleaved; medians and their ratios to the floor are printed, and percentiles of the round
//! trips.
//!
//! `cargo bench -p fluxline --bench push` (about 20 s; `ROUNDS=1` for a first look).

mod floors;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fluxline::push::{PushConsumer, PushProducer, PushRefused};
use fluxline::shm::{Shm, ShmConfig};
use fluxline::{clock, pin};
use fluxline_proto::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Local, Name, PostError, Reliability, RemoteId,
    Rights, Target, Work,
};

const KEY: Key = Key(0x5EED);
const CORES: [usize; 2] = [0, 1];
/// Half a level-2 cache: a small window used again and again is the fastest.
const RING_BYTES: u64 = 512 << 10;
/// For records of 1 MiB, which must fit four times.
const LARGE_RING_BYTES: u64 = 8 << 20;
/// Records between two publications.
const BATCH: u64 = 32;
const TRIPS: usize = 100_000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, group] = arguments.as_slice()
        && role == "peer"
    {
        return peer(group);
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("push: a benchmark; run it by `cargo bench -p fluxline --bench push`");
        return;
    }
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    if pin::allowed_cores().len() < 2 {
        println!("push: needs two cores");
        return;
    }
    print_machine();
    let mut rows = Rows::default();
    for round in 0..rounds {
        // In a thread of its own: it is pinned, and the next round's process must not inherit that.
        std::thread::scope(|scope| scope.spawn(|| measure(&mut rows, round)).join())
            .expect("a round");
    }
    rows.print();
}

fn measure(rows: &mut Rows, round: usize) {
    let group = format!("bench-{}-{round}", std::process::id());
    let mut peer = Peer::start(&group);
    let line = floors::ping_pong(CORES, TRIPS);
    let copy = floors::copy_in_cache(CORES[0]);
    let cross = floors::written_here_read_there(CORES, 64 << 10);
    let cross_large = floors::written_here_read_there(CORES, 1 << 20);
    pin::pin_current_thread(CORES[0]).expect("core 0");
    for bytes in [8, 64] {
        let mut trips = peer.round_trips(bytes);
        trips.sort_unstable();
        let at = |part: f64| trips[(trips.len() as f64 * part) as usize] as f64 / 2.0;
        rows.add(&format!("{bytes} B half round trip, p50 [ns]"), at(0.5), line);
        rows.add(&format!("{bytes} B half round trip, p99 [ns]"), at(0.99), line);
        rows.add(&format!("{bytes} B half round trip, p99.9 [ns]"), at(0.999), line);
    }
    for (bytes, records) in [(8, 20_000_000), (64, 10_000_000)] {
        let rate = peer.delivered(bytes, records) / 1e6;
        rows.add(&format!("{bytes} B records delivered and summed [M/s]"), rate, f64::NAN);
    }
    let mut wakes = peer.wake_ups();
    wakes.sort_unstable();
    rows.add(
        "8 B to a sleeping consumer, half, p50 [ns]",
        wakes[wakes.len() / 2] as f64 / 2.0,
        f64::NAN,
    );
    let untouched = peer.puts(64 << 10, 20_000);
    rows.add("64 KiB put with notify, untouched [GB/s]", untouched, copy);
    let read = peer.delivered(64 << 10, 40_000) * 65_536.0 / 1e9;
    rows.add("64 KiB records, all bytes read in place [GB/s]", read, cross);
    let read = peer.delivered(1 << 20, 3_000) * 1_048_576.0 / 1e9;
    rows.add("1 MiB records, all bytes read in place [GB/s]", read, cross_large);
    peer.end();
}

fn print_machine() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    println!(
        "machine{model}, kernel {}; producer on core {}, consumer on core {}",
        read("/proc/sys/kernel/osrelease").trim(),
        CORES[0],
        CORES[1]
    );
}

/// What was measured, by name: values and floors of all rounds.
#[derive(Default)]
struct Rows(Vec<(String, Vec<f64>, Vec<f64>)>);

impl Rows {
    fn add(&mut self, name: &str, value: f64, floor: f64) {
        match self.0.iter_mut().find(|row| row.0 == name) {
            Some(row) => {
                row.1.push(value);
                row.2.push(floor);
            }
            None => self.0.push((name.to_owned(), vec![value], vec![floor])),
        }
    }

    fn print(&self) {
        println!("{:<50}  {:>9}  {:>9}  {:>6}", "", "median", "floor", "ratio");
        for (name, values, floors) in &self.0 {
            let (value, floor) = (median(values), median(floors));
            let ratios: Vec<f64> = values.iter().zip(floors).map(|(v, f)| v / f).collect();
            if floor.is_nan() {
                println!("{name:<50}  {value:>9.1}");
            } else {
                println!("{name:<50}  {value:>9.1}  {floor:>9.1}  {:>6.2}", median(&ratios));
            }
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The other process as this one sees it.
struct Peer {
    child: Child,
    node: Shm,
    endpoint: EndpointId,
    small: PushProducer,
    large: PushProducer,
    sleepy: PushProducer,
    back: PushConsumer,
    region: RemoteId,
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

fn open(group: &str, node: &str) -> Shm {
    Shm::open(&name(group), &name(node), ShmConfig::default()).expect("shared memory")
}

fn export(node: &mut Shm, called: &str, bytes: u64, sleeps: bool) -> PushConsumer {
    let ring = node.push_consumer(bytes, sleeps).expect("memory");
    node.export(ring.region(), name(called), Grant { rights: Rights::PUT, key: KEY })
        .expect("a free name");
    ring
}

fn wait<T>(node: &mut Shm, wanted: impl Fn(Completion) -> Option<T>) -> T {
    loop {
        if let Some(found) = node.poll(clock::now()).and_then(&wanted) {
            return found;
        }
    }
}

fn connect(node: &mut Shm, peer: &str) -> EndpointId {
    loop {
        match node.connect(peer, Reliability::Reliable) {
            Ok(endpoint) => return endpoint,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn connected(node: &mut Shm) {
    wait(node, |what| matches!(what, Completion::Connected { .. }).then_some(()));
}

fn import(node: &mut Shm, endpoint: EndpointId, called: &str) -> RemoteId {
    let remote = node.import(endpoint, name(called), KEY).expect("connected");
    wait(node, |what| matches!(what, Completion::Imported { .. }).then_some(()));
    remote
}

impl Peer {
    fn start(group: &str) -> Peer {
        let mut node = open(group, "here");
        let back = export(&mut node, "back", RING_BYTES, false);
        let child = Command::new(std::env::current_exe().expect("a path"))
            .args(["peer", group])
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let endpoint = connect(&mut node, "there");
        // This way and the way back, in either order.
        connected(&mut node);
        connected(&mut node);
        let small = import(&mut node, endpoint, "small");
        let large = import(&mut node, endpoint, "large");
        let sleepy = import(&mut node, endpoint, "sleepy");
        let region = import(&mut node, endpoint, "region");
        let small = node.push_producer(small).expect("a ring");
        let large = node.push_producer(large).expect("a ring");
        let sleepy = node.push_producer(sleepy).expect("a ring");
        Peer { child, node, endpoint, small, large, sleepy, back, region }
    }

    /// Tells the peer what comes next: a mode, and the size and number of records.
    fn command(&mut self, mode: u64, bytes: u64, records: u64) {
        let command: Vec<u8> =
            [mode, bytes, records].iter().flat_map(|word| word.to_le_bytes()).collect();
        self.small.push(&command).expect("room");
        self.small.publish();
    }

    fn answer(&mut self) -> u64 {
        loop {
            if let Some(bytes) = self.back.next().expect("sound") {
                return u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
            }
        }
    }

    fn round_trips(&mut self, bytes: usize) -> Vec<u64> {
        self.command(1, bytes as u64, TRIPS as u64);
        let record = vec![1; bytes];
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            let began = Instant::now();
            self.small.push(&record).expect("room");
            self.small.publish();
            while self.back.next().expect("sound").is_none() {}
            trips.push(began.elapsed().as_nanos() as u64);
        }
        trips
    }

    /// Round trips \[ns\] of records that find their reader asleep.
    fn wake_ups(&mut self) -> Vec<u64> {
        const WAKE_UPS: u64 = 1000;
        self.command(4, 8, WAKE_UPS);
        let trip = |peer: &mut Peer| {
            std::thread::sleep(Duration::from_micros(300)); // it falls asleep
            let began = Instant::now();
            peer.sleepy.push(&[1; 8]).expect("room");
            peer.sleepy.publish();
            while peer.back.next().expect("sound").is_none() {}
            began.elapsed().as_nanos() as u64
        };
        (0..WAKE_UPS).map(|_| trip(self)).collect()
    }

    /// Records per second, all received and their words summed.
    fn delivered(&mut self, bytes: usize, records: u64) -> f64 {
        self.command(2, bytes as u64, records);
        let ring = if bytes > 1 << 16 { &mut self.large } else { &mut self.small };
        let mut record = vec![0; bytes];
        let batch = if bytes > 1024 { 1 } else { BATCH };
        let began = Instant::now();
        for number in 0..records {
            record[..8].copy_from_slice(&number.to_le_bytes());
            while let Err(refused) = ring.push(&record) {
                assert_eq!(refused, PushRefused::Full);
            }
            if number % batch == batch - 1 {
                ring.publish();
            }
        }
        ring.publish();
        let sum = self.answer();
        assert_eq!(sum, records * (records - 1) / 2, "every record, once");
        records as f64 / began.elapsed().as_secs_f64()
    }

    /// GB/s of puts with a notification each, whose bytes the peer does not look at.
    fn puts(&mut self, bytes: usize, count: u64) -> f64 {
        self.command(3, bytes as u64, count);
        let data = vec![7; bytes];
        let to = Target { remote: self.region, offset: 0 };
        let began = Instant::now();
        for _ in 0..count {
            let from = Local::Bytes(&data);
            let work = Work::Put { from, to, notify: Some(1), complete_at: None };
            while self.node.post(self.endpoint, 0, work) == Err(PostError::Full) {}
        }
        assert_eq!(self.answer(), count);
        count as f64 * bytes as f64 / 1e9 / began.elapsed().as_secs_f64()
    }

    fn end(mut self) {
        self.command(0, 0, 0);
        self.child.wait().expect("it ends");
    }
}

/// The other process: does what it is told until it is told to end.
fn peer(group: &str) {
    pin::pin_current_thread(CORES[1]).expect("core 1");
    let mut node = open(group, "there");
    let mut small = export(&mut node, "small", RING_BYTES, false);
    let mut large = export(&mut node, "large", LARGE_RING_BYTES, false);
    let mut sleepy = export(&mut node, "sleepy", RING_BYTES, true);
    let region = node.register(1 << 20).expect("memory");
    node.export(region, name("region"), Grant { rights: Rights::PUT, key: KEY }).expect("free");
    connected(&mut node);
    let endpoint = connect(&mut node, "here");
    connected(&mut node);
    let back = import(&mut node, endpoint, "back");
    let mut back = node.push_producer(back).expect("a ring");
    loop {
        let command = loop {
            if let Some(bytes) = small.next().expect("sound") {
                break bytes.to_vec();
            }
        };
        let word = |at: usize| u64::from_le_bytes(command[at..at + 8].try_into().expect("8 bytes"));
        let (bytes, records) = (word(8) as usize, word(16));
        match word(0) {
            1 => echo(&mut small, &mut back, records),
            4 => echo_asleep(&mut sleepy, &mut back, records),
            2 => {
                let ring = if bytes > 1 << 16 { &mut large } else { &mut small };
                reply(&mut back, sum(ring, records));
            }
            3 => {
                let mut told = 0;
                while told < records {
                    let what = node.poll(clock::now());
                    told += u64::from(matches!(what, Some(Completion::Notified { .. })));
                }
                reply(&mut back, told);
            }
            _ => return,
        }
    }
}

fn reply(back: &mut PushProducer, value: u64) {
    back.push(&value.to_le_bytes()).expect("room");
    back.publish();
}

fn echo(from: &mut PushConsumer, back: &mut PushProducer, records: u64) {
    for _ in 0..records {
        loop {
            if let Some(record) = from.next().expect("sound") {
                back.push(record).expect("room");
                back.publish();
                break;
            }
        }
    }
}

fn echo_asleep(from: &mut PushConsumer, back: &mut PushProducer, records: u64) {
    for _ in 0..records {
        loop {
            if let Some(record) = from.next().expect("sound") {
                back.push(record).expect("room");
                back.publish();
                break;
            }
            from.wait(Duration::from_secs(1));
        }
    }
}

/// Sums the first words of all records, and looks at all the others.
fn sum(ring: &mut PushConsumer, records: u64) -> u64 {
    let (mut sum, mut seen, mut rest) = (0_u64, 0, 0_u64);
    while seen < records {
        if let Some(record) = ring.next().expect("sound") {
            let (first, others) = record.split_at(8);
            sum = sum.wrapping_add(u64::from_le_bytes(first.try_into().expect("8 bytes")));
            rest = floors::sum_words(others).wrapping_add(rest);
            seen += 1;
        }
    }
    std::hint::black_box(rest);
    sum
}
