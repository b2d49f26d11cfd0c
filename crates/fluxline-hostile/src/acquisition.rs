//! A whole acquisition: settings, descriptions and packets drawn from the input. At its end every
//! packet is in one place, and what was recorded was sent.
//!
//! The first bytes choose how many inputs there are, their descriptions and the settings of
//! readout and builder, small ones above all, so that limits are met. Each following byte is an
//! action: a board's next packet, a repeated one, noise, time that passes, a batch that is taken.

mod board;

use std::collections::{BTreeMap, BTreeSet};

use fluxline_core::{Datagram, Moment, SenderAddress, Span};
use fluxline_daq::builder::{BuilderConfig, Expectation, Late, Mode, Scope, WindowClock};
use fluxline_daq::event::{EventBatch, EventStatus};
use fluxline_daq::ledger::{BatchFate, InputCounters, InputEntry, Ledger};
use fluxline_daq::pipeline::Pipeline;
use fluxline_daq::readout::ReadoutLimits;

use crate::draw::Draw;
use board::{Content, Layout};

/// Boards per input.
const BOARDS: usize = 8;

/// Any bytes as settings of an acquisition and what its inputs then hand over.
///
/// # Panics
/// When a law does not hold.
pub fn acquisition(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let mut run = Run::draw(&mut draw);
    while !draw.is_empty() {
        run.act(&mut draw);
    }
    run.end();
}

struct Run {
    pipeline: Pipeline,
    layouts: Vec<Layout>,
    bytes_open_max: u64,
    /// No closed key is ever forgotten. A forgotten one may begin an event anew.
    remembers_all: bool,
    now: Moment,
    /// The last packet of each board: by input, then by board.
    boards: Vec<[Content; BOARDS]>,
    last: (u16, Vec<u8>),
    /// The times that each packet was handed over, less the times that it is in a batch.
    pushed: BTreeMap<Vec<u8>, i64>,
    count: u64,
    truncated: u64,
    ledger: Ledger,
    recorded: u64,
    /// Positions of events: generation, source of events of one source, key.
    positions: BTreeSet<(u32, Option<u32>, u64)>,
}

fn builder_config(draw: &mut Draw<'_>) -> BuilderConfig {
    let mode = match draw.below(5) {
        0 => Mode::Packet,
        1 | 2 => Mode::Key(Scope::Global),
        3 => Mode::Key(Scope::PerSource),
        _ => Mode::Window {
            width: Span::from_ns(1 + draw.any() % 1_000_000_000),
            lateness: Span::from_ns(draw.any() % 1_000_000_000),
            clock: draw.one_of(&[WindowClock::Arrival, WindowClock::Sensor]),
        },
    };
    let expectation = match draw.below(3) {
        0 => Expectation::Joined,
        1 => Expectation::Count(draw.below(6)),
        _ => Expectation::Sources(vec!["board=0".into(), "b/board=1".into()]),
    };
    BuilderConfig {
        mode,
        expectation,
        time_out: Span::from_ms(draw.any() % 10_000),
        lag_max: Span::from_ms(draw.any() % 30_000),
        lateness: Span::from_ms(draw.any() % 100),
        settling: Span::from_ms(draw.any() % 3000),
        late: draw.one_of(&[Late::Record, Late::Record, Late::Drop]),
        events_open_max: draw.below(200),
        bytes_open_max: 1000 + draw.any() % 1_000_000,
        packets_per_event_max: 1 + draw.below(64),
        closed_keys_max: draw.one_of(&[1, 20, 100, 1 << 16, 1 << 16, 1 << 16]),
        batch_bytes: 1 + (draw.any() % 100_000) as usize,
        batch_age: Span::from_ms(draw.any() % 1000),
    }
}

impl Run {
    fn draw(draw: &mut Draw<'_>) -> Run {
        let config = builder_config(draw);
        let limits = ReadoutLimits {
            sources_max: 1 + draw.below(16) as usize,
            reject_kinds_max: 1 + draw.below(4) as usize,
            ..ReadoutLimits::default()
        };
        let layouts: Vec<Layout> = (0..=draw.below(3)).map(|_| Layout::draw(draw)).collect();
        let names = ["a", "b", "c"];
        let inputs = layouts.iter().zip(names);
        let inputs = inputs.map(|(layout, name)| (name.to_owned(), layout.describe(name)));
        let bytes_open_max = config.bytes_open_max;
        let remembers_all = config.closed_keys_max == 1 << 16;
        Run {
            pipeline: Pipeline::new(inputs.collect(), limits, config),
            boards: vec![[Content::default(); BOARDS]; layouts.len()],
            layouts,
            bytes_open_max,
            remembers_all,
            now: Moment::from_ns(1_750_000_000_000_000_000),
            last: (0, Vec::new()),
            pushed: BTreeMap::new(),
            count: 0,
            truncated: 0,
            ledger: Ledger::default(),
            recorded: 0,
            positions: BTreeSet::new(),
        }
    }

    fn act(&mut self, draw: &mut Draw<'_>) {
        match draw.below(20) {
            0..=10 => self.send(draw),
            11 => {
                let (input, bytes) = self.last.clone();
                self.push(input, bytes);
            }
            12 => {
                let (input, count) = (self.input(draw), usize::from(draw.byte()));
                self.push(input, draw.take(count).to_vec());
            }
            13 => {
                let input = self.input(draw);
                self.pipeline.take_truncated(input, usize::from(draw.byte()));
                self.truncated += 1;
            }
            14 => self.now = self.now + Span::from_ns(1 << draw.below(36)),
            15 => self.pipeline.poll(self.now),
            16 => self.take_batch(),
            17 => {
                let (input, board) = (self.input(draw), draw.below(BOARDS as u32) as usize);
                let content = &mut self.boards[usize::from(input)][board];
                (content.counter, content.key) = (draw.any(), draw.any());
            }
            18 => self.pipeline.end_input(self.input(draw)),
            _ => {
                let input = self.input(draw);
                self.pipeline.note_backlog(input, draw.below(2) == 1);
            }
        }
        let open = self.pipeline.builder().bytes_open();
        assert!(
            open <= 2 * self.bytes_open_max,
            "{open} bytes are open of {}",
            self.bytes_open_max
        );
    }

    fn input(&self, draw: &mut Draw<'_>) -> u16 {
        draw.below(self.layouts.len() as u32) as u16
    }

    /// A board's next packet, or one near to it.
    fn send(&mut self, draw: &mut Draw<'_>) {
        let input = self.input(draw);
        let board = draw.below(BOARDS as u32) as usize;
        let content = &mut self.boards[usize::from(input)][board];
        content.board = board as u8;
        content.counter = content.counter.wrapping_add_signed(draw.step());
        content.key = content.key.wrapping_add_signed(draw.step());
        content.parts = 1 + draw.byte() % 40;
        content.part = draw.byte() % (content.parts + 1);
        content.time = self.now.as_ns();
        content.payload = (draw.byte() % 40, draw.byte() & 1);
        let bytes = self.layouts[usize::from(input)].packet(content);
        self.push(input, bytes);
    }

    fn push(&mut self, input: u16, bytes: Vec<u8>) {
        let time = self.now;
        let datagram = Datagram { bytes: &bytes, sender: SenderAddress::NONE, port: 9, time };
        self.pipeline.take(input, self.now, &datagram);
        *self.pushed.entry(bytes.clone()).or_default() += 1;
        self.count += 1;
        self.last = (input, bytes);
    }

    fn take_batch(&mut self) {
        let batch = self.pipeline.take_batch(EventBatch::default());
        self.ledger.note_batch(&batch, BatchFate::Recorded);
        self.check_batch(&batch);
    }

    /// A batch is sound in itself, and holds only what was pushed, at most as often.
    fn check_batch(&mut self, batch: &EventBatch) {
        let of_events: u64 = batch.events.iter().map(|event| u64::from(event.packets)).sum();
        assert_eq!(of_events, batch.packets.len() as u64, "packets of events");
        let words: u64 = batch.events.iter().map(|event| u64::from(event.missing_bytes)).sum();
        assert_eq!(words, batch.missing.len() as u64, "reasons of events");
        let mut rest = &batch.bytes[..];
        for row in &batch.packets {
            let (bytes, after) = rest.split_at(row.bytes as usize);
            rest = after;
            let left = self.pushed.get_mut(bytes).expect("recorded, and never pushed");
            *left -= 1;
            assert!(*left >= 0, "recorded more often than pushed");
            let end = u64::from(row.payload_start) + u64::from(row.payload_bytes);
            assert!(end <= u64::from(row.bytes), "a payload beyond its packet");
        }
        assert!(rest.is_empty(), "bytes of no packet");
        self.recorded += batch.packets.len() as u64;
        self.check_positions(batch);
    }

    /// Of the rows of one position, one is not late.
    fn check_positions(&mut self, batch: &EventBatch) {
        let mut first = 0;
        for event in &batch.events {
            let packets = &batch.packets[first..first + event.packets as usize];
            first += packets.len();
            for packet in packets {
                assert!(event.source.is_none_or(|source| source == packet.source), "{event:?}");
            }
            if let Some(key) = event.key.filter(|_| event.status != EventStatus::Late) {
                let position = (event.generation, event.source, key);
                let is_new = self.positions.insert(position);
                assert!(is_new || !self.remembers_all, "two events at {position:?}");
            }
        }
    }

    /// All laws of the ledger, and those that need no ledger.
    fn end(mut self) {
        self.pipeline.finish(self.now);
        self.take_batch();
        let readout = self.pipeline.readout();
        let mut ledger = self.ledger.with(readout, self.pipeline.builder());
        for input in 0..self.layouts.len() as u16 {
            let taken = self.pipeline.taken(input);
            let counters = InputCounters {
                datagrams: taken.datagrams,
                bytes: taken.bytes,
                rejected: taken.rejected,
                sources_refused: taken.refused,
                truncated: taken.truncated,
                ..InputCounters::default()
            };
            ledger.inputs.push(InputEntry { counters, ..InputEntry::default() });
        }
        if let Some(law) = ledger.check().into_iter().find(|law| !law.holds()) {
            panic!("{}: {} is not {}", law.name, law.left, law.right);
        }
        let (inputs, sources) = (ledger.input_totals(), ledger.source_totals());
        assert_eq!(inputs.datagrams, self.count + self.truncated, "taken = pushed");
        assert_eq!(sources.held, 0, "nothing waits after the end");
        let missing: i64 = self.pushed.values().sum();
        let named = inputs.rejected
            + inputs.sources_refused
            + sources.duplicate
            + sources.late
            + sources.builder_full
            + sources.late_dropped
            + sources.event_duplicate
            + sources.inconsistent;
        assert_eq!(missing as u64, named, "pushed = recorded + named places");
        assert_eq!(self.recorded, sources.recorded);
    }
}
