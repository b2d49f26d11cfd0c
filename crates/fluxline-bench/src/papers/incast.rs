//! All to one: many nodes put into one at once, and none begins before all are connected.
//!
//! The far end opens a node of its own for each trial, the near end as many as asked. One thread
//! drives them in turns, so a machine of two cores measures the link and the receiver, not its
//! scheduler. [`Gather`] and [`Sender`] are machines like roles: virtual time drives them as well.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use fluxline::clock;
use fluxline_core::Moment;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Operation, PostError, RegionId,
    Reliability, RemoteId, Rights, Slice, Target, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::show::{self, Samples, middle, series};
use crate::Error;
use crate::environment::{Conversation, Environment, Plan, Service};
use crate::result::{Experiment, Fact, axis};

/// The service of the far end.
pub const SERVICE: Service = Service { name: "incast", run: serve };
/// Numbers of senders: with `--quick`, and without.
const SENDERS: [&[u64]; 2] = [&[1, 2, 4, 8], &[1, 2, 4, 8, 16, 32]];
/// Bytes of a put: some frames of Ethernet.
const BLOCK_BYTES: u64 = 16 << 10;
/// Bytes of a trial, all senders together: with `--quick`, and without.
const TRIAL_BYTES: [u64; 2] = [8 << 20, 128 << 20];
/// Puts of a sender under way.
const DEPTH: u64 = 8;
/// Completions handled in one step at most.
const STEP_MAX: u32 = 64;
/// Turns between two looks at the other side.
const LOOK_TURNS: u32 = 1 << 12;
/// A trial without progress for this time hangs.
const STALL_LIMIT: Duration = Duration::from_secs(60);
const REGION: &str = "bench-incast";

/// The parameters of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The gathering node's URL.
    pub url: String,
    /// The key of its region.
    pub key: u64,
    /// The number of nodes that put.
    pub senders: u64,
    /// The number of blocks of each.
    pub blocks: u64,
}

/// The measurement of the gathering node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gathered {
    /// From the first block to the last \[s\].
    pub seconds: f64,
    /// Blocks of each sender when the first of them was done.
    pub shares: Vec<u64>,
}

impl Gathered {
    /// Returns how even the shares are: 1 if all are equal, 1 / senders if one has everything.
    /// Source: Jain, Chiu, Hawe 1984.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let shares = || self.shares.iter().map(|share| *share as f64);
        let sum: f64 = shares().sum();
        let squares: f64 = shares().map(|share| share * share).sum();
        sum * sum / (self.shares.len() as f64 * squares).max(f64::MIN_POSITIVE)
    }
}

/// The node that all put into.
pub struct Gather {
    blocks: u64,
    counts: Vec<u64>,
    shares: Option<Vec<u64>>,
    first: Option<Moment>,
    last: Moment,
}

impl Gather {
    /// Exports a region with a place for each sender. Errors: [`Error`].
    pub fn new(fabric: &mut dyn Fabric, task: &Task) -> Result<Gather, Error> {
        let region = fabric.register(task.senders * BLOCK_BYTES)?;
        let grant = Grant { rights: Rights::PUT, key: Key(task.key) };
        fabric.export(region, Name::parse(REGION)?, grant)?;
        let counts = vec![0; task.senders as usize];
        let (blocks, last) = (task.blocks, Moment::default());
        Ok(Gather { blocks, counts, shares: None, first: None, last })
    }

    /// Counts the blocks that came; returns true if there was one. Errors: an unknown sender, or a
    /// sender is gone.
    pub fn step(&mut self, fabric: &mut dyn Fabric, now: Moment) -> Result<bool, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            let Some(what) = fabric.poll(now) else { break };
            worked = true;
            match what {
                Completion::Notified { value, .. } => self.count(value, now)?,
                Completion::Broken { status, .. } if !self.is_done() => {
                    return Err(Error::PeerGone { how: format!("a sender: {status}") });
                }
                _ => {}
            }
        }
        Ok(worked)
    }

    fn count(&mut self, sender: u32, now: Moment) -> Result<(), Error> {
        let nobody = || Error::Defect { what: format!("a block came from sender {sender}") };
        let count = self.counts.get_mut(sender as usize).ok_or_else(nobody)?;
        *count += 1;
        if *count == self.blocks && self.shares.is_none() {
            self.shares = Some(self.counts.clone());
        }
        self.first.get_or_insert(now);
        self.last = now;
        Ok(())
    }

    /// Returns true if all blocks of all senders have arrived.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.counts.iter().all(|count| *count == self.blocks)
    }

    /// Returns its measurement.
    #[must_use]
    pub fn outcome(&self) -> Gathered {
        let span = self.last.since(self.first.unwrap_or_default());
        Gathered {
            seconds: span.as_ns() as f64 / 1e9,
            shares: self.shares.clone().unwrap_or_default(),
        }
    }
}

/// The gathering node, as its senders know it.
#[derive(Clone, Copy, Debug)]
pub struct Gathering<'a> {
    /// Its name.
    pub peer: &'a str,
    /// The key of its region.
    pub key: u64,
}

/// A node that puts.
pub struct Sender {
    number: u32,
    key: Key,
    own: RegionId,
    endpoint: EndpointId,
    remote: Option<RemoteId>,
    is_ready: bool,
    posted: u64,
    placed: u64,
}

impl Sender {
    /// Begins to connect to `peer`. Errors: [`Error`].
    pub fn new(
        fabric: &mut dyn Fabric,
        gathering: &Gathering<'_>,
        number: u32,
    ) -> Result<Sender, Error> {
        let Gathering { peer, key } = *gathering;
        let own = fabric.register(BLOCK_BYTES)?;
        let endpoint = fabric.connect(peer, Reliability::Reliable)?;
        let key = Key(key);
        Ok(Sender {
            number,
            key,
            own,
            endpoint,
            remote: None,
            is_ready: false,
            posted: 0,
            placed: 0,
        })
    }

    /// Returns true if it is ready to begin.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Blocks that are in the peer's memory.
    #[must_use]
    pub fn placed(&self) -> u64 {
        self.placed
    }

    /// Connects, imports, and posts up to `blocks` blocks in all; returns true if it worked.
    pub fn step(
        &mut self,
        fabric: &mut dyn Fabric,
        blocks: u64,
        now: Moment,
    ) -> Result<bool, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            let Some(what) = fabric.poll(now) else { break };
            worked = true;
            self.handle(&what, fabric)?;
        }
        while let Some(remote) = self.remote.filter(|_| self.is_ready) {
            if self.posted == blocks || self.posted - self.placed >= DEPTH {
                break;
            }
            let work = Work::Put {
                from: Local::Region(Slice { region: self.own, offset: 0, bytes: BLOCK_BYTES }),
                to: Target { remote, offset: u64::from(self.number) * BLOCK_BYTES },
                notify: Some(self.number),
                complete_at: Some(Level::Placed),
            };
            match fabric.post(self.endpoint, 0, work) {
                Ok(()) => (self.posted, worked) = (self.posted + 1, true),
                Err(PostError::Full) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(worked)
    }

    fn handle(&mut self, what: &Completion, fabric: &mut dyn Fabric) -> Result<(), Error> {
        match what {
            Completion::Connected { .. } => {
                self.remote = Some(fabric.import(self.endpoint, Name::parse(REGION)?, self.key)?);
            }
            Completion::Imported { status, .. } if !status.is_done() => {
                return Err(Error::Refused(format!("the gathering region: {status}")));
            }
            Completion::Imported { .. } => self.is_ready = true,
            Completion::Done { operation: Operation::Put, status, .. } if status.is_done() => {
                self.placed += 1;
            }
            Completion::Done { operation, status, .. } => {
                return Err(Error::Refused(format!("{operation:?}: {status}")));
            }
            Completion::Broken { status, .. } => {
                return Err(Error::PeerGone { how: format!("the gathering node: {status}") });
            }
            _ => {} // notifications are not asked for
        }
        Ok(())
    }
}

/// Checks the other side and the time, now and then.
struct Watch {
    turns: u32,
    worked: Moment,
}

impl Watch {
    fn new() -> Watch {
        Watch { turns: 0, worked: clock::monotonic() }
    }

    fn turn(
        &mut self,
        worked: bool,
        now: Moment,
        conversation: &mut dyn Conversation,
    ) -> Result<(), Error> {
        if worked {
            self.worked = now;
        }
        self.turns = self.turns.wrapping_add(1);
        if !self.turns.is_multiple_of(LOOK_TURNS) {
            return Ok(());
        }
        if conversation.is_over() {
            return Err(Error::Interrupted);
        }
        if Duration::from_nanos(now.since(self.worked).as_ns()) > STALL_LIMIT {
            let seconds = STALL_LIMIT.as_secs();
            return Err(Error::Stalled { what: SERVICE.name.to_owned(), seconds });
        }
        Ok(())
    }
}

/// The far end: opens the gathering node, says that it is there, gathers.
fn serve(parameters: &Value, conversation: &mut dyn Conversation) -> Result<Value, Error> {
    let task: Task = show::task(parameters, "an incast")?;
    let is_right = (1..=1024).contains(&task.senders) && task.blocks > 0;
    if !is_right {
        return Err(Error::Input(format!("an incast cannot be {task:?}")));
    }
    let mut fabric = fluxline::open(&task.url)?;
    let mut gather = Gather::new(&mut *fabric, &task)?;
    conversation.send(&json!({ "ready": true }))?;
    let mut watch = Watch::new();
    while !gather.is_done() {
        let now = clock::monotonic();
        let worked = gather.step(&mut *fabric, now)?;
        watch.turn(worked, now, conversation)?;
    }
    conversation.send(&json!({ "done": true }))?;
    // The last acknowledgements are sent when the node is polled: until the near end has them.
    let mut heard = None;
    while heard.is_none() {
        let now = clock::monotonic();
        gather.step(&mut *fabric, now)?;
        watch.turn(true, now, conversation)?;
        if watch.turns.is_multiple_of(64) {
            heard = conversation.receive(Duration::ZERO)?;
        }
    }
    serde_json::to_value(gather.outcome())
        .map_err(|error| Error::Garbled { what: error.to_string() })
}

/// The near end of a trial: all senders, in turns.
fn send(
    urls: &[String],
    peer: &str,
    task: &Task,
    conversation: &mut dyn Conversation,
) -> Result<Value, Error> {
    if conversation.receive(STALL_LIMIT)?.is_none() {
        return Err(Error::PeerGone { how: "its gathering node does not open".to_owned() });
    }
    let mut nodes = Vec::new();
    for (number, url) in urls.iter().enumerate() {
        let mut fabric = fluxline::open(url)?;
        let sender = Sender::new(&mut *fabric, &Gathering { peer, key: task.key }, number as u32)?;
        nodes.push((fabric, sender));
    }
    let mut watch = Watch::new();
    // Blocks that are placed may not be counted yet: nobody leaves before the far end has them all.
    let mut heard = None;
    while heard.is_none() || nodes.iter().any(|(_, sender)| sender.placed() < task.blocks) {
        let now = clock::monotonic();
        let blocks = match nodes.iter().all(|(_, sender)| sender.is_ready()) {
            true => task.blocks,
            false => 0,
        };
        let mut worked = false;
        for (fabric, sender) in &mut nodes {
            worked |= sender.step(&mut **fabric, blocks, now)?;
        }
        watch.turn(worked, now, conversation)?;
        if heard.is_none() && watch.turns.is_multiple_of(64) {
            heard = conversation.receive(Duration::ZERO)?;
        }
    }
    conversation.send(&Value::Null)?;
    Ok(Value::Null)
}

/// URLs of the gathering node and the senders, and what senders call the former.
fn urls(
    environment: &dyn Environment,
    senders: u64,
) -> Result<(String, Vec<String>, String), Error> {
    let numbers = 0..senders;
    match (environment.link().starts_with("udp://"), environment.addresses()) {
        (true, Some([far, near])) => {
            let gather = SocketAddr::new(far, free_port(far, near)?);
            let urls: Result<Vec<String>, Error> = numbers
                .map(|_| Ok(format!("udp://{}", SocketAddr::new(near, free_port(near, near)?))))
                .collect();
            Ok((format!("udp://{gather}"), urls?, gather.to_string()))
        }
        _ if environment.link().starts_with("shm://") => {
            let group = format!("bench-{}-incast", std::process::id());
            let urls = numbers.map(|number| format!("shm://{group}/sender-{number}")).collect();
            Ok((format!("shm://{group}/gather"), urls, "gather".to_owned()))
        }
        _ => {
            let link = environment.link().to_owned();
            Err(Error::Unsuitable { what: SERVICE.name.to_owned(), link })
        }
    }
}

/// A UDP port that was free here a moment ago; most probably it is free over there, too.
fn free_port(address: IpAddr, near: IpAddr) -> Result<u16, Error> {
    let here = if address.is_loopback() { address } else { near };
    let bound = UdpSocket::bind(SocketAddr::new(here, 0)).and_then(|socket| socket.local_addr());
    bound.map(|local| local.port()).map_err(Error::host(format!("a UDP port of {here}")))
}

/// All numbers of senders, in turns.
pub fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let (mut gbps, mut fairness) = (Samples::new(), Samples::new());
    let ended = measure(environment, plan, &mut gbps, &mut fairness);
    let x = axis("senders", "");
    into.series.push(series("all together", x, axis("throughput", "Gb/s"), &gbps));
    let even = axis("fairness of shares (Jain)", "");
    into.series.push(series("when the first is done", x, even, &fairness));
    if let (Some(one), Some(all)) = (gbps.first_key_value(), gbps.last_key_value()) {
        for (senders, samples) in [one, all] {
            let plural = if *senders == 1 { "" } else { "s" };
            let label = format!("throughput of {senders} sender{plural}");
            into.facts.push(Fact::new(label, "Gb/s", samples.clone()));
        }
        if let Some((senders, even)) = fairness.last_key_value() {
            let label = format!("fairness among {senders} senders (1: equal shares)");
            into.facts.push(Fact::new(label, "", even.clone()));
        }
        into.limit = format!(
            "{} senders together reach {:.0} % of one sender; one thread sends for all, and one \
             receives.",
            all.0,
            middle(all.1) / middle(one.1) * 100.0
        );
    }
    ended
}

fn measure(
    environment: &mut dyn Environment,
    plan: &Plan,
    gbps: &mut Samples,
    fairness: &mut Samples,
) -> Result<(), Error> {
    let numbers = SENDERS[usize::from(!plan.quick)];
    for round in 0..plan.rounds as usize {
        for (index, senders) in numbers.iter().enumerate() {
            let done = round * numbers.len() + index;
            environment.progress(done, plan.rounds as usize * numbers.len(), "incast");
            let (url, senders_urls, peer) = urls(environment, *senders)?;
            let bytes = TRIAL_BYTES[usize::from(!plan.quick)];
            let blocks = bytes / BLOCK_BYTES / senders;
            let key = plan.seed ^ u64::from(std::process::id()) << 32;
            let task = Task { url, key, senders: *senders, blocks };
            let parameters = serde_json::to_value(&task).unwrap_or_default();
            let [_, far] = environment.call(&SERVICE, &parameters, &mut |conversation| {
                send(&senders_urls, &peer, &task, conversation)
            })?;
            let gathered: Gathered = show::typed(far)?;
            let all = (senders * blocks * BLOCK_BYTES) as f64;
            gbps.entry(*senders).or_default().push(all * 8e-9 / gathered.seconds);
            fairness.entry(*senders).or_default().push(gathered.fairness());
        }
    }
    Ok(())
}
