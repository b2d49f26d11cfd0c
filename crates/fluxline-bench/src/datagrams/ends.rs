//! The two ends of a trial: both in this process, or the far end behind a control connection.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use super::far::{Parameters, Responder, SERVICE};
use super::message::{Answer, Host, Request};
use super::trial::{self, Far, Receiver, Trial, TrialPlan, ask, out_of_turn};
use crate::Error;
use crate::environment::{Conversation, Environment};

/// The limit of an answer: the far side waits up to ten seconds for the rest of a trial.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Two ends that trials run between.
pub trait Ends {
    /// The receiver's address.
    fn address(&self) -> IpAddr;

    /// The far host. Errors: the other side is gone.
    fn far_host(&mut self) -> Result<Host, Error>;

    /// Runs a trial. Errors: [`Error`].
    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Error>;

    /// Reports that `done` steps of `all` are done, and what comes next.
    fn progress(&mut self, done: usize, all: usize, what: &str);
}

fn host_of(far: &mut dyn Far) -> Result<Host, Error> {
    match ask(far, &Request::Describe)? {
        Answer::Host(host) => Ok(host),
        other => Err(out_of_turn(&other)),
    }
}

/// Both ends in this process, each in threads of its own.
pub struct InProcess {
    address: IpAddr,
    responder: Responder,
    number: u32,
}

impl InProcess {
    /// Opens both ends on an address of this host.
    #[must_use]
    pub fn new(address: IpAddr) -> InProcess {
        InProcess { address, responder: Responder::new(address), number: 0 }
    }
}

impl Ends for InProcess {
    fn address(&self) -> IpAddr {
        self.address
    }

    fn far_host(&mut self) -> Result<Host, Error> {
        host_of(&mut self.responder)
    }

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Error> {
        self.number = self.number.wrapping_add(1);
        let receiver = Receiver { address: self.address, number: self.number };
        trial::run(&mut self.responder, receiver, plan)
    }

    fn progress(&mut self, _done: usize, _all: usize, _what: &str) {}
}

/// The far end behind an environment's control connection: a service that is called for each trial.
pub struct Remote<'a> {
    environment: &'a mut dyn Environment,
    address: IpAddr,
    number: u32,
}

impl Remote<'_> {
    /// Wraps an environment. Errors: it has no addresses.
    pub fn new(environment: &mut dyn Environment) -> Result<Remote<'_>, Error> {
        let Some([address, _]) = environment.addresses() else {
            let (what, link) = ("sending UDP datagrams".to_owned(), environment.link().to_owned());
            return Err(Error::Unsuitable { what, link });
        };
        // Another program on the same port, after a restart, has other numbers.
        let number = std::process::id().wrapping_mul(1 << 12);
        Ok(Remote { environment, address, number })
    }

    /// Calls the service, and runs `near` with its conversation.
    ///
    /// After an error that does not end the session the service is asked to leave, so that the
    /// connection stays usable.
    fn with_far<T>(
        &mut self,
        near: &mut dyn FnMut(&mut dyn Far) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let parameters = serde_json::to_value(Parameters { address: self.address })
            .map_err(|error| Error::Defect { what: format!("parameters: {error}") })?;
        let mut came = None;
        self.environment.call(&SERVICE, &parameters, &mut |conversation| {
            match near(&mut RemoteResponder { conversation: &mut *conversation }) {
                Err(error) if error.ends_session() => return Err(error),
                result => came = Some(result),
            }
            conversation.send(&to_value(&Request::Leave)?)?;
            Ok(Value::Null)
        })?;
        came.unwrap_or_else(|| Err(Error::PeerGone { how: "it was never called".to_owned() }))
    }
}

impl Ends for Remote<'_> {
    fn address(&self) -> IpAddr {
        self.address
    }

    fn far_host(&mut self) -> Result<Host, Error> {
        self.with_far(&mut |far| host_of(far))
    }

    fn trial(&mut self, plan: TrialPlan) -> Result<Trial, Error> {
        self.environment.stop().check()?;
        self.number = self.number.wrapping_add(1);
        let receiver = Receiver { address: self.address, number: self.number };
        self.with_far(&mut |far| trial::run(far, receiver, plan.clone()))
    }

    fn progress(&mut self, done: usize, all: usize, what: &str) {
        self.environment.progress(done, all, what);
    }
}

/// The far end of a conversation.
struct RemoteResponder<'a> {
    conversation: &'a mut dyn Conversation,
}

impl Far for RemoteResponder<'_> {
    fn ask(&mut self, request: &Request) -> Result<Answer, Error> {
        self.conversation.send(&to_value(request)?)?;
        let Some(heard) = self.conversation.receive(ANSWER_LIMIT)? else {
            let how = format!("no answer for {} s", ANSWER_LIMIT.as_secs());
            return Err(Error::PeerGone { how });
        };
        serde_json::from_value(heard)
            .map_err(|error| Error::Garbled { what: format!("no answer ({error})") })
    }
}

fn to_value(request: &Request) -> Result<Value, Error> {
    serde_json::to_value(request)
        .map_err(|error| Error::Defect { what: format!("a request: {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;
    use crate::datagrams::setting::{SINGLE, Setting};
    use crate::datagrams::{setting::Extent, sweep};
    use crate::real::{Link, Near, NearConfig, Server, Until};
    use crate::result::Experiment;

    /// Runs `near` against a server in a thread of this process.
    fn with_server(near: impl FnOnce(&mut Near) + Send) {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), "a key").unwrap();
        let control = server.address();
        std::thread::scope(|scope| {
            let serving =
                scope.spawn(move || server.serve(Until::FirstEnds, &Stop::default(), &|_| ()));
            // In a thread of its own: connecting pins the thread.
            let measuring = scope.spawn(move || {
                let url = "udp://127.0.0.1".to_owned();
                let config = NearConfig {
                    link: Link::parse(&url).unwrap(),
                    url,
                    control,
                    key: "a key".to_owned(),
                    cores: [fluxline::pin::allowed_cores().first().copied(), None],
                    progress: Box::new(|_, _, _| ()),
                    stop: Stop::default(),
                };
                near(&mut Near::connect(config).unwrap());
            });
            measuring.join().unwrap();
            serving.join().unwrap().unwrap();
        });
    }

    #[test]
    fn over_a_control_connection_trials_are_those_of_one_process() {
        with_server(|near| {
            let extent =
                Extent { sizes: vec![1_472], trial: Duration::from_millis(60), ..Extent::quick() };
            let mut done = Experiment::new(sweep::NAME, sweep::ABOUT);
            sweep::run(&mut Remote::new(near).unwrap(), &extent, &mut done).unwrap();
            assert_eq!(done.facts.len(), 4);
            assert!(done.facts.iter().all(|fact| fact.samples[0] > 0.0), "{:?}", done.facts);
            assert!(done.notes[0].contains("one host"), "{:?}", done.notes);
        });
    }

    #[test]
    fn a_trial_that_is_refused_leaves_the_connection_usable() {
        with_server(|near| {
            let mut environment = Remote::new(near).unwrap();
            let setting = Setting::find(&mut environment).unwrap();
            let length = Duration::from_millis(50);
            let error = environment.trial(setting.trial(SINGLE, 3, None, length)).unwrap_err();
            assert!(error.to_string().contains("datagrams of 3 byte"), "{error}");
            let trial =
                environment.trial(setting.trial(SINGLE, 100, Some(2_000.0), length)).unwrap();
            assert_eq!(trial.received.tally.unique + trial.lost(), trial.sent_datagrams());
        });
    }
}
