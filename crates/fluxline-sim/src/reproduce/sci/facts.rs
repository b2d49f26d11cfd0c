//! The facts of the papers on SCI. A statement is one fact; a statement about several curves is two
//! only where a parameter was chosen from one of them.

use super::super::fact::{Fact, NUMBER, SHAPE};

const SCINET: &str = "SCINET";
const TRAMS: &str = "Trams";
const NO_END: f64 = f64::INFINITY;

pub static PEAK_FROM_256: Fact = Fact {
    id: "scinet-7-peak",
    source: SCINET,
    place: "figure 7",
    statement: "maximum already at 256 B: rate there over the maximum, writes or reads, the \
                less",
    unit: "",
    published: 0.95..=1.0,
    tolerance: SHAPE,
};
pub static HALF_WRITES: Fact = Fact {
    id: "scinet-7-half-writes",
    source: SCINET,
    place: "figure 7",
    statement: "about half of the maximum at 64 B: writes",
    unit: "",
    published: 0.5..=0.5,
    tolerance: NUMBER,
};
pub static HALF_READS: Fact = Fact {
    id: "scinet-7-half-reads",
    source: SCINET,
    place: "figure 7",
    statement: "about half of the maximum at 64 B: reads",
    unit: "",
    published: 0.5..=0.5,
    tolerance: NUMBER,
};
pub static READ_RATIO: Fact = Fact {
    id: "scinet-7-ratio",
    source: SCINET,
    place: "figure 7",
    statement: "reads are slower than writes by a factor",
    unit: "",
    published: 3.5..=3.5,
    tolerance: NUMBER,
};
pub static MOST_A: Fact = Fact {
    id: "scinet-most-a",
    source: SCINET,
    place: "headline",
    statement: "up to 45 MB/s on both stands: the most of stand A",
    unit: "MB/s",
    published: 45.0..=45.0,
    tolerance: NUMBER,
};
pub static SET_UP: Fact = Fact {
    id: "scinet-8-set-up",
    source: SCINET,
    place: "figure 8",
    statement: "set-up, writes or reads, the one farther off",
    unit: "us",
    published: 10.0..=10.0,
    tolerance: NUMBER,
};
pub static READ_STEEPER: Fact = Fact {
    id: "scinet-8-slope",
    source: SCINET,
    place: "figure 8",
    statement: "the time of reads is steeper: slope over that of writes, above 1",
    unit: "",
    published: 1.0..=NO_END,
    tolerance: SHAPE,
};
pub static ONE_STREAM: Fact = Fact {
    id: "scinet-9-rate",
    source: SCINET,
    place: "figure 9",
    statement: "1 stream, 64 B",
    unit: "MB/s",
    published: 12.0..=12.0,
    tolerance: NUMBER,
};
pub static ONE_STREAM_FLAT: Fact = Fact {
    id: "scinet-9-flat",
    source: SCINET,
    place: "figure 9",
    statement: "1 stream is flat from 64 B: least over most, blocks of whole streams, 0.9 or \
                more",
    unit: "",
    published: 0.9..=1.0,
    tolerance: SHAPE,
};
pub static CHECKED_LATE: Fact = Fact {
    id: "scinet-9-checked",
    source: SCINET,
    place: "figure 9",
    statement: "with error check the same maximum, but only above 64 KB: the first block with \
                99 % of it",
    unit: "B",
    published: 65_536.0..=NO_END,
    tolerance: SHAPE,
};
pub static SMALL_BLOCKS: Fact = Fact {
    id: "scinet-10-small",
    source: SCINET,
    place: "figure 10",
    statement: "1 stream, small blocks: 4 and 16 B, the one farther off",
    unit: "us",
    published: 2.0..=3.0,
    tolerance: NUMBER,
};
pub static SMALL_CHECKED: Fact = Fact {
    id: "scinet-10-checked",
    source: SCINET,
    place: "figure 10",
    statement: "the same with error check",
    unit: "us",
    published: 11.0..=12.0,
    tolerance: NUMBER,
};
// Four times 12 MB/s would be more than the 45 MB/s that the paper gives as the most.
pub static LINEAR: Fact = Fact {
    id: "scinet-11-linear",
    source: SCINET,
    place: "figures 11, 12",
    statement: "2 and 4 streams scale nearly linearly: rate per stream over that of 1 stream, \
                the less",
    unit: "",
    published: 0.9375..=1.0,
    tolerance: NUMBER,
};
pub static PEAK_SIZES: Fact = Fact {
    id: "scinet-11-sizes",
    source: SCINET,
    place: "figures 11, 12",
    statement: "peaks need 128 B (2 streams) and 256 B (4): the first block with 97 % of the \
                peak over this size, the one farther off",
    unit: "",
    published: 1.0..=1.0,
    tolerance: SHAPE,
};
pub static PEAKS_STAND: Fact = Fact {
    id: "scinet-11-peaks",
    source: SCINET,
    place: "figures 11, 12",
    statement: "peaks exactly at these sizes: a block a quarter longer over the peak, the \
                more, below 0.95",
    unit: "",
    published: 0.0..=0.95,
    tolerance: SHAPE,
};
pub static MOST_B: Fact = Fact {
    id: "scinet-13-most",
    source: SCINET,
    place: "figure 13",
    statement: "8 streams: the most that is ever reached",
    unit: "MB/s",
    published: 45.0..=45.0,
    tolerance: NUMBER,
};
pub static SATURATION: Fact = Fact {
    id: "scinet-13-saturation",
    source: SCINET,
    place: "figure 13",
    statement: "8 streams saturate: most over that of 4, below 1.1",
    unit: "",
    published: 0.95..=1.1,
    tolerance: SHAPE,
};
pub static FALL_AT_512: Fact = Fact {
    id: "scinet-13-fall-512",
    source: SCINET,
    place: "figure 13",
    statement: "bursts of 512 B and more fall: 512 B",
    unit: "MB/s",
    published: 34.0..=34.0,
    tolerance: NUMBER,
};
pub static FALL_ABOVE_512: Fact = Fact {
    id: "scinet-13-fall-more",
    source: SCINET,
    place: "figure 13",
    statement: "bursts of 512 B and more fall: 1 to 64 KB, the one farthest off",
    unit: "MB/s",
    published: 34.0..=34.0,
    tolerance: NUMBER,
};
pub static END_TO_END: Fact = Fact {
    id: "scinet-latency",
    source: SCINET,
    place: "headline",
    statement: "end to end below 5 us: 64 B from store to poll, the most of 1 to 8 streams",
    unit: "us",
    published: 0.0..=5.0,
    tolerance: SHAPE,
};
pub static USER_DMA: Fact = Fact {
    id: "trams-user",
    source: TRAMS,
    place: "ping-pong",
    statement: "DMA without data, from user level",
    unit: "us",
    published: 7.0..=7.0,
    tolerance: NUMBER,
};
pub static KERNEL_DMA: Fact = Fact {
    id: "trams-kernel",
    source: TRAMS,
    place: "ping-pong",
    statement: "DMA without data, through the kernel",
    unit: "us",
    published: 11.5..=11.5,
    tolerance: NUMBER,
};
pub static KERNEL_RETURN: Fact = Fact {
    id: "trams-return",
    source: TRAMS,
    place: "ping-pong",
    statement: "return through the kernel",
    unit: "us",
    published: 3.0..=3.0,
    tolerance: NUMBER,
};
pub static STORES_FIRST: Fact = Fact {
    id: "trams-short",
    source: TRAMS,
    place: "conclusion",
    statement: "stores for short messages: time without data over that of user-level DMA, \
                below 1",
    unit: "",
    published: 0.0..=1.0,
    tolerance: SHAPE,
};
pub static STORES: Fact = Fact {
    id: "trams-stores",
    source: TRAMS,
    place: "calculation",
    statement: "shared memory from 64 B upward, the one farthest off",
    unit: "MB/s",
    published: 82.0..=82.0,
    tolerance: NUMBER,
};
pub static BUS_GAP: Fact = Fact {
    id: "trams-bus",
    source: TRAMS,
    place: "PCI measurement",
    statement: "bus-master reads of memory are faster than the processor's writes by",
    unit: "MB/s",
    published: 30.0..=30.0,
    tolerance: NUMBER,
};
pub static SCI_REVERSED: Fact = Fact {
    id: "trams-reverse",
    source: TRAMS,
    place: "SCI curves",
    statement: "over SCI it is the reverse: DMA over stores at 64 KB, below 1",
    unit: "",
    published: 0.0..=1.0,
    tolerance: SHAPE,
};
/// "Significant" has no number: 5 % is assumed.
pub static USER_BEATS_KERNEL: Fact = Fact {
    id: "trams-levels",
    source: TRAMS,
    place: "DMA curves",
    statement: "user level beats the kernel from 128 B to 4 KB: the least gain, above 5 %",
    unit: "%",
    published: 5.0..=NO_END,
    tolerance: SHAPE,
};
pub static SLOW_DOWN: Fact = Fact {
    id: "trams-slow-down",
    source: TRAMS,
    place: "measurement",
    statement: "slow-down of the processor while the engine runs, worst case",
    unit: "%",
    published: 15.0..=15.0,
    tolerance: NUMBER,
};
pub static SMALL_CROSSING: Fact = Fact {
    id: "trams-crossing",
    source: TRAMS,
    place: "conclusion",
    statement: "DMA is friendlier to the processor from a surprisingly small size: at most \
                1 KB",
    unit: "B",
    published: 1.0..=1024.0,
    tolerance: SHAPE,
};
pub static LC1_RING: Fact = Fact {
    id: "omang-lc1-ring",
    source: "Omang and Parady",
    place: "abstract",
    statement: "peak of a ring of 10 nodes, LC-1 (writes of 64 B to all others assumed)",
    unit: "MB/s",
    published: 187.0..=187.0,
    tolerance: NUMBER,
};
pub static LC1_SWITCH: Fact = Fact {
    id: "omang-lc1-switch",
    source: "Omang and Parady",
    place: "abstract",
    statement: "peak of 8 nodes on a switch of 4 ports, LC-1 (the same traffic)",
    unit: "MB/s",
    published: 153.0..=153.0,
    tolerance: NUMBER,
};
pub static LC2_TOTAL: Fact = Fact {
    id: "omang-lc2-total",
    source: "Omang",
    place: "abstract",
    statement: "8 hosts of 80 MB/s, LC-2: more than 270 MB/s in all; ring or switch, the less",
    unit: "MB/s",
    published: 270.0..=NO_END,
    tolerance: SHAPE,
};
pub static KNEE: Fact = Fact {
    id: "hexsel-knee",
    source: "Hexsel",
    place: "abstract",
    statement: "saturation begins at 600 to 700 of 1,000 MB/s of link traffic (8 nodes)",
    unit: "%",
    published: 60.0..=70.0,
    tolerance: SHAPE,
};
