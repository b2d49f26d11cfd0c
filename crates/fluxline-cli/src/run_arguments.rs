//! The arguments of `fluxline recover`, `fluxline ship` and `fluxline gather`.

use std::path::PathBuf;

use clap::Args;

/// `fluxline recover`.
#[derive(Debug, Args)]
pub struct RecoverArguments {
    /// The run's folder
    pub run: PathBuf,
}

/// `fluxline ship`.
#[derive(Debug, Args)]
pub struct ShipArguments {
    /// The run's folder
    pub run: PathBuf,
    /// Addresses of brokers, separated by commas; default: those of the experiment
    #[arg(long, value_name = "HOST:PORT,...")]
    pub brokers: Option<String>,
    /// The topic; default: that of the experiment
    #[arg(long)]
    pub topic: Option<String>,
    /// File with settings of the connection, such as TLS; default: that of the experiment
    #[arg(long, value_name = "FILE")]
    pub settings_file: Option<PathBuf>,
    /// The form of the records; default: that of the experiment, else arrow
    #[arg(long)]
    pub schema: Option<ShipSchema>,
}

/// The form of records in a topic.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ShipSchema {
    /// Arrow IPC streams
    Arrow,
    /// Messages in the schemas of the European Spallation Source
    Ess,
}

impl From<ShipSchema> for fluxline_daq::experiment::SinkSchema {
    fn from(schema: ShipSchema) -> fluxline_daq::experiment::SinkSchema {
        match schema {
            ShipSchema::Arrow => fluxline_daq::experiment::SinkSchema::Arrow,
            ShipSchema::Ess => fluxline_daq::experiment::SinkSchema::Ess,
        }
    }
}

/// `fluxline gather`.
#[derive(Debug, Args)]
pub struct GatherArguments {
    /// Folders of the nodes of a run (`run --node`), folders with those of a cluster's builders, or
    /// kafka://HOST:PORT/CLUSTER for its topic of events
    #[arg(required = true, value_name = "FOLDER|URL")]
    pub places: Vec<String>,
    /// The new run folder
    #[arg(long, short = 'o', value_name = "FOLDER")]
    pub into: PathBuf,
    /// The cluster whose commits decide, with folders: kafka://HOST:PORT/CLUSTER
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// The number of the run; default: the newest one
    #[arg(long, value_name = "N")]
    pub run: Option<u64>,
    /// File with settings of the connection, such as TLS
    #[arg(long, value_name = "FILE")]
    pub settings_file: Option<PathBuf>,
}
