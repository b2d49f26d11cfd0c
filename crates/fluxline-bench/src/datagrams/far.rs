//! The receiving side: answers the near side, one trial at a time.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::arrivals::{SENDERS_MAX, STAMP_BYTES};
use super::collect::{Collector, Progress};
use super::host::Reading;
use super::message::{Answer, Host, Ready, ReceivePlan, Received, Request};
use crate::Error;
use crate::environment::{Conversation, Service};

/// UDP payload at most \[byte\]: 65,535 - 20 - 8 (RFC 791, RFC 768).
pub const DATAGRAM_BYTES_MAX: u32 = 65_507;
/// Datagrams missing after this time of silence are lost.
const SILENCE: Duration = Duration::from_millis(150);
/// The longest time to fetch the rest of a trial.
const REST_MAX: Duration = Duration::from_secs(10);
/// The time between two looks at the rest.
const LOOK: Duration = Duration::from_millis(2);

struct Running {
    progress: Arc<Progress>,
    thread: JoinHandle<Result<Received, String>>,
    before: Option<Reading>,
}

/// The receiving side.
pub struct Responder {
    address: IpAddr,
    running: Option<Running>,
}

impl Responder {
    /// Receives on an address; each trial has a port of its own.
    #[must_use]
    pub fn new(address: IpAddr) -> Responder {
        Responder { address, running: None }
    }

    /// Answers a request; an impossible one is rejected in a sentence.
    pub fn answer(&mut self, request: &Request) -> Answer {
        match *request {
            Request::Describe => Answer::Host(Host::here()),
            Request::Leave => Answer::Refused("this is a responder, and no service".to_owned()),
            Request::Prepare(plan) => {
                self.prepare(plan).map_or_else(Answer::Refused, Answer::Ready)
            }
            Request::Begin => match &mut self.running {
                Some(running) => {
                    running.before = Some(Reading::take());
                    Answer::Begun
                }
                None => Answer::Refused("nothing was prepared".to_owned()),
            },
            Request::End { sent } => match self.running.take() {
                Some(running) => end(running, sent)
                    .map_or_else(Answer::Refused, |received| Answer::Ended(Box::new(received))),
                None => Answer::Refused("nothing was prepared".to_owned()),
            },
        }
    }

    /// Opens the socket in the thread that will read it, so that its memory is near its core.
    fn prepare(&mut self, plan: ReceivePlan) -> Result<Ready, String> {
        self.abandon();
        check(&plan)?;
        let address = SocketAddr::new(self.address, 0);
        let progress = Arc::new(Progress::default());
        let (report, opened) = mpsc::channel();
        let shared = Arc::clone(&progress);
        let thread = std::thread::spawn(move || {
            let opened = Collector::open(plan, address);
            let _ = report.send(opened.as_ref().map(Collector::opened).map_err(String::clone));
            opened?.run(&shared)
        });
        let (address, warnings) =
            opened.recv().map_err(|_| "the receiving thread ended early".to_owned())??;
        let port = address.map_or(0, |address| address.port());
        self.running = Some(Running { progress, thread, before: None });
        Ok(Ready { port, warnings })
    }

    /// Ends a trial whose near side is gone.
    fn abandon(&mut self) {
        if let Some(running) = self.running.take() {
            running.progress.stop.store(true, Ordering::Relaxed);
            let _ = running.thread.join();
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The far side of one trial as a service: it answers until it is asked to leave.
pub const SERVICE: Service = Service { name: "datagrams", run: serve };

/// The parameters of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// The address that it receives on.
    pub address: IpAddr,
}

fn serve(parameters: &Value, conversation: &mut dyn Conversation) -> Result<Value, Error> {
    let parameters: Parameters = serde_json::from_value(parameters.clone())
        .map_err(|error| Error::Input(format!("datagrams without an address: {error}")))?;
    let mut responder = Responder::new(parameters.address);
    while !conversation.is_over() {
        // A longer wait would poll the connection all the time, on the core of the receiver.
        let Some(heard) = conversation.receive(Duration::ZERO)? else {
            std::thread::sleep(LOOK);
            continue;
        };
        let request = serde_json::from_value(heard)
            .map_err(|error| Error::Garbled { what: format!("no request ({error})") })?;
        if request == Request::Leave {
            return Ok(Value::Null);
        }
        let answer = serde_json::to_value(responder.answer(&request))
            .map_err(|error| Error::Defect { what: format!("an answer: {error}") })?;
        conversation.send(&answer)?;
    }
    Err(Error::PeerGone { how: "it closed the control connection".to_owned() })
}

/// Checks a plan from the connection, which is not trusted.
fn check(plan: &ReceivePlan) -> Result<(), String> {
    let bytes = plan.datagram_bytes;
    if !(STAMP_BYTES as u32..=DATAGRAM_BYTES_MAX).contains(&bytes) {
        return Err(format!(
            "datagrams of {bytes} byte: choose {STAMP_BYTES} to {DATAGRAM_BYTES_MAX} byte"
        ));
    }
    if !(1..=SENDERS_MAX).contains(&plan.senders) {
        return Err(format!("{} senders: choose 1 to {SENDERS_MAX}", plan.senders));
    }
    Ok(())
}

/// Reads the counters at once, then waits for datagrams still on their way.
fn end(running: Running, sent: u64) -> Result<Received, String> {
    let Running { progress, thread, before } = running;
    let at_end = Reading::take();
    let start = Instant::now();
    let (mut arrived, mut changed) = (progress.arrived.load(Ordering::Relaxed), start);
    while arrived < sent && changed.elapsed() < SILENCE && start.elapsed() < REST_MAX {
        std::thread::sleep(LOOK);
        let now = progress.arrived.load(Ordering::Relaxed);
        if now != arrived {
            (arrived, changed) = (now, Instant::now());
        }
    }
    progress.stop.store(true, Ordering::Relaxed);
    let received = thread.join().map_err(|_| "the receiving thread failed".to_owned())??;
    let before = before.unwrap_or_else(|| at_end.clone());
    let cores = at_end.loads_since(&before);
    let mut places = received.places;
    places.extend(Reading::take().receiving_since(&before));
    Ok(Received { cores, places, ..received })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagrams::message::{Path, Receiving, Sending};

    fn plan() -> ReceivePlan {
        let path = Path::new(Sending::Single, Receiving::Napping);
        ReceivePlan {
            trial: 1,
            path,
            datagram_bytes: 64,
            senders: 1,
            core: None,
            buffer_bytes: 65_536,
        }
    }

    fn refusal(answer: Answer) -> String {
        let Answer::Refused(why) = answer else { panic!("refused, and not {answer:?}") };
        why
    }

    #[test]
    fn senseless_plans_and_requests_out_of_turn_are_refused_in_a_sentence() {
        let mut responder = Responder::new(IpAddr::from([127, 0, 0, 1]));
        for request in [Request::Begin, Request::End { sent: 5 }] {
            assert!(refusal(responder.answer(&request)).contains("nothing was prepared"));
        }
        for bytes in [0, 15, 65_508, u32::MAX] {
            let plan = ReceivePlan { datagram_bytes: bytes, ..plan() };
            let why = refusal(responder.answer(&Request::Prepare(plan)));
            assert!(why.contains(&bytes.to_string()) && why.contains("choose"), "{why}");
        }
        for senders in [0, 65, u32::MAX] {
            let plan = ReceivePlan { senders, ..plan() };
            assert!(refusal(responder.answer(&Request::Prepare(plan))).contains("senders"));
        }
        let elsewhere = &mut Responder::new(IpAddr::from([203, 0, 113, 7]));
        let why = refusal(elsewhere.answer(&Request::Prepare(plan())));
        assert!(why.contains("not an address of this machine"), "{why}");
    }

    #[test]
    fn a_core_that_is_not_there_is_a_warning_and_a_trial_that_is_left_ends() {
        let mut responder = Responder::new(IpAddr::from([127, 0, 0, 1]));
        let far_core = ReceivePlan { core: Some(100_000), ..plan() };
        for _ in 0..3 {
            let Answer::Ready(ready) = responder.answer(&Request::Prepare(far_core)) else {
                panic!("ready")
            };
            assert!(ready.port > 0);
            assert!(ready.warnings.iter().any(|text| text.contains("100000")), "{ready:?}");
        }
        drop(responder);
    }

    #[test]
    fn nothing_sent_is_nothing_lost() {
        let mut responder = Responder::new(IpAddr::from([127, 0, 0, 1]));
        assert!(matches!(responder.answer(&Request::Prepare(plan())), Answer::Ready(_)));
        assert_eq!(responder.answer(&Request::Begin), Answer::Begun);
        let Answer::Ended(received) = responder.answer(&Request::End { sent: 0 }) else {
            panic!("ended")
        };
        assert_eq!((received.tally.unique, received.socket_drops), (0, 0));
        assert_eq!(received.seconds, 0.0);
    }
}
