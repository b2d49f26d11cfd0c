//! The arguments of `fluxline ctl`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fluxline ctl`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  fluxline ctl status\n  fluxline ctl pause\n  \
                  fluxline ctl note \"beam is back\"\n  \
                  fluxline ctl --run runs/0042 stop")]
pub struct CtlArguments {
    /// The cluster to control, as kafka://HOST:PORT/CLUSTER; default: a run on this machine
    #[arg(value_parser = cluster_address, conflicts_with_all = ["run", "url"])]
    pub cluster: Option<String>,
    /// Of a cluster: file with settings of the connection, such as TLS and passwords
    #[arg(long, value_name = "FILE", global = true)]
    pub settings_file: Option<PathBuf>,
    /// The folder of the run; default: the newest in `runs` that is served
    #[arg(long, conflicts_with = "url")]
    pub run: Option<PathBuf>,
    /// The address that the run printed, with its token
    #[arg(long)]
    pub url: Option<String>,
    /// The request
    #[command(subcommand)]
    pub request: CtlRequest,
}

/// A request to a run.
#[derive(Debug, Subcommand)]
pub enum CtlRequest {
    /// Show the run's state, its health and its counters; status 7: an alarm is active
    Status,
    /// Begin to record
    Start,
    /// Interrupt recording; events are still built and counted
    Pause,
    /// Go on recording
    Resume,
    /// End the run; everything received so far is recorded
    Stop,
    /// Write a note into run.json
    Note {
        /// Its text
        text: String,
    },
    /// Write the shot number into run.json
    Shot {
        /// The number
        number: u64,
    },
    /// Say that you have seen an alarm; `status` lists them
    Acknowledge {
        /// The alarm's name
        alarm: String,
    },
    /// Let an alarm not count for a time
    Shelve {
        /// The alarm's name
        alarm: String,
        /// Minutes, at most 1440
        #[arg(long, default_value_t = 30)]
        minutes: u64,
    },
    /// Let a shelved alarm count again
    Unshelve {
        /// The alarm's name
        alarm: String,
    },
    /// End a cluster's run that cannot be built to its end, and all its nodes
    Abandon {
        /// The run's number
        run: u64,
    },
    /// End the part of a cluster's readout node that died and will not come back
    End {
        /// The node's name
        node: String,
    },
}

/// Accepts the address of a cluster, so that a misspelt request is not taken for one.
fn cluster_address(text: &str) -> Result<String, String> {
    match text.starts_with("kafka://") {
        true => Ok(text.to_owned()),
        false => Err("write kafka://HOST:PORT/CLUSTER, or one of the requests".to_owned()),
    }
}
