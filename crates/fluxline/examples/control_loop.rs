//! A control loop on any link: read a sensor, decide, write back; prints the reaction time.
//!
//! demonstrates: register -> export -> import -> put with notify, in both directions.
//!
//!     cargo run --release -p fluxline --example control_loop
//!
//! With two URLs, of the controller and the plant, it runs on any link: `udp://127.0.0.1:47920
//! udp://127.0.0.1:47921`.
//!
//! A plant puts samples into a region of the controller, which puts a correction for each into a
//! region of the plant. Both are threads that poll; without a core for each, the scheduler decides
//! the tail. For comparison: ITER's SDN promises 50 us between two computers on 10 GbE.

use std::thread;
use std::time::{Duration, Instant};

use fluxline_core::Span;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Local, Name, RegionId, Reliability, RemoteId,
    Rights, Status, Target, Work,
};

const KEY: Key = Key(0xC0DE);
/// The controller steers the value to it.
const TARGET: f64 = 20.0;
/// Bytes of a sample: its number and its value.
const SAMPLE_BYTES: usize = 16;
const SECONDS: Duration = Duration::from_secs(3);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One end of the loop: its own region, and the peer's.
struct End {
    node: Box<dyn Fabric>,
    own: RegionId,
    endpoint: EndpointId,
    remote: RemoteId,
}

impl End {
    /// Opens a node, exports a region, and imports that of the peer, which may come later.
    fn open(url: &str, peer: &str, own: &str, other: &str) -> Result<End, Failure> {
        let mut node = fluxline::open(url)?;
        let region = node.register(4096)?;
        node.export(region, Name::parse(own)?, Grant { rights: Rights::PUT, key: KEY })?;
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            match import(&mut *node, peer, other) {
                Ok((endpoint, remote)) => return Ok(End { node, own: region, endpoint, remote }),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Puts a number and a value into the peer's region.
    fn put(&mut self, number: u64, value: f64) -> Result<(), Failure> {
        let mut bytes = [0; SAMPLE_BYTES];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&value.to_le_bytes());
        let to = Target { remote: self.remote, offset: 0 };
        let (from, notify) = (Local::Bytes(&bytes), Some(0));
        self.node.post(self.endpoint, 0, Work::Put { from, to, notify, complete_at: None })?;
        Ok(())
    }

    /// Polls for the peer's next put; `None`: the peer has gone.
    fn take(&mut self) -> Result<Option<(u64, f64)>, Failure> {
        loop {
            match self.node.poll(self.node.now()) {
                Some(Completion::Notified { .. }) => break,
                Some(Completion::Broken { .. }) => return Ok(None),
                Some(_) | None => std::hint::spin_loop(),
            }
        }
        let memory = self.node.memory(self.own)?;
        let mut bytes = [0; SAMPLE_BYTES];
        memory.read(0, &mut bytes)?;
        let (number, value) = bytes.split_at(8);
        Ok(Some((u64::from_le_bytes(number.try_into()?), f64::from_le_bytes(value.try_into()?))))
    }
}

fn import(
    node: &mut dyn Fabric,
    peer: &str,
    name: &str,
) -> Result<(EndpointId, RemoteId), Failure> {
    let endpoint = node.connect(peer, Reliability::Reliable)?;
    loop {
        match node.poll(node.now()) {
            Some(Completion::Connected { endpoint: its, .. }) if its == endpoint => {
                node.import(endpoint, Name::parse(name)?, KEY)?;
            }
            Some(Completion::Imported { remote, status: Status::Done, .. }) => {
                return Ok((endpoint, remote));
            }
            Some(Completion::Imported { status, .. }) => return Err(status.to_string().into()),
            Some(Completion::Broken { endpoint: its, status, .. }) if its == endpoint => {
                return Err(status.to_string().into());
            }
            Some(_) => {}
            None => node.wait(node.now() + Span::from_ms(1)),
        }
    }
}

/// Answers each sample by a correction, until the plant ends.
fn control(url: &str, plant: &str) -> Result<(), Failure> {
    let mut end = End::open(url, plant, "sensor", "actuator")?;
    let mut last = 0.0;
    while let Some((number, value)) = end.take()? {
        let error = TARGET - value;
        end.put(number, 0.5 * error + 0.1 * (error - last))?;
        last = error;
    }
    Ok(())
}

/// Sends samples, applies corrections, and returns the reaction times [ns] and the last value.
fn plant(url: &str, controller: &str) -> Result<(Vec<u64>, f64), Failure> {
    let mut end = End::open(url, controller, "actuator", "sensor")?;
    thread::sleep(Duration::from_millis(200)); // the controller connects, too
    let (mut times, mut value) = (Vec::new(), 0.0);
    let until = Instant::now() + SECONDS;
    while Instant::now() < until {
        let began = Instant::now();
        end.put(times.len() as u64, value)?;
        let (number, step) = end.take()?.ok_or("the controller has gone")?;
        times.push(began.elapsed().as_nanos() as u64);
        assert_eq!(number + 1, times.len() as u64, "each correction answers its sample");
        value += step;
    }
    Ok((times, value))
}

/// Returns the name by which the other end reaches a node.
fn peer_of(url: &str) -> &str {
    let address = url.split_once("://").map_or(url, |parts| parts.1);
    match url.starts_with("shm") {
        true => address.rsplit('/').next().unwrap_or(address),
        false => address,
    }
}

fn main() -> Result<(), Failure> {
    let group = format!("shm://control-{}", std::process::id());
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [controller, own] = match given.as_slice() {
        [controller, plant] => [controller.clone(), plant.clone()],
        _ => [format!("{group}/controller"), format!("{group}/plant")],
    };
    let (url, peer) = (controller.clone(), own.clone());
    let other = thread::spawn(move || control(&url, peer_of(&peer)));
    let (mut times, value) = plant(&own, peer_of(&controller))?;
    other.join().map_err(|_| "the controller panicked")??;
    times.sort_unstable();
    println!("{} reactions; the value is {value:.3} of {TARGET}", times.len());
    for percent in [50.0, 90.0, 99.0, 99.9, 99.99] {
        let at = ((times.len() - 1) as f64 * percent / 100.0) as usize;
        println!("  {percent:>6} %  {:>9.1} us", times[at] as f64 / 1000.0);
    }
    println!("  published: ITER's SDN promises 50 us between two computers on 10 GbE");
    Ok(())
}
