//! The client of Kafka without a broker: wrong options, nobody who answers, clocks that are set.

use std::collections::BTreeMap;
use std::path::Path;

use fluxline_core::Moment;
use fluxline_core::random::{Draw, test_count, test_seed};
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::cluster::steady::SteadyClock;
use fluxline_kafka::gather::committed::committed_from;
use fluxline_kafka::settings::Settings;
use fluxline_kafka::ship::{ShipConfig, ship};

use crate::support::runs::{record_text, start};

const SECRET: &str = "hunter2";

fn settings(name: &str, value: &str) -> Settings {
    let options = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    Settings { brokers: "127.0.0.1:9".to_owned(), options }
}

fn assert_named_without_value(said: &str, name: &str) {
    assert!(said.contains(name), "{said}");
    assert!(!said.contains(SECRET), "the value may be a password: {said}");
}

#[test]
fn a_misspelt_or_wrong_option_is_named_and_its_value_is_not_printed() {
    let mut wrong = vec![
        ("sasl.pasword", SECRET.to_owned()),
        ("security.protocol", SECRET.to_owned()),
        ("debug", format!("broker,{SECRET},msg")),
    ];
    if cfg!(not(feature = "tls")) {
        wrong.push(("ssl.key.password", SECRET.to_owned()));
    }
    for (name, value) in &wrong {
        let settings = settings(name, value);
        let said = KafkaLog::open(&settings, "lab", 1).err().expect("it is refused").to_string();
        assert_named_without_value(&said, name);
        let said = committed_from(&settings, "lab", 1, &[0]).expect_err("refused").to_string();
        assert_named_without_value(&said, name);
    }
}

/// Returns the sentence with which a run of one emulated packet with this sink is refused.
fn refusal(source: &str, sink: &str, folder: &Path) -> String {
    let text = format!(
        "[[source]]\nname = \"a\"\nformat = \"{source}\"\nemulator = {{ packets = 1 }}\n\
         [sink.kafka]\nbrokers = \"127.0.0.1:9\"\ntopic = \"x\"\n{sink}\n"
    );
    let run = folder.join("0001");
    let said = start(&run, &text).err().expect("it is refused").to_string();
    assert!(!run.exists(), "a run that does not start leaves no folder");
    said
}

#[test]
fn wrong_sinks_are_refused_before_the_run_without_their_secrets() {
    let scratch = tempfile::tempdir().expect("a folder");
    let file = scratch.path().join("kafka.properties");
    std::fs::write(&file, format!("sasl.pasword={SECRET}\n")).expect("written");
    let sink = format!("settings-file = \"{}\"", file.display());
    assert_named_without_value(&refusal("counter", &sink, scratch.path()), "sasl.pasword");
    let said = refusal("hispec", "schema = \"ess\"", scratch.path());
    assert!(said.contains("`hispec` does not map any packet") && said.contains("ess"), "{said}");
}

#[test]
fn memory_of_a_sink_without_brokers_is_bounded_and_the_rest_is_left_out() {
    let scratch = tempfile::tempdir().expect("a folder");
    let run = scratch.path().join("0001");
    // Many more records than the client gets at a time.
    let text = "name = \"lab\"\n[[source]]\nname = \"boards\"\nformat = \"counter\"\n\
                [source.emulator]\nsources = 4\npackets = 1000\npayload-bytes = 1000\n\
                link = \"direct\"\n[record]\nbatch-ms = 50\n[sink.kafka]\n\
                brokers = \"127.0.0.1:9\"\ntopic = \"x\"\nrecord-bytes = 8192\n\
                memory-bytes = 262144\ndelivery-timeout-ms = 8000\n";
    let report = record_text(&run, text);
    let its = report.ledger.sink.clone().expect("a sink");
    // Each event has 1000 bytes and more; what the memory kept times out at the end.
    assert!(its.timed_out > 100 && its.left_out > 3000, "{its:?}");
    assert_eq!((its.offered, its.acked), (4000, 0), "{its:?}");
    assert_eq!(its.left_out, 4000 - its.timed_out, "{its:?}");
    let verdict = report.verdict.sentence().unwrap_or_default();
    assert!(verdict.contains(&format!("left out {}", its.left_out)), "{verdict}");
    let said = ship(&ShipConfig { run, ..ShipConfig::default() }).expect_err("nobody").to_string();
    assert!(said.contains("127.0.0.1:9") && said.contains("check the address"), "{said}");
}

/// Smallest step that counts \[ns\].
const STEP_NS: i128 = 100_000_000;

fn ns(time: Moment) -> i128 {
    i128::from(time.as_ns())
}

fn moment(ns: i128) -> Moment {
    Moment::from_ns(u64::try_from(ns).expect("a time"))
}

const START: i128 = 1_700_000_000_000_000_000;
const HOUR: i128 = 3_600_000_000_000;

#[test]
fn clock_that_is_set_moves_the_times_of_packets() {
    let mut draw = Draw::new(test_seed!(81));
    for _ in 0..test_count!(50) {
        let mut clock = SteadyClock::new(moment(START), moment(0));
        let (mut set, mut now) = (0_i128, 0_i128);
        for _ in 0..300 {
            now += i128::from(draw.below(2_000_000));
            if draw.chance(0.02) {
                now += i128::from(STEP_NS as u64 + draw.below(1_000_000_000));
                let by = i128::from(200_000_000 + draw.below(HOUR as u64));
                set = if draw.chance(0.5) { set + by } else { set - by };
            }
            let steady = clock.look(moment(START + now + set), moment(now));
            assert!((ns(steady) - START - now).abs() < STEP_NS, "the time jumps");
            let packet = clock.correct(moment(START + now + set));
            assert!((ns(packet) - START - now).abs() < STEP_NS, "a packet jumps");
            assert!((i128::from(clock.step_ms()) * 1_000_000 - set).abs() < STEP_NS);
        }
    }
}

#[test]
fn packets_before_a_step_of_an_hour_keep_their_time() {
    for step in [HOUR, -HOUR] {
        let mut clock = SteadyClock::new(moment(START), moment(0));
        let now = 1_000_000_000;
        assert!(clock.is_strange(moment(START + now + step)));
        clock.look(moment(START + now + step), moment(now));
        let before = moment(START + now - 5_000_000);
        assert_eq!(clock.correct(before), before);
        assert_eq!(ns(clock.correct(moment(START + now + step))), START + now);
        assert_eq!(i128::from(clock.step_ms()) * 1_000_000, step);
    }
}
