//! What a process looks at while it spins for the other: whether the other lives, and whether the
//! user has had enough.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use fluxline_bench::how_it_ended;

use super::BenchError;
use crate::run::Stop;

/// Fruitless looks between two looks at the other's life: some milliseconds.
const LOOK_SPINS: u32 = 1 << 20;
/// How long two processes may take to find each other.
pub const MEET_LIMIT: Duration = Duration::from_secs(10);

/// The other process, watched by the one that started it. Killed when dropped alive.
pub struct Watch {
    child: Child,
    stop: Stop,
    spins: u32,
}

impl Watch {
    /// Watches `child`, whose standard error is piped.
    pub fn new(child: Child, stop: Stop) -> Watch {
        Watch { child, stop, spins: 0 }
    }

    /// Called for every fruitless look. Cost: an addition.
    #[inline]
    pub fn spin(&mut self) -> Result<(), BenchError> {
        self.spins = self.spins.wrapping_add(1);
        if self.spins.is_multiple_of(LOOK_SPINS) { self.look() } else { Ok(()) }
    }

    /// Looks at once. Cost: a system call.
    #[cold]
    pub fn look(&mut self) -> Result<(), BenchError> {
        if self.stop.is_over() {
            return Err(BenchError::Interrupted);
        }
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.died(status)),
            Err(source) => Err(BenchError::Host { what: "waiting for the other process", source }),
        }
    }

    /// Asks again and again until there is something, at most [`MEET_LIMIT`].
    pub fn until<T>(
        &mut self,
        mut ask: impl FnMut() -> Result<Option<T>, BenchError>,
    ) -> Result<T, BenchError> {
        let began = Instant::now();
        while began.elapsed() < MEET_LIMIT {
            if let Some(found) = ask()? {
                return Ok(found);
            }
            self.look()?;
            std::thread::sleep(Duration::from_micros(200));
        }
        Err(BenchError::NotMet)
    }

    /// Waits for its end, which was ordered.
    pub fn end(&mut self) -> Result<(), BenchError> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.died(status)),
            Err(source) => Err(BenchError::Host { what: "waiting for the other process", source }),
        }
    }

    /// Ends it where it has not ended.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn died(&mut self, status: ExitStatus) -> BenchError {
        let how = how_it_ended(&mut self.child, status);
        BenchError::OtherDied { process: self.child.id(), how }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.kill();
    }
}
