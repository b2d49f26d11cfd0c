//! Wrong options of the client library: the sentence names the option, and never its value, which
//! may be a password.
#![cfg(feature = "client")]

use std::collections::BTreeMap;

use fluxline_daq::experiment::Experiment;
use fluxline_kafka::build::kafka::KafkaLog;
use fluxline_kafka::gather::committed::committed_from;
use fluxline_kafka::settings::Settings;
use fluxline_kafka::sink;
use fluxline_run::Options;

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

#[test]
fn a_misspelt_password_of_a_sink_is_not_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kafka.properties");
    std::fs::write(&file, format!("sasl.pasword={SECRET}\n")).expect("written");
    let text = format!(
        "[[source]]\nname = \"a\"\nformat = \"counter\"\n[source.emulator]\npackets = 1\n\
         [sink.kafka]\nbrokers = \"127.0.0.1:9\"\ntopic = \"x\"\nsettings-file = \"{}\"\n",
        file.display()
    );
    let experiment = Experiment::parse("e.toml", &text).expect("valid");
    let run = Some(folder.path().join("0001"));
    let options = Options { folder: run, open_sink: Some(sink::open), ..Options::default() };
    let said = fluxline_run::start_with(experiment, options).err().expect("refused").to_string();
    assert_named_without_value(&said, "sasl.pasword");
}
