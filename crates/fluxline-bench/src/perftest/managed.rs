//! The server of a test whose client connects by rdma_cm: perftest's `-R`.
//!
//! It does not use TCP. The client connects twice: the first connection carries the messages of the
//! exchange, each a SEND; the second one, and one for each further queue pair, is measured. Key
//! messages are binary and name no queue pair. In the end the server disconnects.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::roce::{RoceNode, random_key};
use fluxline_core::endpoint::{ConnectRequest, ManagedTerms, StaticRegion};
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Local, Memory, Operation as Posted, RegionId, Rights, Slice,
    Status, Work,
};

use super::error::{Error, Phase};
use super::message::{
    BINARY_KEY_BYTES, NUMBER_BYTES, Report, VERSION_BYTES, binary_key, is_supported, parse_version,
    version,
};
use super::outcome::{Frames, Outcome, PeerTerms, Progress};
use super::plan::Plan;
use super::program::Operation;
use super::session::{BASE, PAIRS_MAX, SIZES, open_node};
use crate::Stop;

/// Buffers for messages of the exchange: one is under way at a time.
const BUFFERS: u64 = 4;
const BUFFER_BYTES: u64 = 256;
/// Buffers for messages that are measured.
const MEASURED_BUFFERS: u64 = 256;
/// The tag of the answer after which the server disconnects.
const LAST: u64 = u64::MAX;
const NAP: Duration = Duration::from_millis(1);

/// A measured connection.
struct Measured {
    endpoint: EndpointId,
    /// Requests done so far, as the endpoint counts them.
    requests: u32,
    frames: Frames,
}

/// A test over rdma_cm.
struct Test<'a> {
    plan: &'a Plan,
    node: RoceNode,
    /// The connection of the exchange.
    control: Option<EndpointId>,
    messages: RegionId,
    memory: Arc<dyn Memory>,
    measured: Vec<Measured>,
    measured_memory: RegionId,
    /// The random key of the measured memory.
    key: u32,
    done: Progress,
    peer: PeerTerms,
    /// Numbers and sizes of the exchange so far.
    numbers: Vec<[u8; NUMBER_BYTES]>,
    sizes: usize,
    is_over: bool,
}

/// Serves one client that connects by rdma_cm to this address and port.
///
/// Errors: the test failed, or was interrupted.
pub fn serve_managed(address: SocketAddr, plan: &Plan, stop: &Stop) -> Result<Outcome, Error> {
    if plan.program.is_ping_pong_of_writes() {
        return Err(Error::NotManaged(plan.program));
    }
    let mut node = open_node(address.ip())?;
    let messages = node.register(BUFFERS * BUFFER_BYTES)?;
    let memory = node.memory(messages)?;
    let measured_memory = node.register(plan.memory_bytes())?;
    node.node().listen(address.port());
    let peer = PeerTerms { address: address.ip(), version: String::new(), path_mtu: 0, pairs: 0 };
    let mut test = Test {
        plan,
        node,
        control: None,
        messages,
        memory,
        measured: Vec::new(),
        measured_memory,
        key: (random_key()?.0 as u32).max(1),
        done: Progress::default(),
        peer,
        numbers: Vec::new(),
        sizes: 0,
        is_over: false,
    };
    test.run(stop)?;
    test.outcome()
}

impl Test<'_> {
    fn run(&mut self, stop: &Stop) -> Result<(), Error> {
        let mut last_progress = Instant::now();
        while !self.is_over {
            if stop.is_over() {
                return Err(Error::Interrupted);
            }
            if self.turn()? {
                last_progress = Instant::now();
                continue;
            }
            let waited = last_progress.elapsed();
            if self.control.is_some() && waited > self.plan.limit {
                let hint = "start both ends with the same program and message size".to_owned();
                return Err(Error::Silent { phase: self.phase(), waited, hint });
            }
            if self.node.wait(NAP).is_err() {
                std::thread::sleep(NAP);
            }
        }
        Ok(())
    }

    /// Does what is due; returns false when there was nothing.
    fn turn(&mut self) -> Result<bool, Error> {
        let mut has_progress = false;
        while let Some(completion) = self.node.next_completion() {
            has_progress = true;
            self.take(&completion)?;
        }
        while let Some(request) = self.node.node().next_request() {
            has_progress = true;
            self.accept(&request)?;
        }
        Ok(self.count() || has_progress)
    }

    fn phase(&self) -> Phase {
        match (self.measured.is_empty(), self.numbers.is_empty()) {
            (true, _) => Phase::Keys,
            (false, true) => Phase::Test,
            (false, false) => Phase::End,
        }
    }

    // ---- connections ----

    fn accept(&mut self, request: &ConnectRequest) -> Result<(), Error> {
        let now = clock::monotonic();
        if self.control.is_none() {
            let terms = ManagedTerms::default();
            let endpoint = self.node.node().accept(request, &terms, now)?;
            for number in 0..BUFFERS {
                self.post_message_buffer(endpoint, number)?;
            }
            self.control = Some(endpoint);
            (self.peer.address, self.peer.path_mtu) = (request.peer, request.path_mtu);
            return Ok(());
        }
        let is_wrong = request.peer != self.peer.address
            || request.reliability != self.plan.reliability
            || self.measured.len() >= PAIRS_MAX;
        if is_wrong {
            self.node.node().reject(request, now);
            return Ok(());
        }
        let (region, rights) = (self.measured_memory, Rights::ALL);
        let own = StaticRegion { region, key: self.key, base: BASE, rights };
        let terms = ManagedTerms { regions: vec![own], private_data: Vec::new() };
        let endpoint = self.node.node().accept(request, &terms, now)?;
        if self.plan.program.operation == Operation::Send {
            for _ in 0..MEASURED_BUFFERS {
                self.post_measured_buffer(endpoint)?;
            }
        }
        self.measured.push(Measured { endpoint, requests: 0, frames: Frames::default() });
        self.peer.pairs = self.measured.len();
        Ok(())
    }

    fn post_message_buffer(&mut self, endpoint: EndpointId, number: u64) -> Result<(), Error> {
        let offset = number * BUFFER_BYTES;
        let into = Slice { region: self.messages, offset, bytes: BUFFER_BYTES };
        Ok(self.node.post_receive(endpoint, number, into)?)
    }

    /// Gives a measured connection a buffer; all share one, because nobody reads it.
    fn post_measured_buffer(&mut self, endpoint: EndpointId) -> Result<(), Error> {
        let into = Slice { region: self.measured_memory, offset: 0, bytes: self.plan.bytes };
        Ok(self.node.post_receive(endpoint, 0, into)?)
    }

    fn take(&mut self, completion: &Completion) -> Result<(), Error> {
        match *completion {
            Completion::Broken { endpoint, status } => self.broken(endpoint, status),
            Completion::Done { status: Status::Flushed, .. } => Ok(()),
            Completion::Done { status: Status::TooLong, .. } => {
                Err(Error::TooLong { bytes: self.plan.bytes })
            }
            Completion::Done { endpoint, tag, operation: Posted::Receive, value, .. } => {
                match Some(endpoint) == self.control {
                    true => self.take_message(tag, value as usize),
                    false => self.take_measured(endpoint, value),
                }
            }
            Completion::Done { tag: LAST, .. } => self.disconnect(),
            _ => Ok(()),
        }
    }

    fn broken(&mut self, endpoint: EndpointId, status: Status) -> Result<(), Error> {
        let is_known = self.measured.iter().any(|of| of.endpoint == endpoint);
        match (status, self.is_over) {
            (_, true) | (Status::Done, _) => Ok(()),
            (Status::Disconnected, _) => Err(Error::Ended { phase: self.phase() }),
            _ if is_known || Some(endpoint) == self.control => {
                Err(Error::Broken { phase: self.phase(), status })
            }
            _ => Ok(()),
        }
    }

    /// Ends the measured connections: the client waits for it.
    fn disconnect(&mut self) -> Result<(), Error> {
        self.count();
        self.is_over = true;
        let all: Vec<EndpointId> = self.measured.iter().map(|of| of.endpoint).collect();
        for endpoint in all {
            // It may be over already.
            let _ = self.node.disconnect(endpoint);
        }
        // The client confirms, and then ends the connection of the exchange itself.
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            match self.node.next_completion() {
                Some(Completion::Broken { endpoint, .. }) if Some(endpoint) == self.control => {
                    break;
                }
                Some(_) => {}
                None => self.node.wait(NAP).map_err(Error::host("waiting for the client"))?,
            }
        }
        Ok(())
    }

    // ---- messages ----

    fn take_measured(&mut self, endpoint: EndpointId, bytes: u64) -> Result<(), Error> {
        self.post_measured_buffer(endpoint)?;
        if self.plan.program.is_latency {
            let from = Slice { region: self.measured_memory, offset: 0, bytes };
            let work = Work::Send { from: Local::Region(from), complete_at: None };
            self.node.post(endpoint, 0, work)?;
        }
        Ok(())
    }

    fn take_message(&mut self, number: u64, bytes: usize) -> Result<(), Error> {
        let mut buffer = [0; BUFFER_BYTES as usize];
        self.memory.read(number * BUFFER_BYTES, &mut buffer)?;
        let message = &buffer[..bytes.min(buffer.len())];
        let Some(control) = self.control else { return Ok(()) };
        self.post_message_buffer(control, number)?;
        match message.len() {
            VERSION_BYTES => self.take_version(message),
            4 => {
                let size = SIZES[self.sizes % SIZES.len()];
                self.sizes += 1;
                self.answer(&size.to_be_bytes(), 0)
            }
            // The connection's path MTU counts; the message is repeated.
            2 => self.answer(message, 0),
            NUMBER_BYTES => self.take_number(message),
            BINARY_KEY_BYTES => {
                let key = binary_key(self.key, BASE);
                let tag = if self.is_last_key() { LAST } else { 0 };
                self.answer(&key, tag)
            }
            bytes => {
                let what = format!("a message of {bytes} bytes");
                Err(Error::Garbled { what, program: self.plan.program })
            }
        }
    }

    /// Returns true when the next key message is the client's farewell.
    fn is_last_key(&mut self) -> bool {
        self.count();
        match self.plan.program.has_report() {
            true => self.numbers.len() == 5,
            false => self.done.operations > 0,
        }
    }

    fn take_version(&mut self, message: &[u8]) -> Result<(), Error> {
        let program = self.plan.program;
        let garbled = || Error::Garbled { what: "no version".to_owned(), program };
        let message = message.first_chunk::<VERSION_BYTES>().ok_or_else(garbled)?;
        let theirs = parse_version(message).ok_or_else(garbled)?;
        if !is_supported(&theirs) {
            return Err(Error::Version { theirs });
        }
        self.peer.version = theirs;
        self.answer(&version(), 0)
    }

    fn take_number(&mut self, message: &[u8]) -> Result<(), Error> {
        if let Some(number) = message.first_chunk::<NUMBER_BYTES>() {
            self.numbers.push(*number);
        }
        self.numbers.truncate(5);
        // The client does not look at the server's numbers.
        self.answer(&[0; NUMBER_BYTES], 0)
    }

    fn answer(&mut self, bytes: &[u8], tag: u64) -> Result<(), Error> {
        let Some(control) = self.control else { return Ok(()) };
        let complete_at = Some(fluxline_core::fabric::Level::Placed);
        let work = Work::Send { from: Local::Bytes(bytes), complete_at };
        Ok(self.node.post(control, tag, work)?)
    }

    // ---- results ----

    /// Counts requests that were done; returns true when there were some.
    fn count(&mut self) -> bool {
        let mut operations = 0;
        for of in &mut self.measured {
            let node = self.node.node();
            let done = node.requests_done(of.endpoint).unwrap_or(of.requests);
            operations += u64::from(done.wrapping_sub(of.requests));
            of.requests = done;
            if let Some(counters) = node.connection_counters(of.endpoint) {
                of.frames = Frames::of(counters);
            }
        }
        if operations > 0 {
            self.done.add(operations);
        }
        operations > 0
    }

    fn outcome(mut self) -> Result<Outcome, Error> {
        if self.done.operations == 0 {
            let hint = "start both ends with the same program and message size".to_owned();
            return Err(Error::Nothing { hint });
        }
        let frames = self.measured.iter().fold(Frames::default(), |sum, of| sum.plus(of.frames));
        let done = std::mem::take(&mut self.done);
        let mut outcome = done.outcome(self.plan, self.peer.clone(), frames);
        if let Ok(numbers) = <[[u8; NUMBER_BYTES]; 5]>::try_from(self.numbers.as_slice()) {
            outcome.set_sizes(&Report::parse(&numbers));
        }
        Ok(outcome)
    }
}
