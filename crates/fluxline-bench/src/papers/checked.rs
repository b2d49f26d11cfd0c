//! An end-to-end check in software, on top of the link: CRC32C behind each block, verified by the
//! receiver out of its memory, and the last block repeated until it is right.
//!
//! The same blocks go three ways: many under way without a check; one at a time, answered without a
//! check; one at a time, answered after the check. So the cost of waiting and that of the check are
//! known separately. Source of the method: published figures 9 and 10 ("with a software error check
//! and retry of the last block on top").

use std::collections::BTreeMap;

use fluxline_core::Moment;
use fluxline_core::fabric::{Completion, Fabric, Level, Local, Operation, Work};
use fluxline_report::quantity;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::show::{self, BLOCK, Samples, middle, series};
use super::{fit, floor};
use crate::Error;
use crate::environment::{Environment, Plan};
use crate::result::{Experiment, Fact, axis};
use crate::role::{Answer, Answers, Arrival, END, FarEnd, Role, Side, Site, Step, TrialKind};

/// The trial.
pub const TRIAL: TrialKind = TrialKind { name: "checked", make };
/// Behind each block \[byte\].
const CRC_BYTES: u64 = 4;
/// Damage of one block more often in a row ends the trial: the link has a defect.
const REPEATS_MAX: u32 = 100;
/// Blocks under way without a check.
const DEPTH: u64 = 16;
/// Completions handled in one step at most.
const STEP_MAX: u32 = 64;
/// The approximate time of a trial \[s\]: with `--quick`, and without.
const TRIAL_SECONDS: [f64; 2] = [0.004, 0.03];
/// The largest block \[byte\]: with `--quick`, and without.
const BLOCK_MAX: [u64; 2] = [256 << 10, 4 << 20];
/// The share of a maximum that counts as reaching it.
const SAME_SHARE: f64 = 0.9;

/// The protection of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// None: as many under way as the link takes well.
    Plain,
    /// One at a time, answered without a look at it.
    Answered,
    /// One at a time, verified and answered.
    Checked,
}

/// The parameters of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The protection.
    pub way: Way,
    /// Size of a block without its CRC \[byte\].
    pub bytes: u64,
    /// The number of blocks.
    pub blocks: u64,
}

/// The measurement of the near end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Secured {
    /// From the first post to the last answer or completion \[s\].
    pub seconds: f64,
    /// Blocks that arrived damaged and were sent again.
    pub repeated: u64,
}

/// Makes one end. Errors: a task that makes no sense.
fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let task: Task = show::task(parameters, "a check")?;
    if task.bytes == 0
        || task.bytes > show::BYTES_MAX
        || task.blocks == 0
        || task.blocks >= u64::from(END) / 2
    {
        return Err(Error::Input(format!("a check cannot be {task:?}")));
    }
    Ok(match side {
        Side::Near => Box::new(Source::new(task)),
        Side::Far => Box::new(FarEnd::answering(Verifier::new(task))),
    })
}

/// The near end.
struct Source {
    task: Task,
    /// A block with its CRC; the application's memory, which a repeat is made from.
    block: Vec<u8>,
    sent: u64,
    finished: u64,
    /// The number of times that the block under way has been repeated.
    tries: u32,
    again: bool,
    repeated: u64,
    began: Option<Moment>,
    ended: Moment,
    said: bool,
}

impl Source {
    fn new(task: Task) -> Source {
        let crc_bytes = if task.way == Way::Checked { CRC_BYTES } else { 0 };
        Source {
            task,
            block: vec![0; (task.bytes + crc_bytes) as usize],
            sent: 0,
            finished: 0,
            tries: 0,
            again: false,
            repeated: 0,
            began: None,
            ended: Moment::default(),
            said: false,
        }
    }

    /// Makes the next block: its number in front, as far as it fits, and its CRC behind.
    fn fill(&mut self) {
        let data = self.task.bytes as usize;
        for (to, from) in self.block[..data].iter_mut().zip(self.sent.to_le_bytes()) {
            *to = from;
        }
        if self.task.way == Way::Checked {
            let crc = crc_fast::crc32_iscsi(&self.block[..data]);
            self.block[data..].copy_from_slice(&crc.to_le_bytes());
        }
    }

    fn may_send(&self) -> bool {
        let depth = if self.task.way == Way::Plain { DEPTH } else { 1 };
        self.sent < self.task.blocks && self.sent - self.finished < depth
    }

    fn post(&self, site: &Site, fabric: &mut dyn Fabric, number: u64) -> Result<bool, Error> {
        let (from, to) = (Local::Bytes(&self.block), site.there(0));
        let complete_at = (self.task.way == Way::Plain).then_some(Level::Placed);
        let notify = Some(site.notice(number as u32));
        site.post(fabric, 0, Work::Put { from, to, notify, complete_at })
    }

    fn send(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<bool, Error> {
        let mut worked = false;
        if self.again && self.post(site, fabric, self.sent - 1)? {
            (self.again, worked) = (false, true);
        }
        while !self.again && self.may_send() {
            self.began.get_or_insert(now);
            self.fill();
            if !self.post(site, fabric, self.sent)? {
                break;
            }
            self.sent += 1;
            worked = true;
        }
        Ok(worked)
    }

    /// Takes an answer: the number of the block, and a bit that is set if it arrived whole.
    fn answered(&mut self, value: u32, now: Moment) -> Result<(), Error> {
        let (number, is_whole) = (u64::from(value >> 1), value & 1 == 1);
        if number != self.finished {
            let what = format!("the answer to block {number} instead of {}", self.finished);
            return Err(Error::Defect { what });
        }
        if is_whole {
            (self.finished, self.tries, self.ended) = (self.finished + 1, 0, now);
            return Ok(());
        }
        (self.again, self.tries, self.repeated) = (true, self.tries + 1, self.repeated + 1);
        if self.tries > REPEATS_MAX {
            let what = format!("block {number} arrived damaged {REPEATS_MAX} times in a row");
            return Err(Error::Defect { what });
        }
        Ok(())
    }
}

impl Role for Source {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        let bytes = self.block.len() as u64;
        if bytes > site.half_bytes.min(site.capabilities.operation_bytes_max) {
            let problem = format!("blocks of {bytes} B are too long here (--sizes)");
            return Err(Error::Input(problem));
        }
        let mut worked = site.poll_each(fabric, now, STEP_MAX, |what, _| {
            match what {
                Completion::Done { operation: Operation::Put, .. } => {
                    (self.finished, self.ended) = (self.finished + 1, now);
                }
                Completion::Notified { value, .. } => {
                    if let Some(value) = site.noticed(value) {
                        self.answered(value, now)?;
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        worked |= self.send(site, fabric, now)?;
        if self.finished == self.task.blocks {
            if self.said {
                return Ok(Step::Done);
            }
            self.said = site.note(fabric, END)?;
            worked |= self.said;
        }
        Ok(Step::worked_if(worked))
    }

    fn outcome(&mut self) -> Value {
        let seconds = self.ended.since(self.began.unwrap_or_default()).as_ns() as f64 / 1e9;
        let secured = Secured { seconds, repeated: self.repeated };
        serde_json::to_value(secured).unwrap_or_default()
    }
}

/// The far end's answers: a verdict on each block, or without the check an acknowledgement.
struct Verifier {
    task: Task,
    block: Vec<u8>,
    /// The answer that is owed.
    answer: u32,
    damaged: u64,
    /// CRC over the CRCs of all accepted blocks, in order.
    digest: u32,
}

impl Verifier {
    fn new(task: Task) -> Verifier {
        Verifier { task, block: Vec::new(), answer: 0, damaged: 0, digest: 0 }
    }

    /// Reads the block out of the memory that it was put into; returns true if its CRC is right.
    fn is_whole(&mut self, site: &Site) -> Result<bool, Error> {
        let data = self.task.bytes as usize;
        self.block.resize(data + CRC_BYTES as usize, 0);
        site.memory.read(0, &mut self.block)?;
        let crc = crc_fast::crc32_iscsi(&self.block[..data]);
        Ok(self.block[data..] == crc.to_le_bytes())
    }
}

impl Answers for Verifier {
    /// One block at a time: the next one would overwrite it.
    const OWED_MAX: u64 = 1;

    fn arrived(&mut self, site: &Site, number: u32) -> Result<Arrival, Error> {
        if self.task.way == Way::Plain {
            return Ok(Arrival::Silent);
        }
        let is_whole = self.task.way != Way::Checked || self.is_whole(site)?;
        self.answer = number << 1 | u32::from(is_whole);
        if !is_whole {
            self.damaged += 1;
            return Ok(Arrival::Rejected);
        }
        if self.task.way == Way::Checked {
            let tail = self.block.len() - CRC_BYTES as usize;
            let mut seen = self.digest.to_le_bytes().to_vec();
            seen.extend(&self.block[tail..]);
            self.digest = crc_fast::crc32_iscsi(&seen);
        }
        Ok(Arrival::Accepted)
    }

    fn answer(&mut self, _: &Site) -> Option<Answer> {
        Some(Answer::Word(self.answer))
    }

    fn outcome(&mut self, accepted: u64) -> Value {
        json!({ "accepted": accepted, "damaged": self.damaged, "digest": self.digest })
    }
}

/// One way by size.
#[derive(Default)]
struct BySize {
    us: Samples,
    gbps: Samples,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Plain, "no check"),
    (Way::Answered, "answered, no check"),
    (Way::Checked, "checked and repeated"),
];

/// Runs all three ways over all sizes, in turns.
pub fn run(
    environment: &mut dyn Environment,
    plan: &Plan,
    into: &mut Experiment,
) -> Result<(), Error> {
    let most = BLOCK_MAX[usize::from(!plan.quick)].min(plan.sizes[1]);
    let most = most.min(environment.half_bytes() - CRC_BYTES - 1);
    let least = plan.sizes[0].max(8).next_power_of_two();
    let sizes = show::powers(least, most, if plan.quick { 4 } else { 2 });
    let mut ways: BTreeMap<Way, BySize> = BTreeMap::new();
    let mut repeated = 0;
    let ended = measure(environment, plan, &sizes, &mut ways, &mut repeated);
    fill(environment, &ways, repeated, into);
    ended
}

fn measure(
    environment: &mut dyn Environment,
    plan: &Plan,
    sizes: &[u64],
    ways: &mut BTreeMap<Way, BySize>,
    repeated: &mut u64,
) -> Result<(), Error> {
    let trial_seconds = TRIAL_SECONDS[usize::from(!plan.quick)];
    let mut hints: BTreeMap<(Way, u64), f64> = BTreeMap::new();
    for round in 0..plan.rounds as usize {
        for (index, bytes) in sizes.iter().enumerate() {
            let done = round * sizes.len() + index;
            environment.progress(
                done,
                plan.rounds as usize * sizes.len(),
                &format!("check, {bytes} B"),
            );
            for (way, _) in WAYS {
                let hint = hints.get(&(way, *bytes)).copied().unwrap_or(trial_seconds / 16.0);
                let blocks = ((trial_seconds / hint.max(1e-9)) as u64).clamp(8, 20_000);
                let task = Task { way, bytes: *bytes, blocks };
                let (secured, far) = show::trial::<Secured>(environment, &TRIAL, &task)?;
                if far["accepted"].as_u64() != Some(blocks) {
                    let what = format!("{} of {blocks} blocks were accepted", far["accepted"]);
                    return Err(Error::Defect { what });
                }
                *repeated += secured.repeated;
                let seconds = secured.seconds / blocks as f64;
                hints.insert((way, *bytes), seconds);
                let by_size = ways.entry(way).or_default();
                by_size.us.entry(*bytes).or_default().push(seconds * 1e6);
                let gbps = *bytes as f64 * 8e-9 / seconds;
                by_size.gbps.entry(*bytes).or_default().push(gbps);
            }
        }
    }
    Ok(())
}

fn fill(
    environment: &dyn Environment,
    ways: &BTreeMap<Way, BySize>,
    repeated: u64,
    into: &mut Experiment,
) {
    let of = |way: Way| ways.get(&way);
    for (way, name) in WAYS {
        let Some(by_size) = of(way) else { continue };
        into.series.push(series(name, BLOCK, axis("throughput", "Gb/s"), &by_size.gbps));
    }
    for (way, name) in WAYS {
        let Some(by_size) = of(way) else { continue };
        let label = format!("{name}, time");
        into.series.push(series(&label, BLOCK, axis("time of a block", "us"), &by_size.us));
    }
    into.facts.push(Fact::new("damaged blocks, repeated", "", vec![repeated as f64]));
    let (Some(plain), Some(checked)) = (of(Way::Plain), of(Way::Checked)) else { return };
    let Some((bytes, most)) = show::largest(&plain.gbps) else { return };
    into.facts.push(Fact::new(
        format!("largest throughput without a check, {}", quantity(bytes as f64, "B")),
        "Gb/s",
        most.clone(),
    ));
    if let Some((bytes, most)) = show::largest(&checked.gbps) {
        let crc = environment.is_real().then(|| bytes as f64 * 8e-9 / floor::crc_seconds(bytes));
        let best = Fact::new(
            format!("largest throughput with the check, {}", quantity(bytes as f64, "B")),
            "Gb/s",
            most.clone(),
        );
        into.facts.push(best.beside("CRC32C alone, one side", crc));
    }
    let share = SAME_SHARE * 100.0;
    match show::reached_at(&checked.gbps, SAME_SHARE * middle(most)) {
        Some(at) => {
            let label = format!("the check reaches {share:.0} % of it from");
            into.facts.push(Fact::new(label, "B", vec![at as f64]));
            into.limit =
                format!("The wait for each answer limits below {}.", quantity(at as f64, "B"));
        }
        None => {
            into.limit = format!(
                "With the check no size reaches {share:.0} % of the throughput without: both ends \
                 sum each byte, one block at a time."
            );
        }
    }
    let setup = |by_size: &BySize| {
        let points: Vec<(f64, f64)> =
            by_size.us.iter().map(|(bytes, all)| (*bytes as f64, middle(all))).collect();
        fit::line(&points).map(|line| line.setup)
    };
    if let Some(us) = setup(checked) {
        into.facts.push(Fact::new("set-up time of a checked block, by fit", "us", vec![us]));
    }
}
