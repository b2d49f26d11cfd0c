//! Batches of posts against single posts: puts of 8 bytes, the last of each batch with a
//! notification or all of them with one, on shared memory and over UDP on loopback.
//!
//! One thread posts a batch, then polls both nodes until the owner has all notifications. Rounds
//! are interleaved; medians of 15.

use std::time::Instant;

use fluxline::clock;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Local, Name, Post, Reliability, Rights, Target,
    Work,
};

use crate::median::median;

const BATCH: usize = 32;
const ROUNDS: usize = 15;
const KEY: Key = Key(1);

/// The way of posting.
#[derive(Clone, Copy)]
enum Posting {
    Single,
    Batch,
}

/// The puts of a batch that notify the owner.
#[derive(Clone, Copy)]
enum Notified {
    Last,
    All,
}

/// Two connected nodes.
struct Ends {
    owner: Box<dyn Fabric>,
    writer: Box<dyn Fabric>,
    endpoint: EndpointId,
    to: Target,
}

/// Measures and prints.
pub fn measure() {
    let group = format!("bench-batch-{}", std::process::id());
    let shm = |node: &str| format!("shm://{group}/{node}");
    let mut links = [
        ("shm", 20_000, Ends::open(&shm("owner"), &shm("writer"), "owner")),
        (
            "udp",
            2_000,
            Ends::open("udp://127.0.0.1:47921", "udp://127.0.0.1:47922", "127.0.0.1:47921"),
        ),
    ];
    println!("ns per put of 8 B, batches of {BATCH}   single  batch");
    for (link, batches, ends) in &mut links {
        for (label, notified) in [("the last notified", Notified::Last), ("all", Notified::All)] {
            let mut rows = [const { Vec::new() }; 2];
            for _ in 0..ROUNDS {
                rows[0].push(ends.ns_per_put(*batches, notified, Posting::Single));
                rows[1].push(ends.ns_per_put(*batches, notified, Posting::Batch));
            }
            let [single, batch] = rows.map(median);
            println!("{link}, {label:<30} {single:>7.1}  {batch:>5.1}");
        }
    }
}

impl Ends {
    fn open(owner_url: &str, writer_url: &str, peer: &str) -> Ends {
        let mut owner = fluxline::open(owner_url).expect("opens");
        let mut writer = fluxline::open(writer_url).expect("opens");
        let name = Name::parse("region").expect("legal");
        let region = owner.register(4096).expect("memory");
        let grant = Grant { rights: Rights::PUT, key: KEY };
        owner.export(region, name.clone(), grant).expect("free");
        let endpoint = writer.connect(peer, Reliability::Reliable).expect("there");
        while !matches!(writer.poll(clock::monotonic()), Some(Completion::Connected { .. })) {
            owner.poll(clock::monotonic());
        }
        let remote = writer.import(endpoint, name, KEY).expect("connected");
        while !matches!(writer.poll(clock::monotonic()), Some(Completion::Imported { .. })) {
            owner.poll(clock::monotonic());
        }
        Ends { owner, writer, endpoint, to: Target { remote, offset: 0 } }
    }

    fn ns_per_put(&mut self, batches: u32, notified: Notified, posting: Posting) -> f64 {
        let began = Instant::now();
        for number in 0..batches {
            let bytes = u64::from(number).to_le_bytes();
            let posts: [Post<'_>; BATCH] = std::array::from_fn(|place| {
                let tells = matches!(notified, Notified::All) || place + 1 == BATCH;
                let notify = tells.then_some(number);
                let from = Local::Bytes(&bytes);
                let work = Work::Put { from, to: self.to, notify, complete_at: None };
                Post { tag: place as u64, work }
            });
            match posting {
                Posting::Batch => self.writer.post_all(self.endpoint, &posts).expect("room"),
                Posting::Single => {
                    for post in &posts {
                        self.writer.post(self.endpoint, post.tag, post.work).expect("room");
                    }
                }
            }
            self.await_notifications(match notified {
                Notified::Last => 1,
                Notified::All => BATCH,
            });
        }
        began.elapsed().as_nanos() as f64 / f64::from(batches) / BATCH as f64
    }

    fn await_notifications(&mut self, mut missing: usize) {
        while missing > 0 {
            let now = clock::monotonic();
            self.writer.poll(now);
            while let Some(what) = self.owner.poll(now) {
                missing -= usize::from(matches!(what, Completion::Notified { .. }));
            }
        }
    }
}
