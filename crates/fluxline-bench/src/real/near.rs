//! The near side: connects to the far side, sends orders, and measures.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use fluxline::pin;
use fluxline_core::fabric::Capabilities;
use serde_json::Value;

use super::ANSWER_LIMIT;
use super::link::Link;
use super::runner::{self, Runner, Trial, Watch};
use crate::Error;
use crate::control::{Channel, Greeting, Message};
use crate::environment::{Conversation, Environment, NearEnd, Service, Stop};
use crate::role::{JoinConfig, Side, TrialKind};

/// Half an arena \[byte\]: NetPIPE's largest message with its pools of 10 MB for a cold cache.
/// Source: NetPIPE 3.7.1, MEMSIZE 10 000 000 and 16 KiB alignment.
const HALF_BYTES: u64 = 12 << 20;
/// The longest time of connecting.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The longest time of a service after its near end is done.
const SERVICE_LIMIT: Duration = Duration::from_secs(120);

/// Receives the number of steps done, the number of all steps, and what comes next.
pub type Progress = Box<dyn FnMut(usize, usize, &str)>;

/// The address of the far side, and the settings of the near side.
pub struct NearConfig {
    /// The link.
    pub link: Link,
    /// Its URL, as it was given.
    pub url: String,
    /// The address of the far side.
    pub control: SocketAddr,
    /// The far side's key.
    pub key: String,
    /// The own core and, if it is on this host, the far side's.
    pub cores: [Option<usize>; 2],
    /// Receives the progress.
    pub progress: Progress,
    /// Set when the user interrupts.
    pub stop: Stop,
}

/// The near side of a benchmark on a real link.
pub struct Near {
    config: NearConfig,
    channel: Channel,
    environment: Value,
    addresses: [IpAddr; 2],
    group: String,
    cores_sent: bool,
    runner: Option<Runner>,
    trials: u8,
}

impl Near {
    /// Connects and greets. To be called in the thread that will measure, since it pins itself.
    ///
    /// Errors: no far side, a wrong key, another version.
    pub fn connect(config: NearConfig) -> Result<Near, Error> {
        if let Some(core) = config.cores[0] {
            pin::pin_current_thread(core).map_err(|error| Error::Input(error.to_string()))?;
        }
        let address = config.control;
        let no_peer = |source| Error::NoPeer { address: address.to_string(), source };
        let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT).map_err(no_peer)?;
        let local = stream.local_addr().map_err(no_peer)?.ip();
        let mut channel = Channel::new(stream)?;
        let (key, link) = (config.key.clone(), config.url.clone());
        channel.send(&Message::Hello { greeting: Greeting::ours(), key, link })?;
        let environment = match channel.wait(ANSWER_LIMIT, &config.stop)? {
            Some(Message::Welcome { greeting, environment }) => {
                greeting.check()?;
                environment
            }
            Some(Message::Refused { why }) => return Err(Message::rejection(&why)),
            Some(_) => return Err(garbled("no greeting")),
            None => return Err(silent("greet", ANSWER_LIMIT)),
        };
        let group = format!("bench-{}-far", std::process::id());
        Ok(Near {
            config,
            channel,
            environment,
            addresses: [address.ip(), local],
            group,
            cores_sent: false,
            runner: None,
            trials: 0,
        })
    }

    /// Machine, kernel and settings of the far side.
    #[must_use]
    pub fn far_environment(&self) -> &Value {
        &self.environment
    }

    /// Waits for the answer to what was asked; names it when nothing comes.
    fn answer(&mut self, asked: &str, limit: Duration) -> Result<Message, Error> {
        let heard = match &mut self.runner {
            Some(runner) => runner.wait(limit, &mut self.channel, &self.config.stop)?,
            None => self.channel.wait(limit, &self.config.stop)?,
        };
        match heard {
            Some(Message::Failed { why, leaves }) => Err(Message::error(&why, leaves)),
            Some(message) => Ok(message),
            None => Err(silent(asked, limit)),
        }
    }

    fn ready(&mut self) -> Result<(), Error> {
        match self.answer("begin", ANSWER_LIMIT)? {
            Message::Ready => Ok(()),
            _ => Err(garbled("something else than that it is ready")),
        }
    }

    fn finished(&mut self, limit: Duration) -> Result<Value, Error> {
        loop {
            match self.answer("finish", limit)? {
                Message::Finished { outcome } => return Ok(outcome),
                // Said by the far end of a service when nobody listened any more.
                Message::Tell { .. } => {}
                _ => return Err(garbled("something else than its result")),
            }
        }
    }

    /// Waits for the far end's result after the near end failed, if the session goes on. Otherwise
    /// it would be taken for the result of the next order.
    fn settled(&mut self, error: Error, limit: Duration) -> Error {
        if error.ends_session() || matches!(error, Error::PeerFailed { .. }) {
            return error;
        }
        match self.finished(limit) {
            Err(worse) if worse.ends_session() => worse,
            _ => error,
        }
    }

    /// Opens the link at both sides, once.
    fn joined(&mut self) -> Result<&mut Runner, Error> {
        if self.runner.is_none() {
            let [near, far] = self.config.link.nodes(&self.group, self.addresses[1])?;
            let drawn = fluxline::roce::random_key();
            let key = drawn.map_err(|error| Error::Refused(error.to_string()))?.0;
            self.order_open(far, key)?;
            let Message::Opened { peer } = self.answer("open the link", ANSWER_LIMIT)? else {
                return Err(garbled("something else than that its node is open"));
            };
            let (side, half_bytes) = (Side::Near, HALF_BYTES);
            let joins = JoinConfig { side, peer: &peer, half_bytes, key };
            let (fabric, joining) = runner::open(&near, &joins)?;
            let watch = Watch::new(&mut self.channel, &self.config.stop);
            self.runner = Some(Runner::join(fabric, joining, watch)?);
            self.ready()?;
        }
        self.runner.as_mut().ok_or_else(|| garbled("an address without a key"))
    }

    fn order_open(&mut self, url: String, key: u64) -> Result<(), Error> {
        let core = self.config.cores[1];
        self.cores_sent = true;
        self.channel.send(&Message::Open { url, half_bytes: HALF_BYTES, key, core })
    }
}

impl Drop for Near {
    /// Removes what a killed far side left on shared memory.
    fn drop(&mut self) {
        self.runner = None;
        if self.config.link == Link::Shm {
            // Taking a dead node's name and closing it cleans up; a living node keeps its name.
            drop(fluxline::open(&format!("shm://{}/far", self.group)));
        }
    }
}

impl Environment for Near {
    fn link(&self) -> &str {
        &self.config.url
    }

    fn capabilities(&mut self) -> Result<Option<Capabilities>, Error> {
        if !self.config.link.has_fabric() {
            return Ok(None);
        }
        Ok(Some(self.joined()?.site().capabilities))
    }

    fn half_bytes(&self) -> u64 {
        HALF_BYTES
    }

    fn trial(&mut self, kind: &TrialKind, parameters: &Value) -> Result<[Value; 2], Error> {
        let mut role = (kind.make)(parameters, Side::Near)?;
        self.joined()?;
        self.trials = self.trials.wrapping_add(1);
        let (number, parameters) = (self.trials, parameters.clone());
        self.channel.send(&Message::Begin { number, trial: kind.name.to_owned(), parameters })?;
        self.ready()?;
        let Some(runner) = &mut self.runner else {
            return Err(garbled("a trial before the link"));
        };
        let mut watch = Watch::new(&mut self.channel, &self.config.stop);
        let ran = runner.run(Trial { name: kind.name, number }, &mut *role, &mut watch);
        let heard = watch.heard();
        if let Err(error) = ran {
            return Err(self.settled(error, ANSWER_LIMIT));
        }
        let far = match heard {
            Some(Message::Finished { outcome }) => outcome,
            Some(_) => return Err(garbled("something else than its result")),
            None => self.finished(ANSWER_LIMIT)?,
        };
        Ok([role.outcome(), far])
    }

    fn call(
        &mut self,
        service: &Service,
        parameters: &Value,
        near: NearEnd<'_>,
    ) -> Result<[Value; 2], Error> {
        if !self.cores_sent {
            self.order_open(String::new(), 0)?;
            let Message::Opened { .. } = self.answer("choose a core", ANSWER_LIMIT)? else {
                return Err(garbled("something else than that it is pinned"));
            };
        }
        let (service, parameters) = (service.name.to_owned(), parameters.clone());
        self.channel.send(&Message::Call { service, parameters })?;
        self.ready()?;
        let NearConfig { stop, progress, .. } = &mut self.config;
        let (channel, finished) = (&mut self.channel, None);
        let mut conversation = NearConversation { channel, stop, progress, finished };
        let here = near(&mut conversation);
        let finished = conversation.finished;
        let here = match here {
            Ok(here) => here,
            Err(error) => return Err(self.settled(error, SERVICE_LIMIT)),
        };
        let there = match finished {
            Some(outcome) => outcome,
            None => self.finished(SERVICE_LIMIT)?,
        };
        Ok([here, there])
    }

    fn addresses(&self) -> Option<[IpAddr; 2]> {
        let far = self.config.link.address()?;
        let near = if far.is_loopback() { far } else { self.addresses[1] };
        Some([far, near])
    }

    fn progress(&mut self, done: usize, all: usize, what: &str) {
        (self.config.progress)(done, all, what);
    }

    fn stop(&self) -> &Stop {
        &self.config.stop
    }
}

/// The near end of a service's conversation.
struct NearConversation<'a> {
    channel: &'a mut Channel,
    stop: &'a Stop,
    progress: &'a mut Progress,
    finished: Option<Value>,
}

impl Conversation for NearConversation<'_> {
    fn send(&mut self, value: &Value) -> Result<(), Error> {
        self.channel.send(&Message::Tell { value: value.clone() })
    }

    fn receive(&mut self, limit: Duration) -> Result<Option<Value>, Error> {
        if self.finished.is_some() {
            return Err(garbled("its result before it was asked"));
        }
        match self.channel.wait(limit.min(ANSWER_LIMIT * 30), self.stop)? {
            Some(Message::Tell { value }) => Ok(Some(value)),
            Some(Message::Failed { why, leaves }) => Err(Message::error(&why, leaves)),
            Some(Message::Finished { outcome }) => {
                self.finished = Some(outcome);
                Ok(None)
            }
            Some(_) => Err(garbled("something else than an answer")),
            None => Ok(None),
        }
    }

    fn is_over(&mut self) -> bool {
        self.stop.is_over() || self.channel.is_closed()
    }

    fn progress(&mut self, done: usize, all: usize, what: &str) {
        (self.progress)(done, all, what);
    }
}

fn garbled(what: &str) -> Error {
    Error::Garbled { what: what.to_owned() }
}

pub(super) fn silent(asked: &str, limit: Duration) -> Error {
    let how = format!("no answer for {} s, when it was to {asked}", limit.as_secs());
    Error::PeerGone { how }
}
