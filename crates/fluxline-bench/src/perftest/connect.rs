//! The client of a test: the peer's program is the server.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fluxline_core::fabric::{
    Completion, Fabric, Level, Local, Memory, Operation as Posted, PostError, Slice, Status,
    Target, Work,
};

use super::answer::write_count;
use super::error::{Error, Phase};
use super::message::{DONE, Report};
use super::outcome::{Latency, Outcome, Progress};
use super::plan::Plan;
use super::program::Operation;
use super::session::{Parts, Session, Side, open_node};
use crate::Stop;

/// Operations under way. Source: perftest's `--tx-depth`.
const DEPTH: u64 = 128;
/// The longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Runs a test against a server of perftest.
///
/// Errors: no server, or the test failed.
pub fn connect(server: SocketAddr, plan: &Plan, stop: &Stop) -> Result<Outcome, Error> {
    let program = plan.program;
    let limit = CONNECT_LIMIT.min(plan.limit);
    let stream = TcpStream::connect_timeout(&server, limit).map_err(|source| Error::NoServer {
        address: server,
        program,
        source,
    })?;
    let local = stream.local_addr().map_err(Error::host("the TCP connection"))?;
    let mut node = open_node(plan.own.unwrap_or(local.ip()))?;
    let parts = Parts { plan, node: &mut node, stream, side: Side::Client, stop };
    let mut session = Session::greet(parts, plan.limit)?;
    session.offer_pair()?;
    let mut test = Test::new(&mut session)?;
    for _ in 1..program.barriers() {
        session.barrier()?;
    }
    match (program.operation, program.is_latency) {
        (Operation::Write, true) => test.ping_pong_of_writes(&mut session)?,
        (Operation::Send, true) => test.ping_pong_of_messages(&mut session)?,
        (_, true) => test.run(&mut session, 1)?,
        (_, false) => test.run(&mut session, DEPTH)?,
    }
    session.phase = Phase::End;
    finish(&mut session, &test.done)?;
    let (terms, frames) = (session.terms(), session.frames());
    let mut outcome = test.done.outcome(plan, terms, frames);
    outcome.latency = Latency::of(&test.times).filter(|_| program.is_latency);
    Ok(outcome)
}

/// Exchanges the results and says goodbye, as the server expects.
fn finish(session: &mut Session<'_>, done: &Progress) -> Result<(), Error> {
    let program = session.plan.program;
    if program.has_report() {
        session.barrier()?;
        let seconds = done.took.as_secs_f64().max(1e-9);
        let bytes = session.plan.bytes;
        let report = Report {
            bytes,
            operations: done.operations,
            mib_per_s: (bytes * done.operations) as f64 / seconds / f64::from(1 << 20),
            million_per_s: done.operations as f64 / seconds / 1e6,
        };
        for number in report.messages() {
            session.exchange(number, session.plan.limit)?;
        }
    }
    if program.has_end() {
        session.barrier()?;
        // The server may have left: nothing is at stake any more.
        let _ = session.send(&DONE);
    }
    Ok(())
}

/// The operations of a test.
struct Test {
    source: Slice,
    done: Progress,
    /// The times of single operations, or half of those of two messages \[us\].
    times: Vec<f64>,
    /// Writes that have arrived.
    placed: u64,
}

impl Test {
    fn new(session: &mut Session<'_>) -> Result<Test, Error> {
        // Words are 8 bytes; an atomic's source is not used.
        let bytes = session.plan.bytes;
        let region = session.node.register(bytes.max(8))?;
        let source = Slice { region, offset: 0, bytes };
        Ok(Test { source, done: Progress::default(), times: Vec::new(), placed: 0 })
    }

    /// Does all operations, up to `depth` at a time.
    fn run(&mut self, session: &mut Session<'_>, depth: u64) -> Result<(), Error> {
        let operations = session.plan.operations;
        let mut posted = 0;
        self.done.add(0);
        let mut began = Instant::now();
        while self.done.operations < operations {
            while posted < operations && posted - self.done.operations < depth {
                began = Instant::now();
                if !self.post(session, posted)? {
                    break;
                }
                posted += 1;
            }
            session.step(session.plan.limit)?;
            while let Some(completion) = session.completions.pop_front() {
                let Completion::Done { status, .. } = completion else { continue };
                if status != Status::Done {
                    return Err(Error::Broken { phase: session.phase, status });
                }
                self.done.add(1);
                if depth == 1 {
                    self.times.push(began.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        Ok(())
    }

    /// Posts one operation; returns false if the queue is full.
    fn post(&self, session: &mut Session<'_>, tag: u64) -> Result<bool, Error> {
        let pair = &session.pairs[0];
        let (endpoint, remote) = (pair.endpoint, pair.remote);
        let (from, complete_at) = (Local::Region(self.source), Some(Level::Placed));
        let work = match (session.plan.program.operation, remote) {
            (Operation::Send, _) => Work::Send { from, complete_at },
            (_, None) => return Err(Error::Refused("the peer has no memory".to_owned())),
            (Operation::Write, Some(remote)) => {
                let to = Target { remote, offset: 0 };
                Work::Put { from, to, notify: None, complete_at }
            }
            (Operation::Read, Some(remote)) => {
                Work::Get { from: Target { remote, offset: 0 }, into: self.source }
            }
            (Operation::Atomic, Some(remote)) => {
                Work::FetchAdd { at: Target { remote, offset: 0 }, add: 1 }
            }
        };
        match session.node.post(endpoint, tag, work) {
            Ok(()) => Ok(true),
            Err(PostError::Full) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a write and answers it, again and again. The server writes first.
    fn ping_pong_of_writes(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        let memory = session.own_memory()?;
        let mut began = None;
        for number in 1..=session.plan.operations {
            self.await_write(session, &*memory, number)?;
            self.note(began);
            began = Some(Instant::now());
            while !write_count(session, number)? {
                session.step(session.plan.limit)?;
                self.check(session)?;
            }
        }
        self.drain(session)
    }

    /// Waits until the last byte of the memory is the low byte of `number`.
    fn await_write(
        &mut self,
        session: &mut Session<'_>,
        memory: &dyn Memory,
        number: u64,
    ) -> Result<(), Error> {
        loop {
            let mut last = [0];
            memory.read(session.plan.bytes - 1, &mut last)?;
            if last[0] == number as u8 {
                return Ok(());
            }
            if session.is_over() {
                return Err(Error::Ended { phase: session.phase });
            }
            session.step(session.plan.limit)?;
            self.check(session)?;
        }
    }

    /// Sends a message and waits for the answer, again and again.
    fn ping_pong_of_messages(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        let bytes = session.plan.bytes;
        let region = session.node.register(bytes)?;
        let into = Slice { region, offset: 0, bytes };
        let endpoint = session.pairs[0].endpoint;
        session.node.post_receive(endpoint, 0, into)?;
        for number in 0..session.plan.operations {
            let began = Instant::now();
            while !self.post(session, number)? {
                session.step(session.plan.limit)?;
            }
            let mut is_answered = false;
            while !is_answered {
                session.step(session.plan.limit)?;
                is_answered = self.check(session)?;
                if session.is_over() && !is_answered {
                    return Err(Error::Ended { phase: session.phase });
                }
            }
            self.note(Some(began));
            session.node.post_receive(endpoint, number + 1, into)?;
        }
        Ok(())
    }

    /// Takes all completions; returns true when a message came.
    fn check(&mut self, session: &mut Session<'_>) -> Result<bool, Error> {
        let mut has_received = false;
        while let Some(completion) = session.completions.pop_front() {
            let Completion::Done { operation, status, .. } = completion else { continue };
            self.placed += u64::from(operation == Posted::Put);
            match (operation, status) {
                (Posted::Receive, Status::TooLong) => {
                    return Err(Error::TooLong { bytes: session.plan.bytes });
                }
                (_, Status::Done) => has_received |= operation == Posted::Receive,
                (_, status) => return Err(Error::Broken { phase: session.phase, status }),
            }
        }
        Ok(has_received)
    }

    /// Counts one operation, and half the time since the message of this end.
    fn note(&mut self, began: Option<Instant>) {
        self.done.add(1);
        if let Some(began) = began {
            self.times.push(began.elapsed().as_secs_f64() * 1e6 / 2.0);
        }
    }

    /// Waits until the last write has arrived: the server ends without a message.
    fn drain(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        while self.placed < session.plan.operations && !session.is_over() {
            session.step(session.plan.limit)?;
            self.check(session)?;
        }
        Ok(())
    }
}
