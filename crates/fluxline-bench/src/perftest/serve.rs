//! The server of a test: the peer's program is the client.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fluxline::roce::RoceNode;

use super::answer::Answerer;
use super::error::{Error, Phase};
use super::message::{DONE, Report};
use super::outcome::Outcome;
use super::plan::Plan;
use super::session::{Accepted, Message, Parts, Session, Side, open_node};
use crate::Stop;

/// A client has to send its version within this time.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// The time between two looks for a client.
const NAP: Duration = Duration::from_millis(5);

/// Waits for a client of perftest.
pub struct Server {
    listener: TcpListener,
    node: RoceNode,
    plan: Plan,
}

impl Server {
    /// Listens at an address of this machine, and opens its port for remote memory.
    ///
    /// Errors: an address or port is taken, or not of this machine.
    pub fn bind(address: SocketAddr, plan: Plan) -> Result<Server, Error> {
        let node = open_node(plan.own.unwrap_or(address.ip()))?;
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = bind().map_err(Error::host(format!("listening at {address}")))?;
        Ok(Server { listener, node, plan })
    }

    /// Returns the address that it listens at.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves the first client that greets as perftest does; `report` gets a sentence for each that
    /// does not.
    ///
    /// Errors: the test failed, or was interrupted.
    pub fn serve(mut self, stop: &Stop, report: &dyn Fn(&str)) -> Result<Outcome, Error> {
        loop {
            let (stream, from) = self.accept(stop)?;
            let Server { node, plan, .. } = &mut self;
            let parts = Parts { plan, node, stream, side: Side::Server, stop };
            match Session::greet(parts, GREETING_LIMIT.min(plan.limit)) {
                Ok(session) => return serve(session),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report(&format!("{from}: {error}; still waiting for a client.")),
            }
        }
    }

    fn accept(&self, stop: &Stop) -> Result<(TcpStream, SocketAddr), Error> {
        loop {
            match self.listener.accept() {
                Ok(found) => return Ok(found),
                Err(error) if is_passing(error.kind()) => std::thread::sleep(NAP),
                Err(error) => return Err(Error::host("waiting for a client")(error)),
            }
            if stop.is_over() {
                return Err(Error::Interrupted);
            }
        }
    }
}

/// Returns true for errors of a client that left, and while no client waits.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}

/// Serves a client that has greeted.
fn serve(mut session: Session<'_>) -> Result<Outcome, Error> {
    let program = session.plan.program;
    let (mut barriers, mut answerer, mut report) = (0, None, None);
    loop {
        match session.message()? {
            Some(Message::Key(theirs)) => {
                let Accepted { ours, is_barrier } = session.accept_key(&theirs)?;
                barriers += u32::from(is_barrier);
                if is_barrier && barriers == program.barriers() {
                    // Before the answer: the peer's messages need their buffers at once.
                    session.phase = Phase::Test;
                    answerer = Some(Answerer::new(&mut session)?);
                }
                session.send(&ours.emit())?;
            }
            Some(Message::Number(first)) => {
                session.phase = Phase::End;
                report = Some(exchange_report(&mut session, first)?);
            }
            Some(Message::Done) => {
                session.send(&DONE)?;
                break;
            }
            None => {
                // A client that leaves may have done its last operation since the last look.
                let is_over = session.is_over();
                if let Some(answerer) = &mut answerer {
                    answerer.turn(&mut session)?;
                }
                if is_over && is_end(&session, answerer.as_ref()) {
                    break;
                }
                if is_over {
                    return Err(Error::Ended { phase: session.phase });
                }
                session.step(session.plan.limit)?;
            }
        }
    }
    outcome(&mut session, report)
}

/// Returns the result. Errors: no operation came.
fn outcome(session: &mut Session<'_>, report: Option<Report>) -> Result<Outcome, Error> {
    if session.done.operations == 0 {
        return Err(Error::Nothing { hint: session.hint() });
    }
    let (terms, frames) = (session.terms(), session.frames());
    let mut outcome = std::mem::take(&mut session.done).outcome(session.plan, terms, frames);
    if let Some(report) = report {
        outcome.set_sizes(&report);
    }
    Ok(outcome)
}

/// Returns true when a client may end now without a message.
fn is_end(session: &Session<'_>, answerer: Option<&Answerer>) -> bool {
    let received = answerer.map_or(0, |answerer| answerer.received);
    !session.plan.program.has_end() && received >= session.plan.operations
}

/// Answers the five numbers of a client's results with those of this end.
fn exchange_report(session: &mut Session<'_>, first: [u8; 8]) -> Result<Report, Error> {
    let seconds = session.done.took.as_secs_f64().max(1e-9);
    let operations = session.done.operations;
    let ours = Report {
        bytes: session.plan.bytes,
        operations,
        mib_per_s: (session.plan.bytes * operations) as f64 / seconds / f64::from(1 << 20),
        million_per_s: operations as f64 / seconds / 1e6,
    };
    let ours = ours.messages();
    let mut theirs = [first; 5];
    session.send(&ours[0])?;
    for number in 1..ours.len() {
        theirs[number] = session.exchange(ours[number], session.plan.limit)?;
    }
    Ok(Report::parse(&theirs))
}
