//! Plots against a count in the plainest way, their laws, and documents of other runs.

use std::collections::BTreeMap;

use fluxline_core::random::{Draw, test_seed};
use fluxline_packet::Description;
use serde_json::{Value, json};

use super::*;
use crate::event::{EventRow, PacketRow};
use crate::experiment::check_plots;

const BOARD: &str = r#"
name = "board"
about = "a board"
reference = "none"
byte-order = "little"
[[packet]]
name = "wave"
select = "kind == 0"
fields = [
  { name = "kind", type = "u8" }, { name = "channel", type = "u8" },
  { name = "trigger", type = "u16" }, { name = "charge", type = "f64" },
]
source = ["channel"]
[packet.records]
name = "sample"
bytes = 2
fields = [{ name = "adc", type = "i16" }]
[[packet]]
name = "slow"
select = "kind == 1"
fields = [{ name = "kind", type = "u8" }, { name = "channel", type = "u8" }]
source = ["channel"]
"#;

/// A packet of the board; without a wave it is a slow one.
#[derive(Clone, Debug)]
struct Packet {
    channel: u8,
    second: u64,
    wave: Option<Wave>,
}

#[derive(Clone, Debug)]
struct Wave {
    trigger: u16,
    charge: f64,
    samples: Vec<i16>,
}

const ORIGIN_S: u64 = 1_700_000_000;

fn description() -> Description {
    Description::load("board.toml", BOARD, &BTreeMap::new()).expect("a description")
}

fn plots(text: &str) -> Result<PlotSet, String> {
    #[derive(serde::Deserialize)]
    struct File {
        plot: Vec<Plot>,
    }
    let description = description();
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    check_plots(&file.plot).map_err(|problem| problem.to_string())?;
    let inputs = [FilterInput { name: "tpc", description: &description }];
    let made = PlotSet::new(&file.plot, &inputs).map_err(|problem| problem.to_string());
    made.map(|mut set| {
        (0..4).for_each(|source| set.add_source(source, 0, &format!("channel={source}")));
        set
    })
}

fn batch(events: &[Vec<Packet>]) -> EventBatch {
    let mut batch = EventBatch::default();
    for (key, packets) in events.iter().enumerate() {
        for packet in packets {
            push(&mut batch, packet);
        }
        batch.events.push(EventRow {
            key: Some(key as u64),
            packets: packets.len() as u32,
            ..EventRow::default()
        });
    }
    batch
}

fn push(batch: &mut EventBatch, packet: &Packet) {
    let mut bytes = vec![u8::from(packet.wave.is_none()), packet.channel];
    if let Some(wave) = &packet.wave {
        bytes.extend(wave.trigger.to_le_bytes());
        bytes.extend(wave.charge.to_le_bytes());
    }
    let header = bytes.len() as u32;
    let samples = packet.wave.iter().flat_map(|wave| &wave.samples);
    samples.for_each(|sample| bytes.extend(sample.to_le_bytes()));
    batch.packets.push(PacketRow {
        source: packet.channel.into(),
        packet_type: packet.wave.is_none().into(),
        sequence: None,
        time: Moment::from_ns((ORIGIN_S + packet.second) * 1_000_000_000 + 7),
        sensor_time_ns: None,
        part: 0,
        payload_start: header,
        payload_bytes: bytes.len() as u32 - header,
        bytes: bytes.len() as u32,
    });
    batch.bytes.extend(bytes);
}

fn random_packet(random: &mut Draw) -> Packet {
    let wave = (random.below(5) > 0).then(|| Wave {
        trigger: random.below(4) as u16,
        charge: match random.below(12) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => f64::MAX,
            4 => 10.0, // the last edge
            5 => -10.0,
            _ => (random.below(3000) as f64 - 1500.0) / 100.0,
        },
        samples: (0..random.below(5)).map(|_| random.below(200) as i16 - 100).collect(),
    });
    Packet { channel: random.below(4) as u8, second: random.below(40), wave }
}

fn document(set: &PlotSet) -> Value {
    let document = set.document(Moment::default(), Ended::Yes, u64::MAX);
    serde_json::to_value(document).expect("JSON")
}

/// The counts of the numbers by the edges, the plainest way; then those below, above and others.
fn naive(numbers: impl Iterator<Item = f64>, edges: &[f64]) -> (Vec<u64>, [u64; 3]) {
    let (mut counts, mut out) = (vec![0; edges.len() - 1], [0; 3]);
    for number in numbers {
        match edges.windows(2).position(|edge| edge[0] <= number && number < edge[1]) {
            Some(bin) => counts[bin] += 1,
            None if number < edges[0] => out[0] += 1,
            None if number >= edges[edges.len() - 1] => out[1] += 1,
            None => out[2] += 1,
        }
    }
    (counts, out)
}

const ALL: &str = r#"
[[plot]]
name = "charge"
kind = "histogram"
x = "charge"
where = "channel == 3"
events = "any(trigger == 2)"
bins = 7
range = [-10, 10]
[[plot]]
name = "samples"
kind = "histogram"
x = "adc * 2 + channel"
where = "adc != 5"
bins = 30
range = [-150.5, 90]
[[plot]]
name = "ratio"
kind = "histogram"
x = "max(adc) / trigger"
bins = 9
range = [0.1, 100]
log = true
[[plot]]
name = "profile"
kind = "profile"
x = "adc"
y = "charge"
bins = 10
range = [-100, 100]
[[plot]]
name = "image"
kind = "image"
x = "channel"
y = "charge"
bins = 3
range = [0, 3]
y-bins = 8
y-range = [-12, 11]
[[plot]]
name = "trace"
kind = "trace"
x = "charge"
bins = 5
[[plot]]
name = "rate"
kind = "rate"
where = "packet.type == \"slow\""
bins = 64
"#;

/// The edges and the counts of a plot.
fn data(document: &Value, number: usize) -> (Vec<f64>, Vec<u64>) {
    let data = &document["plots"][number]["data"];
    let edges = serde_json::from_value(data["edges"].clone()).unwrap_or_default();
    (edges, serde_json::from_value(data["counts"].clone()).expect("counts"))
}

fn check_histogram(document: &Value, number: usize, numbers: impl Iterator<Item = f64>) {
    let (edges, counts) = data(document, number);
    let (wanted, out) = naive(numbers, &edges);
    assert_eq!(counts, wanted, "plot {number}");
    let values = &document["plots"][number]["values"];
    let found = ["underflow", "overflow", "not_a_number"].map(|key| values[key].as_u64());
    assert_eq!(found, out.map(Some), "plot {number}");
}

#[test]
fn plots_of_random_packets_are_those_of_a_naive_count() {
    let mut random = Draw::new(test_seed!(61));
    for _ in 0..100 {
        let mut set = plots(ALL).expect("plots");
        let events: Vec<Vec<Packet>> = (0..random.below(30))
            .map(|_| (0..random.below(6)).map(|_| random_packet(&mut random)).collect())
            .collect();
        let (first, second) = events.split_at(events.len() / 2);
        set.take(&batch(first));
        set.take(&batch(second));
        assert!(set.plots().iter().all(Filled::closes), "{set:?}");
        compare(&document(&set), &events);
    }
}

fn compare(document: &Value, events: &[Vec<Packet>]) {
    let packets = || events.iter().flatten();
    let waves = || packets().filter_map(|packet| Some((packet, packet.wave.as_ref()?)));
    let has_two = |event: &&Vec<Packet>| {
        event.iter().any(|packet| packet.wave.as_ref().is_some_and(|wave| wave.trigger == 2))
    };
    let chosen = events.iter().filter(has_two).flatten().filter(|packet| packet.channel == 3);
    let charges = chosen.filter_map(|packet| Some(packet.wave.as_ref()?.charge));
    check_histogram(document, 0, charges);
    let samples = waves().flat_map(|(packet, wave)| {
        let kept = wave.samples.iter().filter(|adc| **adc != 5);
        kept.map(|adc| f64::from(*adc) * 2.0 + f64::from(packet.channel))
    });
    check_histogram(document, 1, samples);
    let ratios = waves().map(|(_, wave)| match (wave.samples.iter().max(), wave.trigger) {
        (None, _) | (_, 0) => f64::NAN, // absent
        (Some(greatest), trigger) => f64::from(*greatest) / f64::from(trigger),
    });
    check_histogram(document, 2, ratios);
    check_profile(document, waves().map(|(_, wave)| wave));
    let (_, counts) = data(document, 4);
    let is_in = |charge: f64| (-12.0..11.0).contains(&charge);
    let inside = waves().filter(|(packet, wave)| packet.channel < 3 && is_in(wave.charge));
    assert_eq!(counts.iter().sum::<u64>(), inside.count() as u64);
    for (channel, rows) in counts.chunks(8).enumerate() {
        let of = waves().filter(|(packet, _)| usize::from(packet.channel) == channel);
        let edges: Vec<f64> = (0..=8).map(|at| -12.0 + f64::from(at) * (23.0 / 8.0)).collect();
        assert_eq!(rows, naive(of.map(|(_, wave)| wave.charge), &edges).0);
    }
    let (_, slow) = data(document, 6);
    let count = packets().filter(|packet| packet.wave.is_none()).count() as u64;
    let early = document["plots"][6]["values"]["underflow"].as_u64().expect("a count");
    assert_eq!(slow.iter().sum::<u64>() + early, count);
    let values = &document["plots"][5]["values"];
    let is_wild = |charge: f64| charge.is_nan() || charge.abs() > 1e140;
    let wild = waves().filter(|(_, wave)| is_wild(wave.charge)).count();
    assert_eq!(values["not_a_number"], wild);
}

fn check_profile<'a>(document: &Value, waves: impl Iterator<Item = &'a Wave>) {
    let (edges, counts) = data(document, 3);
    let usable = waves.filter(|wave| wave.charge.abs() <= 1e140);
    let pairs: Vec<(f64, f64)> = usable
        .flat_map(|wave| wave.samples.iter().map(|adc| (f64::from(*adc), wave.charge)))
        .collect();
    assert_eq!(counts, naive(pairs.iter().map(|pair| pair.0), &edges).0);
    for (bin, sum) in
        document["plots"][3]["data"]["sums"].as_array().expect("sums").iter().enumerate()
    {
        let (low, high) = (edges[bin], edges[bin + 1]);
        let inside = pairs.iter().filter(|pair| low <= pair.0 && pair.0 < high);
        let wanted: f64 = inside.map(|pair| pair.1).sum();
        assert!((sum.as_f64().expect("a sum") - wanted).abs() < 1e-6, "bin {bin}");
    }
}

#[test]
fn every_number_is_between_the_edges_of_its_bin_on_any_axis() {
    let mut random = Draw::new(test_seed!(62));
    for _ in 0..500 {
        let scale = 10f64.powi(random.below(60) as i32 - 30);
        let log = random.below(2) == 1;
        let low = scale * (random.below(1000) as f64 + f64::from(u8::from(log)));
        let axis = Axis::new([low, low + scale * 1e3], random.below(300) as u32 + 1, log);
        assert!(axis.edges().is_sorted_by(|a, b| a < b), "{axis:?}");
        for _ in 0..50 {
            let edge = axis.edges()[random.below(axis.bins() as u64 + 1) as usize];
            for value in [edge, edge.next_up(), edge.next_down()] {
                match axis.place(value) {
                    Place::In(at) => {
                        assert!(axis.edges()[at] <= value && value < axis.edges()[at + 1]);
                    }
                    Place::Below => assert!(value < axis.edges()[0]),
                    Place::Above => assert!(value >= axis.edges()[axis.bins()]),
                    Place::Nowhere => panic!("{value} is a number"),
                }
            }
        }
        assert_eq!(axis.place(f64::NAN), Place::Nowhere);
    }
}

#[test]
fn skipped_packets_are_counted_and_the_laws_still_hold() {
    let mut set = plots(ALL).expect("plots");
    set.skip(37);
    let packet = Packet { channel: 1, second: 0, wave: None };
    set.take(&batch(&[vec![packet.clone()], vec![packet]]));
    for plot in set.plots() {
        assert!(plot.closes());
        assert_eq!((plot.packets().seen, plot.packets().skipped), (39, 37));
    }
    let saved = saved_of(document(&set));
    assert!(saved.lines()[0].ends_with("filled from 5.1 % of the packets"), "{:?}", saved.lines());
}

#[test]
fn a_long_run_joins_bins_of_time_and_loses_no_entry() {
    let mut set = plots(ALL).expect("plots");
    let packet = |second| vec![Packet { channel: 1, second, wave: None }];
    for second in [5, 0, 6, 60, 400_000, u64::MAX / 1_000_000_000 - ORIGIN_S - 1] {
        set.take(&batch(&[packet(second)]));
    }
    let found = document(&set);
    let rate = &found["plots"][6];
    assert_eq!(rate["values"]["entries"], 5);
    assert_eq!(rate["values"]["underflow"], 1, "a packet before the first one has no bin");
    let (_, counts) = data(&found, 6);
    assert!(counts.len() <= 64 && counts.iter().sum::<u64>() == 5, "{counts:?}");
}

fn saved_of(document: Value) -> SavedPlots {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(PLOTS_FILE), document.to_string()).expect("written");
    let folder = crate::record::Directory::open(folder.path()).expect("a folder");
    SavedPlots::read(&folder).expect("JSON").expect("there")
}

#[test]
fn a_reference_has_the_same_bins_or_a_sentence_says_what_differs() {
    let mut set = plots(ALL).expect("plots");
    set.take(&batch(&[vec![Packet {
        channel: 3,
        second: 0,
        wave: Some(Wave { trigger: 2, charge: 9.0, samples: vec![1] }),
    }]]));
    let good = document(&set);
    let plot = &set.plots()[0];
    let reference = saved_of(good.clone()).reference(plot, "runs/0041").expect("the same bins");
    assert_eq!(reference.counts, [0, 0, 0, 0, 0, 0, 1]);
    let refuses = |path: &str, value: Value, words: &str| {
        let mut other = good.clone();
        *other.pointer_mut(path).expect("a place") = value;
        let error = saved_of(other).reference(plot, "runs/0041").expect_err(words);
        assert!(error.contains(words), "{error}");
    };
    refuses("/plots/0/name", json!("other"), "no plot of this name");
    refuses("/plots/0/kind", json!("rate"), "another kind");
    refuses("/plots/0/data/edges/3", json!(0.0), "other bins");
    refuses("/plots/0/data/edges", json!([0]), "other bins");
    refuses("/plots/0/data/counts", json!([1, 2]), "damaged");
    refuses("/plots/0/data/counts/2", json!(-1), "damaged");
}

#[test]
fn a_wrong_plot_is_refused_in_one_sentence() {
    let good = r#"[[plot]]
name = "a"
kind = "histogram"
x = "charge"
range = [0, 10]
"#;
    assert!(plots(good).is_ok());
    let refused = |from: &str, to: &str, words: &str| {
        let text = good.replace(from, to);
        let error = plots(&text).expect_err(&text);
        assert!(error.contains(words), "{text}\n{error}");
    };
    refused("histogram", "histo", "unknown variant");
    refused("x =", "colour =", "unknown field");
    refused("x = \"charge\"\n", "", "is a histogram and has no `x`");
    refused("range = [0, 10]", "", "has no `range`; write for example range = [0, 4096].");
    refused("range", "y = \"charge\"\nrange", "is a histogram, which has no `y`; remove it.");
    refused("histogram", "rate", "is a rate, which has no `x`");
    refused("histogram\"", "profile\"\ny = \"charge\"\ny-bins = 7", "which has no `y-bins`");
    refused("[0, 10]", "[10, 0]", "write the lower limit first");
    refused("[0, 10]", "[0, nan]", "write numbers from -1e140 to 1e140");
    refused("[0, 10]", "[0, 10]\nlog = true", "need a range above 0");
    refused("[0, 10]", "[1e17, 1.0000000000000002e17]", "too narrow");
    refused("[0, 10]", "[0, 10]\nbins = 0", "write 1 to 500000");
    refused("[0, 10]", "[0, 10]\nbins = 500001", "write 1 to 500000");
    refused("\"charge\"", "\"charg\"", "plot `a`: `x`, character 1: no packet type has `charg`");
    refused("range", "where = \"event.key ==\"\nrange", "plot `a`: `where`, character");
    refused("range", "events = \"charge > 1\"\nrange", "write an aggregate");
    refused("\"charge\"", "\"sources(charge > 1)\"", "one packet has one source");
    refused("\"charge\"", "\"max(max(adc))\"", "aggregates nest");
    let deep = format!("\"{}adc{}\"", "(".repeat(5000), ")".repeat(5000));
    refused("\"charge\"", &deep, "plot `a`: `x`, character");
    let image = "[[plot]]\nname = \"NAME\"\nkind = \"image\"\nx = \"adc\"\ny = \"adc\"\n\
                 range = [0, 1]\ny-range = [0, 1]\nbins = 1000\ny-bins = 300\n";
    let two = image.replace("NAME", "a") + &image.replace("NAME", "b");
    assert!(plots(&two).expect_err("too large").contains("600000 bins in all"));
    assert!(plots(&format!("{good}{good}")).expect_err("twice").contains("two plots are named"));
}

#[test]
fn a_page_gets_the_bins_that_fit_and_the_counts_of_all_plots() {
    let set = plots(ALL).expect("plots");
    let found = serde_json::to_value(set.document(Moment::default(), Ended::No, 40)).expect("JSON");
    let has_bins = |number: usize| found["plots"][number]["data"].is_object();
    assert_eq!([0, 1, 2].map(has_bins), [true, true, false]);
    assert_eq!(found["plots"][2]["packets"]["seen"], 0);
}
