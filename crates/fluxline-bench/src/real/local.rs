//! The far side as a process of its own on this host.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::ANSWER_LIMIT;
use super::near::silent;
use crate::Stop;
use crate::environment::Program;
use crate::{Error, child};

/// The far side as another process on this host, started for one benchmark; killed when dropped.
pub struct Local {
    child: Child,
    /// The address on which it serves.
    pub control: SocketAddr,
    /// Its key.
    pub key: String,
}

/// The environment variable that carries the key: a command line is for all to read.
pub const KEY_VARIABLE: &str = "FLUXLINE_BENCH_KEY";

impl Local {
    /// Starts a program as `bench --serve 127.0.0.1:0 --once`.
    ///
    /// Errors: it does not start, or does not print its address within some seconds.
    pub fn start(program: &Program, stop: &Stop) -> Result<Local, Error> {
        let host = || Error::host("starting the other side");
        let key = crate::host::random_key()?;
        let Program { path, arguments } =
            program.called(&["bench", "--serve", "127.0.0.1:0", "--once"]);
        let child = Command::new(path)
            .args(arguments)
            .env(KEY_VARIABLE, &key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(host())?;
        let control = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let mut local = Local { child, control, key };
        local.control = local.listens_at(stop)?;
        Ok(local)
    }

    /// Its process number.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Reads the first line that it prints: the address is its last word.
    fn listens_at(&mut self, stop: &Stop) -> Result<SocketAddr, Error> {
        let Some(mut out) = self.child.stdout.take() else {
            return Err(silent("start", ANSWER_LIMIT));
        };
        let (send, line) = std::sync::mpsc::channel();
        // Ends with the child, which is killed when dropped.
        std::thread::spawn(move || {
            let (mut text, mut byte) = (String::new(), [0]);
            while !text.ends_with('\n') && matches!(out.read(&mut byte), Ok(1)) {
                text.push(char::from(byte[0]));
            }
            // Nobody waits any more: then it is of no interest either.
            let _ = send.send(text);
        });
        let began = Instant::now();
        while began.elapsed() < ANSWER_LIMIT {
            stop.check()?;
            if let Ok(text) = line.recv_timeout(Duration::from_millis(20)) {
                let address = text.split_whitespace().last().and_then(|word| word.parse().ok());
                return address
                    .ok_or_else(|| self.died().unwrap_or_else(|| silent("start", ANSWER_LIMIT)));
            }
        }
        Err(silent("start", ANSWER_LIMIT))
    }

    /// Returns the failure of the process, if any. A process that exits with status 0 after its
    /// benchmark has left did not fail.
    pub fn died(&mut self) -> Option<Error> {
        child::failed(&mut self.child).map(|how| Error::PeerGone { how })
    }
}

impl Local {
    /// Waits until the process has ended by itself, as it does when its near side is gone: one that
    /// is killed leaves its files in shared memory. One that does not end is killed when dropped.
    pub fn finish(&mut self) {
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < ANSWER_LIMIT {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
