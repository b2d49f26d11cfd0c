//! SCI: SCINET's test stands, Trams' machines, and totals of rings and switches.

mod facts;
mod origins;
mod rings;
pub mod stand_a;
pub mod stand_b;
pub mod trams;
mod trials;

use super::pair::BadStand;
use super::set::{Gap, Run, Set, Source};

/// The published experiments on SCI.
pub const SET: Set =
    Set { name: "sci", title: "SCI cards of the 1990s", sources: &SOURCES, gaps: &GAPS, run };

const SOURCES: [Source; 5] = [
    Source {
        name: "SCINET",
        title: "Richter, Ohlenroth: SCI for data acquisition in fusion experiments, 1999",
    },
    Source {
        name: "Trams",
        title: "Trams: shared memory, DMA and the Virtual Interface Architecture on SCI, TU \
                Chemnitz, 1999",
    },
    Source {
        name: "Omang and Parady",
        title: "Omang, Parady: Scalability of SCI workstation clusters, 1997 (abstract)",
    },
    Source {
        name: "Omang",
        title: "Omang: Performance of a cluster of PCI based UltraSparc workstations \
                interconnected with SCI (abstract)",
    },
    Source {
        name: "Hexsel",
        title: "Hexsel: A quantitative performance evaluation of SCI memory hierarchies, 1994 \
                (abstract)",
    },
];

const GAPS: [Gap; 10] = [
    Gap {
        source: "SCINET",
        statement: "figures 7 and 8: half of the maximum at 64 B, and a set-up of 10 us per block",
        reason: "one measurement cannot show both. Assumed: figure 8 times one block, figure 7 a \
                 queue of 256 blocks with one set-up",
    },
    Gap {
        source: "SCINET",
        statement: "DMOVE64 was used for all data transfers, on both stands",
        reason: "with moves, stand B misses its own figures: see the variants of stand B",
    },
    Gap {
        source: "SCINET",
        statement: "figures 14 to 16: latency with 2, 4 and 8 streams",
        reason: "curves without numbers",
    },
    Gap {
        source: "SCINET",
        statement: "allowed loss, sensors, growth over 20 years",
        reason: "requirements, not results",
    },
    Gap {
        source: "Trams",
        statement: "the bandwidth of DMA over SCI",
        reason: "a curve without numbers; only its order is a fact",
    },
    Gap {
        source: "Trams",
        statement: "0.15 (t0 + n / B) = n / 82 MB/s: the processor is always free beside DMA",
        reason: "the model also counts the kick, and in the kernel the entry and return",
    },
    Gap {
        source: "Omang and Parady",
        statement: "the traffic behind 187 and 153 MB/s",
        reason: "not in the abstract. With writes to the next node, the model's ring reaches 372 \
                 MB/s",
    },
    Gap {
        source: "Omang",
        statement: "a remote store takes 2.9 us",
        reason: "no model of the UltraSparc and its bus",
    },
    Gap {
        source: "Hexsel",
        statement: "the largest efficient ring has 8 to 16 nodes; 80 MB/s for each processor",
        reason: "needs the memory traffic of the SPLASH programs",
    },
    Gap {
        source: "Hexsel",
        statement: "the point at which saturation begins",
        reason: "not defined. Assumed: the window with the greatest ratio of throughput to round \
                 trip",
    },
];

fn run() -> Result<Run, BadStand> {
    let stand_a = stand_a::run()?;
    let stand_b = stand_b::Times::of(stand_b::Stand::PRESET)?;
    let trams = trams::run()?;
    let mut findings = stand_a.findings;
    findings.extend(stand_b.findings());
    findings.extend(trams.findings);
    findings.extend(rings::findings()?);
    let mut figures = stand_a.figures;
    figures.extend(stand_b.figures());
    figures.extend(trams.figures);
    Ok(Run { figures, findings, parameters: origins::parameters(), trials: trials::all()? })
}
