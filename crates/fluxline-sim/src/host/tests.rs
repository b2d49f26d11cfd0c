//! Tests of each mechanism by itself.

use super::config::{BadConfig, Control, Posting};
use super::{
    Access, Call, Config, Descriptor, Direction, Entry, Handle, Host, Incoming, Instant, Level,
    Notice, Out, Outcome, Report, Status, preset,
};
use crate::reproduce::pair::{Pair, link_lc1, link_lc2};
use crate::{Agenda, Duration};

const PEER: u32 = 1;
const WRITE_64: (Access, usize) = (Access::Write, 64);
const WRITE_16: (Access, usize) = (Access::Write, 16);
const MOVE_64: (Access, usize) = (Access::Move, 64);
const NORMAL: Outcome = Outcome::Done(Status::Normal);

/// A host whose network is the test.
struct Bench {
    host: Host,
    agenda: Agenda<Entry>,
    /// Requests that left: time, handle, access, offset, bytes.
    left: Vec<(Instant, Handle, Access, u64, usize)>,
    /// Completed calls: time, tag, outcome.
    completed: Vec<(Instant, u64, Outcome)>,
    reports: Vec<Report>,
}

impl Bench {
    fn new(config: Config) -> Bench {
        let host = Host::new(0, config).expect("a preset");
        let agenda = Agenda::default();
        Bench { host, agenda, left: vec![], completed: vec![], reports: vec![] }
    }

    fn submit(&mut self, call: Call, tag: u64) {
        self.host.submit(call, tag, &mut self.agenda);
        self.collect();
    }

    fn store(&mut self, offset: u64, bytes: usize, tag: u64) {
        self.submit(Call::Store { to: PEER, offset, data: vec![7; bytes] }, tag);
    }

    fn answer(&mut self, handle: Handle, outcome: Outcome, data: Vec<u8>) {
        self.host.finished(handle, outcome, data, &mut self.agenda);
        self.collect();
    }

    /// Runs until nothing is due; memory is zeros.
    fn run(&mut self) {
        while let Some(entry) = self.agenda.take(Instant::NEVER) {
            self.host.handle(entry, &mut self.agenda);
            self.collect();
        }
    }

    /// Runs for `span`.
    fn run_for(&mut self, span: Duration) {
        let until = self.agenda.now() + span;
        while let Some(entry) = self.agenda.take(until) {
            self.host.handle(entry, &mut self.agenda);
            self.collect();
        }
        self.agenda.idle_until(until);
    }

    fn collect(&mut self) {
        let now = self.agenda.now();
        while let Some(report) = self.host.next_report() {
            match report {
                Report::Completed { tag, outcome, .. } => self.completed.push((now, tag, outcome)),
                Report::Fetch { fetch, bytes, .. } => {
                    let data = vec![0; bytes as usize];
                    self.host.supply(fetch, data, &mut self.agenda);
                }
                other => self.reports.push(other),
            }
        }
        while let Some(out) = self.host.next_out() {
            if let Out::Request { handle, access, offset, data, .. } = out {
                self.left.push((now, handle, access, offset, data.len()));
            }
        }
    }

    fn accesses(&self) -> Vec<(Access, usize)> {
        self.left.iter().map(|left| (left.2, left.4)).collect()
    }

    fn done_at(&self, tag: u64) -> Option<Instant> {
        self.completed.iter().find(|done| done.1 == tag).map(|done| done.0)
    }
}

fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = preset::test_stand_b(8);
    change(&mut config);
    config
}

fn dma(bytes: &[u32], direction: Direction, level: Level, notice: Notice) -> Call {
    let of = |(number, bytes): (usize, &u32)| {
        let offset = number as u64 * 4096;
        Descriptor { direction, to: PEER, offset, address: offset, bytes: *bytes }
    };
    Call::Dma { descriptors: bytes.iter().enumerate().map(of).collect(), level, notice }
}

#[test]
fn a_full_stream_is_one_packet_of_64_bytes() {
    let mut bench = Bench::new(preset::test_stand_b(1));
    bench.store(128, 64, 0);
    bench.run();
    assert_eq!(bench.accesses(), [WRITE_64]);
    assert_eq!(bench.left[0].3, 128);
    assert_eq!(bench.host.counters().partial_streams, 0);
}

#[test]
fn with_one_stream_the_second_block_waits_for_the_first_response() {
    let mut bench = Bench::new(preset::test_stand_b(1));
    bench.store(0, 128, 0);
    bench.run();
    assert_eq!(bench.accesses(), [WRITE_64]);
    let first = bench.left[0].1;
    bench.answer(first, NORMAL, vec![]);
    bench.run();
    assert_eq!(bench.accesses(), [WRITE_64, WRITE_64]);
    assert!(bench.host.counters().retries >= 1, "the card refused the second block");
}

#[test]
fn n_combined_streams_send_n_blocks_of_a_burst_before_any_response() {
    for streams in [1, 2, 4, 8] {
        let mut bench = Bench::new(preset::test_stand_b(streams));
        bench.store(0, 1024, 0);
        bench.run();
        assert_eq!(bench.left.len(), streams as usize, "{streams} streams");
        // Each sent block frees one stream: the others follow one by one.
        let mut next = 0;
        while let Some(&(_, handle, ..)) = bench.left.get(next) {
            bench.answer(handle, NORMAL, vec![]);
            bench.run();
            next += 1;
        }
        assert_eq!(bench.left.len(), 16);
        let offsets: Vec<u64> = bench.left.iter().map(|left| left.3).collect();
        assert_eq!(offsets, (0..16).map(|block| block * 64).collect::<Vec<_>>());
    }
}

#[test]
fn a_store_into_another_block_sends_what_gathers() {
    let mut bench = Bench::new(preset::test_stand_b(8));
    bench.store(0, 16, 0);
    bench.store(256, 16, 1);
    bench.run_for(Duration::from_us(5));
    assert_eq!(bench.left.len(), 1, "the second still gathers");
    assert_eq!((bench.accesses()[0], bench.left[0].3), (WRITE_16, 0));
}

#[test]
fn stores_that_follow_each_other_gather_into_one_packet() {
    let mut bench = Bench::new(preset::test_stand_b(8));
    (0..16).for_each(|word| bench.store(word * 4, 4, word));
    bench.run();
    assert_eq!(bench.accesses(), [WRITE_64]);
}

#[test]
fn a_block_under_way_makes_the_next_store_into_it_wait() {
    let mut bench = Bench::new(preset::test_stand_b(8));
    bench.store(0, 64, 0);
    bench.store(0, 64, 1);
    bench.run();
    assert_eq!(bench.left.len(), 1, "two writes to one address would not keep their order");
    let first = bench.left[0].1;
    bench.answer(first, NORMAL, vec![]);
    bench.run();
    assert_eq!(bench.left.len(), 2);
}

#[test]
fn a_stream_that_gets_nothing_more_is_sent_after_its_time() {
    let mut bench = Bench::new(preset::test_stand_b(8));
    bench.store(20, 10, 0);
    bench.run();
    let timeout = bench.host.config().card.gather_timeout;
    assert_eq!(bench.accesses(), [(Access::Write, 10)]);
    let bytes: Vec<(u64, usize)> = bench.left.iter().map(|left| (left.3, left.4)).collect();
    // Selected bytes are those of one block of 16.
    assert_eq!(bytes, [(20, 10)]);
    assert!(bench.left[0].0.since(Instant::START) > timeout);
}

#[test]
fn a_flush_does_not_wait_and_a_barrier_waits_for_all_streams() {
    let mut bench = Bench::new(preset::test_stand_b(8));
    bench.store(0, 64, 0);
    bench.store(64, 16, 1);
    bench.submit(Call::Flush, 2);
    bench.submit(Call::Barrier, 3);
    bench.run();
    assert_eq!(bench.accesses(), [WRITE_64, WRITE_16]);
    assert!(bench.done_at(2).is_some());
    let handles: Vec<Handle> = bench.left.iter().map(|left| left.1).collect();
    for handle in handles {
        assert_eq!(bench.done_at(3), None, "a stream is still busy");
        bench.answer(handle, NORMAL, vec![]);
        bench.run();
    }
    assert!(bench.done_at(3).is_some());
}

#[test]
fn a_move_frees_its_stream_at_once_or_at_its_echo() {
    let posted = |posting| {
        let mut bench = Bench::new(with(|config| {
            config.card.streams = 1;
            config.card.posting = posting;
        }));
        bench.store(0, 256, 0);
        bench.run();
        bench
    };
    let at_once = posted(Posting::Move);
    assert_eq!(at_once.accesses(), [MOVE_64; 4]);
    let mut at_echo = posted(Posting::MoveUntilEcho);
    assert_eq!(at_echo.accesses(), [MOVE_64]);
    let first = at_echo.left[0].1;
    at_echo.answer(first, NORMAL, vec![]);
    at_echo.run();
    assert_eq!(at_echo.accesses(), [MOVE_64; 2]);
}

#[test]
fn a_failed_store_is_reported_by_the_next_check_and_only_by_that() {
    for (posting, outcome) in [
        (Posting::Write, Outcome::Lost),
        (Posting::Write, Outcome::Done(Status::Address)),
        (Posting::Move, Outcome::Lost),
    ] {
        let mut bench = Bench::new(with(|config| config.card.posting = posting));
        bench.store(0, 64, 0);
        bench.run();
        let first = bench.left[0].1;
        bench.answer(first, outcome, vec![]);
        bench.submit(Call::Check, 1);
        bench.submit(Call::Check, 2);
        bench.run();
        let ends: Vec<Outcome> = bench.completed.iter().map(|done| done.2).collect();
        assert_eq!(ends, [NORMAL, outcome, NORMAL], "{posting:?}");
        assert_eq!(bench.host.counters().failures, 1);
    }
}

#[test]
fn combining_buffers_make_bursts_of_lines_and_are_written_out_when_left_alone() {
    let mut bench = Bench::new(preset::trams());
    bench.store(0, 8, 0);
    bench.store(8, 24, 1);
    bench.store(32, 32, 2);
    bench.run_for(Duration::from_us(3));
    assert_eq!(bench.accesses(), [WRITE_64], "two lines of 32 B fill a stream");
    bench.store(64, 16, 3);
    bench.run();
    // The store lingers in the processor, then gathers in the card.
    assert_eq!(bench.accesses(), [WRITE_64, WRITE_16]);
    let waited = bench.left[1].0.since(bench.done_at(3).expect("stored"));
    let config = bench.host.config();
    let linger = config.cpu.combining.expect("a Pentium II combines").linger;
    assert!(waited > linger + config.card.gather_timeout, "{waited}");
}

#[test]
fn a_line_too_many_writes_the_oldest_combining_buffer_out() {
    let mut bench = Bench::new(with(|config| {
        config.cpu.combining = preset::trams().cpu.combining;
        if let Some(combining) = &mut config.cpu.combining {
            combining.linger = Duration::from_us(1_000_000);
        }
    }));
    (0..5).for_each(|line| bench.store(line * 256, 16, line));
    bench.run_for(Duration::from_us(100));
    assert_eq!(bench.left.iter().map(|left| left.3).collect::<Vec<_>>(), [0]);
    bench.submit(Call::Flush, 9);
    bench.run_for(Duration::from_us(100));
    assert_eq!(bench.left.len(), 5);
}

#[test]
fn prefetch_asks_once_for_a_block_and_without_it_every_word_is_a_round_trip() {
    for (prefetch, requests) in [(true, 1), (false, 16)] {
        let mut bench = Bench::new(with(|config| config.card.prefetch = prefetch));
        bench.submit(Call::Load { to: PEER, offset: 64, bytes: 64 }, 0);
        let mut next = 0;
        loop {
            bench.run();
            let Some(&(_, handle, access, ..)) = bench.left.get(next) else { break };
            let Access::Read { bytes } = access else { panic!("{access:?}") };
            bench.answer(handle, NORMAL, vec![5; bytes as usize]);
            next += 1;
        }
        assert_eq!(bench.left.len(), requests);
        assert!(bench.done_at(0).is_some());
    }
}

#[test]
fn a_load_that_is_lost_says_so_and_the_processor_goes_on() {
    let mut bench = Bench::new(preset::test_stand_b(8));
    bench.submit(Call::Load { to: PEER, offset: 0, bytes: 4 }, 0);
    bench.store(0, 64, 1);
    bench.run();
    let first = bench.left[0].1;
    bench.answer(first, Outcome::Lost, vec![]);
    bench.run();
    assert_eq!(bench.completed[0].2, Outcome::Lost);
    assert_eq!(bench.completed[1].2, NORMAL);
}

#[test]
fn a_translation_costs_once_a_page_until_it_falls_out() {
    let mut bench = Bench::new(with(|config| {
        config.card.posting = Posting::Move;
        config.card.translation.entries = 2;
    }));
    for (page, misses) in [(0, 1), (0, 1), (1, 2), (0, 2), (2, 3), (1, 4), (2, 4)] {
        let block = bench.host.counters().requests % 64;
        bench.store(page * 4096 + block * 64, 64, 0);
        bench.run();
        assert_eq!(bench.host.counters().translation_misses, misses, "page {page}");
    }
}

#[test]
fn dma_and_stores_share_the_bus() {
    // The engine alone would leave the bus half of its time.
    let mut config = preset::trams();
    config.engine.block = Duration::ZERO;
    let time = |with_dma: bool| {
        let mut pair = Pair::new(&config, link_lc2()).expect("a preset");
        if with_dma {
            let call = dma(&[16_384], Direction::Write, Level::User, Notice::Word);
            pair.submit(call);
        }
        let begin = pair.complete(Call::Compute(Duration::from_us(10))).0;
        let data = vec![1; 4096];
        let end = pair.complete(Call::Store { to: PEER, offset: 65_536, data }).0;
        end.since(begin).as_us()
    };
    let (alone, beside) = (time(false), time(true));
    // First come, first served: bursts of 64 B of the engine between bursts of 32 B of stores.
    assert!(beside > 1.5 * alone, "alone {alone} us, beside a DMA {beside} us");
}

#[test]
fn registers_hold_so_many_descriptors_and_a_list_all() {
    let kicks = |control| {
        let mut bench = Bench::new(with(|config| config.engine.control = control));
        // Nothing is answered, so the first call never ends; all its bursts leave the bus.
        bench.submit(dma(&[512, 512, 512], Direction::Write, Level::User, Notice::Word), 0);
        bench.submit(Call::Compute(Duration::from_us(1)), 1);
        bench.run();
        (bench.left.len(), bench.done_at(1).is_some())
    };
    // Depth 1: the second has begun and cannot be sent; the third finds no room.
    assert_eq!(kicks(Control::Registers { depth: 1 }), (8, false));
    assert_eq!(kicks(Control::Registers { depth: 2 }), (8, true));
    assert_eq!(kicks(Control::List { bytes: 32 }), (8, true));
}

#[test]
fn notices_cost_what_the_software_costs() {
    let end = |level, notice| {
        let mut pair = Pair::new(&preset::trams(), link_lc2()).expect("a preset");
        let tag = pair.submit(dma(&[64], Direction::Write, level, notice));
        pair.wait(tag).0.as_ps()
    };
    let software = preset::trams().software;
    let spin = end(Level::User, Notice::Spin);
    let kernel = (software.kernel_entry + software.kernel_return).as_ps();
    assert_eq!(end(Level::Kernel, Notice::Spin), spin + kernel);
    let without_look = spin - software.status_read.as_ps();
    let word = end(Level::User, Notice::Word);
    assert!(word > without_look && word < without_look + 1_000_000, "one bus write later");
}

#[test]
fn an_empty_dma_call_is_completed() {
    for notice in [Notice::Spin, Notice::Word] {
        let mut bench = Bench::new(preset::trams());
        bench.submit(dma(&[], Direction::Write, Level::User, notice), 0);
        bench.submit(dma(&[0, 0], Direction::Read, Level::Kernel, notice), 1);
        bench.run();
        assert_eq!(bench.completed.len(), 2, "{notice:?}");
        assert_eq!(bench.left.len(), 0);
    }
}

#[test]
fn a_lost_packet_of_a_dma_is_the_outcome_of_its_call() {
    for direction in [Direction::Write, Direction::Read] {
        let mut pair = Pair::new(&preset::trams(), link_lc2()).expect("a preset");
        pair.lose(1);
        let lossy = dma(&[256, 64], direction, Level::User, Notice::Word);
        assert_eq!(pair.complete(lossy.clone()).1, Outcome::Lost);
        assert_eq!(pair.complete(lossy).1, NORMAL);
    }
}

#[test]
fn a_block_costs_the_engine_its_own_time_in_both_directions() {
    let end = |direction, block, reads| {
        let mut config = preset::trams();
        config.engine.block = block;
        config.engine.reads_outstanding = reads;
        let mut pair = Pair::new(&config, link_lc2()).expect("a preset");
        let call = dma(&[640], direction, Level::User, Notice::Word);
        pair.complete(call).0.as_ps()
    };
    for (direction, reads) in [(Direction::Write, 1), (Direction::Read, 1), (Direction::Read, 4)] {
        let without = end(direction, Duration::ZERO, reads);
        let with = end(direction, Duration::from_us(3), reads);
        // Ten blocks, one at a time; their requests and answers overlap the engine's own time.
        assert!(with >= 30_000_000, "{direction:?}, {reads} reads: {with}");
        assert!(with <= without + 30_000_000, "{direction:?}, {reads}: {with} after {without}");
    }
}

#[test]
fn computing_is_slower_only_while_the_engine_works() {
    let took = |dma_bytes: u32| {
        let mut pair = Pair::new(&preset::trams(), link_lc2()).expect("a preset");
        let call = dma(&[dma_bytes], Direction::Write, Level::User, Notice::Word);
        let kicked = preset::trams().engine.kick;
        pair.submit(call);
        let end = pair.complete(Call::Compute(Duration::from_us(100))).0;
        end.since(Instant::START).as_us() - kicked.as_us()
    };
    assert!((took(65_536) - 100.0 / 0.85).abs() < 0.1, "{}", took(65_536));
    let engine_us = Pair::new(&preset::trams(), link_lc2())
        .map(|mut pair| {
            pair.complete(dma(&[64], Direction::Write, Level::User, Notice::Word));
            pair.host(0).counters().engine_busy_ps as f64 / 1e6
        })
        .expect("a preset");
    assert!((took(64) - (100.0 + 0.15 * engine_us)).abs() < 0.2, "{} {engine_us}", took(64));
}

#[test]
fn the_processor_is_busy_while_it_waits_and_not_after() {
    let mut bench = Bench::new(preset::test_stand_b(8));
    bench.run_for(Duration::from_us(5));
    bench.submit(Call::Load { to: PEER, offset: 0, bytes: 4 }, 0);
    bench.run();
    bench.run_for(Duration::from_us(100));
    let first = bench.left[0].1;
    bench.answer(first, NORMAL, vec![0; 64]);
    bench.run();
    let busy_us = bench.host.counters().cpu_busy_ps as f64 / 1e6;
    let done_us = bench.done_at(0).expect("loaded").since(Instant::START).as_us();
    assert!((busy_us - (done_us - 5.0)).abs() < 1e-6, "{busy_us} of {done_us}");
    assert_eq!(bench.reports.last(), Some(&Report::CpuFree));
}

#[test]
fn a_full_card_has_no_room_until_a_request_is_served() {
    let mut bench = Bench::new(with(|config| config.card.incoming_slots = 2));
    for request in 0..2 {
        assert!(bench.host.has_space());
        let (access, offset, data) = (Access::Write, request * 64, vec![1; 64]);
        let incoming = Incoming { request, access, offset, data };
        bench.host.incoming(incoming, &mut bench.agenda);
    }
    assert!(!bench.host.has_space());
    bench.run();
    assert_eq!(bench.reports.len(), 2, "both reached memory");
    assert!(!bench.host.has_space(), "the composer has not served them");
    bench.host.served(0, Status::Normal, vec![], &mut bench.agenda);
    assert!(bench.host.has_space());
}

#[test]
fn what_is_unknown_or_late_is_ignored() {
    let mut bench = Bench::new(preset::test_stand_b(1));
    bench.answer(77, NORMAL, vec![1]);
    bench.host.served(5, Status::Normal, vec![], &mut bench.agenda);
    bench.host.supply(9, vec![], &mut bench.agenda);
    bench.store(0, 64, 0);
    bench.run();
    let first = bench.left[0].1;
    bench.answer(first, NORMAL, vec![]);
    bench.answer(first, NORMAL, vec![]);
    bench.run();
    assert_eq!(bench.host.counters().failures, 0);
}

#[test]
fn numbers_that_cannot_be_are_refused_in_one_sentence() {
    let refuse = |change: fn(&mut Config)| Host::new(0, with(change)).expect_err("refused");
    let zero = refuse(|config| config.card.streams = 0);
    assert_eq!(zero.to_string(), "host: the number of streams is 0; give at least 1");
    let size = refuse(|config| config.bus.store_burst_bytes = 48);
    assert_eq!(
        size.to_string(),
        "host: a burst of stores is 48 B; give a power of two from 4 to 64 B"
    );
    assert_eq!(refuse(|config| config.cpu.slow_down_percent = 100), BadConfig::SlowDown(100));
    assert!(matches!(
        refuse(|config| config.engine.control = Control::Registers { depth: 0 }),
        BadConfig::Zero(_)
    ));
}

/// A small random number generator (SplitMix64): a seed determines the whole test.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn random_config(random: &mut Random) -> Config {
    let mut config = match random.below(3) {
        0 => preset::test_stand_a(),
        1 => preset::test_stand_b(1 << random.below(4)),
        _ => preset::trams(),
    };
    config.card.posting =
        [Posting::Write, Posting::Move, Posting::MoveUntilEcho][random.below(3) as usize];
    config.card.prefetch = random.below(2) == 0;
    config.card.incoming_slots = 1 + random.below(4) as u32;
    config.engine.reads_outstanding = 1 + random.below(4) as u32;
    config.engine.writes_outstanding = 1 + random.below(8) as u32;
    config.bus =
        [preset::pci_32_33(), preset::pci_64_66(), preset::pci_x_133()][random.below(3) as usize];
    config
}

/// Compares stores, DMA and loads of random offsets and sizes with two plain arrays of bytes. A
/// barrier follows each call that could overtake another, as programs must do.
fn random_script(seed: u64) -> (u64, String) {
    let mut random = Random(seed);
    let config = random_config(&mut random);
    let mut pair = Pair::new(&config, link_lc1()).expect("a preset");
    let mut obvious = [pair.memory(0).clone(), pair.memory(1).clone()];
    for (machine, memory) in obvious.iter_mut().enumerate() {
        memory.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
        pair.memory(machine).clone_from(memory);
    }
    let (mut stored, mut written) = (0, 0);
    for step in 0..40 {
        let (offset, bytes) = (random.below(4096), 1 + random.below(300));
        let address = random.below(4096);
        let (there, here) = (offset as usize..(offset + bytes) as usize, address as usize);
        match random.below(4) {
            0 | 1 => {
                let data: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
                obvious[1][there].copy_from_slice(&data);
                pair.submit(Call::Store { to: PEER, offset, data });
                stored += bytes;
            }
            2 => {
                let reads = random.below(2) == 0;
                let direction = if reads { Direction::Read } else { Direction::Write };
                let bytes = bytes as u32;
                let descriptor = Descriptor { direction, to: PEER, offset, address, bytes };
                let (descriptors, level) = (vec![descriptor], Level::User);
                pair.submit(Call::Barrier);
                // A move may still be on its way when its stream is free.
                pair.drain();
                pair.complete(Call::Dma { descriptors, level, notice: Notice::Spin });
                pair.drain();
                let [own, peer] = &mut obvious;
                let local = here..here + bytes as usize;
                match direction {
                    Direction::Read => own[local].copy_from_slice(&peer[there]),
                    Direction::Write => {
                        peer[there].copy_from_slice(&own[local]);
                        written += u64::from(bytes);
                    }
                }
            }
            _ => {
                pair.submit(Call::Barrier);
                pair.drain();
                let tag = pair.submit(Call::Load { to: PEER, offset, bytes: bytes as u32 });
                assert_eq!(pair.wait(tag).1, NORMAL);
                assert_eq!(pair.loaded(tag), &obvious[1][there], "seed {seed} step {step}");
            }
        }
    }
    pair.submit(Call::Barrier);
    pair.drain();
    for (machine, memory) in obvious.iter().enumerate() {
        assert!(pair.memory(machine) == memory, "seed {seed}: memory {machine} differs");
    }
    let counters = pair.host(0).counters();
    assert_eq!(counters.stored_bytes, stored, "seed {seed}");
    assert_eq!(counters.sent_bytes, stored + written, "seed {seed}: bytes sent");
    assert_eq!(pair.written_bytes(1), stored + written, "seed {seed}: bytes written");
    assert_eq!(pair.host(0).calls(), 0, "seed {seed}: every call has ended");
    (pair.now().as_ps(), format!("{:?}", pair.host(0).counters()))
}

#[test]
fn random_scripts_leave_the_bytes_that_plain_arrays_have_and_repeat() {
    for seed in 0..120 {
        assert_eq!(random_script(seed), random_script(seed), "seed {seed} does not repeat");
    }
}

fn random_call(random: &mut Random) -> Call {
    let (to, offset) = (PEER, random.below(2048));
    match random.below(8) {
        0..=2 => Call::Store { to, offset, data: vec![1; random.below(200) as usize] },
        3 => Call::Load { to, offset, bytes: random.below(100) as u32 },
        4 => Call::Flush,
        5 => Call::Barrier,
        6 => Call::Check,
        _ => {
            let direction = [Direction::Read, Direction::Write][random.below(2) as usize];
            let notice = [Notice::Spin, Notice::Word][random.below(2) as usize];
            let level = [Level::User, Level::Kernel][random.below(2) as usize];
            let sizes: Vec<u32> = (0..random.below(4)).map(|_| random.below(300) as u32).collect();
            dma(&sizes, direction, level, notice)
        }
    }
}

#[test]
fn every_call_ends_once_in_whatever_order_answers_come_and_however_they_end() {
    const CALLS: u64 = 60;
    for seed in 0..150 {
        let mut random = Random(seed);
        let mut bench = Bench::new(random_config(&mut random));
        for tag in 0..CALLS {
            bench.submit(random_call(&mut random), tag);
            bench.run_for(Duration::from_ns(random.below(3000)));
        }
        let mut open: Vec<(Handle, Access)> = Vec::new();
        let mut taken = 0;
        loop {
            open.extend(bench.left[taken..].iter().map(|left| (left.1, left.2)));
            taken = bench.left.len();
            if open.is_empty() && bench.agenda.is_empty() {
                break;
            }
            if !open.is_empty() {
                let (handle, access) = open.swap_remove(random.below(open.len() as u64) as usize);
                let outcome = match random.below(10) {
                    0 => Outcome::Lost,
                    1 => Outcome::Done(Status::Address),
                    _ => NORMAL,
                };
                let bytes = if let Access::Read { bytes } = access { bytes } else { 0 };
                bench.answer(handle, outcome, vec![0; bytes as usize]);
            }
            bench.run_for(Duration::from_ns(random.below(20_000)));
        }
        let mut tags: Vec<u64> = bench.completed.iter().map(|done| done.1).collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..CALLS).collect::<Vec<_>>(), "seed {seed}");
        assert!(bench.host.is_at_rest(), "seed {seed}: something is left over");
    }
}
