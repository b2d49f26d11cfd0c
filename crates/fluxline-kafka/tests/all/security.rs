//! TLS and passwords on a real broker: the sink, shipping and building work by them, wrong ones are
//! named at once, and no secret is in run.json.

use std::path::Path;
use std::time::{Duration, Instant};

use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::build::{Log, Ready};
use fluxline_kafka::settings::Settings;
use fluxline_kafka::ship::{ShipConfig, ship};

use crate::support::broker::Broker;
use crate::support::runs::record_text;
use crate::support::world::first_commit;

const SECRET: &str = "secret";

/// Lines of a settings file.
fn lines(broker: &Broker, password: &str) -> String {
    format!(
        "security.protocol=SASL_SSL\nssl.ca.location={}\nsasl.mechanism=SCRAM-SHA-512\n\
         sasl.username=daq\nsasl.password={password}\n",
        broker.file("ca.pem").display()
    )
}

fn settings(broker: &Broker, folder: &Path, text: &str) -> Settings {
    let file = folder.join("kafka.properties");
    std::fs::write(&file, text).expect("written");
    Settings::read(&broker.address, &Default::default(), Some(&file)).expect("settings")
}

fn refusal(settings: &Settings) -> String {
    KafkaLog::open(settings, "lab", 1).err().expect("it is refused").to_string()
}

#[test]
#[ignore = "all: a broker"]
fn everything_works_by_tls_and_password_and_wrong_ones_are_named() {
    let broker = Broker::start_with_tls();
    let scratch = tempfile::tempdir().expect("a folder");
    for topic in ["lab.fragments", "lab.commits", "lab.checkpoints", "lab.out"] {
        broker.create_topic(topic, 1, &[]);
    }
    let right = settings(&broker, scratch.path(), &lines(&broker, SECRET));
    building_works(&right);
    sink_works(&broker, scratch.path());

    let said = refusal(&settings(&broker, scratch.path(), &lines(&broker, "another")));
    let expected = format!("Kafka at {} refuses the login (", broker.address);
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("correct sasl.mechanism, sasl.username and sasl.password"), "{said}");
    assert!(!said.contains("another"), "{said}");

    let expected = format!("no connection to Kafka at {} by this security (", broker.address);
    let said = refusal(&settings(&broker, scratch.path(), ""));
    assert!(said.starts_with(&expected) && said.contains("security.protocol"), "{said}");
}

fn building_works(settings: &Settings) {
    let mut log = KafkaLog::open(settings, "lab", 1).expect("opened");
    log.append(0, b"a record").expect("appended");
    log.flush(Duration::from_secs(30)).expect("acknowledged");
    let claim = log.claim(0, "builder").expect("claimed");
    let commit = first_commit("builder");
    let ready = Ready { commit: commit.clone(), records: Vec::new() };
    log.commit_all(&claim, &[ready]).expect("committed");
    assert_eq!(log.claim(0, "next").expect("claimed").committed, [commit]);
    let limit = Instant::now() + Duration::from_secs(120);
    while log.read(0, 0).expect("readable").is_none() {
        assert!(Instant::now() < limit, "the record does not come");
    }
}

fn sink_works(broker: &Broker, folder: &Path) {
    let text = format!(
        "name = \"lab\"\n[[source]]\nname = \"boards\"\nformat = \"counter\"\n\
         [source.emulator]\nsources = 2\nrate = 1000\npackets = 200\nlink = \"direct\"\n\
         [sink.kafka]\nbrokers = \"{}\"\ntopic = \"lab.out\"\nsettings-file = \"{}\"\n",
        broker.address,
        folder.join("kafka.properties").display()
    );
    let run = folder.join("0001");
    let report = record_text(&run, &text);
    let counters = report.ledger.sink.clone().expect("a sink");
    assert_eq!((counters.offered, counters.acked), (400, 400), "{:?}", report.notes);
    let shipped = ship(&ShipConfig { run: run.clone(), ..ShipConfig::default() });
    assert_eq!(shipped.expect("shipped").sent, 0);
    assert_no_secret(&run);
    assert!(!report.notes.iter().any(|note| note.contains(SECRET)), "{:?}", report.notes);
}

/// Looks for the password in every file of a run.
fn assert_no_secret(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            assert_no_secret(&entry.path());
            continue;
        }
        let bytes = std::fs::read(entry.path()).expect("readable");
        let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!found, "{} has the password", entry.path().display());
    }
}
