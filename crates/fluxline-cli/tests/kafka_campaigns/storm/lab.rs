//! The laboratory of a storm: an experiment of two readouts, and a consumer.

use std::net::UdpSocket;
use std::ops::Deref;

use serde_json::Value;

use crate::broker::Broker;
use crate::lab::Lab;
use crate::process::Process;

/// Number of partitions: more than builders, so that each builder has some.
pub const PARTITIONS: u32 = 6;
/// The names of the readouts.
pub const READOUTS: [&str; 2] = ["r1", "r2"];

/// A cluster whose readouts have known ports.
pub struct StormLab {
    lab: Lab,
    /// The ports of the readouts.
    pub ports: [u16; 2],
}

impl Deref for StormLab {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

impl StormLab {
    pub fn new() -> StormLab {
        // Ports that were free a moment ago; two sockets at once, so that they differ.
        let free = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        let ports = free.map(|socket| socket.local_addr().expect("an address").port());
        let source = |name: &str, port: u16| {
            format!(
                "[[source]]\nname = \"{name}\"\nformat = \"counter\"\n[source.udp]\n\
                 listen = [\"127.0.0.1:{port}\"]\n"
            )
        };
        let experiment = format!(
            "name = \"beam\"\n[node.r1]\nsources = [\"a\"]\n[node.r2]\nsources = [\"b\"]\n\
             [events]\nbuild = \"key\"\n{}{}",
            source("a", ports[0]),
            source("b", ports[1]),
        );
        StormLab {
            lab: Lab::on(Broker::start(&[]), PARTITIONS, "output = \"both\"\n", &experiment),
            ports,
        }
    }

    /// Starts a node of the experiment under a name of its own; its last words are for people.
    pub fn node(&self, node: &str, id: &str) -> Process {
        self.start(&["run", "e.toml", "--node", node, "--id", id], node, id)
    }

    /// Starts the consumer of the topic of events, which writes `consumed`.
    pub fn consumer(&self, number: u32) -> Process {
        let arguments = [&self.broker.address, "lab.events", "storm", "consumed"];
        let mut command = self.script("follow_events.py", &arguments);
        Process::start(&mut command, &format!("consumer-{number}"), self.folder.path())
    }

    /// Returns the ledger of the run, and the exit status of `inspect`.
    pub fn ledger(&self) -> (Option<i32>, Value) {
        let (status, text, said) = self.command(&["--json", "inspect", &self.address()]);
        let ledger = serde_json::from_str(&text);
        (status, ledger.unwrap_or_else(|error| panic!("{error}: {said}{text}")))
    }
}
