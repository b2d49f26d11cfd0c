//! The mapping to ESS schemas: mistakes get a sentence with file, line and remedy.

use std::collections::BTreeMap;

use fluxline_packet::Description;
use fluxline_packet::diagram::Diagram;
use fluxline_packet::ess::{Operand, Signal, Time};
use fluxline_packet::shipped::{names, shipped};

const HEAD: &str = "name = \"test\"\nabout = \"a\"\nreference = \"r\"\nbyte-order = \"big\"\n\
    [[packet]]\nname = \"data\"\nfields = [\n\
    { name = \"board\", type = \"u8\" }, { name = \"time\", type = \"u64\" },\n\
    { name = \"far\", type = \"u32\", min = 3000000000 }, { name = \"level\", type = \"f32\" },\n\
    { name = \"raw\", type = \"bytes\", length = 4 }, { name = \"offset\", type = \"i8\" },\n]\n\
    timestamp = { ticks = \"time\", unit = \"1 ns\", epoch = \"unix\" }\n\
    [packet.records]\nname = \"hit\"\nbytes = 8\nfields = [\n\
    { name = \"tof\", type = \"u32\", unit = \"25 ns\" }, { name = \"pixel\", type = \"i16\" },\n\
    { name = \"extra\", type = \"u16\", when = \"tof > 5\" },\n]\n";

fn load(lines: &str) -> Result<Description, String> {
    let text = format!("{HEAD}{lines}\n");
    Description::load("test.toml", &text, &BTreeMap::new()).map_err(|error| error.to_string())
}

#[test]
fn a_wrong_mapping_is_refused_with_its_line_and_remedy() {
    let ev44 = "[packet.ess.ev44]\nsource-name = \"d\"\n";
    let da00 = "[packet.ess.da00]\nsource-name = \"d\"\n";
    let f144 = "[[packet.ess.f144]]\nsource-name = \"d\"\n";
    let good = "time-of-flight = \"tof * 25\"\n";
    let cases = [
        ("[packet.ess]", "", "", "the table is empty"),
        (ev44, "", "", "time-of-flight"),
        (ev44, "time-of-flight = \"tfo\"", "", "did you mean `tof`?"),
        (ev44, "time-of-flight = \"tof\"", "", "write `tof * 25`"),
        (ev44, "time-of-flight = \"level\"", "", "`level` is a float"),
        (ev44, "time-of-flight = \"raw\"", "", "`raw` is bytes"),
        (ev44, "time-of-flight = \"far + 1\"", "", "its smallest value is 3000000001"),
        (ev44, "time-of-flight = \"tof - 1\"", "", "can be as low as -1"),
        (ev44, good, "pixel-id = \"far\"", "its smallest value is 3000000000"),
        (ev44, good, "pixel-id = \"pixel + 1\"", "`pixel` is signed"),
        (ev44, good, "pixel = \"pixel\"", "`pixel` is not a key here; did you mean `pixel-id`?"),
        (ev44, good, "reference-time = \"tof\"", "use fields of the header only"),
        (ev44, good, "when = \"size > 4\"", "no field, computed value or parameter `size`"),
        (da00, "", "", "`signal` is missing"),
        (da00, "signal = \"pixels\"", "", "did you mean `pixel`?"),
        (da00, "signal = \"extra\"", "", "is absent in some records"),
        (da00, "signal = \"tof\"", "axes = [\"y\", \"x\"]", "2 axes and 0 sizes"),
        (da00, "signal = \"tof\"", "axes = [\"y\", \"x\"]\ninner-shape = [0]", "must be 1 or more"),
        (da00, "signal = \"tof\"", "axes = [\"\"]", "the name of an axis"),
        (f144, "value = \"raw\"", "", "`raw` is raw bytes"),
        (f144, "value = \"extra\"", "", "`extra` is absent in some records"),
        (f144, "value = \"extra + board\"", "", "`extra` is absent in some records"),
        (f144, "value = \"lvel\"", "", "did you mean `level`?"),
        ("[[packet.ess.f144]]\nsource-name = \"d{boad}\"\n", "value = \"level\"", "", "`board`?"),
        ("[[packet.ess.f144]]\nsource-name = \"d{board\"\n", "value = \"level\"", "", "no partner"),
        ("[[packet.ess.f144]]\nsource-name = \"d{level}\"\n", "value = \"level\"", "", "unsigned"),
        ("[[packet.ess.f144]]\nsource-name = \"\"\n", "value = \"level\"", "", "1 to 200 bytes"),
    ];
    for (table, first, second, expected) in cases {
        let lines = format!("{table}{first}\n{second}");
        let said = load(&lines).expect_err(&lines);
        assert!(said.contains(expected) && said.starts_with("test.toml:"), "{lines}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
    let start = HEAD.replace("\"unix\"", "\"start\"");
    let text = format!("{start}{ev44}{good}reference-time = \"sensor-time\"\n");
    let said = Description::load("t.toml", &text, &BTreeMap::new()).expect_err("no epoch");
    assert!(said.to_string().contains("arrival-time"), "{said}");
}

#[test]
fn defaults_follow_the_roles() {
    let mapped = "[packet.ess.ev44]\nsource-name = \"d-{board}\"\ntime-of-flight = \"tof * 25\"\n\
                  pixel-id = \"pixel\"\n[packet.ess.da00]\nsource-name = \"w\"\nsignal = \"tof\"\n\
                  [[packet.ess.f144]]\nsource-name = \"o\"\nvalue = \"offset\"\n\
                  timestamp = \"(time & 0xffffffff) + 1\"";
    let description = load(mapped).unwrap_or_else(|error| panic!("{error}"));
    let ess = &description.packet_types()[0].ess;
    let (ev44, da00) = (ess.ev44.as_ref().expect("ev44"), ess.da00.as_ref().expect("da00"));
    assert_eq!(ev44.reference_time, Time::Sensor);
    assert_eq!(ev44.pixel_id, Some(Operand::Record(1)), "a name alone keeps its sign");
    assert!(ev44.time_of_flight.is_of_records() && ev44.source_name.fixed().is_none());
    let mut name = String::new();
    ev44.source_name.write(&|_| 7, &mut name);
    assert_eq!(name, "d-7");
    assert_eq!(
        (da00.signal, da00.axes.as_slice()),
        (Signal::Record(0), &["sample".to_owned()][..])
    );
    let Time::Header(time) = &ess.f144[0].timestamp else { panic!("an expression") };
    assert_eq!(time.of_header(&|id| [3, 100][id]), 101);
    let later =
        mapped.replace("[packet.ess.ev44]", "[packet.ess.ev44]\nreference-time = \"arrival-time\"");
    let description = load(&later).unwrap_or_else(|error| panic!("{error}"));
    let ev44 = description.packet_types()[0].ess.ev44.clone().expect("ev44");
    assert_eq!(ev44.reference_time, Time::Arrival);
}

#[test]
fn shipped_formats_have_the_mappings_of_the_manual() {
    let mut mapped: Vec<&str> = Vec::new();
    for name in names() {
        let text = shipped(name).expect("shipped");
        let of = Description::load(name, text, &BTreeMap::new()).expect("valid");
        mapped.extend(of.packet_types().iter().any(|of| !of.ess.is_empty()).then_some(name));
    }
    mapped.sort_unstable();
    assert_eq!(mapped, ["counter", "dca1000", "reading", "sls", "srs-vmm3", "vdif"]);
}

#[test]
fn a_mapping_is_shown_in_other_words_than_it_was_written() {
    let shown = |name: &str, schema: &str| {
        let text = shipped(name).expect("shipped");
        let of = Description::load(name, text, &BTreeMap::new()).expect("valid");
        let packets = Diagram::of(&of).packets;
        let mut roles = packets.iter().flat_map(|packet| &packet.roles);
        roles.find(|(role, _)| *role == schema).map_or(String::new(), |(_, words)| words.clone())
    };
    assert_eq!(shown("reading", "f144"), "reading-{channel}: value, at the sensor's time");
    assert_eq!(
        shown("counter", "da00"),
        "counter-{source_id}: amplitude of each record, at the sensor's time, one array for a \
         source in an event"
    );
    let events = shown("srs-vmm3", "ev44");
    let words = ["time of flight ", " ns since ", ", pixel ", ", when "];
    assert!(words.iter().all(|word| events.contains(word)), "{events}");
}
