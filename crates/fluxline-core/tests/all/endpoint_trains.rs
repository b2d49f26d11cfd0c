//! Frames that arrive as trains have the effect of the same frames one by one, whatever happened to
//! them on the way: the memory, the answers, the counters and the completions are equal.

use std::net::{IpAddr, SocketAddr};

use crate::support::{World, address, config, put};
use fluxline_core::Moment;
use fluxline_core::endpoint::Node;
use fluxline_core::endpoint::counters::ConnectionCounters;
use fluxline_core::fabric::{
    EndpointId, Fabric, Level, Local, RegionId, Reliability, RemoteId, Slice, Target, Work,
};
use fluxline_core::port::network::{Network, NetworkPort};
use fluxline_core::port::{
    Identification, Incoming, IncomingTrain, Outgoing, Port, PortCounters, PortLimits,
};
use fluxline_core::random::{Draw, test_count, test_seed};

const FRAMES_MAX: usize = 64;
const REGION_BYTES: u64 = 40_000;

/// The way in which a port gives its frames to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giving {
    Trains,
    Frames,
}

/// A port that counts identifications like a kernel that sends trains, and damages what arrives.
struct Joining {
    inner: NetworkPort,
    limits: PortLimits,
    giving: Giving,
    faults: Draw,
    /// One of this many frames is damaged; 0: none.
    one_of: u64,
    /// Address and length of the last frame sent, and its identification.
    last: (SocketAddr, usize, u16),
    /// Frames that were given together with an earlier one.
    joined: usize,
}

struct Arrived {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl Joining {
    fn new(inner: NetworkPort, giving: Giving, seed: u64) -> Joining {
        let limits = PortLimits { train_frames: FRAMES_MAX, ..*inner.limits() };
        let last = (address(0), 0, 0);
        Joining { inner, limits, giving, faults: Draw::new(seed), one_of: 0, last, joined: 0 }
    }

    fn arrived(&mut self, now: Moment) -> Vec<Arrived> {
        let mut all: Vec<Arrived> = Vec::new();
        let Joining { inner, faults, one_of, .. } = self;
        inner.receive(now, &mut |frame| {
            let Incoming { from, to, bytes, .. } = frame;
            let mut bytes = bytes.to_vec();
            let fault = if *one_of > 0 && faults.below(*one_of) == 0 { faults.below(6) } else { 9 };
            match fault {
                0 => return, // lost
                1 => all.push(Arrived { from, to, bytes: bytes.clone() }),
                2 => {
                    let bit = faults.below(bytes.len() as u64 * 8) as usize;
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                3 => bytes[11] ^= faults.below(8) as u8, // another PSN
                4 => bytes.truncate(bytes.len() - 4),
                5 => {
                    let at = faults.below(all.len() as u64 + 1) as usize;
                    all.insert(at, Arrived { from, to, bytes });
                    return;
                }
                _ => {}
            }
            all.push(Arrived { from, to, bytes });
        });
        all
    }
}

/// Returns the number of frames at the beginning that can be one train.
fn train(frames: &[Arrived]) -> usize {
    let first = &frames[0];
    let mut count = 1;
    while let Some(next) = frames.get(count).filter(|_| count < FRAMES_MAX) {
        let is_alike = next.from == first.from && next.to == first.to;
        if !is_alike || next.bytes.len() > first.bytes.len() {
            break;
        }
        count += 1;
        if next.bytes.len() < first.bytes.len() {
            break;
        }
    }
    count
}

impl Port for Joining {
    fn limits(&self) -> &PortLimits {
        &self.limits
    }

    fn local(&self, peer: IpAddr) -> Option<SocketAddr> {
        self.inner.local(peer)
    }

    fn frame(&mut self, to: SocketAddr, bytes: usize) -> Option<Outgoing<'_>> {
        let Outgoing { bytes: room, .. } = self.inner.frame(to, bytes)?;
        let goes_on = self.last.0 == to && self.last.1 == bytes;
        let identification = if goes_on { (self.last.2 + 1) % FRAMES_MAX as u16 } else { 0 };
        self.last = (to, bytes, identification);
        Some(Outgoing { bytes: room, identification })
    }

    fn flush(&mut self, now: Moment) {
        self.last.1 = 0;
        self.inner.flush(now);
    }

    fn receive(&mut self, now: Moment, take: &mut dyn FnMut(Incoming<'_>)) -> usize {
        self.receive_trains(now, &mut |train| {
            (0..train.frames()).filter_map(|index| train.frame(index)).for_each(&mut *take);
        })
    }

    fn receive_trains(&mut self, now: Moment, take: &mut dyn FnMut(IncomingTrain<'_>)) -> usize {
        let frames = self.arrived(now);
        let mut rest = &frames[..];
        while !rest.is_empty() {
            let count = if self.giving == Giving::Trains { train(rest) } else { 1 };
            let (now_given, later) = rest.split_at(count);
            let Arrived { from, to, ref bytes } = now_given[0];
            let frame_bytes = bytes.len().max(1);
            let bytes: Vec<u8> = now_given.iter().flat_map(|of| of.bytes.clone()).collect();
            let (identification, congestion) = (Identification::Likely(0), false);
            let bytes = &bytes[..];
            take(IncomingTrain { from, to, bytes, frame_bytes, identification, congestion });
            self.joined += count - 1;
            rest = later;
        }
        frames.len()
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }
}

/// Two nodes, three connections from the first to the second, and two regions of the second.
struct Scene {
    world: World<Joining>,
    ends: Vec<(EndpointId, EndpointId)>,
    remotes: Vec<[RemoteId; 2]>,
    regions: [RegionId; 2],
    own: RegionId,
}

fn scene(giving: Giving, frame_bytes: usize, seed: u64) -> Scene {
    let network = Network::new();
    let node = |number: u8| {
        let port = network.port(address(number), frame_bytes);
        Node::new(Joining::new(port, giving, seed + u64::from(number)), config(number, |_| {}))
    };
    let mut world = World::new(vec![node(1), node(2)]);
    let kinds = [Reliability::Reliable, Reliability::Reliable, Reliability::Unreliable];
    let ends: Vec<_> = kinds.iter().map(|&kind| world.connect((0, 1), address(2), kind)).collect();
    let (one, first) = world.share((1, 0), ends[0].0, "one", REGION_BYTES);
    let (two, second) = world.share((1, 0), ends[0].0, "two", REGION_BYTES);
    let mut remotes = vec![[first, second]];
    for &(end, _) in &ends[1..] {
        let import =
            |world: &mut World<Joining>, called| world.import(0, end, called, crate::support::KEY);
        remotes.push([import(&mut world, "one"), import(&mut world, "two")]);
    }
    let own = world.nodes[0].register(REGION_BYTES).expect("memory");
    let pattern: Vec<u8> = (0..REGION_BYTES).map(|at| (at * 7 + at / 251) as u8).collect();
    world.nodes[0].memory(own).expect("own").write(0, &pattern).expect("inside");
    Scene { world, ends, remotes, regions: [one, two], own }
}

impl Scene {
    /// Posts a put of random length on a random connection, and sometimes lets time pass.
    fn step(&mut self, number: u64, draw: &mut Draw) {
        let which = draw.below(3) as usize;
        let remote = self.remotes[which][draw.below(2) as usize];
        let longest = [40, 1000, 20_000][draw.below(3) as usize];
        let bytes = 1 + draw.below(longest);
        let offset = draw.below(REGION_BYTES - bytes);
        let notify = (draw.below(2) == 0).then_some(number as u32);
        let at = draw.below(REGION_BYTES - bytes);
        let from = Local::Region(Slice { region: self.own, offset: at, bytes });
        let (to, complete_at) = (Target { remote, offset }, Some(Level::Placed));
        let work = Work::Put { from, to, notify, complete_at };
        // A region that was withdrawn takes no more work.
        let _ = self.world.nodes[0].post(self.ends[which].0, number, work);
        if draw.below(4) == 0 {
            self.world.turn();
        }
    }

    /// Posts small puts to addresses one behind the other.
    fn row(&mut self, draw: &mut Draw) {
        let which = draw.below(3) as usize;
        let (remote, bytes) = (self.remotes[which][0], 1 + draw.below(60));
        for index in 0..draw.below(100) {
            let record = vec![index as u8; bytes as usize];
            let work = put(&record, remote, index * bytes, None);
            let _ = self.world.nodes[0].post(self.ends[which].0, 0, work);
        }
        self.world.turn();
    }

    fn memory(&self) -> Vec<Vec<u8>> {
        let of = |region: &RegionId| {
            let mut bytes = vec![0; REGION_BYTES as usize];
            let memory = self.world.nodes[1].memory(*region).ok()?;
            memory.read(0, &mut bytes).expect("inside");
            Some(bytes)
        };
        self.regions.iter().filter_map(of).collect()
    }

    fn counters(&self) -> Vec<[Option<ConnectionCounters>; 2]> {
        let of = |node: usize, end| self.world.nodes[node].connection_counters(end).cloned();
        self.ends.iter().map(|&(left, right)| [of(0, left), of(1, right)]).collect()
    }

    #[track_caller]
    fn assert_equal(&self, other: &Scene) {
        assert_eq!(self.world.completions, other.world.completions);
        assert_eq!(self.counters(), other.counters());
        assert!(self.memory() == other.memory(), "the memory differs");
        for (one, other) in self.world.nodes.iter().zip(&other.world.nodes) {
            assert_eq!(one.counters(), other.counters());
        }
    }
}

#[test]
fn trains_have_the_effect_of_their_frames() {
    let first = test_seed!(1);
    let mut placed = 0;
    for seed in first..first + test_count!(16) {
        println!("SEED={seed} COUNT=1");
        let frame_bytes = [200, 520, 1472, 9000][seed as usize % 4];
        let mut both = [Giving::Trains, Giving::Frames].map(|of| scene(of, frame_bytes, seed));
        let mut draws = [Draw::new(seed), Draw::new(seed)];
        let one_of = [0, 300, 60, 15][seed as usize / 4 % 4];
        for step in 0..300 {
            for (scene, draw) in both.iter_mut().zip(&mut draws) {
                scene.world.nodes[1].port().one_of = one_of;
                match draw.below(20) {
                    0 => scene.row(draw),
                    _ => scene.step(step, draw),
                }
                if step == 200 && seed % 3 == 0 {
                    scene.world.nodes[1].withdraw(scene.regions[1]).expect("own");
                }
            }
            let [trains, frames] = &both;
            trains.assert_equal(frames);
        }
        for scene in &mut both {
            scene.world.nodes[1].port().one_of = 0;
            scene.world.run(30);
        }
        let [trains, frames] = &mut both;
        trains.assert_equal(frames);
        let [joined, single] = [trains, frames].map(|of| of.world.nodes[1].port().joined);
        assert!(joined > 0 && single == 0);
        placed += joined;
    }
    assert!(placed > 1000, "{placed} frames came in trains");
}
