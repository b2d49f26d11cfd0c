//! Plans from one published point, compared with the other points of the same paper.
//!
//! Of the point, a host gets one number: the time of its core for a packet. The link has the rate
//! of payload that its paper or standard states. The bounds of a plan then predict the other
//! points. The table in docs/plan.md is made here.

use fluxline_daq::experiment::{Experiment, Requirements};
use toml::{Table, Value};

use super::bounds::{Counts, Factors, Part, parts};
use super::candidates::Candidate;
use super::load::{Loaded, SourceLoad};

/// The share of a published number within which a prediction counts as met, as in docs/fidelity.md.
const TOLERANCE: f64 = 0.1;
/// The size of a long message \[byte\].
const LONG: f64 = 1e6;
/// Bits of a Mb/s of NetPIPE.
const NETPIPE_BITS: f64 = 1_048_576.0;

/// A host with a link, and the point from which its core is known.
struct Host {
    /// The published set and the source in it.
    set: &'static str,
    /// The name of both.
    name: &'static str,
    /// The rate of payload of the link \[MB/s\], for packets of a size.
    link: fn(f64) -> f64,
    /// The rate of the bus between memory and card \[MB/s\].
    bus: Option<f64>,
    way: Way,
    first: Point,
    others: &'static [Point],
}

/// The order of the packets.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// The next packet begins while the link carries the last one.
    Stream,
    /// The next packet begins when the last one has come: a core waits for the link.
    OneByOne,
}

/// A published number.
struct Point {
    fact: &'static str,
    /// The size of a packet \[byte\].
    bytes: f64,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// The time of a packet \[us\].
    Time,
    /// Packets a second \[kHz\].
    Packets,
    /// Payload \[Gb/s\], \[MB/s\] or, with 2^20 bits, \[Mb/s\].
    Gbps,
    MBps,
    NetPipe,
    /// More time for each more byte \[ns\].
    Slope,
    /// The size at half of the rate of long messages \[byte\].
    Half,
    /// Payload of this number of streams beside each other \[MB/s\].
    Streams(f64),
    /// The same for each stream, over that of one stream.
    EachStream(f64),
}

const fn point(fact: &'static str, bytes: f64, kind: Kind) -> Point {
    Point { fact, bytes, kind }
}

/// Returns the payload of datagrams in frames of Ethernet at 10 Gb/s \[MB/s\]: with headers of IP
/// and UDP, 28 bytes, and 38 around each frame.
fn ethernet_10g(bytes: f64) -> f64 {
    1250.0 * bytes / (bytes + 66.0)
}

/// ATOLL's table is of a chip at 243 MHz; a link carries 250 MB/s at 250 MHz.
fn atoll(_: f64) -> f64 {
    243.0
}

const HOSTS: [Host; 11] = [
    Host {
        set: "ethernet",
        name: "Galli: PCs, 10 GbE",
        link: ethernet_10g,
        bus: None,
        way: Way::Stream,
        first: point("galli-1500-khz", 1472.0, Kind::Packets),
        others: &[point("galli-9000-rate", 8972.0, Kind::Gbps)],
    },
    Host {
        set: "ethernet",
        name: "Galli: PCs, 10 GbE",
        link: ethernet_10g,
        bus: None,
        way: Way::Stream,
        first: point("galli-9000-rate", 8972.0, Kind::Gbps),
        others: &[point("galli-1500-rate", 1472.0, Kind::Gbps)],
    },
    Host {
        set: "ethernet",
        name: "Li: 10 GbE",
        link: |_| 1250.0,
        bus: None,
        way: Way::OneByOne,
        first: point("li-10g-intercept", 1.0, Kind::Time),
        others: &[point("li-10g-slope", 1000.0, Kind::Slope)],
    },
    Host {
        set: "ethernet",
        name: "Li: 1 GbE, SysKonnect",
        link: |_| 125.0,
        bus: None,
        way: Way::OneByOne,
        first: point("li-sk-intercept", 1.0, Kind::Time),
        others: &[point("li-sk-slope", 1000.0, Kind::Slope)],
    },
    Host {
        set: "atoll",
        name: "Slogsnat: ATOLL, 243 MHz",
        link: atoll,
        bus: None,
        way: Way::OneByOne,
        first: point("atoll-us-8", 8.0, Kind::Time),
        others: &[
            point("atoll-us-64", 64.0, Kind::Time),
            point("atoll-us-256", 256.0, Kind::Time),
            point("atoll-us-1024", 1024.0, Kind::Time),
            point("atoll-us-8192", 8192.0, Kind::Time),
            point("atoll-us-262144", 262_144.0, Kind::Time),
        ],
    },
    Host {
        set: "myrinet",
        name: "Slogsnat: Myrinet, D card",
        link: |_| 250.0,
        bus: None,
        way: Way::OneByOne,
        first: point("myrinet-us-8", 8.0, Kind::Time),
        others: &[
            point("myrinet-us-64", 64.0, Kind::Time),
            point("myrinet-us-256", 256.0, Kind::Time),
            point("myrinet-us-1024", 1024.0, Kind::Time),
            point("myrinet-us-8192", 8192.0, Kind::Time),
            point("myrinet-us-262144", 262_144.0, Kind::Time),
        ],
    },
    Host {
        set: "myrinet",
        name: "Myricom: E card, two links",
        link: |_| 500.0,
        bus: None,
        way: Way::OneByOne,
        first: point("gm-short", 8.0, Kind::Time),
        others: &[point("gm-one-way", LONG, Kind::MBps), point("gm-half", LONG, Kind::Half)],
    },
    Host {
        set: "myrinet",
        name: "Turner: Myrinet on PCI 32/33",
        link: |_| 160.0,
        bus: Some(133.0),
        way: Way::OneByOne,
        first: point("gm1-short", 8.0, Kind::Time),
        others: &[point("gm1-rate", 8_388_608.0, Kind::NetPipe)],
    },
    Host {
        set: "links",
        name: "Quadrics: QsNet II",
        link: |_| 1300.0,
        bus: None,
        way: Way::OneByOne,
        first: point("qsnet-short", 8.0, Kind::Time),
        others: &[point("qsnet-rate", LONG, Kind::MBps)],
    },
    Host {
        set: "links",
        name: "Liu: InfiniBand 4X SDR",
        link: |_| 1000.0,
        bus: None,
        way: Way::OneByOne,
        first: point("ib-short", 8.0, Kind::Time),
        others: &[
            point("ib-rate", LONG, Kind::MBps),
            point("ib-netpipe", 8_388_608.0, Kind::NetPipe),
        ],
    },
    Host {
        set: "sci",
        name: "SCINET: stand B, PCI 32/33",
        link: |_| 200.0,
        bus: Some(133.0),
        way: Way::Stream,
        first: point("scinet-9-rate", 64.0, Kind::MBps),
        others: &[
            point("scinet-11-linear", 64.0, Kind::EachStream(4.0)),
            point("scinet-13-most", 64.0, Kind::Streams(8.0)),
        ],
    },
];

/// A fact of a published set.
struct Fact {
    statement: String,
    unit: String,
    least: f64,
    most: f64,
}

fn number(of: &Value) -> f64 {
    of.as_float().or_else(|| of.as_integer().map(|of| of as f64)).expect("a number")
}

fn fact(set: &str, id: &str) -> Fact {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../fluxline-sim/published");
    let text = std::fs::read_to_string(format!("{root}/{set}.toml")).expect("a set");
    let table: Table = text.parse().expect("TOML");
    let facts = table["fact"].as_array().expect("facts");
    let of = facts.iter().find(|of| of["id"].as_str() == Some(id));
    let of = of.unwrap_or_else(|| panic!("no fact `{id}` in {set}.toml"));
    let word = |key: &str| of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (least, most) = match &of["published"] {
        Value::Array(range) => (number(&range[0]), number(&range[1])),
        one => (number(one), number(one)),
    };
    Fact { statement: word("statement"), unit: word("unit"), least, most }
}

impl Host {
    /// Returns the most packets a second with a core of `packet_ns`, and the part that bounds them.
    fn most(&self, bytes: f64, packet_ns: f64) -> (f64, Part) {
        let link = (self.link)(bytes);
        // A core that waits for the link is busy as long.
        let byte_ns = if self.way == Way::OneByOne { 1e3 / link } else { 0.0 };
        let mut candidate: Candidate =
            toml::from_str("name = \"c\"\nlink = \"published\"").expect("a candidate");
        candidate.link_mb_s = Some(link);
        candidate.host.packet_ns = packet_ns;
        candidate.host.byte_ns = byte_ns;
        candidate.host.memory_mb_s = self.bus;
        let board = "[[source]]\nname = \"a\"\nformat = \"counter\"\n[source.emulator]\n";
        let loaded = Loaded {
            experiment: Experiment::parse("e.toml", board).expect("an experiment"),
            sources: vec![SourceLoad { packets: 1.0, bytes }],
            required: Requirements::default(),
        };
        let counts = Counts { readouts: 1, builders: 1 };
        let busiest = parts(&loaded, &candidate, counts, Factors::NONE).remove(0);
        (1.0 / busiest.busy(), busiest)
    }

    /// Returns the time of the core for a packet with which the first point is met \[ns\].
    fn packet_ns(&self) -> f64 {
        let of = fact(self.set, self.first.fact);
        let (value, bytes) = (of.least, self.first.bytes);
        let time_ns = match self.first.kind {
            Kind::Time => value * 1e3,
            Kind::Packets => 1e6 / value,
            Kind::Gbps => bytes * 8.0 / value,
            Kind::MBps => bytes * 1e3 / value,
            _ => unreachable!("no first point"),
        };
        match self.way {
            Way::Stream => time_ns,
            Way::OneByOne => time_ns - bytes * 1e3 / (self.link)(bytes),
        }
    }

    /// Returns the prediction of a point in its unit, and the part that bounds it.
    fn predict(&self, point: &Point) -> (f64, String) {
        let core = self.packet_ns();
        let streams = match point.kind {
            Kind::Streams(count) | Kind::EachStream(count) => count,
            _ => 1.0,
        };
        let (most, part) = self.most(point.bytes, core / streams);
        let value = match point.kind {
            Kind::Time => 1e6 / most,
            Kind::Packets => most / 1e3,
            Kind::Gbps => most * point.bytes * 8e-9,
            Kind::MBps | Kind::Streams(_) => most * point.bytes * 1e-6,
            Kind::NetPipe => most * point.bytes * 8.0 / NETPIPE_BITS,
            Kind::Slope => {
                let least = self.most(1.0, core).0;
                (1e9 / most - 1e9 / least) / (point.bytes - 1.0)
            }
            Kind::Half => self.half(core, most * point.bytes / 2.0),
            Kind::EachStream(count) => most / self.most(point.bytes, core).0 / count,
        };
        (value, part.name.split(" of").next().unwrap_or_default().to_owned())
    }

    /// Returns the size of packets that reach a rate \[byte/s\].
    fn half(&self, core: f64, rate: f64) -> f64 {
        let (mut low, mut high) = (1.0, LONG);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            match self.most(middle, core).0 * middle < rate {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }
}

/// Returns the share by which a value is outside of a published range.
fn error_of(value: f64, of: &Fact) -> f64 {
    match value {
        value if value < of.least => value / of.least - 1.0,
        value if value > of.most => value / of.most - 1.0,
        _ => 0.0,
    }
}

fn digits(value: f64) -> String {
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 3.0) as usize;
    format!("{value:.digits$}")
}

/// Returns the table of docs/plan.md, and the sentence above it.
fn table() -> String {
    let (mut rows, mut met, mut all) = (String::new(), 0, 0);
    for host in &HOSTS {
        let first = fact(host.set, host.first.fact);
        let from = format!("{}: {} {}", first.statement, first.least, first.unit);
        for point in host.others {
            let of = fact(host.set, point.fact);
            let (value, part) = host.predict(point);
            let error = error_of(value, &of);
            met += u32::from(error.abs() <= TOLERANCE);
            all += 1;
            let published = match of.least == of.most {
                true => of.least.to_string(),
                false => format!("{} to {}", of.least, of.most),
            };
            let error = match error {
                0.0 => "inside".to_owned(),
                error => format!("{:+.1} %", error * 100.0),
            };
            let unit = if of.unit.is_empty() { String::new() } else { format!(" {}", of.unit) };
            rows += &format!(
                "| {} | {from} | {} | {published}{unit} | {} | {error} | {part} |\n",
                host.name,
                of.statement,
                digits(value)
            );
        }
    }
    format!(
        "Of {all} points, {met} are within 10 %.\n\n| source | from | predicted | published | plan | \
         error | limit |\n| --- | --- | --- | --- | --- | --- | --- |\n{rows}"
    )
}

#[test]
fn the_page_has_other_predictions_of_published_points_than_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let said = page.find(" are within 10 %.").expect("the sentence");
    let begin = page[..said].rfind('\n').map_or(0, |at| at + 1);
    let table_at = begin + page[begin..].find("| source |").expect("the table");
    let end = table_at + page[table_at..].find("\n\n").map_or(page.len(), |at| at + 1);
    let table = table();
    if std::env::var_os("UPDATE").is_some() {
        let text = format!("{}{table}{}", &page[..begin], &page[end..]);
        return std::fs::write(path, text).expect("written");
    }
    assert_eq!(
        &page[begin..end],
        table,
        "run UPDATE=1 cargo test -p fluxline-sim-cli predictions_of_published"
    );
}

#[test]
fn the_first_point_of_a_host_is_not_what_its_plan_says() {
    for host in &HOSTS {
        let of = fact(host.set, host.first.fact);
        let (value, _) = host.predict(&host.first);
        assert!((value / of.least - 1.0).abs() < 1e-6, "{}: {value}", host.name);
    }
}
