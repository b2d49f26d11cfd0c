//! One trial of both sides, and its result.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::cpu::CoreLoad;
use super::far::{DATAGRAM_BYTES_MAX, Responder};
use super::host::Reading;
use super::limit::{self, Evidence};
use super::loss::{self, Counted, LossPlace};
use super::message::{Answer, Path, ReceivePlan, Received, Request};
use super::search::Verdict;
use super::transmit::{self, SendPlan, Sent};
use crate::Error;

/// A paced trial counts when the sender reached this share of its rate. (assumed: half of the
/// resolution that a search has by default)
const KEPT: f64 = 0.99;

/// The plan of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialPlan {
    /// The way.
    pub path: Path,
    /// UDP payload \[byte\].
    pub datagram_bytes: usize,
    /// Datagrams per second of all senders; `None`: as fast as possible.
    pub rate: Option<f64>,
    /// The time that it sends.
    pub duration: Duration,
    /// The core of each sender.
    pub sender_cores: Vec<Option<usize>>,
    /// The receiver's core.
    pub receiver_core: Option<usize>,
    /// The requested receive buffer \[byte\].
    pub buffer_bytes: u32,
}

/// The result of a trial.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The plan.
    pub plan: TrialPlan,
    /// The result of each sender.
    pub sent: Vec<Sent>,
    /// The receiver's counts.
    pub received: Received,
    /// Losses by place: all datagrams that were sent and did not arrive.
    pub places: Vec<LossPlace>,
    /// The sending host's cores.
    pub near_cores: Vec<CoreLoad>,
    /// The limit, in words.
    pub limit: String,
    /// The far side's warnings: settings that were refused.
    pub warnings: Vec<String>,
}

impl Trial {
    /// Datagrams sent.
    #[must_use]
    pub fn sent_datagrams(&self) -> u64 {
        self.sent.iter().map(|sent| sent.datagrams).sum()
    }

    /// Returns the rate of sent datagrams \[1/s\].
    #[must_use]
    pub fn sent_rate(&self) -> f64 {
        self.sent.iter().map(|sent| sent.datagrams as f64 / sent.seconds.max(1e-9)).sum()
    }

    /// Returns the longest delay of a batch \[ns\].
    #[must_use]
    pub fn late_most_ns(&self) -> u64 {
        self.sent.iter().map(|sent| sent.late_most_ns).max().unwrap_or(0)
    }

    /// Returns the rate of arrived datagrams, from the first to the last \[1/s\].
    #[must_use]
    pub fn received_rate(&self) -> f64 {
        // A trial of one batch has no length.
        let seconds = self.received.seconds.max(self.plan.duration.as_secs_f64() / 2.0);
        self.received.tally.unique as f64 / seconds
    }

    /// UDP payload at a rate of datagrams \[Gb/s\].
    #[must_use]
    pub fn gigabits(&self, rate: f64) -> f64 {
        rate * self.plan.datagram_bytes as f64 * 8e-9
    }

    /// Datagrams that were sent and did not arrive.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.places.iter().map(|place| place.datagrams).sum()
    }

    /// Returns the share of lost datagrams.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.lost() as f64 / self.sent_datagrams().max(1) as f64
    }

    /// Judges the loss of the trial, and decides if the trial counts.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let kept = self.plan.rate.is_none_or(|rate| self.sent_rate() >= KEPT * rate);
        if self.lost() > 0 {
            Verdict::Lost
        } else if !kept || self.sent_datagrams() == 0 {
            Verdict::Slow
        } else {
            Verdict::Clean
        }
    }

    fn evidence(&self) -> Evidence {
        let of = |loads: &[CoreLoad], core: Option<usize>| {
            loads.iter().find(|load| Some(load.core) == core).copied()
        };
        let busier = |a: &&CoreLoad, b: &&CoreLoad| a.interrupts.total_cmp(&b.interrupts);
        Evidence {
            sender: of(&self.near_cores, self.plan.sender_cores.first().copied().flatten()),
            receiver: of(&self.received.cores, self.plan.receiver_core),
            receiver_own: self.received.thread_s / self.plan.duration.as_secs_f64(),
            interrupts: self.received.cores.iter().max_by(busier).copied(),
            sender_at_most: self.plan.rate.is_none() || self.verdict() == Verdict::Slow,
            places: self.places.clone(),
        }
    }
}

/// The other side of a trial: in this process, or behind a connection.
pub trait Far {
    /// Sends a request, and waits for the answer. Errors: the other side is gone, and the trial
    /// ends.
    fn ask(&mut self, request: &Request) -> Result<Answer, Error>;
}

impl Far for Responder {
    fn ask(&mut self, request: &Request) -> Result<Answer, Error> {
        Ok(self.answer(request))
    }
}

/// Sends a request; a rejection is an error.
pub(super) fn ask(far: &mut dyn Far, request: &Request) -> Result<Answer, Error> {
    match far.ask(request)? {
        Answer::Refused(why) => Err(Error::PeerFailed { why }),
        answer => Ok(answer),
    }
}

/// An answer to another question.
pub(super) fn out_of_turn(answer: &Answer) -> Error {
    Error::Garbled { what: format!("{answer:?} out of turn") }
}

/// The receiver of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// Its address.
    pub address: IpAddr,
    /// The number of the trial in its datagrams.
    pub number: u32,
}

/// Runs a trial.
///
/// Errors: [`Error`]. Cost: the plan's time and some 10 ms; 160 ms more where datagrams are lost.
pub fn run(far: &mut dyn Far, receiver: Receiver, plan: TrialPlan) -> Result<Trial, Error> {
    let Receiver { address, number } = receiver;
    let prepare = ReceivePlan {
        trial: number,
        path: plan.path,
        datagram_bytes: u32::try_from(plan.datagram_bytes).unwrap_or(u32::MAX),
        senders: u32::try_from(plan.sender_cores.len()).unwrap_or(u32::MAX),
        core: plan.receiver_core,
        buffer_bytes: plan.buffer_bytes,
    };
    if prepare.datagram_bytes > DATAGRAM_BYTES_MAX || plan.sender_cores.is_empty() {
        let why = "a trial needs a sender, and datagrams of at most 65507 byte";
        return Err(Error::Input(why.to_owned()));
    }
    let ready = match ask(far, &Request::Prepare(prepare))? {
        Answer::Ready(ready) => ready,
        other => return Err(out_of_turn(&other)),
    };
    let send = SendPlan {
        destination: SocketAddr::new(address, ready.port),
        trial: number,
        path: plan.path,
        datagram_bytes: plan.datagram_bytes,
        cores: plan.sender_cores.clone(),
        rate: plan.rate,
        duration: plan.duration,
    };
    let mut before = Reading::default();
    let sent = transmit::run(&send, || {
        let begun = ask(far, &Request::Begin);
        before = Reading::take();
        begun.map(|_| ())
    })?;
    let after = Reading::take();
    let count = sent.iter().flatten().map(|sent| sent.datagrams).sum();
    let received = match ask(far, &Request::End { sent: count })? {
        Answer::Ended(received) => *received,
        other => return Err(out_of_turn(&other)),
    };
    let sent = sent.map_err(Error::Input)?;
    let places = loss::places(&counted(&plan, count, &received, after.sending_since(&before)));
    let mut trial = Trial {
        plan,
        sent,
        received,
        places,
        near_cores: after.loads_since(&before),
        limit: String::new(),
        warnings: ready.warnings,
    };
    trial.limit = limit::name(&trial.evidence());
    Ok(trial)
}

/// Assigns lost datagrams to counters, the socket's own counter first.
fn counted(
    plan: &TrialPlan,
    sent: u64,
    received: &Received,
    sending: Vec<(String, u64)>,
) -> Counted {
    let mut places = vec![("socket buffer".to_owned(), received.socket_drops)];
    places.extend(sending);
    places.extend(received.places.iter().cloned());
    let train =
        if plan.path.has_trains() { transmit::train(plan.datagram_bytes) as u64 } else { 1 };
    Counted { sent, arrived: received.tally.unique, train, places }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagrams::message::{Receiving, Sending};

    const HERE: [u8; 4] = [127, 0, 0, 1];

    fn plan(path: Path, datagram_bytes: usize, rate: Option<f64>) -> TrialPlan {
        TrialPlan {
            path,
            datagram_bytes,
            rate,
            duration: Duration::from_millis(60),
            sender_cores: vec![None],
            receiver_core: None,
            buffer_bytes: 16 << 20,
        }
    }

    fn trial(plan: TrialPlan) -> Trial {
        let receiver = Receiver { address: HERE.into(), number: 77 };
        run(&mut Responder::new(HERE.into()), receiver, plan).unwrap()
    }

    #[test]
    fn on_every_path_what_is_sent_arrives_or_has_a_place() {
        for sending in [Sending::Single, Sending::Trains] {
            for receiving in [Receiving::Blocking, Receiving::Napping, Receiving::Gro] {
                let path = Path::new(sending, receiving);
                let trial = trial(plan(path, 1_000, Some(20_000.0)));
                let (sent, tally) = (trial.sent_datagrams(), trial.received.tally);
                let name = path.name();
                assert!(sent > 0, "{name}: {sent}");
                assert_eq!(tally.unique + trial.lost(), sent, "{name}");
                assert_eq!((tally.duplicates, tally.foreign), (0, 0), "{name}");
                assert!(!trial.limit.is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn a_tiny_receive_buffer_loses_at_the_socket_and_all_of_it_has_a_place() {
        let paths = [
            Path::new(Sending::Single, Receiving::Napping),
            Path::new(Sending::Trains, Receiving::Gro),
        ];
        for path in paths {
            let trial = trial(TrialPlan { buffer_bytes: 2_048, ..plan(path, 1_400, None) });
            assert_eq!(trial.verdict(), Verdict::Lost);
            assert_eq!(trial.received.tally.unique + trial.lost(), trial.sent_datagrams());
            assert_eq!(trial.places[0].name, "socket buffer", "{:?}", trial.places);
            assert!(trial.limit.contains("socket buffer"), "{}", trial.limit);
        }
    }

    #[test]
    fn two_senders_are_followed_apart_and_a_rate_that_nobody_reaches_voids_the_trial() {
        let path = Path::new(Sending::Single, Receiving::Napping);
        let two = TrialPlan { sender_cores: vec![None, None], ..plan(path, 64, Some(1e9)) };
        let trial = trial(two);
        assert_eq!(trial.sent.len(), 2);
        assert_eq!(trial.received.tally.unique + trial.lost(), trial.sent_datagrams());
        assert_eq!(trial.received.tally.reordered, 0);
        assert_ne!(trial.verdict(), Verdict::Clean);
    }

    #[test]
    fn datagrams_that_no_network_carries_are_refused_in_a_sentence() {
        let path = Path::new(Sending::Single, Receiving::Napping);
        for bytes in [3, 70_000] {
            let receiver = Receiver { address: HERE.into(), number: 1 };
            let error = run(&mut Responder::new(HERE.into()), receiver, plan(path, bytes, None));
            let error = error.unwrap_err();
            assert!(error.to_string().contains("datagrams"), "{error}");
        }
    }
}
