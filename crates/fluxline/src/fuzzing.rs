//! Entries for fuzz targets: shared memory that another process has filled with anything.
//!
//! A script is any bytes. It decides which words are overwritten, and what the honest sides do in
//! between. Each entry asserts what it promises: no panic, no access outside a mapping, no endless
//! loop. For the project's own tests; not a part of the interface.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fluxline_core::Moment;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Reliability, RemoteId, Rights,
    Slice, Target, Work,
};

use crate::clock;
use crate::push::{ConsumerWait, NextError, PushConsumer, PushRefused};
use crate::shm::{Shm, ShmConfig};
use crate::sys::dir::Dir;
use crate::sys::map::SharedMap;
use crate::sys::push::{ClaimFile, Consumer, HEADER_BYTES, Producer, Shape};
use crate::sys::shared::{Access, Pages, unnamed_file};
use crate::sys::shim::Ordering;

/// One step of a script: an action, a place and a word.
struct Step {
    what: u8,
    place: u64,
    word: u64,
}

/// The steps of a script: a byte, two of a place, and the word in a byte that says how it is made.
fn steps(script: &[u8]) -> impl Iterator<Item = Step> {
    script.chunks_exact(12).map(|bytes| {
        let word = bytes[4..].try_into().map_or(0, u64::from_le_bytes);
        let place = u64::from(u16::from_le_bytes([bytes[1], bytes[2]]));
        let word = match bytes[3] % 8 {
            0 => 0,
            1 => u64::MAX,
            2 => word % 4096,
            3 => (word % 4096).wrapping_neg(),
            4 => 1 << (word % 64),
            5 => word & 0x00FF_00FF_00FF_00FF,
            _ => word,
        };
        Step { what: bytes[0], place, word }
    })
}

fn reopened(file: &File) -> io::Result<ClaimFile> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(ClaimFile::new(Arc::new(File::options().read(true).write(true).open(path)?)))
}

/// A push ring on which a script scribbles between calls of both its sides.
///
/// Errors: the host's.
///
/// # Panics
/// When the ring does what it must not.
pub fn push_ring(script: &[u8]) -> io::Result<()> {
    let size = 64 << (script.first().copied().unwrap_or(0) % 7);
    let all = HEADER_BYTES + size;
    let file = unnamed_file(&Dir::open(Path::new("/dev/shm"))?, all, Pages::Small)?;
    let map = Arc::new(SharedMap::of_file(file.as_fd(), all as usize, Access::ReadWrite)?);
    let shape = Shape { start: 0, size, sleeps: true };
    let consumer = Consumer::create(Arc::clone(&map), shape, reopened(&file)?);
    let mut consumer = consumer.map_err(io::Error::other)?;
    let mut producer = None;
    let mut broken = false;
    for step in steps(script) {
        match step.what % 8 {
            0..=2 => map.word(step.place % (all / 8) * 8).store(step.word, Ordering::Release),
            3 | 4 => push(producer.as_mut(), (step.place % (size / 2)) as usize),
            5 => {
                drop(producer.take());
                producer = Producer::attach(Arc::clone(&map), 0, all, reopened(&file)?).ok();
            }
            6 => consumer.wait(Duration::ZERO),
            _ => {
                let next = consumer.next().map(|found| found.map_or(0, |of| of.to_vec().len()));
                assert!(next.is_err() || next.is_ok_and(|bytes| bytes as u64 <= size / 4));
                let breaks = matches!(next, Err(NextError::Broken(_)));
                assert!(!broken || breaks, "a broken ring is broken for good");
                broken = breaks;
            }
        }
    }
    Ok(())
}

fn push(producer: Option<&mut Producer>, bytes: usize) {
    let Some(producer) = producer else { return };
    let refused = producer.push(&vec![7; bytes]);
    if bytes > producer.record_bytes_max() {
        assert!(matches!(refused, Err(PushRefused::TooLong { .. })), "{refused:?}");
    }
    if let Some(ended) = producer.ended().filter(|_| refused.is_err()) {
        assert!(refused == Err(ended) || bytes > producer.record_bytes_max());
    }
    producer.publish();
}

const KEY: Key = Key(7);
const REGION_BYTES: u64 = 4096;

/// Two nodes with a connection, on whose files a script scribbles between their calls.
struct Nodes {
    owner: Shm,
    peer: Shm,
    endpoint: EndpointId,
    remote: RemoteId,
    ring: RemoteId,
    consumer: PushConsumer,
    now: u64,
}

fn name(text: &str) -> io::Result<Name> {
    Name::parse(text).map_err(io::Error::other)
}

impl Nodes {
    fn open(base: &Path) -> io::Result<Nodes> {
        let config = ShmConfig { base: Some(base.to_path_buf()), ..ShmConfig::default() };
        let open =
            |node| Shm::open(&name("lab")?, &name(node)?, config.clone()).map_err(io::Error::other);
        let (mut owner, mut peer) = (open("owner")?, open("peer")?);
        let grant = Grant { rights: Rights::ALL, key: KEY };
        let region = owner.register(REGION_BYTES).map_err(io::Error::other)?;
        owner.export(region, name("region")?, grant).map_err(io::Error::other)?;
        let consumer = owner.push_consumer(4096, ConsumerWait::Sleeps).map_err(io::Error::other)?;
        owner.export(consumer.region(), name("ring")?, grant).map_err(io::Error::other)?;
        let endpoint = peer.connect("owner", Reliability::Reliable).map_err(io::Error::other)?;
        for _ in 0..4 {
            owner.poll(clock::now());
            peer.poll(clock::now());
        }
        let mut import =
            |called| peer.import(endpoint, name(called)?, KEY).map_err(io::Error::other);
        let (remote, ring) = (import("region")?, import("ring")?);
        let now = clock::now().as_ns();
        Ok(Nodes { owner, peer, endpoint, remote, ring, consumer, now })
    }

    fn poll(&mut self, passed_ns: u64) {
        self.now += passed_ns;
        let now = Moment::from_ns(self.now);
        for node in [&mut self.owner, &mut self.peer] {
            for _ in 0..300 {
                let Some(what) = node.poll(now) else { break };
                if let Completion::Notified { offset, bytes, .. } = what {
                    let end = offset.checked_add(bytes);
                    assert!(end.is_some_and(|end| end <= REGION_BYTES.max(8192)), "{what:?}");
                }
            }
            node.wait(Duration::ZERO);
        }
        for _ in 0..100 {
            let Ok(Some(record)) = self.consumer.next() else { break };
            assert!(record.to_vec().len() <= 1024, "{record:?}");
        }
    }

    fn work(&mut self, step: &Step) {
        let data = vec![3; (step.place % 700) as usize];
        let to = Target { remote: self.remote, offset: step.word % 5000 };
        let work = match step.place % 5 {
            0 => Work::Put { from: Local::Bytes(&data), to, notify: Some(1), complete_at: None },
            1 => Work::Send { from: Local::Bytes(&data), complete_at: Some(Level::Placed) },
            2 => Work::FetchAdd { at: to, add: step.word },
            3 => Work::Fence,
            _ => Work::Flush,
        };
        let _ = self.peer.post(self.endpoint, step.word, work);
        if let Ok(region) = self.owner.register(64) {
            let into = Slice { region, offset: 0, bytes: 64 };
            let _ = self.owner.post_receive(self.endpoint, 1, into);
            let _ = self.owner.withdraw(region);
        }
        if let Ok(mut producer) = self.peer.push_producer(self.ring) {
            let _ = producer.push(&data);
        }
    }

    fn connect(&mut self) {
        if let Ok(endpoint) = self.peer.connect("owner", Reliability::Unreliable) {
            let _ = self.peer.disconnect(self.endpoint);
            self.endpoint = endpoint;
        }
        for called in ["region", "ring"] {
            let called =
                Name::parse(called).map(|called| self.peer.import(self.endpoint, called, KEY));
            if let Ok(Ok(remote)) = called {
                self.remote = remote;
            }
        }
    }
}

/// Nodes below `base`, a directory that need not be there yet, on whose control and region files a
/// script scribbles between their calls.
///
/// Errors: the host's.
///
/// # Panics
/// When a node does what it must not.
pub fn nodes(base: &Path, script: &[u8]) -> io::Result<()> {
    let mut nodes = Nodes::open(base)?;
    let group = Dir::open(base)?.open_dir(Path::new("lab"))?;
    let map = |file: &str, bytes: u64| {
        SharedMap::of_file(
            group.open_file(Path::new(file))?.as_fd(),
            bytes as usize,
            Access::ReadWrite,
        )
    };
    // The head of the control file with its first slot, and the heads of the regions with the ring.
    let files =
        [("owner.node", 128 << 10), ("owner~region.region", 4096), ("owner~ring.region", 8192)];
    let maps = files.map(|(file, bytes)| map(file, bytes).map(|map| (map, bytes)));
    for step in steps(script) {
        match step.what % 8 {
            0..=3 => {
                if let Ok((map, bytes)) = &maps[usize::from(step.what / 8) % maps.len()] {
                    map.word(step.place % (bytes / 8) * 8).store(step.word, Ordering::Release);
                }
            }
            4 | 5 => nodes.work(&step),
            6 => nodes.connect(),
            _ => nodes.poll(step.place * 100_000),
        }
    }
    nodes.poll(200_000_000);
    Ok(())
}
