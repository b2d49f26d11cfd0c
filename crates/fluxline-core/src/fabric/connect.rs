//! Connecting to a peer that may not be there yet, in the same way on every link.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Fabric;
use super::error::ConnectError;
use super::work::{Completion, EndpointId, Reliability, Status};
use crate::{Moment, Span};

/// Time from one attempt to the next.
const RETRY_EVERY: Span = Span::from_ms(5);

/// Connects to a peer that may not be there yet: it tries again until a moment that the caller
/// gives.
///
/// ```
/// use fluxline_core::Span;
/// use fluxline_core::fabric::connect::{Connector, NoConnection};
/// use fluxline_core::fabric::memory::Lab;
/// use fluxline_core::fabric::{Fabric, Reliability};
///
/// let lab = Lab::new();
/// let mut board = lab.node("board")?;
/// let limit = board.now() + Span::from_ms(20);
/// let mut kept = Vec::new(); // completions of other work, which come meanwhile
/// let connector = Connector::new("builder", Reliability::Reliable, limit);
/// assert!(matches!(connector.finish(&mut board, &mut kept), Err(NoConnection::Late { .. })));
///
/// let builder = lab.node("builder")?;
/// let limit = board.now() + Span::from_ms(20);
/// let connector = Connector::new("builder", Reliability::Reliable, limit);
/// let endpoint = connector.finish(&mut board, &mut kept)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Connector {
    peer: String,
    reliability: Reliability,
    until: Moment,
    state: State,
    retry_at: Moment,
    /// The reason why the last attempt failed.
    reason: String,
}

/// The progress of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next attempt begins at `retry_at`.
    Pausing,
    /// An attempt is under way.
    Asked(EndpointId),
    /// The attempt at the deadline was called off; its `Broken` follows.
    Ending(EndpointId),
    Connected(EndpointId),
    /// The attempt to connect has failed for good.
    Over,
}

/// The reason why a connector has not connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoConnection {
    /// Trying again would not help.
    #[error(transparent)]
    Refused(#[from] ConnectError),
    /// The peer was not there in time, or speaks another version.
    #[error("no connection to {peer}; the last attempt failed: {reason}")]
    Late {
        /// The peer.
        peer: String,
        /// The reason why the last attempt failed.
        reason: String,
    },
}

impl Connector {
    /// Returns a connector that tries from the first call on until `until`, a moment of the link.
    #[must_use]
    pub fn new(peer: &str, reliability: Reliability, until: Moment) -> Connector {
        Connector {
            peer: peer.to_string(),
            reliability,
            until,
            state: State::Pausing,
            retry_at: Moment::default(),
            reason: String::from("there was no time for an attempt"),
        }
    }

    /// Does what is due; returns the endpoint once it is connected.
    ///
    /// Poll the fabric, and offer its completions to [`Connector::handle`]. Errors:
    /// [`NoConnection`]; the first attempt is made even after the deadline.
    pub fn progress(
        &mut self,
        fabric: &mut dyn Fabric,
    ) -> Result<Option<EndpointId>, NoConnection> {
        let now = fabric.now();
        match self.state {
            State::Connected(endpoint) => return Ok(Some(endpoint)),
            State::Over => return Err(self.late()),
            State::Pausing if self.retry_at > Moment::default() && now >= self.until => {
                self.state = State::Over;
                return Err(self.late());
            }
            State::Pausing if now >= self.retry_at => self.attempt(fabric, now)?,
            State::Asked(endpoint) if now >= self.until => {
                let _ = fabric.disconnect(endpoint); // an error says that it is over already
                self.state = State::Ending(endpoint);
            }
            State::Pausing | State::Asked(_) | State::Ending(_) => {}
        }
        Ok(None)
    }

    fn attempt(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Result<(), NoConnection> {
        self.retry_at = now + RETRY_EVERY;
        match fabric.connect(&self.peer, self.reliability) {
            Ok(endpoint) => self.state = State::Asked(endpoint),
            Err(ConnectError::Host { reason, .. }) => self.reason = reason,
            Err(error) => {
                self.state = State::Over;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Takes a completion of the fabric; returns it when it is not about this connection.
    pub fn handle(&mut self, what: Completion) -> Option<Completion> {
        match (self.state, &what) {
            (State::Asked(asked), Completion::Connected { endpoint, .. }) if *endpoint == asked => {
                self.state = State::Connected(asked);
            }
            (State::Asked(asked), Completion::Broken { endpoint, status })
                if *endpoint == asked =>
            {
                self.reason = status.to_string();
                // An attempt would bring the same answer.
                let is_final = *status == Status::Version;
                self.state = if is_final { State::Over } else { State::Pausing };
            }
            (State::Ending(asked), Completion::Broken { endpoint, .. }) if *endpoint == asked => {
                self.state = State::Over;
            }
            // It had been connected just before it was called off; `Broken` follows.
            (State::Ending(asked), Completion::Connected { endpoint, .. })
                if *endpoint == asked => {}
            _ => return Some(what),
        }
        None
    }

    /// Waits for the connection. Completions of other work are appended to `others`.
    ///
    /// Errors: [`NoConnection`].
    pub fn finish(
        mut self,
        fabric: &mut dyn Fabric,
        others: &mut Vec<Completion>,
    ) -> Result<EndpointId, NoConnection> {
        loop {
            if let Some(endpoint) = self.progress(fabric)? {
                return Ok(endpoint);
            }
            let now = fabric.now();
            match fabric.poll(now) {
                Some(what) => others.extend(self.handle(what)),
                None => fabric.wait(self.next_call()),
            }
        }
    }

    /// Returns when the next call is due at the latest.
    fn next_call(&self) -> Moment {
        if self.state == State::Pausing { self.retry_at.min(self.until) } else { self.until }
    }

    fn late(&self) -> NoConnection {
        NoConnection::Late { peer: self.peer.clone(), reason: self.reason.clone() }
    }
}
