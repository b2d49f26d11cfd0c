//! The origin of every parameter of the hosts.

use super::super::fact::Fact;
use super::super::parameter::{Origin, Parameter, time};
use super::facts;
use crate::Duration;
use crate::net::ethernet::host::{BusConfig, Coalescing, Config, Driver, Pcie, preset};

const GALLI: &str = "Galli's PCs";
const LI: &str = "Li's PCs";

use Origin::{Assumed, Background, Calibrated, Published, Source};

const FULL_1500: &[&Fact] = &[&facts::RATE_1500, &facts::KILOHERTZ_1500];
const FULL_9000: &[&Fact] = &[&facts::RATE_9000, &facts::BOTTLENECK_9000];
const SYSTEM: &[&Fact] = &[&facts::SYSTEM_9000];
const SOFTIRQ: &[&Fact] = &[&facts::SOFTIRQ_9000];
const STEPS: &[&Fact] = &[&facts::STEPS];
const STEPS_AND_CABLE: &[&Fact] = &[&facts::STEPS, &facts::SATURATED];
const TEN: &[&Fact] = &[&facts::TEN_INTERCEPT];
const INTEL: &[&Fact] = &[&facts::INTEL_INTERCEPT];

/// A parameter with its origin.
struct Mark {
    machine: &'static str,
    name: &'static str,
    value: String,
    origin: Origin,
    reason: &'static str,
    facts: &'static [&'static Fact],
}

impl Mark {
    fn parameter(self) -> Parameter {
        let Mark { machine, name, value, origin, reason, facts } = self;
        Parameter::new(machine, name, value).from(origin, reason).fixed_by(facts)
    }
}

/// The origin and its reason.
struct From(Origin, &'static str);

fn mark(machine: &'static str, name: &'static str, value: String, from: From) -> Mark {
    Mark { machine, name, value, origin: from.0, reason: from.1, facts: &[] }
}

/// Returns the time of a byte as a value.
fn byte(span: Duration) -> String {
    format!("{} ps/B", span.as_ps())
}

fn coalescing(of: Coalescing) -> String {
    match of {
        Coalescing::Off => "off".to_string(),
        Coalescing::Delay { time: span, .. } => format!("delay of {}", time(span)),
        Coalescing::Throttle { gap } => format!("gap of {}", time(gap)),
    }
}

/// Returns all parameters.
pub fn parameters() -> Vec<Parameter> {
    let marks = [galli_costs(), galli_kernel(), galli_card(), li_costs(), li_cards()];
    marks.into_iter().flatten().map(Mark::parameter).collect()
}

fn galli_costs() -> Vec<Mark> {
    let costs = preset::galli(1).costs;
    let of = |name, span, from| mark(GALLI, name, time(span), from);
    vec![
        of("program around a call", costs.user, From(Assumed, "100 clocks of 2 GHz")),
        Mark {
            facts: FULL_1500,
            ..of("call to send", costs.send_call, From(Calibrated, "4.8 Gb/s and 440 kHz, between"))
        },
        of("further fragment", costs.send_frame, From(Assumed, "no fact depends on it")),
        Mark {
            value: byte(costs.send_byte),
            facts: FULL_9000,
            ..of("copy to send", costs.send_byte, From(Calibrated, "0.4 to 1 ns/B: background"))
        },
        of("call to receive", costs.receive_call, From(Background, "0.2 to 0.5 us")),
        Mark {
            value: byte(costs.receive_byte),
            facts: SYSTEM,
            ..of("copy to receive", costs.receive_byte, From(Calibrated, "50 % system"))
        },
        of("wake-up of a process", costs.wake, From(Background, "2 to 5 us")),
        of("interrupt", costs.interrupt, From(Background, "2 to 5 us with the softirq's start")),
        of("start of a softirq", costs.softirq, From(Background, "part of the same")),
        of("received frame", costs.receive_frame, From(Background, "1 to 1.5 us")),
        Mark {
            value: byte(costs.receive_frame_byte),
            facts: SOFTIRQ,
            ..of(
                "pages of a received frame",
                costs.receive_frame_byte,
                From(Calibrated, "50 % softirq"),
            )
        },
        of("freeing of a sent frame", costs.clean_frame, From(Assumed, "no fact depends on it")),
    ]
}

fn galli_kernel() -> Vec<Mark> {
    let Config { buffers, cores, .. } = preset::galli(1);
    let of = |name, value, from| mark(GALLI, name, value, from);
    let bytes = |bytes: u64| format!("{bytes} B");
    let placement = format!("core {} for the card, one for each process", cores.interrupts);
    let most = "the limit of the socket's buffer, which the program is assumed to ask for";
    vec![
        of("cores", placement, From(Published, "the card's core and the process's differ")),
        of("send buffer", bytes(buffers.send_bytes), From(Published, most)),
        of("receive buffer", bytes(buffers.receive_bytes), From(Published, most)),
        of(
            "driver queue",
            format!("{} frames", buffers.queue_frames),
            From(Background, "txqueuelen of Linux"),
        ),
        of("driver", "polls".to_string(), From(Background, "the card's driver has NAPI")),
        of(
            "buffer of a frame",
            "256 B and a power of two".to_string(),
            From(Background, "the true size of 2.6 kernels"),
        ),
    ]
}

fn galli_card() -> Vec<Mark> {
    let card = preset::galli(1).card;
    let BusConfig::Pcie(bus) = card.bus else { return Vec::new() };
    let Pcie { bytes_per_s, overhead_bytes, payload_bytes, completion_bytes, .. } = bus;
    let of = |name, value, from| mark(GALLI, name, value, from);
    let slots = format!("{} and {}", card.transmit_slots, card.receive_slots);
    vec![
        of(
            "PCI Express x8",
            format!("{} GB/s", bytes_per_s as f64 / 1e9),
            From(Published, "x8, generation 1: 20 Gb/s with the line code"),
        ),
        of("overhead of a TLP", format!("{overhead_bytes} B"), From(Source, "Intel AN 456")),
        of(
            "data of a TLP",
            format!("{payload_bytes} and {completion_bytes} B"),
            From(Background, "writes and completions of chipsets of the time"),
        ),
        Mark {
            facts: STEPS,
            ..of(
                "read request",
                format!("{} B", bus.request_bytes),
                From(Calibrated, "3 for 9,000 B; the largest of the standard"),
            )
        },
        Mark {
            facts: STEPS,
            ..of(
                "outstanding requests",
                bus.requests.to_string(),
                From(Calibrated, "more hide the steps"),
            )
        },
        Mark {
            facts: STEPS_AND_CABLE,
            ..of(
                "latency of a read",
                time(bus.latency),
                From(Calibrated, "0.5 to 1 us: background; within it, two steps and a full cable"),
            )
        },
        of("slots of the rings", slots, From(Assumed, "no fact depends on it")),
        of(
            "buffer of the card",
            format!("{} B", card.receive_bytes),
            From(Assumed, "no fact depends on it"),
        ),
        of("delay of the card", time(card.delay), From(Assumed, "no fact depends on it")),
        of("coalescing", coalescing(card.receive), From(Published, "25 us; the kind: its driver")),
    ]
}

fn li_costs() -> Vec<Mark> {
    let host = preset::li_ten_gigabit();
    let costs = host.costs;
    let of = |name, span, from| mark(LI, name, time(span), from);
    let backlog = match host.driver {
        Driver::Poll => "none".to_string(),
        Driver::Backlog { frames } => format!("{frames} frames"),
    };
    vec![
        of("program around a call", costs.user, From(Assumed, "100 clocks of 2 GHz")),
        of("call to send", costs.send_call, From(Assumed, "slower than Galli's, years before")),
        of("further fragment", costs.send_frame, From(Assumed, "no fact depends on it")),
        Mark {
            value: byte(costs.send_byte),
            ..of("copy at each end", costs.send_byte, From(Source, "the thesis: 0.000625 us/B"))
        },
        of("call to receive", costs.receive_call, From(Background, "0.2 to 0.5 us")),
        of("wake-up of a process", costs.wake, From(Background, "2 to 5 us")),
        of("interrupt", costs.interrupt, From(Background, "2 to 5 us with the softirq's start")),
        of("start of a softirq", costs.softirq, From(Background, "part of the same")),
        of("frame into the backlog", costs.backlog_frame, From(Assumed, "400 clocks of 2 GHz")),
        of("received frame", costs.receive_frame, From(Background, "1 to 1.5 us")),
        of("freeing of a sent frame", costs.clean_frame, From(Assumed, "no fact depends on it")),
        mark(LI, "backlog", backlog, From(Background, "kernels 2.4")),
    ]
}

fn li_cards() -> Vec<Mark> {
    let (ten, intel) = (preset::li_ten_gigabit().card, preset::li_gigabit().card);
    let of = |name, value, from| mark(LI, name, value, from);
    vec![
        of(
            "PCI-X 133",
            "8 B, 188 clocks before a read of 4 KiB".to_string(),
            From(Source, "Myricom's table of motherboards: Xeon 2.4 with GC-LE"),
        ),
        of(
            "PCI 64/66",
            "8 B, 85 and 44 clocks for bursts of 512 B".to_string(),
            From(Source, "Myrinet 2000 on such a bus"),
        ),
        Mark {
            facts: TEN,
            ..of(
                "delay of each card",
                time(ten.delay),
                From(Calibrated, "41.5 us; the same for all cards"),
            )
        },
        of("coalescing, 10 Gb/s and SysKonnect", coalescing(ten.receive), From(Assumed, "off")),
        Mark {
            facts: INTEL,
            ..of(
                "coalescing, Intel 1 Gb/s",
                coalescing(intel.receive),
                From(Calibrated, "64 units of 1.024 us, one of the settings of the thesis"),
            )
        },
    ]
}
