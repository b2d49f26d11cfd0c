//! Latency under load: messages at a given rate, each echoed; the time until the echo.
//!
//! The send times are fixed in advance: message k is due after k periods. A latency counts from
//! that time, not from the time at which the message was sent. A link that stalls thus delays all
//! messages that were due meanwhile, as it would with any source that does not wait for answers. A
//! tester that sends the next message only after the stall would see a single late one
//! (coordinated omission).

use fluxline_core::fabric::{Completion, Fabric};
use fluxline_core::{Moment, Span};
use fluxline_report::quantity;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::environment::{Environment, Plan};
use crate::kind::{ExperimentKind, Links};
use crate::result::{Axis, Experiment, Fact, Point, Series, axis};
use crate::role::{
    self, Answer, Answers, Arrival, END, FarEnd, Role, Side, Site, Step, Transfer, TrialKind,
};
use crate::statistics::median;

/// Rates that are offered \[messages/s\]; a round ends at the first that the link does not keep.
const RATES: &[f64] = &[1e3, 1e4, 3e4, 1e5, 2e5, 3e5, 5e5, 1e6, 2e6, 5e6];
/// Size of a message \[byte\]: a time stamp and a few values of a control loop.
const BYTES: u64 = 64;
/// Share of the offered rate that a link must answer in time to keep the rate.
const KEPT_SHARE: f64 = 0.98;
/// Sending ends after this multiple of the planned time; the rest is not sent.
const OVERTIME: f64 = 2.0;
/// Completions handled, and messages posted, in one step at most.
const STEP_MAX: u32 = 64;

/// The experiments of this file.
pub const EXPERIMENTS: &[ExperimentKind] = &[ExperimentKind {
    name: "load",
    about: "Round trips of 64 B at rising rates, until the link no longer keeps up. A time counts \
            from the moment at which its message was due (no coordinated omission).",
    links: Links::Fabrics,
    by_default: true,
    seconds: [5, 40],
    run,
}];

/// The trials of this file.
pub const TRIALS: &[&TrialKind] = &[&TRIAL];
const TRIAL: TrialKind = TrialKind { name: "load", make };

/// One rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Offer {
    /// Messages per second.
    rate: f64,
    /// The time \[s\].
    seconds: f64,
    /// Size \[byte\].
    bytes: u64,
}

/// The result of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answered {
    /// Messages answered per second, from the first moment due to the last answer.
    rate: f64,
    /// p50, p99, p99.9, the longest \[ns\].
    latency_ns: [u64; 4],
    /// Messages that were due and never went out.
    unsent: u64,
}

fn make(parameters: &Value, side: Side) -> Result<Box<dyn Role>, Error> {
    let offer: Offer = serde_json::from_value(parameters.clone())
        .map_err(|error| Error::Input(format!("a load: {error}")))?;
    let is_time = offer.seconds > 0.0 && offer.seconds < 3600.0;
    if !(is_time && offer.rate.is_finite() && offer.rate > 0.0 && offer.bytes > 0) {
        return Err(Error::Input(format!("a load cannot be {offer:?}")));
    }
    Ok(match side {
        Side::Near => Box::new(Source::new(offer)),
        Side::Far => Box::new(FarEnd::answering(Echo { bytes: offer.bytes, answered: 0 })),
    })
}

/// Returns the offset of the message with that number, in either half.
fn offset(site: &Site, number: u64, bytes: u64) -> u64 {
    // A small ring: it stays in the cache.
    let slots = (site.half_bytes.min(256 << 10) / bytes).max(1);
    number % slots * bytes
}

fn notice(number: u64) -> u32 {
    (number % u64::from(END)) as u32
}

/// The near end: sends when it is due, and takes the time of each answer.
struct Source {
    offer: Offer,
    began: Option<Moment>,
    sent: u64,
    answered: u64,
    going: Option<Transfer>,
    latencies: Histogram<u64>,
    last: Moment,
    /// The end was posted.
    over: bool,
}

impl Source {
    fn new(offer: Offer) -> Source {
        Source {
            offer,
            began: None,
            sent: 0,
            answered: 0,
            going: None,
            latencies: role::times(),
            last: Moment::default(),
            over: false,
        }
    }

    /// Returns the number of messages to send.
    fn all(&self) -> u64 {
        (self.offer.rate * self.offer.seconds).ceil() as u64
    }

    /// Returns the time at which a message is due.
    fn due(&self, began: Moment, number: u64) -> Moment {
        began + Span::from_ns((number as f64 * 1e9 / self.offer.rate) as u64)
    }

    fn is_late(&self, began: Moment, now: Moment) -> bool {
        now.since(began).as_ns() as f64 > self.offer.seconds * OVERTIME * 1e9
    }

    fn send(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<bool, Error> {
        let began = *self.began.get_or_insert(now);
        let mut worked = false;
        for _ in 0..STEP_MAX {
            if let Some(going) = &mut self.going {
                if !going.step(site, fabric)? {
                    break;
                }
                self.going = None;
                worked = true;
            }
            let is_due = self.sent < self.all() && self.due(began, self.sent) <= now;
            if !is_due || self.is_late(began, now) {
                break;
            }
            let at = offset(site, self.sent, self.offer.bytes);
            self.going = Some(Transfer::new(at, at, self.offer.bytes, notice(self.sent)));
            self.sent += 1;
        }
        Ok(worked)
    }

    fn answer(&mut self, number: u32, now: Moment) -> Result<(), Error> {
        if number != notice(self.answered) {
            let what = format!("answer {number} came instead of {}", notice(self.answered));
            return Err(Error::Defect { what });
        }
        let began = self.began.unwrap_or(now);
        let latency = now.since(self.due(began, self.answered)).as_ns();
        self.latencies.saturating_record(latency.max(1));
        self.answered += 1;
        self.last = now;
        Ok(())
    }
}

impl Role for Source {
    fn step(&mut self, site: &Site, fabric: &mut dyn Fabric, now: Moment) -> Result<Step, Error> {
        let mut worked = site.poll_each(fabric, now, STEP_MAX, |what, _| match what {
            Completion::Notified { value, .. } => match site.noticed(value) {
                Some(number) => self.answer(number, now),
                None => Ok(()),
            },
            _ => Ok(()),
        })?;
        worked |= self.send(site, fabric, now)?;
        let began = self.began.unwrap_or(now);
        let all_out = self.sent == self.all() || self.is_late(began, now);
        if all_out && self.answered == self.sent && self.going.is_none() {
            if self.over {
                return Ok(Step::Done);
            }
            self.over = true;
            self.going = Some(Transfer::new(0, 0, 1, END));
            worked = true;
        }
        let next = (!all_out).then(|| self.due(began, self.sent));
        Ok(if worked { Step::Worked } else { Step::Idle(next) })
    }

    fn outcome(&mut self) -> Value {
        let seconds = self.last.since(self.began.unwrap_or_default()).as_ns() as f64 / 1e9;
        let at = |part| self.latencies.value_at_quantile(part);
        let answered = Answered {
            // The first is due at once: one period less than messages lies between.
            rate: self.answered.saturating_sub(1) as f64 / seconds.max(1e-9),
            latency_ns: [at(0.5), at(0.99), at(0.999), self.latencies.max()],
            unsent: self.all() - self.sent,
        };
        serde_json::to_value(answered).unwrap_or_default()
    }
}

/// The far end's answers: each message comes back as long as it was, in order.
struct Echo {
    bytes: u64,
    answered: u64,
}

impl Answers for Echo {
    fn arrived(&mut self, _: &Site, _: u32) -> Result<Arrival, Error> {
        Ok(Arrival::Accepted)
    }

    fn answer(&mut self, site: &Site) -> Option<Answer> {
        let at = offset(site, self.answered, self.bytes);
        let transfer = Transfer::new(at, at, self.bytes, notice(self.answered));
        self.answered += 1;
        Some(Answer::Message(transfer))
    }
}

fn run(environment: &mut dyn Environment, plan: &Plan, into: &mut Experiment) -> Result<(), Error> {
    let seconds = if plan.quick { 0.05 } else { 1.0 };
    let mut measured: Vec<Vec<Answered>> = RATES.iter().map(|_| Vec::new()).collect();
    let mut ended = Ok(());
    'rounds: for round in 0..plan.rounds as usize {
        for (index, rate) in RATES.iter().enumerate() {
            let (done, all) = (round * RATES.len() + index, plan.rounds as usize * RATES.len());
            environment.progress(done, all, &format!("load, {rate} messages/s"));
            let offer = Offer { rate: *rate, seconds, bytes: BYTES };
            match offered(environment, &offer) {
                Ok(answered) => {
                    let kept = answered.rate >= KEPT_SHARE * rate && answered.unsent == 0;
                    measured[index].push(answered);
                    if !kept && index > 0 {
                        break;
                    }
                }
                Err(error) => {
                    ended = Err(error);
                    break 'rounds;
                }
            }
        }
    }
    fill(&measured, into);
    ended
}

fn offered(environment: &mut dyn Environment, offer: &Offer) -> Result<Answered, Error> {
    let parameters = serde_json::to_value(offer).unwrap_or_default();
    let [near, _] = environment.trial(&TRIAL, &parameters)?;
    serde_json::from_value(near)
        .map_err(|error| Error::Garbled { what: format!("no result ({error})") })
}

fn fill(measured: &[Vec<Answered>], into: &mut Experiment) {
    let series = |label: &str, y: Axis<'_>, of: &dyn Fn(&Answered) -> f64| {
        let samples = |answers: &Vec<Answered>| answers.iter().map(of).collect::<Vec<f64>>();
        let points = RATES.iter().zip(measured).filter(|(_, answers)| !answers.is_empty());
        let points = points.map(|(x, all)| Point { x: *x, samples: samples(all) }).collect();
        Series::new(label, axis("offered", "1/s"), y, points)
    };
    for (index, label) in ["p50", "p99", "p99.9", "longest"].into_iter().enumerate() {
        let y = axis("round trip from when it was due", "us");
        into.series.push(series(label, y, &|one| one.latency_ns[index] as f64 / 1e3));
    }
    into.series.push(series("answered", axis("answered", "1/s"), &|one| one.rate));
    let answered =
        |index: usize| -> Vec<f64> { measured[index].iter().map(|one| one.rate).collect() };
    let keeps = |index: &usize| {
        median(&answered(*index)).is_some_and(|rate| rate >= KEPT_SHARE * RATES[*index])
    };
    if let Some(kept) = (0..RATES.len()).rev().find(keeps) {
        into.facts.push(Fact::new("highest offered rate that is kept", "1/s", answered(kept)));
        let p99 = measured[kept].iter().map(|one| one.latency_ns[1] as f64 / 1e3).collect();
        into.facts.push(Fact::new("p99 of the round trip at that rate", "us", p99));
        if let Some(next) = RATES.get(kept + 1) {
            into.limit = format!("{} are not answered in time.", quantity(*next, "1/s"));
        }
    } else if !measured[0].is_empty() {
        into.limit = format!("Not even {} are answered in time.", quantity(RATES[0], "1/s"));
    }
}

#[cfg(test)]
mod tests;
