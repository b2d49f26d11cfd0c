//! The senders of a trial, which begin together. Each is a process of its own, as two programs
//! would be; without a program for them they are threads of this process.

use std::sync::Barrier;
use std::time::Duration;

use super::process::Processes;
use super::transmit::{SendPlan, Sender, Sent};
use crate::Error;
use crate::environment::{Program, Stop};

/// The way senders are started.
#[derive(Clone, Default)]
pub struct Senders {
    /// The program that runs a sender as a process; `None`: senders are threads.
    pub program: Option<Program>,
    /// Set when the benchmark is interrupted.
    pub stop: Stop,
}

/// The results of a trial's senders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SentBy {
    /// One for each sender.
    pub sent: Vec<Sent>,
    /// Warnings: senders that could not be processes.
    pub warnings: Vec<String>,
}

impl Senders {
    /// Runs all senders for the plan's time. `begin` is called when all are ready, just before
    /// they begin.
    ///
    /// Errors: outside those of `begin`; inside those of a sender, after all have ended: no socket,
    /// a dead process, an interrupt. Cost of processes: some milliseconds.
    pub fn run<E>(
        &self,
        plan: &SendPlan,
        begin: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<SentBy, Error>, E> {
        let mut warnings = Vec::new();
        if let Some(program) = &self.program {
            match Processes::start(program, plan) {
                Ok(processes) => return run_processes(processes, plan, &self.stop, begin),
                Err(why) => {
                    let path = program.path.display();
                    warnings.push(format!("senders are threads: {path} did not start: {why}"));
                }
            }
        }
        Ok(run_threads(plan, begin)?.map_err(Error::Input).map(|sent| SentBy { sent, warnings }))
    }
}

fn run_processes<E>(
    mut processes: Processes,
    plan: &SendPlan,
    stop: &Stop,
    begin: impl FnOnce() -> Result<(), E>,
) -> Result<Result<SentBy, Error>, E> {
    let ready = processes.ready(stop);
    // Also when one failed: the far side has to be led to the trial's end.
    begin()?;
    let sent = ready.and_then(|()| processes.send(plan.duration, stop));
    Ok(sent.map(|sent| SentBy { sent, warnings: Vec::new() }))
}

fn run_threads<E>(
    plan: &SendPlan,
    begin: impl FnOnce() -> Result<(), E>,
) -> Result<Result<Vec<Sent>, String>, E> {
    let gates = [Barrier::new(plan.cores.len() + 1), Barrier::new(plan.cores.len() + 1)];
    std::thread::scope(|scope| {
        let start = |index: usize| {
            let gates = &gates;
            scope.spawn(move || in_thread(plan, index, gates))
        };
        let threads: Vec<_> = (0..plan.cores.len()).map(start).collect();
        gates[0].wait();
        let begun = begin();
        gates[1].wait();
        let sent = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err("a sending thread failed".to_owned()))
        });
        let sent = sent.collect();
        begun.map(|()| sent)
    })
}

fn in_thread(plan: &SendPlan, index: usize, gates: &[Barrier; 2]) -> Result<Sent, String> {
    let opened = Sender::open(plan, index);
    // Also when it failed: the others wait.
    gates.iter().for_each(|gate| {
        gate.wait();
    });
    opened?.send()
}

/// Returns the time from the first sender's start to the last one's; zero for one sender.
#[must_use]
pub fn apart(sent: &[Sent]) -> Duration {
    let began = || sent.iter().map(|sent| sent.began_ns);
    let (first, last) = (began().min().unwrap_or(0), began().max().unwrap_or(0));
    Duration::from_nanos(last - first)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::datagrams::message::{Path, Receiving, Sending};

    fn plan(cores: Vec<Option<usize>>) -> SendPlan {
        SendPlan {
            destination: ([127, 0, 0, 1], 9).into(),
            trial: 1,
            path: Path::new(Sending::Single, Receiving::Napping),
            datagram_bytes: 1_472,
            cores,
            rate: Some(1_000.0),
            duration: Duration::from_millis(10),
        }
    }

    /// A shell script as a sender.
    fn shell(script: &str) -> Senders {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        Senders {
            program: Some(Program { path: "/bin/sh".into(), arguments }),
            stop: Stop::default(),
        }
    }

    fn begun() -> Result<(), ()> {
        Ok(())
    }

    #[test]
    fn a_sender_that_cannot_begin_says_so_and_holds_nobody_up() {
        for senders in [Senders::default(), shell("exit 0")] {
            let plan = plan(vec![None, Some(100_000)]);
            let error = senders.run(&plan, begun).unwrap().unwrap_err();
            assert!(error.to_string().contains("100000"), "{error}");
        }
        let plan = plan(vec![None, None]);
        let error = Senders::default().run(&plan, || Err::<(), &str>("no")).unwrap_err();
        assert_eq!(error, "no");
    }

    #[test]
    fn a_program_that_is_not_there_is_a_warning_and_threads_send() {
        let path = "/no/such/program".into();
        let program = Some(Program { path, arguments: Vec::new() });
        let senders = Senders { program, stop: Stop::default() };
        let done = senders.run(&plan(vec![None]), begun).unwrap().unwrap();
        assert!(done.warnings[0].contains("/no/such/program did not start"), "{done:?}");
        assert_eq!(done.sent.len(), 1);
        assert_eq!(done.sent[0].process, None);
        assert!(!done.sent[0].cores.is_empty(), "{done:?}");
    }

    #[test]
    fn whatever_a_sending_process_does_wrong_is_a_sentence_and_nothing_hangs() {
        for (script, says) in [
            ("exit 3", "exit status: 3"),
            ("echo broken >&2; exit 1", "failed: broken"),
            ("kill -KILL $$", "killed by signal 9"),
            ("echo '{\"failed\":\"no route\"}'; cat > /dev/null", "no route"),
            ("echo nonsense; cat > /dev/null", "nonsense"),
            ("head -c 3000000 /dev/zero; cat > /dev/null", "unknown word"),
            ("echo '\"ready\"'; exit 4", "exit status: 4"),
            ("echo '\"ready\"'; echo '\"ready\"'; cat > /dev/null", "out of turn"),
        ] {
            let mut asked = false;
            let begin = || {
                asked = true;
                Ok::<(), ()>(())
            };
            let error = shell(script).run(&plan(vec![None, None]), begin).unwrap().unwrap_err();
            assert!(error.to_string().contains(says), "{script}: {error}");
            assert!(asked, "the far side waits for its end: {script}");
        }
    }

    #[test]
    fn an_interruption_is_heeded_while_processes_send() {
        let mut senders = shell("echo '\"ready\"'; cat > /dev/null");
        let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        senders.stop = Stop::on(std::sync::Arc::clone(&over));
        let begin = || {
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            Ok::<(), ()>(())
        };
        let long = SendPlan { duration: Duration::from_secs(3_600), ..plan(vec![None]) };
        let began = Instant::now();
        let error = senders.run(&long, begin).unwrap().unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(began.elapsed() < Duration::from_secs(600), "long before its end");
    }

    #[test]
    fn senders_are_apart_by_the_first_and_the_last_of_them() {
        let at = |began_ns| Sent { began_ns, ..Sent::default() };
        assert_eq!(apart(&[]), Duration::ZERO);
        assert_eq!(apart(&[at(7)]), Duration::ZERO);
        assert_eq!(apart(&[at(9), at(4), at(5)]), Duration::from_nanos(5));
    }
}
