//! Couriers on a network that loses, doubles and reorders frames: every job is done once, in order.

use std::collections::{BTreeMap, VecDeque};

use crate::support::pairs::pair_of;
use fluxline_conformance::{Joined, Side, conformance};
use fluxline_core::fabric::{
    Completion, Level, Local, Operation, RegionId, RemoteId, Slice, Status, Target, Work,
};
use fluxline_core::random::Draw;
use fluxline_sim::core::agenda::Schedule;
use fluxline_sim::core::fault::FaultKind;
use fluxline_sim::core::interconnect::{Class, Interconnect, Refused, Report, SendId};
use fluxline_sim::fabric::courier::{self, Courier, Frame, Times};
use fluxline_sim::world::{Cluster, Due, World};
use fluxline_sim::{Duration, Entry};

/// A frame arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrive(u64);

impl Entry for Arrive {
    fn component(&self) -> u32 {
        0
    }

    fn kind(&self) -> u8 {
        0
    }
}

impl From<Arrive> for Due<Arrive, courier::Step> {
    fn from(entry: Arrive) -> Self {
        Due::Wire(entry)
    }
}

/// A network in which each frame takes its own time, and some come twice or never.
struct Wild {
    chance: f64,
    draw: Draw,
    flying: BTreeMap<u64, Frame>,
    flights: u64,
    arrived: Vec<VecDeque<Frame>>,
    reports: VecDeque<Report>,
}

impl Wild {
    fn fly(&mut self, frame: Frame, agenda: &mut impl Schedule<Arrive>) {
        self.flights += 1;
        self.flying.insert(self.flights, frame);
        let time = Duration::from_ns(500 + self.draw.below(20_000));
        agenda.schedule_after(time, Arrive(self.flights));
    }
}

impl Interconnect for Wild {
    type Frame = Frame;
    type Entry = Arrive;

    fn nodes(&self) -> u32 {
        self.arrived.len() as u32
    }

    fn send(
        &mut self,
        _: u32,
        frame: Frame,
        agenda: &mut impl Schedule<Arrive>,
    ) -> Result<SendId, Refused<Frame>> {
        if self.draw.chance(self.chance) {
            self.fly(frame.clone(), agenda);
        }
        if !self.draw.chance(self.chance) {
            self.fly(frame, agenda);
        }
        Ok(SendId(self.flights))
    }

    fn handle(&mut self, Arrive(number): Arrive, _: &mut impl Schedule<Arrive>) {
        let Some(frame) = self.flying.remove(&number) else { return };
        let node = frame.target;
        self.arrived[node as usize].push_back(frame);
        self.reports.push_back(Report::Received { node, class: Class::Request });
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    fn take(&mut self, node: u32, _: Class, _: &mut impl Schedule<Arrive>) -> Option<Frame> {
        self.arrived[node as usize].pop_front()
    }

    fn fault(&mut self, _: FaultKind, _: &mut impl Schedule<Arrive>) -> bool {
        false
    }

    fn conserve(&self) -> Result<(), String> {
        Ok(())
    }
}

fn cluster(chance: f64, seed: u64) -> Cluster {
    let arrived = vec![VecDeque::new(); 2];
    let (flying, reports) = (BTreeMap::new(), VecDeque::new());
    let wild = Wild { chance, draw: Draw::new(seed), flying, flights: 0, arrived, reports };
    let card = |node| Courier::<Wild>::new(node, Times::default());
    Cluster::of(World::new(wild, (0..2).map(card)), "sim:wild", u64::MAX)
}

conformance!(on_a_wild_network, pair_of(&cluster(0.02, 1)));

/// The bytes of the region before its word for atomics.
const BYTES: usize = 4096;

/// The state of the right node in the end.
struct Expected {
    bytes: Vec<u8>,
    notified: Vec<u32>,
    adds: u64,
}

/// Returns a random piece of work.
fn work<'a>(draw: &mut Draw, places: Places, bytes: &'a [u8], value: u32) -> Work<'a> {
    let Places { remote, own } = places;
    let first = Target { remote, offset: 0 };
    let at = draw.below((BYTES - bytes.len()) as u64);
    match draw.below(10) {
        0 => Work::FetchAdd { at: Target { remote, offset: BYTES as u64 }, add: 1 },
        1 => Work::Get { from: first, into: Slice { region: own, offset: 0, bytes: 512 } },
        _ => Work::Put {
            from: Local::Bytes(bytes),
            to: Target { remote, offset: at },
            notify: draw.chance(0.5).then_some(value),
            complete_at: Some(Level::Placed),
        },
    }
}

/// The peer's region, and one of the program's own.
#[derive(Clone, Copy)]
struct Places {
    remote: RemoteId,
    own: RegionId,
}

/// Posts as much work as the queue takes, many times, and checks each result.
fn work_and_check(joined: &mut Joined, places: Places, draw: &mut Draw) -> Expected {
    let mut expected = Expected { bytes: vec![0; BYTES], notified: Vec::new(), adds: 0 };
    for round in 0..20 {
        let mut posted = Vec::new();
        for tag in 0..60 {
            let bytes = vec![draw.below(256) as u8; 1 + draw.below(600) as usize];
            let work = work(draw, places, &bytes, round * 100 + tag);
            joined.pair.left.post(joined.left, tag.into(), work).expect("room for 64");
            if let Work::Put { to, notify, .. } = work {
                let at = to.offset as usize;
                expected.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
                expected.notified.extend(notify);
            }
            posted.push(work.operation());
        }
        for (tag, operation) in (0..).zip(posted) {
            let (found, status, value) = joined.done(tag);
            assert_eq!((found, status), (operation, Status::Done));
            if operation == Operation::FetchAdd {
                assert_eq!(value, expected.adds, "each addition once, in order");
                expected.adds += 1;
            }
        }
    }
    expected
}

#[test]
fn a_lost_doubled_or_late_frame_changes_the_order_of_work_or_does_it_twice() {
    for (chance, seed) in [(0.0, 1), (0.02, 2), (0.02, 3), (0.1, 4), (0.1, 5), (0.2, 6)] {
        println!("chance {chance}, seed {seed}");
        let cluster = cluster(chance, seed);
        let mut joined = Joined::new(pair_of(&cluster));
        let (region, remote) = joined.shared("samples", BYTES as u64 + 8);
        let own = joined.pair.left.register(BYTES as u64).expect("memory");
        let places = Places { remote, own };
        let expected = work_and_check(&mut joined, places, &mut Draw::new(seed));
        assert!(joined.bytes(region, 0, BYTES) == expected.bytes, "the last put to a byte wins");
        assert_eq!(joined.bytes(region, BYTES as u64, 8), expected.adds.to_le_bytes());
        let notified = joined.rest(Side::Right).into_iter().filter_map(|what| match what {
            Completion::Notified { value, .. } => Some(value),
            _ => None,
        });
        assert_eq!(notified.collect::<Vec<u32>>(), expected.notified);
        let counts = [0, 1].map(|node| cluster.counts(node).requester);
        let [repeated, inquiries] =
            [counts.map(|of| of.repeated), counts.map(|of| of.inquiries)].map(|of| of[0] + of[1]);
        println!("{repeated} repeated, {inquiries} inquiries");
        assert_eq!(repeated > 0, chance > 0.0, "{repeated} requests were sent again");
        assert_eq!(inquiries > 0, chance > 0.0, "{inquiries} answers were overdue");
    }
}
