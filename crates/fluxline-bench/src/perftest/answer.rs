//! The part of a server in a test: buffers for messages, and the answers of a ping-pong.

use std::sync::Arc;

use fluxline_core::fabric::{
    Completion, Fabric, Level, Local, Memory, Operation as Posted, PostError, RegionId, Slice,
    Status, Target, Work,
};

use super::error::Error;
use super::program::{Operation, Program};
use super::session::Session;

/// Buffers for messages. Source: half of perftest's `--rx-depth`.
const BUFFERS: u64 = 256;
/// The longest memory for them \[byte\].
const BUFFER_BYTES_MAX: u64 = 64 << 20;

/// The memory of messages and of ping-pongs.
pub struct Answerer {
    kind: Kind,
    /// Messages of the peer so far.
    pub received: u64,
    /// Messages of this end so far.
    pub sent: u64,
}

enum Kind {
    /// The peer reads and writes memory by itself.
    Nothing,
    /// The peer's messages take buffers.
    Messages { buffers: RegionId, is_answered: bool },
    /// The last byte of the memory counts the peer's writes.
    Writes { memory: Arc<dyn Memory> },
}

impl Answerer {
    /// Prepares the test: messages have their buffers from now on.
    pub fn new(session: &mut Session<'_>) -> Result<Answerer, Error> {
        let Program { operation, is_latency } = session.plan.program;
        let kind = match operation {
            Operation::Send => {
                let bytes = session.plan.bytes;
                let count = (BUFFER_BYTES_MAX / bytes).clamp(2, BUFFERS);
                let buffers = session.node.register(count * bytes)?;
                let endpoints: Vec<_> = session.pairs.iter().map(|pair| pair.endpoint).collect();
                for number in 0..count {
                    let into = Slice { region: buffers, offset: number * bytes, bytes };
                    // Several queue pairs share the buffers' memory: nobody reads it.
                    for &endpoint in &endpoints {
                        session.node.post_receive(endpoint, number, into)?;
                    }
                }
                Kind::Messages { buffers, is_answered: is_latency }
            }
            Operation::Write if is_latency => Kind::Writes { memory: session.own_memory()? },
            _ => Kind::Nothing,
        };
        Ok(Answerer { kind, received: 0, sent: 0 })
    }

    /// Takes what came and answers it.
    pub fn turn(&mut self, session: &mut Session<'_>) -> Result<(), Error> {
        while let Some(completion) = session.completions.pop_front() {
            self.take(session, &completion)?;
        }
        if let Kind::Writes { memory } = &self.kind {
            let memory = Arc::clone(memory);
            self.turn_of_writes(session, &*memory)?;
        }
        Ok(())
    }

    /// Looks for the peer's next write. The server writes first.
    fn turn_of_writes(
        &mut self,
        session: &mut Session<'_>,
        memory: &dyn Memory,
    ) -> Result<(), Error> {
        let mut last = [0];
        memory.read(session.plan.bytes - 1, &mut last)?;
        if self.sent > self.received && last[0] == (self.received + 1) as u8 {
            self.received += 1;
        }
        if self.sent == self.received && write_count(session, self.sent + 1)? {
            self.sent += 1;
        }
        Ok(())
    }

    fn take(&mut self, session: &mut Session<'_>, completion: &Completion) -> Result<(), Error> {
        let Completion::Done { endpoint, tag, operation, status, value } = *completion else {
            return Ok(());
        };
        let Kind::Messages { buffers, is_answered } = self.kind else {
            return failed(session, status);
        };
        let bytes = session.plan.bytes;
        match (operation, status) {
            (Posted::Receive, Status::TooLong) => return Err(Error::TooLong { bytes }),
            (Posted::Receive, Status::Done) => {}
            _ => return failed(session, status),
        }
        self.received += 1;
        let into = Slice { region: buffers, offset: tag * bytes, bytes };
        session.node.post_receive(endpoint, tag, into)?;
        if is_answered {
            let from = Slice { bytes: value, ..into };
            let work = Work::Send { from: Local::Region(from), complete_at: None };
            session.node.post(endpoint, tag, work)?;
            self.sent += 1;
        }
        Ok(())
    }
}

fn failed(session: &Session<'_>, status: Status) -> Result<(), Error> {
    match status {
        Status::Done => Ok(()),
        status => Err(Error::Broken { phase: session.phase, status }),
    }
}

/// Writes a message whose last byte is the low byte of `count`. Returns false if the queue is full.
pub fn write_count(session: &mut Session<'_>, count: u64) -> Result<bool, Error> {
    let mut message = vec![0; session.plan.bytes as usize];
    if let Some(last) = message.last_mut() {
        *last = count as u8;
    }
    let pair = &session.pairs[0];
    let (endpoint, remote) = (pair.endpoint, pair.remote);
    let remote = remote.ok_or_else(|| Error::Refused("the peer has no memory".to_owned()))?;
    let work = Work::Put {
        from: Local::Bytes(&message),
        to: Target { remote, offset: 0 },
        notify: None,
        complete_at: Some(Level::Placed),
    };
    match session.node.post(endpoint, count, work) {
        Ok(()) => Ok(true),
        Err(PostError::Full) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
