//! The messages of the management.
//!
//! A letter crosses one link at a time: the agent at each chip takes it into memory, and sends it
//! to the next chip of its route. So it never holds a link while it waits for another one, and no
//! letter can be a part of a deadlock, whatever routes the programs' messages take.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::routes::Path;
use super::serial::Serial;

/// A message between an agent or manager and another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The link port at each chip of its way.
    pub route: Vec<u8>,
    /// The ports by which it arrived at each chip so far.
    pub back: Vec<u8>,
    /// The content.
    pub body: Body,
}

/// The content of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A greeting to a neighbour.
    Hello(Hello),
    /// The state of an agent's links; each agent passes it on to all its neighbours.
    Notice(Notice),
    /// Asks a chip who it is.
    Probe(u32),
    /// The answer to a probe.
    Found(Found),
    /// Asks an agent to do something.
    Ask(Ask),
    /// It is done.
    Reply(Reply),
}

/// A greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender.
    pub serial: Serial,
    /// The port by which it left the sender.
    pub port: u8,
    /// The manager that the sender obeys.
    pub sign: Option<Sign>,
}

/// A sign of life of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    /// The manager's chip.
    pub chief: Serial,
    /// Its number, which grows.
    pub number: u64,
}

/// The state of a link port, as its agent sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// No signal, or not for long enough.
    #[default]
    Down,
    /// A signal, and no greeting so far.
    New,
    /// A signal, but the agent behind it says nothing.
    Silent,
    /// A neighbour.
    Up(Neighbour),
}

/// The far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The chip.
    pub serial: Serial,
    /// Its port.
    pub port: u8,
}

/// The links of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The chip.
    pub serial: Serial,
    /// The number of the notice; that of a newer one is larger.
    pub number: u32,
    /// The link ports.
    pub links: [Link; 4],
    /// True if its node waits for routes.
    pub wants_routes: bool,
}

/// The answer of a chip to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of the probe.
    pub probe: u32,
    /// The chip.
    pub serial: Serial,
    /// The port by which the probe arrived.
    pub arrival: u8,
    /// The ports with a signal.
    pub has_signal: [bool; 4],
    /// The number of the chip's last notice.
    pub number: u32,
}

/// A question or an order of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The manager's chip.
    pub chief: Serial,
    /// The number of the round.
    pub round: u32,
    /// The order.
    pub order: Order,
}

/// An order of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Sends no further messages of programs.
    Pause,
    /// Reports if the chip is free of messages of programs.
    Quiet,
    /// Takes new routes, and sends again.
    Install(Arc<Table>),
}

/// The answer to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The chip.
    pub serial: Serial,
    /// The number of the round.
    pub round: u32,
    /// True if the chip holds no message of a program.
    pub is_quiet: bool,
    /// Heads that have left its crossbar.
    pub heads: u32,
}

/// The routes of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The number of the set of routes; newer sets have larger ones.
    pub epoch: u32,
    /// True if the routes of all nodes together cannot deadlock.
    pub is_safe: bool,
    /// The node's own id.
    pub id: u32,
    /// The targets.
    pub rows: BTreeMap<Serial, Row>,
}

/// A target of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: u32,
    /// The path.
    pub path: Path,
}

/// Bytes of a letter besides its route and content. A choice.
const HEADER_BYTES: u32 = 8;

impl Letter {
    /// Makes a letter for a route.
    #[must_use]
    pub fn new(route: Vec<u8>, body: Body) -> Letter {
        Letter { route, back: Vec::new(), body }
    }

    /// Returns the port to the next chip; `None`: it is there.
    #[must_use]
    pub fn next_port(&self) -> Option<u8> {
        self.route.get(self.back.len()).copied()
    }

    /// Makes the answer, which goes the same way back.
    #[must_use]
    pub fn answer(&self, body: Body) -> Letter {
        Letter::new(self.back.iter().rev().copied().collect(), body)
    }

    /// Returns the length \[bytes\].
    #[must_use]
    pub fn bytes(&self) -> u32 {
        let content = match &self.body {
            Body::Hello(_) => 17,
            Body::Notice(_) => 8 + 4 * 6,
            Body::Probe(_) => 4,
            Body::Found(_) => 14,
            Body::Ask(ask) => 9 + ask.order.bytes(),
            Body::Reply(_) => 13,
        };
        HEADER_BYTES + 2 * self.route.len() as u32 + content
    }
}

impl Order {
    fn bytes(&self) -> u32 {
        match self {
            Order::Pause | Order::Quiet => 0,
            Order::Install(table) => {
                let rows = table.rows.values().map(|row| 7 + row.path.links());
                9 + rows.sum::<u32>()
            }
        }
    }
}
