//! Lines and tables over made times: no clock, no socket.

use fluxline_core::{Moment, Span};
use fluxline_daq::experiment::SlowControl;
use fluxline_daq::record::{SlowRow, SlowValue};
use proptest::prelude::*;

use super::line::{Malformed, NAME_BYTES_MAX, TEXT_BYTES_MAX, parse};
use super::table::{Arrival, Table};

const DAY_NS: u64 = 86_400 * 1_000_000_000;
const NOW_NS: u64 = 20_000 * DAY_NS;

fn table(keys: &str) -> Table {
    let text = format!(
        "[[source]]\nname = \"a\"\nformat = \"gem\"\n[source.emulator]\n[slow-control]\n{keys}"
    );
    let experiment = fluxline_daq::experiment::Experiment::parse("test.toml", &text).unwrap();
    Table::new(experiment.slow_control.unwrap())
}

fn at(ms: u64) -> Arrival {
    let steady = Moment::from_ns(DAY_NS) + Span::from_ms(ms);
    Arrival { wall: Moment::from_ns(NOW_NS) + Span::from_ms(ms), steady }
}

/// Takes the rows of a table as numbers, and counts them as written.
fn numbers(table: &mut Table) -> Vec<f64> {
    let number = |row: SlowRow| match row.value {
        SlowValue::Number(number) => number,
        SlowValue::Text(text) => panic!("{text:?} is not a number"),
    };
    let rows = table.take_rows();
    table.counters.recorded += rows.len() as u64;
    rows.into_iter().map(number).collect()
}

/// Checks that every value has one end, at the end of a run.
fn check_ends(table: &mut Table) {
    table.settle_all();
    table.counters.recorded += table.take_rows().len() as u64;
    let counters = &table.counters;
    let ends = counters.recorded + counters.unchanged + counters.thinned + counters.refused;
    assert_eq!(counters.values, ends, "{counters:?}");
}

#[test]
fn names_values_units_and_times_of_a_line_are_those_of_its_sender() {
    let line = parse(br#"hv,unit=V,slot=3,crate=a\ b voltage=1.5e3,n=-2i,on=true,s="a,\"b\" =" 7"#);
    let line = line.unwrap();
    let names: Vec<&str> = line.values.iter().map(|value| value.name.as_str()).collect();
    let head = "hv{crate=a b,slot=3}";
    assert_eq!(names, ["voltage", "n", "on", "s"].map(|field| format!("{head}/{field}")));
    let values: Vec<SlowValue> = line.values.into_iter().map(|value| value.value).collect();
    let text = SlowValue::Text("a,\"b\" =".to_owned());
    assert_eq!(values[..3], [1500.0, -2.0, 1.0].map(SlowValue::Number));
    assert_eq!((&values[3], line.unit.as_str(), line.time_ns), (&text, "V", Some(7)));
    assert_eq!(parse(b"t c=20").unwrap().time_ns, None);
}

#[test]
fn each_kind_of_malformed_line_is_named() {
    let of = |line: &str| parse(line.as_bytes()).unwrap_err();
    for line in ["hv", "hv,slot=1", "hv "] {
        assert_eq!(of(line), Malformed::NoField, "{line}");
    }
    for line in [",a=b c=1", "hv,slot c=1", "hv,=1 c=1", "hv c", "hv c=", "hv =1", "hv c=1,"] {
        assert_eq!(of(line), Malformed::Empty, "{line}");
    }
    for line in ["hv c=1.5V", "hv c=nan", "hv c=inf", "hv c=1e999", "hv c=1.5i", "hv c=-1u"] {
        assert_eq!(of(line), Malformed::Number, "{line}");
    }
    assert_eq!(of("hv c=\"open"), Malformed::Quote);
    assert_eq!(of("hv c=\"a\"b"), Malformed::Quote);
    assert_eq!(of("hv c=1 today"), Malformed::Time);
    assert_eq!(of("hv c=1 7 8"), Malformed::Time);
    assert_eq!(of("hv c=1 99999999999999999999"), Malformed::Time);
    assert_eq!(of("hv c=\"\u{1b}[2J\""), Malformed::Control);
    assert_eq!(parse(b"hv c=\"\xFF\""), Err(Malformed::Encoding));
    assert_eq!(of(&format!("{} c=1", "n".repeat(NAME_BYTES_MAX))), Malformed::LongName);
    assert_eq!(of(&format!("hv c=\"{}\"", "n".repeat(TEXT_BYTES_MAX + 1))), Malformed::LongText);
    assert_eq!(of(&format!("hv,unit={} c=1", "V".repeat(33))), Malformed::LongUnit);
}

#[test]
fn a_value_that_stays_is_recorded_only_so_often_and_a_text_like_a_number() {
    let mut table = table("every-s = 60");
    for second in 0..=120 {
        table.take(b"t c=20.5\n# a comment\n\nt state=\"ok\"\r\n", at(second * 1_000));
    }
    assert_eq!((table.counters.lines, table.counters.values), (242, 242));
    assert_eq!(table.rows(), 6, "at 0, 60 and 120 s");
    check_ends(&mut table);
    assert_eq!(table.counters.unchanged, 236);
}

#[test]
fn a_small_change_is_recorded_when_it_has_added_up() {
    let mut table = table("change = 1.0");
    for step in 0..=25 {
        table.take(format!("t c={}", 0.25 * f64::from(step)).as_bytes(), at(step as u64 * 1_000));
    }
    assert_eq!(numbers(&mut table), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    check_ends(&mut table);
}

#[test]
fn a_flood_is_thinned_to_ten_a_second_and_its_last_value_is_kept() {
    let mut table = table("");
    for ms in 0..5_000_u64 {
        table.take(format!("t c={ms}").as_bytes(), at(ms));
        table.settle(at(ms).steady);
    }
    let rows = numbers(&mut table);
    assert_eq!(rows.len(), 50);
    table.settle(at(6_000).steady);
    assert_eq!(numbers(&mut table), [4_999.0]);
    check_ends(&mut table);
    assert_eq!(table.counters.thinned, 5_000 - 51);
}

#[test]
fn a_flicker_that_is_over_is_counted_and_not_recorded_later() {
    let mut table = table("");
    for (ms, value) in [(0, 1), (10, 2), (20, 1)] {
        table.take(format!("t c={value}").as_bytes(), at(ms));
    }
    table.settle(at(1_000).steady);
    assert_eq!(numbers(&mut table), [1.0]);
    check_ends(&mut table);
    assert_eq!((table.counters.thinned, table.counters.unchanged), (1, 1));
}

#[test]
fn further_names_than_allowed_are_refused_and_the_known_ones_go_on() {
    let mut table = table("values-max = 2");
    table.take(b"a x=1,y=1,z=1\nb x=1\na x=2", at(0));
    assert_eq!((table.counters.refused, table.counters.values), (2, 5));
    assert_eq!((table.number("a/x"), table.number("a/z")), (Some(2.0), None));
    let notes = table.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("raise `values-max`"), "{notes:?}");
    check_ends(&mut table);
}

#[test]
fn the_senders_time_is_kept_unless_it_is_a_day_from_ours() {
    let mut table = table("");
    let near = NOW_NS - DAY_NS + 1_000_000_000;
    table.take(format!("near x=1 {near}\nseconds x=1 1700000000\nnone x=1").as_bytes(), at(0));
    table.take(b"before x=1 -5", at(0));
    let times: Vec<u64> = table.take_rows().iter().map(|row| row.time_ns).collect();
    assert_eq!(times, [near, NOW_NS, NOW_NS, NOW_NS]);
    assert_eq!(table.counters.retimed, 2);
    assert!(table.take_notes()[0].contains("send nanoseconds"));
}

#[test]
fn each_kind_of_malformed_line_is_one_note() {
    let mut table = table("");
    for _ in 0..3 {
        table.take(b"hv c=volts\nhv\n", at(0));
    }
    assert_eq!((table.counters.lines, table.counters.malformed), (6, 6));
    assert_eq!(table.take_notes().len(), 2);
}

/// Escapes a name as senders do.
fn escaped(name: &str) -> String {
    name.replace(',', "\\,").replace('=', "\\=").replace(' ', "\\ ")
}

proptest! {
    #[test]
    fn no_bytes_stop_the_table_and_every_value_has_one_end(
        datagrams in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                "[a-b,= \\\\\"\n#{}0-9.eiut+-]{0,200}".prop_map(String::into_bytes),
                "([a-c](,[a-c]=[a-c]){0,2} [a-c]=[0-3]( [0-9]{1,20})?\n){0,20}"
                    .prop_map(String::into_bytes),
            ],
            0..20,
        ),
        steps in prop::collection::vec(0_u64..200, 20),
    ) {
        let mut table = Table::new(SlowControl { values_max: 8, ..SlowControl::default() });
        let mut ms = 0;
        for (datagram, step) in datagrams.iter().zip(steps) {
            ms += step;
            table.take(datagram, at(ms));
            table.settle(at(ms).steady);
        }
        prop_assert!(table.counters.malformed <= table.counters.lines);
        check_ends(&mut table);
    }

    #[test]
    fn an_escaped_name_is_read_back(
        name in "[a-z,= {}/µ]{0,20}[a-z]", key in "[a-z,= ]{0,20}x", tag in "[a-z,= ]{0,20}z",
        number in any::<f64>().prop_filter("finite", |number| number.is_finite()),
    ) {
        let line = format!("{},{}={} v={number:e}", escaped(&name), escaped(&key), escaped(&tag));
        let line = parse(line.as_bytes()).unwrap();
        let wanted = format!("{name}{{{key}={tag}}}/v");
        prop_assert_eq!(&line.values[0].name, &wanted);
        prop_assert_eq!(&line.values[0].value, &SlowValue::Number(number));
    }
}
