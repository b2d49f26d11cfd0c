//! Messages of programs: departures, acknowledgements, repetitions, ends.

use super::super::routes::Path;
use super::driver::{Driver, Flight, Item, Place};
use super::entry::Task;
use super::envelope::{Content, Envelope};
use super::{Cargo, Entry, Managed, Sent, Serial};
use crate::core::agenda::{Part, Schedule};
use crate::core::interconnect::{Class, Interconnect, Refusal, Refused, Report, SendId};

/// Acknowledgements in one message. A choice.
const ACKNOWLEDGED_MAX: usize = 64;
/// Messages of a node that are in the network at a time while routes are not proved. A choice: with
/// more, removals and repetitions near saturation leave little room for anything else.
const UNPROVED_MAX: u32 = 2;

impl<C: Cargo + Clone> Managed<C> {
    /// Takes a message of a program.
    pub(super) fn take_message(
        &mut self,
        node: u32,
        cargo: C,
        agenda: &mut impl Schedule<Entry>,
    ) -> Result<SendId, Refused<C>> {
        let (target, port, now) = (cargo.target(), cargo.port(), agenda.now());
        let is_node = |of: u32| self.is_alive.get(of as usize).is_some();
        let is_port = port.max(cargo.target_port()) < 4;
        let is_right = is_node(node) && is_node(target) && is_port;
        if !is_right || cargo.bytes() > u32::MAX / 2 || !self.is_alive[node as usize] {
            return Err(Refused { frame: cargo, why: Refusal::Never });
        }
        if self.lacks_route(node, target) {
            return Err(Refused { frame: cargo, why: Refusal::Never });
        }
        let driver = &mut self.drivers[node as usize];
        let is_full = driver.open[usize::from(port)] >= self.settings.window;
        if is_full || driver.is_stretched(target) {
            driver.has_refused = true;
            return Err(Refused { frame: cargo, why: Refusal::Full });
        }
        driver.open[usize::from(port)] += 1;
        let sequence = driver.next_sequence(target);
        self.messages += 1;
        self.totals.taken += 1;
        let message = self.messages;
        let (place, path) = (Place::Queued, Path::default());
        let flight = Flight { cargo, sequence, place, path, tries: 0, since: now };
        driver.flights.insert(message, flight);
        driver.queue(message, port, now);
        self.remind(node, message, agenda);
        self.pump(node, agenda);
        Ok(SendId(message))
    }

    /// Returns true if a node has routes now, and none to a target.
    fn lacks_route(&self, node: u32, target: u32) -> bool {
        let table = self.agents[node as usize].routes();
        node != target && table.is_some_and(|table| !table.rows.contains_key(&Serial::of(target)))
    }

    /// Looks at a message again when it may have waited too long for a route.
    fn remind(&self, node: u32, message: u64, agenda: &mut impl Schedule<Entry>) {
        let task = Task::Repeat(message);
        agenda.schedule_after(self.settings.patience, Entry::Node { node, task });
    }

    /// Gives the chip of a node as much as it takes: letters first.
    pub(super) fn pump(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        for port in 0..4 {
            while let Some(letter) = self.drivers[node as usize].letters[port].pop_front() {
                let bytes = u64::from(letter.bytes());
                let content = Content::Letter(letter);
                let (path, port) = (Managed::<C>::one_link(port as u8), port as u8);
                let envelope = Envelope { from: node, path, port, target_port: port, content };
                if let Given::NoRoom(back) = self.give(node, envelope, agenda) {
                    if let Content::Letter(letter) = back.content {
                        self.drivers[node as usize].letters[usize::from(port)].push_front(letter);
                    }
                    break;
                }
                self.counts.letters += 1;
                self.counts.letter_bytes += bytes;
            }
            if self.agents[node as usize].routes().is_some() {
                self.pump_messages(node, port, agenda);
            }
        }
    }

    /// Gives a message to the chip; one that finds no room comes back.
    fn give(
        &mut self,
        node: u32,
        envelope: Envelope<C>,
        agenda: &mut impl Schedule<Entry>,
    ) -> Given<C> {
        match self.network.send(node, envelope, &mut Part::<_, Entry>::of(agenda)) {
            Ok(send) => Given::Taken(send),
            Err(Refused { frame, why: Refusal::Full }) => Given::NoRoom(frame),
            Err(_) => Given::Never,
        }
    }

    fn pump_messages(&mut self, node: u32, port: usize, agenda: &mut impl Schedule<Entry>) {
        let is_safe = self.agents[node as usize].is_safe();
        while let Some(item) = self.drivers[node as usize].items[port].pop_front() {
            let driver = &mut self.drivers[node as usize];
            let is_message = matches!(item, Item::Message(_));
            if is_message && !is_safe && driver.under_way >= UNPROVED_MAX {
                return driver.items[port].push_front(item);
            }
            let envelope = match item {
                Item::Message(number) => self.envelope_of(node, number),
                Item::Acknowledge(source) => self.acknowledgement(node, source, port),
            };
            let Some(envelope) = envelope else { continue };
            let path = envelope.path;
            let sent = self.give(node, envelope, agenda);
            let send = match sent {
                Given::NoRoom(back) => return self.put_back(node, port, item, back),
                Given::Taken(send) => Some(send),
                Given::Never => None,
            };
            match item {
                Item::Message(message) => {
                    let driver = &mut self.drivers[node as usize];
                    let Some(flight) = driver.flights.get_mut(&message) else { continue };
                    flight.tries += 1;
                    self.counts.repeated += u64::from(flight.tries > 1);
                    (flight.place, flight.path) = (Place::Network, path);
                    if let Some(SendId(send)) = send {
                        driver.under_way += 1;
                        self.sent.insert(send, Sent { node, message });
                    }
                }
                Item::Acknowledge(_) => self.counts.acknowledgements += 1,
            }
        }
    }

    /// Puts an item back that the chip has no room for.
    fn put_back(&mut self, node: u32, port: usize, item: Item, back: Envelope<C>) {
        let driver = &mut self.drivers[node as usize];
        if let (Item::Acknowledge(source), Content::Acknowledgement(numbers)) =
            (&item, back.content)
        {
            numbers.into_iter().for_each(|number| {
                driver.owe(*source, number);
            });
        }
        driver.items[port].push_front(item);
    }

    /// Returns the path to a node by the routes in use.
    fn path_to(&self, node: u32, target: u32) -> Option<Path> {
        let table = self.agents[node as usize].routes()?;
        if node == target {
            return Some(Path::default());
        }
        table.rows.get(&Serial::of(target)).map(|row| row.path)
    }

    /// Makes the envelope of a message; one without a route ends.
    fn envelope_of(&mut self, node: u32, number: u64) -> Option<Envelope<C>> {
        let driver = &self.drivers[node as usize];
        let flight = driver.flights.get(&number).filter(|flight| flight.place == Place::Queued)?;
        let target = flight.cargo.target();
        let Some(path) = self.path_to(node, target) else {
            self.end(node, number, End::Lost);
            return None;
        };
        let base = self.drivers[node as usize].base(target);
        let flight = self.drivers[node as usize].flights.get(&number)?;
        let (sequence, cargo) = (flight.sequence, flight.cargo.clone());
        let (port, target_port) = (cargo.port(), cargo.target_port());
        let content = Content::Message { number, sequence, base, cargo };
        Some(Envelope { from: node, path, port, target_port, content })
    }

    fn acknowledgement(&mut self, node: u32, source: u32, port: usize) -> Option<Envelope<C>> {
        let path = self.path_to(node, source);
        let numbers = self.drivers[node as usize].take_owed(source, ACKNOWLEDGED_MAX);
        if self.drivers[node as usize].owes(source) {
            self.drivers[node as usize].items[port].push_front(Item::Acknowledge(source));
        }
        // Without a route, the source will hear of the messages when it repeats them.
        let content = Content::Acknowledgement(numbers);
        let port = port as u8;
        Some(Envelope { from: node, path: path?, port, target_port: port, content })
    }

    /// Handles everything that has left or reached the chips.
    pub(super) fn after_chips(&mut self, agenda: &mut impl Schedule<Entry>) {
        while let Some(report) = self.network.next_report() {
            match report {
                Report::Received { node, class: _ } => {
                    let mut part = Part::<_, Entry>::of(agenda);
                    if let Some(of) = self.network.take(node, Class::Request, &mut part) {
                        self.received(node, of, agenda);
                    }
                }
                Report::Done { send, .. } | Report::Lost { send, .. } => {
                    if let Some(Sent { node, message }) = self.sent.remove(&send.0) {
                        self.has_left(node, message, agenda);
                        self.pump(node, agenda);
                    }
                }
                Report::Space { node } => self.pump(node, agenda),
                Report::Dropped { .. } => {}
            }
        }
    }

    /// Notes that a message has left the network: it arrived, or was lost. The driver does not
    /// know which; it waits for the acknowledgement from now on.
    fn has_left(&mut self, node: u32, message: u64, agenda: &mut impl Schedule<Entry>) {
        let driver = &mut self.drivers[node as usize];
        driver.under_way = driver.under_way.saturating_sub(1);
        let Some(flight) = driver.flights.get_mut(&message) else { return };
        if flight.place != Place::Network {
            return;
        }
        let wait = Driver::<C>::wait(self.settings.repeat_after, flight.tries);
        let due = agenda.now() + wait;
        flight.place = Place::Left(due);
        agenda.schedule(due, Entry::Node { node, task: Task::Repeat(message) });
    }

    fn received(&mut self, node: u32, envelope: Envelope<C>, agenda: &mut impl Schedule<Entry>) {
        let Envelope { from, content, .. } = envelope;
        if !self.is_alive[node as usize] {
            return;
        }
        match content {
            Content::Letter(letter) => self.letter_arrived(node, from, letter, agenda),
            Content::Acknowledgement(numbers) => {
                numbers.into_iter().for_each(|number| self.end(node, number, End::Done));
            }
            Content::Message { number, sequence, base, cargo } => {
                if self.drivers[node as usize].receive(from, sequence, base) {
                    self.totals.arrived += 1;
                    self.arrived[node as usize].push_back(cargo);
                    self.reports.push_back(Report::Received { node, class: Class::Request });
                } else {
                    self.counts.duplicates += 1;
                }
                if self.drivers[node as usize].owe(from, number) {
                    let task = Task::Acknowledge(from);
                    agenda.schedule_after(self.settings.ack_delay, Entry::Node { node, task });
                }
            }
        }
    }

    /// Queues the acknowledgements for a node, ahead of messages.
    pub(super) fn acknowledge(
        &mut self,
        node: u32,
        source: u32,
        agenda: &mut impl Schedule<Entry>,
    ) {
        self.drivers[node as usize].items[0].push_front(Item::Acknowledge(source));
        self.pump(node, agenda);
    }

    /// Repeats a message that is overdue, or ends it.
    pub(super) fn repeat(&mut self, node: u32, message: u64, agenda: &mut impl Schedule<Entry>) {
        let now = agenda.now();
        let has_routes = self.agents[node as usize].routes().is_some();
        let driver = &mut self.drivers[node as usize];
        let Some(flight) = driver.flights.get(&message) else { return };
        match flight.place {
            Place::Left(due) if due <= now => {
                if flight.tries >= self.settings.tries {
                    return self.end(node, message, End::Lost);
                }
                let port = flight.cargo.port();
                driver.queue(message, port, now);
                self.remind(node, message, agenda);
                self.pump(node, agenda);
            }
            Place::Queued if !has_routes => {
                if now.since(flight.since) >= self.settings.patience {
                    return self.end(node, message, End::Lost);
                }
                self.remind(node, message, agenda);
            }
            Place::Queued | Place::Left(_) | Place::Network => {}
        }
    }

    /// Follows a change of a node's routes: messages that went another way are repeated at once,
    /// and those without a route end.
    pub(super) fn routes_changed(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        if self.agents[node as usize].routes().is_none() {
            return;
        }
        let flights = &self.drivers[node as usize].flights;
        let now = agenda.now();
        let all: Vec<u64> = flights.keys().copied().collect();
        for message in all {
            let Some(flight) = self.drivers[node as usize].flights.get(&message) else { continue };
            let (target, port, place) = (flight.cargo.target(), flight.cargo.port(), flight.place);
            let before = flight.path;
            match self.path_to(node, target) {
                None => self.end(node, message, End::Lost),
                Some(path) if matches!(place, Place::Left(_)) && path != before => {
                    self.drivers[node as usize].queue(message, port, now);
                }
                Some(_) => {}
            }
        }
        self.pump(node, agenda);
    }

    /// Ends a message at its sender.
    pub(super) fn end(&mut self, node: u32, message: u64, end: End) {
        let driver = &mut self.drivers[node as usize];
        let Some(flight) = driver.flights.remove(&message) else { return };
        driver.open[usize::from(flight.cargo.port())] -= 1;
        let send = SendId(message);
        if std::mem::take(&mut driver.has_refused) {
            self.reports.push_back(Report::Space { node });
        }
        match end {
            End::Done => {
                self.totals.done += 1;
                self.reports.push_back(Report::Done { node, send });
            }
            End::Lost => {
                self.totals.lost += 1;
                self.counts.given_up += 1;
                self.reports.push_back(Report::Lost { node, send });
            }
        }
    }
}

/// The answer of a chip to a message.
enum Given<C> {
    /// It has the message.
    Taken(SendId),
    /// The chip has no room now; the message comes back.
    NoRoom(Envelope<C>),
    /// The node has lost its power, or the port has no cable.
    Never,
}

/// The end of a message at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was acknowledged.
    Done,
    /// It has no route, or too many departures brought no acknowledgement.
    Lost,
}
