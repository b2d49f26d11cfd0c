//! Recorded runs of emulated boards, for the tests of `ship`.

use std::path::{Path, PathBuf};

use fluxline_daq::experiment::Experiment;
use fluxline_kafka::ship::ShipConfig;
use fluxline_kafka::sink;
use fluxline_run::{Acquisition, Options, Report};

/// Records a run of four boards with `packets` packets each; `lines` are further tables of the
/// experiment.
pub fn record(folder: &Path, packets: u32, lines: &str) -> Report {
    let text = format!(
        "name = \"lab\"\n[[source]]\nname = \"boards\"\nformat = \"counter\"\n\
         [source.emulator]\nsources = 4\nrate = 2000\npackets = {packets}\npayload-bytes = 1000\n\
         link = \"direct\"\n[record]\nbatch-ms = 50\n{lines}\n"
    );
    record_text(folder, &text)
}

/// Records a run of this experiment.
pub fn record_text(folder: &Path, text: &str) -> Report {
    let report = start(folder, text).expect("it starts").wait().expect("it ends");
    assert!(report.ledger.closes(), "{:?}", report.ledger.check());
    report
}

/// Starts a run of this experiment.
pub fn start(folder: &Path, text: &str) -> Result<Acquisition, fluxline_run::Error> {
    let experiment = Experiment::parse("e.toml", text).expect("valid");
    let (folder, open_sink) = (Some(folder.to_owned()), Some(sink::open as fluxline_run::OpenSink));
    let options = Options { folder, open_sink, ..Options::default() };
    fluxline_run::start_with(experiment, options)
}

/// A shipment of a run to this topic.
pub fn to_topic(run: &Path, brokers: &str, topic: &str) -> ShipConfig {
    let (brokers, topic) = (Some(brokers.to_owned()), Some(topic.to_owned()));
    ShipConfig { run: PathBuf::from(run), brokers, topic, ..ShipConfig::default() }
}
