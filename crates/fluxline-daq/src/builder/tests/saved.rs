//! Builders that are saved and restored at random packets, beside one that is not: the same
//! batches, byte for byte, and the same state.

use fluxline_core::{Datagram, SenderAddress};
use fluxline_packet::SourceKey;

use super::super::saved::Unfit;
use super::super::*;
use super::random::{ANYTHING, Made, Random, make, quick, runs};
use super::world::*;
use crate::readout::sequence::SequenceRule;
use crate::readout::{FormatRules, PacketRule, Readout, ReadoutLimits};

/// Returns all state in words. A field that is missing here does not compile.
fn in_words(builder: &Builder) -> Vec<String> {
    #[rustfmt::skip]
    let Builder {
        config, time, anchor, members, inputs, generations, keys, open, gathering, counters,
        per_source, watch, scratch: _,
    } = builder;
    let OpenEvents { slab, lanes, bytes, last, blocker, horizon, pressed, refused } = open;
    vec![
        format!("{:?}", (config, time, anchor)),
        format!("{:?}", (members, inputs, generations)),
        format!("{:?}", (gathering, counters, per_source)),
        format!("{watch:?}"),
        format!("{:?}", (lanes, bytes, last, blocker, horizon, pressed, refused)),
        keys.in_words(),
        slab.in_words(),
    ]
}

fn saved(builder: &Builder) -> Vec<u8> {
    postcard::to_allocvec(builder).expect("plain data")
}

fn restored(builder: &Builder) -> Builder {
    let bytes = saved(builder);
    let read: Builder = postcard::from_bytes(&bytes).expect("our own state");
    let new = read.resume(&builder.config).expect("sound");
    assert_eq!(in_words(builder), in_words(&new), "state is forgotten");
    assert_eq!(bytes, saved(&new));
    new
}

/// One builder that is never interrupted, and one that is restored again and again.
struct Twins {
    readout: Readout,
    calm: Builder,
    restored: Builder,
    random: Random,
    /// Chance of a restore behind a packet, in a thousand.
    share: u64,
    /// Restores that may follow; each compares the whole state.
    left: u32,
    known: u32,
    batches: usize,
}

impl Twins {
    fn new(config: &BuilderConfig, made: &Made, seed: u64) -> Twins {
        let rule = PacketRule {
            sequence: Some(SequenceRule::of_bits(32)),
            sequence_class: 0,
            event_bits: made.key_bits,
            spill_bits: 32,
            count_bits: 0,
        };
        let limits = ReadoutLimits::default();
        let mut random = Random::new(seed);
        Twins {
            readout: Readout::new(vec![FormatRules { packets: vec![rule] }; 4], limits),
            calm: Builder::new(config.clone()),
            restored: Builder::new(config.clone()),
            share: random.of(&[1, 5, 30]),
            left: 25,
            random,
            known: 0,
            batches: 0,
        }
    }

    /// Gives both the packet; some packets belong to another partition.
    fn take(&mut self, packet: Sent, spill: Option<u64>) {
        let (index, count) = packet.part;
        let payload_bytes = 8;
        let parsed = Parsed {
            step: None,
            counts: None,
            packet: 0,
            source: SourceKey { sender: SenderAddress::NONE, terms: u64::from(packet.source) },
            sequence: packet.count,
            event: (packet.key % 101 != 7).then_some(packet.key),
            spill,
            part: match (count, packet.source % 2) {
                (1, _) => Part::Whole,
                (_, 0) => Part::Index { index, count },
                _ => Part::Bytes { offset: u64::from(index) * 8, total: u64::from(count) * 8 },
            },
            sensor_time_ns: (packet.key % 13 != 1).then_some(packet.at + packet.key % 5 * MS),
            payload_start: 0,
            payload_bytes,
        };
        let bytes = u64::from(packet.source).to_le_bytes();
        let time = Moment::from_ns(packet.at);
        let datagram = Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 1, time };
        let is_passed = packet.key % 4 == 2;
        let Twins { readout, calm, restored, known, .. } = self;
        readout.accept(packet.input, &datagram, &parsed, |accepted, datagram, parsed| {
            let is_new = accepted.source >= *known;
            *known = (*known).max(accepted.source + 1);
            for builder in [&mut *calm, &mut *restored] {
                if is_new {
                    builder.name_source(accepted.source, &format!("board={}", accepted.source));
                }
                match is_passed {
                    true => builder.pass(datagram.time, accepted, datagram, parsed),
                    false => {
                        builder.push(datagram.time, accepted, datagram, parsed);
                    }
                }
            }
        });
    }

    fn disturb(&mut self) {
        if self.left > 0 && self.random.chance(self.share) {
            self.left -= 1;
            self.restored = restored(&self.restored);
        }
    }

    fn compare(&mut self, now: Moment) {
        assert_eq!(self.calm.batch_is_due(now), self.restored.batch_is_due(now));
        assert_eq!(self.calm.next_deadline(), self.restored.next_deadline());
        let calm = self.calm.take_batch(EventBatch::default());
        assert_eq!(calm, self.restored.take_batch(EventBatch::default()));
        self.batches += usize::from(!calm.is_empty());
        let reports = |of: &mut Builder| -> Vec<Said> { of.reports(now).collect() };
        assert_eq!(reports(&mut self.calm), reports(&mut self.restored));
    }

    fn run(mut self, packets: &[Sent], spill_of: impl Fn(u64) -> Option<u64>) -> usize {
        let mut tick = packets[0].at;
        for packet in packets {
            while tick < packet.at.min(tick + 3000 * MS) {
                tick += 5 * MS;
                let now = Moment::from_ns(tick);
                [&mut self.calm, &mut self.restored].into_iter().for_each(|of| of.poll(now));
                if self.random.chance(300) {
                    self.compare(now);
                }
            }
            tick = tick.max(packet.at);
            self.take(*packet, spill_of(packet.at));
            self.disturb();
        }
        let end = Moment::from_ns(tick + MS);
        for of in [&mut self.calm, &mut self.restored] {
            of.end_input(0);
        }
        self.disturb();
        for of in [&mut self.calm, &mut self.restored] {
            of.finish(end);
        }
        self.restored = restored(&self.restored);
        self.compare(end);
        assert_eq!(self.calm.summary(), self.restored.summary());
        assert_eq!(self.calm.amendments(), self.restored.amendments());
        self.batches
    }
}

fn config(random: &mut Random) -> BuilderConfig {
    let window =
        |clock| Mode::Window { width: Span::from_ms(7), lateness: Span::from_ms(20), clock };
    let global = Mode::Key(Scope::Global);
    let usual = BuilderConfig {
        mode: random.of(&[
            global,
            global,
            Mode::Key(Scope::PerSource),
            Mode::Packet,
            window(WindowClock::Arrival),
            window(WindowClock::Sensor),
        ]),
        late: random.of(&[Late::Record, Late::Record, Late::Drop]),
        closed_keys_max: random.of(&[1 << 16, 50]),
        ..quick()
    };
    let expectation = match random.below(4) {
        0 => Expectation::Count(3),
        1 => Expectation::Sources(vec!["board=1".to_owned(), "board=9".to_owned()]),
        _ => Expectation::Joined,
    };
    match random.chance(200) {
        false => BuilderConfig { expectation, ..usual },
        true => BuilderConfig {
            bytes_open_max: 256 << 10,
            events_open_max: 64,
            batch_bytes: 32 << 10,
            ..usual
        },
    }
}

#[test]
fn a_builder_that_was_restored_makes_another_batch() {
    let mut batches = 0;
    for seed in runs(50) {
        println!("seed {seed}");
        let made = make(seed, ANYTHING);
        if made.packets.is_empty() {
            continue;
        }
        let mut random = Random::new(seed ^ 77);
        let config = config(&mut random);
        let gap = 3000 * MS;
        let starts = made.times.windows(2).filter(|pair| pair[1] >= pair[0] + gap);
        let starts: Vec<u64> = starts.map(|pair| pair[1]).collect();
        let has_spills = random.chance(400);
        let spill_of = |at: u64| {
            has_spills.then(|| 5 + starts.iter().filter(|start| **start <= at).count() as u64)
        };
        batches += Twins::new(&config, &made, seed ^ 5).run(&made.packets, spill_of);
    }
    assert!(batches > 500, "{batches} batches are a weak test");
}

/// The derives cover a new field by themselves, unless somebody excludes it.
#[test]
fn a_field_is_excluded_from_the_saved_state() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/builder");
    let files = std::fs::read_dir(folder).expect("the builder's sources").flatten();
    let mut saved = 0;
    for file in files.filter(|file| file.path().extension().is_some_and(|its| its == "rs")) {
        let text = std::fs::read_to_string(file.path()).expect("a source file");
        assert!(!text.contains("serde(skip"), "{} leaves state out", file.path().display());
        saved += text.matches(", Deserialize)]").count();
    }
    assert!(saved > 25, "only {saved} types are saved");
}

#[test]
fn a_state_that_no_builder_had_is_taken_or_panics() {
    let made = make(11, ANYTHING);
    let mut twins = Twins::new(&quick(), &made, 3);
    for packet in &made.packets[..made.packets.len() / 2] {
        twins.take(*packet, None);
    }
    let builder = &twins.calm;
    assert!(builder.events_open() > 0 || !made.packets.is_empty());
    let other = BuilderConfig { late: Late::Drop, ..quick() };
    assert_eq!(builder.clone().resume(&other).err(), Some(Unfit::Config));
    let bytes = saved(builder);
    let mut random = Random::new(5);
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..3000 {
        let mut changed = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(changed.len() as u64) as usize;
            changed[at] = changed[at].wrapping_add(random.of(&[1, 7, 128, 255]));
        }
        changed.truncate(changed.len() - random.of(&[0, 0, 0, 1, 9]));
        let read = postcard::from_bytes::<Builder>(&changed).ok();
        match read.and_then(|read| read.resume(&quick()).ok()) {
            None => refused += 1,
            Some(mut builder) => {
                // It goes on, to whatever events; no index is out of range.
                let _ = builder.take_batch(EventBatch::default());
                let _ = saved(&builder);
                taken += 1;
            }
        }
    }
    assert!(refused > 500, "{refused} refused, {taken} taken");
}
