//! The cost of object safety: the same puts through `&mut dyn Fabric` and the type itself.
//!
//! Two nodes of one process on shared memory; 8 bytes a put, without a completion and with one that
//! is polled. Interleaved, medians of 15 rounds (docs/adr/0007).

use std::time::Instant;

use crate::median::median;
use fluxline::clock;
use fluxline::shm::{Shm, ShmConfig};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Reliability, Rights, Target,
    Work,
};

const PUTS: u32 = 200_000;
const ROUNDS: usize = 15;

/// The same lines twice: once compiled for any fabric, once for this one.
macro_rules! puts {
    ($fabric:ident, $endpoint:ident, $to:ident, $complete_at:ident) => {{
        let now = clock::now();
        let began = Instant::now();
        for number in 0..PUTS {
            let bytes = u64::from(number).to_le_bytes();
            let from = Local::Bytes(&bytes);
            let work = Work::Put { from, to: $to, notify: None, complete_at: $complete_at };
            $fabric.post($endpoint, number.into(), work).expect("room");
            if $complete_at.is_some() {
                assert!($fabric.poll(now).is_some());
            }
        }
        began.elapsed().as_nanos() as f64 / f64::from(PUTS)
    }};
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// Measures and prints.
pub fn measure() {
    let group = name(&format!("bench-puts-{}", std::process::id()));
    let open = |node| Shm::open(&group, &name(node), ShmConfig::default()).expect("opens");
    let (mut owner, mut writer) = (open("owner"), open("writer"));
    let region = owner.register(4096).expect("memory");
    let grant = Grant { rights: Rights::PUT, key: Key(1) };
    owner.export(region, name("region"), grant).expect("a free name");
    let endpoint = writer.connect("owner", Reliability::Reliable).expect("there");
    while !matches!(writer.poll(clock::now()), Some(Completion::Connected { .. })) {
        owner.poll(clock::now());
    }
    let remote = writer.import(endpoint, name("region"), Key(1)).expect("connected");
    writer.poll(clock::now());
    let to = Target { remote, offset: 0 };
    let mut rows = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for (row, complete_at) in [(0, None), (2, Some(Level::Placed))] {
            rows[row].push(generic(&mut writer, endpoint, to, complete_at));
            rows[row + 1].push(dynamic(&mut writer, endpoint, to, complete_at));
        }
    }
    let [silent, silent_dyn, completed, completed_dyn] = rows.map(median);
    println!("ns per put of 8 B        generic    dyn");
    println!("without a completion     {silent:>7.1}  {silent_dyn:>5.1}");
    println!("with one, polled         {completed:>7.1}  {completed_dyn:>5.1}");
}

#[inline(never)]
fn dynamic(
    fabric: &mut dyn Fabric,
    endpoint: EndpointId,
    to: Target,
    complete_at: Option<Level>,
) -> f64 {
    puts!(fabric, endpoint, to, complete_at)
}

#[inline(never)]
fn generic<F: Fabric>(
    fabric: &mut F,
    endpoint: EndpointId,
    to: Target,
    complete_at: Option<Level>,
) -> f64 {
    puts!(fabric, endpoint, to, complete_at)
}
