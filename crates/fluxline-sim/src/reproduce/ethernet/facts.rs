//! The facts of the papers on Ethernet hosts.

use super::super::fact::{Fact, NUMBER, SHAPE};

const GALLI: &str = "Galli";
const LI: &str = "Li";
const HURWITZ: &str = "Hurwitz and Feng";
const NO_END: f64 = f64::INFINITY;

pub static RATE_1500: Fact = Fact {
    id: "galli-1500-rate",
    source: GALLI,
    place: "MTU 1500, 1 sender",
    statement: "throughput as fast as possible, datagrams of 1,472 B",
    unit: "Gb/s",
    published: 4.8..=4.8,
    tolerance: NUMBER,
};
pub static KILOHERTZ_1500: Fact = Fact {
    id: "galli-1500-khz",
    source: GALLI,
    place: "MTU 1500, 1 sender",
    statement: "datagrams a second, of 1,472 B",
    unit: "kHz",
    published: 440.0..=440.0,
    tolerance: NUMBER,
};
pub static SYSTEM_1500: Fact = Fact {
    id: "galli-1500-system",
    source: GALLI,
    place: "MTU 1500, 1 sender",
    statement: "the core of the sender's process: system",
    unit: "%",
    published: 100.0..=100.0,
    tolerance: NUMBER,
};
pub static BOTTLENECK_1500: Fact = Fact {
    id: "galli-1500-bottleneck",
    source: GALLI,
    place: "MTU 1500, 1 sender",
    statement: "the bottleneck is the sender's core: its busy share over that of the busiest other \
                core or the cable, above 1",
    unit: "",
    published: 1.0..=NO_END,
    tolerance: SHAPE,
};
pub static RATE_9000: Fact = Fact {
    id: "galli-9000-rate",
    source: GALLI,
    place: "MTU 9000, 1 sender",
    statement: "throughput, datagrams of 8,972 B",
    unit: "Gb/s",
    published: 9.7..=9.7,
    tolerance: NUMBER,
};
pub static BOTTLENECK_9000: Fact = Fact {
    id: "galli-9000-bottleneck",
    source: GALLI,
    place: "MTU 9000, 1 sender",
    statement: "the bottleneck is still the sender's core, by the same measure",
    unit: "",
    published: 1.0..=NO_END,
    tolerance: SHAPE,
};
pub static SOFTIRQ_9000: Fact = Fact {
    id: "galli-9000-softirq",
    source: GALLI,
    place: "MTU 9000, 1 sender",
    statement: "the receiver's softirq/system is about 50 %: softirq, on the core of interrupts",
    unit: "%",
    published: 50.0..=50.0,
    tolerance: NUMBER,
};
pub static SYSTEM_9000: Fact = Fact {
    id: "galli-9000-system",
    source: GALLI,
    place: "MTU 9000, 1 sender",
    statement: "the receiver's softirq/system is about 50 %: system, on the core of its process",
    unit: "%",
    published: 50.0..=50.0,
    tolerance: NUMBER,
};
/// "Saturated" has no number: 98 % is assumed.
pub static SATURATED: Fact = Fact {
    id: "galli-two-cable",
    source: GALLI,
    place: "MTU 9000, 2 senders",
    statement: "10 GbE is saturated: busy share of the cable, above 98 %",
    unit: "%",
    published: 98.0..=100.0,
    tolerance: SHAPE,
};
pub static RECEIVER_FREE: Fact = Fact {
    id: "galli-two-receiver",
    source: GALLI,
    place: "MTU 9000, 2 senders",
    statement: "the receiver is not yet saturated: its busiest core, below 95 %",
    unit: "%",
    published: 0.0..=95.0,
    tolerance: SHAPE,
};
pub static STEPS: Fact = Fact {
    id: "galli-steps",
    source: GALLI,
    place: "MTU 9000, 2 senders",
    statement: "steps in rate at 1, 2, 3 PCI-E frames per packet (4 KiB each): kHz one byte behind \
                a boundary over kHz at it, the more, below 0.99",
    unit: "",
    published: 0.0..=0.99,
    tolerance: SHAPE,
};
pub static TEN_INTERCEPT: Fact = Fact {
    id: "li-10g-intercept",
    source: LI,
    place: "PRO/10GbE LR, PCI-X 133",
    statement: "round trip of a request of x bytes: constant part, 10 Gb/s",
    unit: "us",
    published: 41.5..=41.5,
    tolerance: NUMBER,
};
pub static TEN_SLOPE: Fact = Fact {
    id: "li-10g-slope",
    source: LI,
    place: "PRO/10GbE LR, PCI-X 133",
    statement: "for each byte of the request, 10 Gb/s",
    unit: "ns",
    published: 4.1..=4.1,
    tolerance: NUMBER,
};
pub static SYS_INTERCEPT: Fact = Fact {
    id: "li-sk-intercept",
    source: LI,
    place: "SysKonnect, PCI 64/66",
    statement: "round trip: constant part, 1 Gb/s",
    unit: "us",
    published: 46.3..=46.3,
    tolerance: NUMBER,
};
pub static SYS_SLOPE: Fact = Fact {
    id: "li-sk-slope",
    source: LI,
    place: "SysKonnect, PCI 64/66",
    statement: "for each byte, 1 Gb/s",
    unit: "ns",
    published: 17.7..=17.7,
    tolerance: NUMBER,
};
pub static INTEL_INTERCEPT: Fact = Fact {
    id: "li-1g-intercept",
    source: LI,
    place: "Intel 1 GbE, PCI 64/66, coalescing on",
    statement: "round trip: constant part, 1 Gb/s, coalescing on",
    unit: "us",
    published: 183.1..=183.1,
    tolerance: NUMBER,
};
pub static INTEL_SLOPE: Fact = Fact {
    id: "li-1g-slope",
    source: LI,
    place: "Intel 1 GbE, PCI 64/66, coalescing on",
    statement: "for each byte, 1 Gb/s, coalescing on",
    unit: "ns",
    published: 14.6..=14.6,
    tolerance: NUMBER,
};
pub static GRADIENT: Fact = Fact {
    id: "li-gradient",
    source: LI,
    place: "equation A.1",
    statement: "for each byte 2 m + 2 p + w (copy, bus, wire): the model over the equation, bursts \
                without overhead",
    unit: "",
    published: 1.0..=1.0,
    tolerance: NUMBER,
};
pub static DELAY: Fact = Fact {
    id: "li-delay",
    source: LI,
    place: "page 285",
    statement: "the latency rises by the delay of the coalescing, here 25 us in each direction",
    unit: "us",
    published: 25.0..=25.0,
    tolerance: NUMBER,
};
pub static THROTTLE: Fact = Fact {
    id: "throttle",
    source: LI,
    place: "page 285, by definition",
    statement: "a minimum gap of 25 us between interrupts adds nothing on an idle network",
    unit: "us",
    published: 0.0..=0.1,
    tolerance: SHAPE,
};
pub static END_TO_END: Fact = Fact {
    id: "hurwitz-latency",
    source: HURWITZ,
    place: "abstract",
    statement: "end to end over Intel's 10 Gb/s card: Li's machine, 1 B",
    unit: "us",
    published: 20.0..=20.0,
    tolerance: NUMBER,
};
pub static FOUR_GIGABITS: Fact = Fact {
    id: "hurwitz-rate",
    source: HURWITZ,
    place: "abstract",
    statement: "more than 4 Gb/s: Li's machine, MTU 9000, datagrams of 8,972 B",
    unit: "Gb/s",
    published: 4.0..=NO_END,
    tolerance: SHAPE,
};
