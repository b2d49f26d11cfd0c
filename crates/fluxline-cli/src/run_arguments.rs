//! The arguments of `fluxline recover` and `fluxline ship`.

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
