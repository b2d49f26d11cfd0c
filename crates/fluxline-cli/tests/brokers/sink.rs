//! `[sink.kafka]` and `fluxline ship` on a real broker: runs that the topic takes, and those that
//! it cannot take as a whole.

use serde_json::Value;

use crate::lab::Lab;

const SOURCE: &str = "[[source]]\nname = \"a\"\nformat = \"counter\"\n[source.emulator]\n\
                      sources = 2\nrate = 1000\npackets = 50\npayload-bytes = 3000\n\
                      link = \"direct\"\n";

/// Ships a run; returns the status, the document and the sentence on standard error.
fn ship(lab: &Lab, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let (status, text, said) = lab.command(&[&["--json", "ship"], arguments].concat());
    let document = serde_json::from_str(&text).unwrap_or_default();
    (status, document, said)
}

#[test]
#[ignore = "all: a broker"]
fn runs_are_sent_and_what_the_topic_lacks_has_a_status_and_a_sentence() {
    let lab = Lab::new("", "[node.r1]\nsources = [\"a\"]\n[events]\nbuild = \"key\"\n");
    let address = lab.broker.address.clone();
    lab.broker.create_topic("out", 1);
    let sink = format!(
        "{SOURCE}[sink.kafka]\nbrokers = \"{address}\"\ntopic = \"out\"\nrecord-bytes = 4096\n"
    );
    std::fs::write(lab.path("sink.toml"), &sink).expect("written");

    // Every event is larger than a record: `ship` would not send it either.
    let (status, text, said) = lab.command(&["run", "sink.toml", "--folder", "large"]);
    assert_eq!(status, Some(7), "{said}");
    assert!(said.contains("raise `record-bytes`") && !said.contains("fluxline ship"), "{said}");
    assert!(!text.contains("fluxline ship"), "{text}");
    let (status, document, said) = ship(&lab, &["large"]);
    assert_eq!(status, Some(7), "{said}");
    assert_eq!((&document["status"], &document["too_large"]), (&7.into(), &100.into()));
    let sentence = document["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("100 events that are larger"), "{sentence}");

    // A whole run, and a damaged one.
    std::fs::write(lab.path("plain.toml"), SOURCE).expect("written");
    lab.done(&["run", "plain.toml", "--folder", "plain"]);
    let to = ["plain", "--brokers", &address, "--topic", "out"];
    let (status, document, said) = ship(&lab, &to);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!((&document["status"], &document["sentence"]), (&0.into(), &Value::Null));
    assert_eq!(lab.python("read_events.py", &[&address, "out"])["events"], 100);
    assert_eq!(ship(&lab, &to).1["sent"], 0, "a second shipment sends nothing");
    let file = lab.path("plain").join("events-000000.arrows");
    std::fs::remove_file(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (status, document, said) = ship(&lab, &to);
    assert_eq!(status, Some(8), "{said}");
    assert!(said.contains("has only the readable part of plain"), "{said}");
    assert_eq!(document["status"], 8, "{document}");
}
