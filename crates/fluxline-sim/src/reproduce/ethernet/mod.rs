//! Ethernet hosts: Galli's streams at 10 Gb/s, and Li's round trips.

mod facts;
pub mod galli;
pub mod li;
mod origins;
mod trials;

use super::pair::BadStand;
use super::set::{Gap, Run, Set, Source};

/// The published experiments with Ethernet hosts.
pub const SET: Set = Set {
    name: "ethernet",
    title: "PCs with UDP on 1 and 10 Gb/s Ethernet",
    sources: &SOURCES,
    gaps: &GAPS,
    run,
};

const SOURCES: [Source; 3] = [
    Source {
        name: "Galli",
        title: "Galli: FPGA to PC over UDP on 10-Gigabit Ethernet, TeraDAQ, 2010",
    },
    Source {
        name: "Li",
        title: "Li: PhD thesis, University College London, appendix A and pages 278 to 285",
    },
    Source {
        name: "Hurwitz and Feng",
        title: "Hurwitz, Feng: Initial end-to-end performance evaluation of 10-Gigabit Ethernet, \
                Hot Interconnects 2003 (abstract)",
    },
];

const GAPS: [Gap; 6] = [
    Gap {
        source: "Galli",
        statement: "440 kHz is the maximum datagram rate",
        reason: "at which size is not stated. Assumed: at 1,472 B, where 4.8 Gb/s are 408 kHz. \
                 Then the model sends small datagrams at 720 kHz: see the readings of 440 kHz",
    },
    Gap {
        source: "Galli",
        statement: "the loss rate of datagrams",
        reason: "measured, but no number is given",
    },
    Gap {
        source: "Galli",
        statement: "PCI-E frames",
        reason: "their size is not stated. Assumed: read requests of 4 KiB, the largest of the \
                 standard, because a packet of 9,000 B has 3",
    },
    Gap {
        source: "Li",
        statement: "the sizes of the requests behind the fits",
        reason: "not stated. Assumed: 1 to 1,472 B, one frame, least squares",
    },
    Gap {
        source: "Li",
        statement: "the bursts of the cards on PCI",
        reason: "not stated. Assumed: 512 B as Myrinet's cards on such buses, for both 1 Gb/s \
                 cards, although the fits differ by 3 ns/B",
    },
    Gap {
        source: "Hurwitz and Feng",
        statement: "the protocol and frames of 4 Gb/s",
        reason: "TCP; the model sends UDP with an MTU of 9000",
    },
];

fn run() -> Result<Run, BadStand> {
    let streams = galli::run()?;
    let trips = li::run()?;
    let mut findings = streams.findings;
    findings.extend(trips.findings);
    let mut figures = streams.figures;
    figures.extend(trips.figures);
    Ok(Run { figures, findings, parameters: origins::parameters(), trials: trials::all()? })
}
