//! The path of a trial: over loopback, or from one namespace to another.

use std::process::Command;

use super::ends::Settings;
use super::namespaces::Namespaces;

pub struct Path {
    pub name: &'static str,
    pub mtu: usize,
    between: Option<Namespaces>,
}

impl Path {
    pub fn loopback() -> Path {
        Path { name: "loopback", mtu: 65_536, between: None }
    }

    /// A pair of namespaces; `None`, with a line, where that is not allowed.
    pub fn veth(mtu: usize) -> Option<Path> {
        let between = match Namespaces::pair(mtu) {
            Ok(between) => Some(between),
            Err(reason) => {
                println!("veth left out: {reason}");
                return None;
            }
        };
        Some(Path { name: if mtu > 1500 { "veth 9000" } else { "veth 1500" }, mtu, between })
    }

    pub fn namespaces(&self) -> Option<&Namespaces> {
        self.between.as_ref()
    }

    pub fn addresses(&self, settings: Settings) -> Settings {
        match &self.between {
            None => settings.with("from", "127.0.0.1").with("to", "127.0.0.1"),
            Some(_) => settings.with("from", Namespaces::A).with("to", Namespaces::B),
        }
    }

    pub fn at_sender(&self, command: Command) -> Command {
        match &self.between {
            None => command,
            Some(between) => between.inside_a(&command),
        }
    }

    pub fn at_receiver(&self, command: Command) -> Command {
        match &self.between {
            None => command,
            Some(between) => between.inside_b(&command),
        }
    }
}
