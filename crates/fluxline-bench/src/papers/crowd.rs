//! Many connections, or many regions: made, used in turns, closed.
//!
//! The far end exports regions of its own for the trial. The near end makes the connections and
//! imports every region over each. Then it puts into them in turns, with a notification per put.

use fluxline_core::Moment;
use fluxline_core::fabric::{
    Completion, EndpointId, Fabric, Grant, Key, Level, Local, Name, Operation, PostError, RegionId,
    Reliability, RemoteId, Rights, Target, Work,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::show;
use crate::Error;
use crate::role::{END, Role, Side, Site, Step, TrialKind};

/// The trial.
pub const TRIAL: TrialKind = TrialKind { name: "crowd", make };
/// The words of both sides: begin, the regions are exported, the end. The near end speaks first:
/// words that arrive before its trial begins are lost.
const HELLO: u32 = 0xFF_FFFD;
const READY: u32 = 0xFF_FFFE;
/// Size of a region \[byte\]: a page.
const REGION_BYTES: u64 = 4096;
/// The key of the trial's regions, which hold data of the benchmark only.
const KEY: Key = Key(0x5EED);
/// Puts under way at most.
const DEPTH: u64 = 256;
/// Completions handled, and puts posted, in one step at most.
const STEP_MAX: u32 = 64;

/// The parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// Connections beside the first one; 0: the first one is used.
    pub connections: u64,
    /// The number of regions.
    pub regions: u64,
    /// Bytes of a put.
    pub bytes: u64,
    /// Puts in all.
    pub puts: u64,
}

/// The measurement of the near end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Crowded {
    /// From the first request of a connection or import to the last success \[s\].
    pub setup_seconds: f64,
    /// From the first put to the last completion \[s\].
    pub seconds: f64,
    /// Connections made, beside the first one.
    pub connections: u64,
}

/// Makes one end. Errors: a crowd that makes no sense.
fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let crowd: Crowd = show::task(parameters, "a crowd")?;
    let Crowd { regions, bytes, puts, .. } = crowd;
    let is_right = regions > 0 && regions <= 4096 && bytes > 0 && bytes <= REGION_BYTES;
    if !is_right || puts == 0 || crowd.connections > 4096 {
        return Err(Error::Input(format!("a crowd cannot be {crowd:?}")));
    }
    Ok(match side {
        Side::Near => Box::new(Many::new(crowd)),
        Side::Far => Box::new(One::new(crowd)),
    })
}

fn name(number: u64) -> Result<Name, Error> {
    Ok(Name::parse(&format!("bench-crowd-{number}"))?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first word has to go out.
    Greets,
    /// Waits for the far end's regions.
    Waits,
    /// Waits for a connection.
    Connects,
    /// Imports over the newest endpoint, with the number decided.
    Imports(u64),
    Runs,
    /// The word that ends the far end has to go out.
    Ends,
}

/// The near end.
struct Many {
    crowd: Crowd,
    phase: Phase,
    endpoints: Vec<EndpointId>,
    /// True: the link takes no more of them.
    is_full: bool,
    targets: Vec<(EndpointId, RemoteId)>,
    /// Imports of the newest endpoint that have been asked for.
    asked: u64,
    posted: u64,
    completed: u64,
    set_up_began: Option<Moment>,
    set_up: Moment,
    ended: Moment,
}

impl Many {
    fn new(crowd: Crowd) -> Many {
        Many {
            crowd,
            phase: Phase::Greets,
            endpoints: Vec::new(),
            is_full: false,
            targets: Vec::new(),
            asked: 0,
            posted: 0,
            completed: 0,
            set_up_began: None,
            set_up: Moment::default(),
            ended: Moment::default(),
        }
    }

    /// Asks for the next connection, or begins to import over the first one.
    fn next(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<(), Error> {
        self.set_up_began.get_or_insert(now);
        if self.crowd.connections == 0 && self.endpoints.is_empty() {
            self.endpoints.push(site.endpoint);
            self.phase = Phase::Imports(0);
        } else if !self.is_full && (self.endpoints.len() as u64) < self.crowd.connections {
            match fabric.connect(&site.peer, Reliability::Reliable) {
                Ok(endpoint) => {
                    self.endpoints.push(endpoint);
                    self.phase = Phase::Connects;
                }
                Err(error) => return self.refused(error.into(), now),
            }
        } else {
            (self.set_up, self.phase) = (now, Phase::Runs);
        }
        self.asked = 0;
        Ok(())
    }

    /// Ends the growth of the crowd after a refused connection. Errors: the crowd is empty.
    fn refused(&mut self, why: Error, now: Moment) -> Result<(), Error> {
        if self.targets.is_empty() {
            return Err(why);
        }
        self.is_full = true;
        (self.set_up, self.phase) = (now, Phase::Runs);
        Ok(())
    }

    fn handle(
        &mut self,
        what: &Completion,
        site: &Site,
        fabric: &mut dyn Fabric,
        now: Moment,
    ) -> Result<(), Error> {
        let newest = self.endpoints.last().copied();
        match (self.phase, what) {
            (Phase::Waits, Completion::Notified { value, .. })
                if site.noticed(*value) == Some(READY) =>
            {
                self.next(site, fabric, now)
            }
            (Phase::Connects, Completion::Connected { endpoint, .. })
                if Some(*endpoint) == newest =>
            {
                self.phase = Phase::Imports(0);
                Ok(())
            }
            (Phase::Imports(decided), Completion::Imported { status, .. }) => {
                if !status.is_done() {
                    return Err(Error::Refused(format!("a region of the crowd: {status}")));
                }
                self.phase = Phase::Imports(decided + 1);
                if decided + 1 == self.crowd.regions {
                    self.next(site, fabric, now)?;
                }
                Ok(())
            }
            (_, Completion::Done { operation: Operation::Put, .. }) => {
                (self.completed, self.ended) = (self.completed + 1, now);
                Ok(())
            }
            (phase, Completion::Broken { endpoint, status })
                if phase != Phase::Ends && self.endpoints.contains(endpoint) =>
            {
                let number = self.endpoints.len();
                let why = format!("connection {number} of the crowd: {status}");
                if phase != Phase::Connects || Some(*endpoint) != newest {
                    return Err(Error::Refused(why));
                }
                self.endpoints.pop();
                self.refused(Error::Refused(why), now)
            }
            _ => Ok(()),
        }
    }

    /// Asks for regions over the newest endpoint.
    fn import(&mut self, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let Some(endpoint) = self.endpoints.last().copied() else { return Ok(false) };
        let Phase::Imports(decided) = self.phase else { return Ok(false) };
        // A few at a time: links answer as many as they keep.
        let until = (decided + 16).min(self.crowd.regions);
        let asks = self.asked < until;
        while self.asked < until {
            let remote = fabric.import(endpoint, name(self.asked)?, KEY)?;
            self.targets.push((endpoint, remote));
            self.asked += 1;
        }
        Ok(asks)
    }

    fn post(&mut self, site: &Site, fabric: &mut dyn Fabric) -> Result<bool, Error> {
        let mut worked = false;
        for _ in 0..STEP_MAX {
            if self.posted == self.crowd.puts || self.posted - self.completed >= DEPTH {
                break;
            }
            let (endpoint, remote) = self.targets[self.posted as usize % self.targets.len()];
            let work = Work::Put {
                from: Local::Region(site.outgoing(0, self.crowd.bytes)),
                to: Target { remote, offset: 0 },
                notify: Some(site.notice(0)),
                complete_at: Some(Level::Placed),
            };
            match fabric.post(endpoint, 0, work) {
                Ok(()) => (self.posted, worked) = (self.posted + 1, true),
                Err(PostError::Full) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(worked)
    }
}

impl Role for Many {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        let mut worked = site.poll_each(fabric, now, STEP_MAX, |what, fabric| {
            self.handle(&what, site, fabric, now)
        })?;
        match self.phase {
            Phase::Greets => {
                if site.say(fabric, HELLO)? {
                    (self.phase, worked) = (Phase::Waits, true);
                }
            }
            Phase::Imports(_) => worked |= self.import(fabric)?,
            Phase::Runs => {
                worked |= self.post(site, fabric)?;
                if self.completed == self.crowd.puts {
                    for endpoint in &self.endpoints {
                        if *endpoint != site.endpoint {
                            fabric.disconnect(*endpoint)?;
                        }
                    }
                    (self.phase, worked) = (Phase::Ends, true);
                }
            }
            Phase::Ends => {
                let is_said = site.say(fabric, END)?;
                return Ok(if is_said { Step::Done } else { Step::Idle(None) });
            }
            Phase::Waits | Phase::Connects => {}
        }
        Ok(Step::worked_if(worked))
    }

    fn outcome(&mut self) -> Value {
        let seconds = |from: Moment, to: Moment| to.since(from).as_ns() as f64 / 1e9;
        let crowded = Crowded {
            setup_seconds: seconds(self.set_up_began.unwrap_or_default(), self.set_up),
            seconds: seconds(self.set_up, self.ended),
            connections: if self.crowd.connections == 0 { 0 } else { self.endpoints.len() as u64 },
        };
        serde_json::to_value(crowded).unwrap_or_default()
    }
}

/// The far end: exports, counts, and is done when every connection of the crowd is closed.
struct One {
    crowd: Crowd,
    regions: Vec<RegionId>,
    is_greeted: bool,
    is_ready: bool,
    heard: u64,
    connected: u64,
    broken: u64,
    ends: bool,
}

impl One {
    fn new(crowd: Crowd) -> One {
        One {
            crowd,
            regions: Vec::new(),
            is_greeted: false,
            is_ready: false,
            heard: 0,
            connected: 0,
            broken: 0,
            ends: false,
        }
    }

    fn export(&mut self, fabric: &mut dyn Fabric) -> Result<(), Error> {
        while (self.regions.len() as u64) < self.crowd.regions {
            let region = fabric.register(REGION_BYTES)?;
            let grant = Grant { rights: Rights::PUT, key: KEY };
            fabric.export(region, name(self.regions.len() as u64)?, grant)?;
            self.regions.push(region);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.ends && self.heard == self.crowd.puts && self.broken == self.connected
    }
}

impl Role for One {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        let mut worked = false;
        if self.is_greeted && !self.is_ready {
            self.export(fabric)?;
            self.is_ready = site.say(fabric, READY)?;
            worked = true;
        }
        worked |= site.poll_each(fabric, now, STEP_MAX, |what, _| {
            match what {
                Completion::Notified { value, .. } => match site.noticed(value) {
                    Some(HELLO) => self.is_greeted = true,
                    Some(END) => self.ends = true,
                    Some(_) => self.heard += 1,
                    None => {}
                },
                Completion::Connected { .. } => self.connected += 1,
                Completion::Broken { .. } => self.broken += 1,
                _ => {}
            }
            Ok(())
        })?;
        if self.is_over() {
            for region in self.regions.drain(..) {
                fabric.withdraw(region)?;
            }
            return Ok(Step::Done);
        }
        Ok(Step::worked_if(worked))
    }

    fn outcome(&mut self) -> Value {
        json!({ "heard": self.heard, "connected": self.connected, "broken": self.broken })
    }
}
