//! A push ring over Ethernet for one producer after the other, each of which has shown the key.
//!
//! ```text
//!   producer                                        this node
//!   connects                                  ──▶   a stranger: 5 s to show the key
//!   imports the ring, showing its key         ──▶   the producer; others are refused
//!   puts the key of its own region            ──▶   imports that region, showing the key
//!                                             ◀──   puts the head: the producer is admitted
//!   puts records and tails                    ──▶   puts what was read
//! ```
//!
//! A stranger gets no key. When the producer leaves, vanishes or writes an invalid record,
//! all that it had published is read; then the ring is emptied and the next producer is admitted.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

use fluxline_core::endpoint::Node;
use fluxline_core::endpoint::counters::ConnectionCounters;
use fluxline_core::fabric::push::puts::{CREDIT_BYTES, credit_name};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Local, Name, RegionId, Reliability, RemoteId,
    Rights, Status, Target, Work,
};
use fluxline_core::port::Port;
use fluxline_core::{Moment, Span};

use super::RingKeeper;

/// Time to show the key, and to send that of the own region, before a peer is disconnected.
const HALF_OPEN_MAX: Span = Span::from_ms(5000);
/// Events that wait to be taken; with more, the oldest are dropped.
const EVENTS_MAX: usize = 256;

fluxline_core::counters! {
    /// Connections to a push ring, by their outcome.
    pub struct RingServerCounters {
        producers [Sum "producer"] "Producers that showed the key" => "";
        producers_gone [Sum "producer"] "Producers that vanished, or were disconnected" => "";
        strangers [Sum "connection"] "Connections that did not show the key in time" => "";
        rings_renewed [Sum "ring"] "Times that a producer wrote an invalid record" => "";
    }
}

/// An event of the ring's producer.
#[derive(Clone, Debug, PartialEq)]
pub enum RingEvent {
    /// It has shown the key.
    Joined {
        /// Its name, printable.
        producer: String,
    },
    /// Its connection is over; the records that it had published are still being read.
    Left {
        /// Its name, printable.
        producer: String,
        /// The way in which it left.
        how: Leave,
    },
    /// All that it had published was read, or the server stopped.
    Read(Box<ReadUp>),
    /// A connection was ended that did not show the key in time.
    Stranger {
        /// From where.
        address: Option<SocketAddr>,
    },
}

/// The remains of a producer that left.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadUp {
    /// Its name, printable.
    pub producer: String,
    /// The end of its connection.
    pub how: Leave,
    /// Its records that were read.
    pub records: u64,
    /// The counters of its connection, where this side ended it.
    pub counters: Option<ConnectionCounters>,
}

/// The end of a producer's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It disconnected.
    Disconnected,
    /// It died, or the link did.
    Vanished(Status),
    /// It asked for an unreliable connection.
    Unreliable,
    /// It did not show the key of its region in time.
    NoCredit,
    /// Its region could not be imported.
    WrongCredit(Status),
    /// It wrote an invalid record.
    Nonsense,
    /// The server ended.
    Stopped,
}

impl Leave {
    /// Returns true when the producer ended the connection in order.
    #[must_use]
    pub fn is_orderly(self) -> bool {
        matches!(self, Leave::Disconnected | Leave::Stopped)
    }
}

impl fmt::Display for Leave {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = HALF_OPEN_MAX.as_ns() / 1_000_000_000;
        match self {
            Leave::Disconnected => write!(out, "disconnected"),
            Leave::Vanished(status) => {
                write!(out, "vanished ({status}); all that it had published is kept")
            }
            Leave::Unreliable => {
                write!(out, "was refused: its connection is unreliable; connect reliably")
            }
            Leave::NoCredit => write!(
                out,
                "was refused: it did not show the key of its region `credit-...` within \
                 {seconds} s"
            ),
            Leave::WrongCredit(status) => {
                write!(out, "was refused: its region `credit-...` could not be imported ({status})")
            }
            Leave::Nonsense => write!(
                out,
                "wrote an invalid record and was disconnected; all that it had published \
                 before is kept"
            ),
            Leave::Stopped => write!(out, "was connected until the end"),
        }
    }
}

/// The time at which [`RingServer::turn`] is to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// At once: there is something to send.
    Again,
    /// Soon: a producer may wait for room.
    Soon,
    /// Once the node has received something.
    Idle,
}

/// A connection that has not shown the key.
struct Stranger {
    endpoint: EndpointId,
    name: String,
    reliability: Reliability,
    since: Moment,
}

/// The progress of importing the producer's region.
#[derive(Clone, Copy)]
enum Credit {
    Unknown,
    Asked(RemoteId),
    Open(RemoteId),
}

struct Producer {
    endpoint: EndpointId,
    name: String,
    since: Moment,
    credit: Credit,
    /// The head that it has; `None`: it is not admitted yet.
    given: Option<u64>,
    records_before: u64,
}

/// The last producer.
struct Gone {
    name: String,
    how: Leave,
    records_before: u64,
    counters: Option<ConnectionCounters>,
}

enum State {
    /// The ring is not empty yet: no producer is admitted.
    Closed(Option<Box<Gone>>),
    /// The next connection that shows the key is admitted.
    Open,
    Used(Producer),
}

/// One push ring of a node, and its producer.
pub struct RingServer {
    keeper: RingKeeper,
    region: RegionId,
    size: u64,
    strangers: Vec<Stranger>,
    state: State,
    events: VecDeque<RingEvent>,
    counters: RingServerCounters,
}

/// The name and key under which a ring is exported.
#[derive(Clone, Debug)]
pub struct RingExport {
    /// The name that a producer imports it by.
    pub name: Name,
    /// The key that it must show.
    pub key: Key,
    /// The ring's size \[byte\], as given to [`super::landing_ring`].
    pub size: u64,
}

/// The reason why a ring could not be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingExportError {
    /// The region.
    #[error(transparent)]
    Register(#[from] fluxline_core::fabric::RegisterError),
    /// Its name.
    #[error(transparent)]
    Export(#[from] fluxline_core::fabric::ExportError),
    /// A region that was just made is there: not reached.
    #[error(transparent)]
    Access(#[from] fluxline_core::fabric::AccessError),
}

impl RingServer {
    /// Exports the ring on a node, for one producer at a time.
    ///
    /// Errors: [`RingExportError`].
    pub fn new<P: Port>(
        node: &mut Node<P>,
        keeper: RingKeeper,
        export: RingExport,
    ) -> Result<RingServer, RingExportError> {
        let region = node.register_own(keeper.memory())?;
        node.export(region, export.name, Grant { rights: Rights::PUT, key: export.key })?;
        node.admit_one(region)?;
        Ok(RingServer {
            keeper,
            region,
            size: export.size,
            strangers: Vec::new(),
            state: State::Open,
            events: VecDeque::new(),
            counters: RingServerCounters::default(),
        })
    }

    /// Returns the oldest event, if there is one.
    pub fn event(&mut self) -> Option<RingEvent> {
        self.events.pop_front()
    }

    /// Returns the counters of this server.
    #[must_use]
    pub fn counters(&self) -> &RingServerCounters {
        &self.counters
    }

    /// The ring.
    #[must_use]
    pub fn keeper(&self) -> &RingKeeper {
        &self.keeper
    }

    /// Ends the producer's connection. The ring may still be read.
    pub fn stop<P: Port>(&mut self, node: &mut Node<P>) {
        self.dismiss(node, Leave::Stopped);
        self.read_up();
    }

    /// Returns the ring, when there is no more to serve.
    #[must_use]
    pub fn into_keeper(self) -> RingKeeper {
        self.keeper
    }

    /// Takes the completions that the node has received, and acts on them.
    ///
    /// The node's next poll sends the answers. Cost: that of the polls.
    pub fn turn<P: Port>(&mut self, node: &mut Node<P>, now: Moment) -> Turn {
        while let Some(what) = node.poll(now) {
            self.hear(node, what, now);
        }
        if self.keeper.is_broken() && matches!(self.state, State::Used(_)) {
            self.counters.rings_renewed += 1;
            self.dismiss(node, Leave::Nonsense);
        }
        self.reopen(node);
        self.admit(node, now);
        self.ask_for_credit(node, now);
        self.end_strangers(node, now);
        if self.give_back(node) {
            return Turn::Again;
        }
        let is_read = self.keeper.unread_bytes() > 0;
        match &self.state {
            State::Used(of) if is_read || Some(self.keeper.head()) != of.given => Turn::Soon,
            State::Closed(_) => Turn::Soon,
            _ => Turn::Idle,
        }
    }

    fn report(&mut self, event: RingEvent) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn hear<P: Port>(&mut self, node: &mut Node<P>, what: Completion, now: Moment) {
        match what {
            Completion::Connected { endpoint, peer: name, reliability } => {
                self.strangers.push(Stranger { endpoint, name, reliability, since: now });
            }
            Completion::Broken { endpoint, status } => {
                self.strangers.retain(|of| of.endpoint != endpoint);
                if matches!(&self.state, State::Used(of) if of.endpoint == endpoint) {
                    let how = match status {
                        Status::Disconnected => Leave::Disconnected,
                        status => Leave::Vanished(status),
                    };
                    self.left(how, None);
                }
            }
            Completion::Imported { remote, status, bytes } => {
                let State::Used(producer) = &mut self.state else { return };
                match (producer.credit, status) {
                    (Credit::Asked(asked), _) if asked != remote => {}
                    (Credit::Asked(_), Status::Done) if bytes >= CREDIT_BYTES => {
                        producer.credit = Credit::Open(remote);
                    }
                    (Credit::Asked(_), Status::Done) => {
                        self.dismiss(node, Leave::WrongCredit(Status::OutOfRegion));
                    }
                    // Its connection is over: the next completion reports it.
                    (Credit::Asked(_), Status::Flushed) => {}
                    (Credit::Asked(_), status) => self.dismiss(node, Leave::WrongCredit(status)),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Notes that the producer's connection is over.
    fn left(&mut self, how: Leave, counters: Option<ConnectionCounters>) {
        let State::Used(producer) = std::mem::replace(&mut self.state, State::Closed(None)) else {
            return;
        };
        self.counters.producers_gone += u64::from(!how.is_orderly());
        self.report(RingEvent::Left { producer: producer.name.clone(), how });
        let Producer { name, records_before, .. } = producer;
        self.state = State::Closed(Some(Box::new(Gone { name, how, records_before, counters })));
    }

    /// Nothing more of the last producer is read, or will be counted here.
    fn read_up(&mut self) {
        let State::Closed(gone) = &mut self.state else { return };
        let Some(gone) = gone.take() else { return };
        let Gone { name: producer, how, records_before, counters } = *gone;
        let records = self.keeper.records() - records_before;
        self.report(RingEvent::Read(Box::new(ReadUp { producer, how, records, counters })));
    }

    /// Ends the producer's connection.
    fn dismiss<P: Port>(&mut self, node: &mut Node<P>, how: Leave) {
        let State::Used(producer) = &self.state else { return };
        let endpoint = producer.endpoint;
        let counters = node.connection_counters(endpoint).cloned();
        // An error says that it is over already.
        let _ = node.disconnect(endpoint);
        self.left(how, counters);
    }

    /// Empties the ring for the next producer, once the last one's records are read.
    fn reopen<P: Port>(&mut self, node: &mut Node<P>) {
        if !matches!(self.state, State::Closed(_)) || !self.keeper.restart() {
            return;
        }
        self.read_up();
        if node.admit_one(self.region).is_ok() {
            self.state = State::Open;
        }
    }

    /// Admits the peer that has imported the ring: it has shown the key.
    fn admit<P: Port>(&mut self, node: &mut Node<P>, now: Moment) {
        let State::Open = self.state else { return };
        let Some(endpoint) = node.importer(self.region) else { return };
        let Some(place) = self.strangers.iter().position(|of| of.endpoint == endpoint) else {
            // It was over before it was handled.
            self.state = State::Closed(None);
            return;
        };
        let Stranger { name, reliability, .. } = self.strangers.swap_remove(place);
        self.counters.producers += 1;
        self.report(RingEvent::Joined { producer: name.clone() });
        self.state = State::Used(Producer {
            endpoint,
            name,
            since: now,
            credit: Credit::Unknown,
            given: None,
            records_before: self.keeper.records(),
        });
        if reliability != Reliability::Reliable {
            self.dismiss(node, Leave::Unreliable);
        }
    }

    /// Imports the producer's region as soon as its key is there.
    fn ask_for_credit<P: Port>(&mut self, node: &mut Node<P>, now: Moment) {
        let State::Used(producer) = &mut self.state else { return };
        let key = Key(self.keeper.credit_key());
        match producer.credit {
            Credit::Open(_) => {}
            Credit::Unknown if key != Key(0) => {
                // An error means that its connection is over: the next completion reports it.
                let asked = node.import(producer.endpoint, credit_name(key), key);
                producer.credit = asked.map_or(Credit::Unknown, Credit::Asked);
            }
            _ if now.since(producer.since) > HALF_OPEN_MAX => self.dismiss(node, Leave::NoCredit),
            _ => {}
        }
    }

    fn end_strangers<P: Port>(&mut self, node: &mut Node<P>, now: Moment) {
        let late = |of: &Stranger| now.since(of.since) > HALF_OPEN_MAX;
        while let Some(place) = self.strangers.iter().position(late) {
            let endpoint = self.strangers.swap_remove(place).endpoint;
            self.counters.strangers += 1;
            let address = node.peer_address(endpoint);
            self.report(RingEvent::Stranger { address });
            // An error says that it is over already.
            let _ = node.disconnect(endpoint);
        }
    }

    /// Admits the producer, and notifies it of free room, once per quarter of the ring or when
    /// everything is read; returns true when there was room to report.
    fn give_back<P: Port>(&mut self, node: &mut Node<P>) -> bool {
        let State::Used(producer) = &mut self.state else { return false };
        let Credit::Open(remote) = producer.credit else { return false };
        let head = self.keeper.head();
        if let Some(given) = producer.given {
            let behind = head.saturating_sub(given);
            if behind == 0 || (behind < self.size / 4 && self.keeper.unread_bytes() > 0) {
                return false;
            }
        }
        let word = head.to_le_bytes();
        let (from, to) = (Local::Bytes(&word), Target { remote, offset: 0 });
        let put = Work::Put { from, to, notify: None, complete_at: None };
        // A full queue only delays it.
        let posted = node.post(producer.endpoint, 0, put).is_ok();
        if posted {
            producer.given = Some(head);
        }
        posted
    }
}

#[cfg(test)]
mod tests;
