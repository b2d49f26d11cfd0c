//! Puts with a notification on shared memory beside the push ring, which is the floor.
//!
//! Two threads on two cores. Half a round trip of 8 B, and a stream of 8 B in bursts; the receiver
//! takes each notification as a completion, each record as a record. Rounds are interleaved;
//! medians.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use fluxline::clock;
use fluxline::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Local, Name, PostError, Reliability, Rights,
    Target, Work,
};
use fluxline::pin::{allowed_cores, pin_current_thread};
use fluxline::push::{PushRefused, Receiver, RingAddress, RingPlan, Sender};

use crate::median::median;

const TRIPS: u32 = 200_000;
const PUTS: u32 = 2_000_000;
const ROUNDS: u32 = 7;
const KEY: Key = Key(0x0B_E7);
/// Puts between two looks for completions, while streaming.
const BURST: u32 = 32;

/// Measures and prints.
pub fn measure() {
    let mut rows = [const { Vec::new() }; 4];
    for round in 0..ROUNDS {
        rows[0].push(on_two_cores(&format!("put-trip-{round}"), trips_of_puts));
        rows[1].push(on_two_cores(&format!("ring-trip-{round}"), trips_of_records));
        rows[2].push(on_two_cores(&format!("put-stream-{round}"), stream_of_puts));
        rows[3].push(on_two_cores(&format!("ring-stream-{round}"), stream_of_records));
    }
    let [put_trip, ring_trip, put_stream, ring_stream] = rows.map(median);
    println!("8 B on shared memory         notified put   push ring   ratio");
    let ratio = put_trip / ring_trip;
    println!("half round trip [ns]         {put_trip:>12.0} {ring_trip:>11.0} {ratio:>7.2}");
    let ratio = put_stream / ring_stream;
    println!("stream [M/s]                 {put_stream:>12.2} {ring_stream:>11.2} {ratio:>7.2}");
}

/// The two ends of a measurement; the first returns the figure.
struct Side<'a> {
    number: usize,
    group: &'a str,
    ready: &'a Barrier,
}

impl Side<'_> {
    fn open(&self) -> Box<dyn Fabric> {
        fluxline::open(&format!("shm://{}/end{}", self.group, self.number)).expect("opens")
    }

    fn peer(&self) -> String {
        format!("end{}", 1 - self.number)
    }
}

fn on_two_cores(label: &str, side: fn(&Side) -> f64) -> f64 {
    let group = format!("bench-{}-{label}", std::process::id());
    let (ready, cores) = (Barrier::new(2), allowed_cores());
    std::thread::scope(|scope| {
        let run = |number: usize| {
            let (group, ready, core) = (&group, &ready, cores.get(number).copied());
            scope.spawn(move || {
                core.map(pin_current_thread);
                side(&Side { number, group, ready })
            })
        };
        let (first, second) = (run(0), run(1));
        second.join().expect("the second end");
        first.join().expect("the first end")
    })
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// A node with a region, connected to its peer, whose region it has imported.
struct Linked {
    fabric: Box<dyn Fabric>,
    endpoint: EndpointId,
    to: Target,
}

fn linked(side: &Side) -> Linked {
    let mut fabric = side.open();
    let region = fabric.register(4096).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: KEY };
    fabric.export(region, name("words"), grant).expect("a free name");
    side.ready.wait();
    if side.number == 0 {
        fabric.connect(&side.peer(), Reliability::Reliable).expect("there");
    }
    let endpoint = loop {
        if let Some(Completion::Connected { endpoint, .. }) = fabric.poll(clock::now()) {
            break endpoint;
        }
    };
    let remote = fabric.import(endpoint, name("words"), KEY).expect("connected");
    while !matches!(fabric.poll(clock::now()), Some(Completion::Imported { .. })) {}
    side.ready.wait();
    Linked { fabric, endpoint, to: Target { remote, offset: 0 } }
}

impl Linked {
    /// Posts a put with a notification; returns false when the queue is full.
    fn put(&mut self, number: u32) -> bool {
        let bytes = u64::from(number).to_le_bytes();
        let from = Local::Bytes(&bytes);
        let work = Work::Put { from, to: self.to, notify: Some(number), complete_at: None };
        match self.fabric.post(self.endpoint, 0, work) {
            Ok(()) => true,
            Err(PostError::Full) => false,
            Err(other) => panic!("{other}"),
        }
    }

    /// Waits for the next notification, and returns its value.
    fn notified(&mut self) -> u32 {
        let mut now = clock::now();
        loop {
            match self.fabric.poll(now) {
                Some(Completion::Notified { value, .. }) => return black_box(value),
                Some(other) => panic!("{other:?}"),
                None => now = clock::now(),
            }
        }
    }
}

fn trips_of_puts(side: &Side) -> f64 {
    let mut link = linked(side);
    let began = Instant::now();
    for number in 0..TRIPS {
        if side.number == 0 {
            assert!(link.put(number));
        }
        assert_eq!(link.notified(), number);
        if side.number == 1 {
            assert!(link.put(number));
        }
    }
    let half = began.elapsed().as_nanos() as f64 / f64::from(2 * TRIPS);
    side.ready.wait();
    half
}

fn stream_of_puts(side: &Side) -> f64 {
    let mut link = linked(side);
    let began = Instant::now();
    for number in 0..PUTS {
        if side.number == 1 {
            assert_eq!(link.notified(), number);
            continue;
        }
        while !link.put(number) {
            assert!(link.fabric.poll(clock::now()).is_none());
        }
        if number % BURST == 0 {
            assert!(link.fabric.poll(clock::now()).is_none());
        }
    }
    side.ready.wait();
    f64::from(PUTS) / 1e6 / began.elapsed().as_secs_f64()
}

/// A ring in each direction.
struct Rings {
    fabric: Box<dyn Fabric>,
    to: Sender,
    from: Receiver,
    bytes: Vec<u8>,
}

fn rings(side: &Side) -> Rings {
    let mut fabric = side.open();
    let plan = RingPlan::new(name("words"), KEY, 16_384, 8);
    let from = Receiver::open(&mut *fabric, &plan).expect("room");
    side.ready.wait();
    let to = RingAddress { peer: side.peer(), name: name("words"), key: KEY };
    let mut to = Sender::open(&mut *fabric, to, clock::monotonic()).expect("reachable");
    while !to.is_open() {
        to.poll(&mut *fabric, clock::monotonic());
    }
    side.ready.wait();
    Rings { fabric, to, from, bytes: Vec::new() }
}

impl Rings {
    fn push(&mut self, number: u32) -> bool {
        match self.to.push(&mut *self.fabric, &u64::from(number).to_le_bytes()) {
            Ok(()) => true,
            Err(PushRefused::Full | PushRefused::NotOpen(_)) => false,
            Err(other) => panic!("{other}"),
        }
    }

    fn publish(&mut self) {
        self.to.publish(&mut *self.fabric).expect("the peer is there");
    }

    fn next(&mut self) -> u32 {
        loop {
            if let Some(record) = self.from.next(&mut *self.fabric).expect("sound") {
                record.copy_to(&mut self.bytes);
                let word = self.bytes.first_chunk().expect("8 B");
                return black_box(u32::from_le_bytes(*word));
            }
        }
    }
}

fn trips_of_records(side: &Side) -> f64 {
    let mut rings = rings(side);
    let began = Instant::now();
    for number in 0..TRIPS {
        if side.number == 0 {
            assert!(rings.push(number));
            rings.publish();
        }
        assert_eq!(rings.next(), number);
        if side.number == 1 {
            assert!(rings.push(number));
            rings.publish();
        }
    }
    let half = began.elapsed().as_nanos() as f64 / f64::from(2 * TRIPS);
    side.ready.wait();
    half
}

fn stream_of_records(side: &Side) -> f64 {
    let mut rings = rings(side);
    let began = Instant::now();
    for number in 0..PUTS {
        if side.number == 1 {
            assert_eq!(rings.next(), number);
            continue;
        }
        while !rings.push(number) {}
        if number % BURST == 0 {
            rings.publish();
        }
    }
    rings.publish();
    side.ready.wait();
    f64::from(PUTS) / 1e6 / began.elapsed().as_secs_f64()
}
