//! Programs of peers: started on a core, read, and ended with the benchmark.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fluxline::pin;

use super::{BenchError, LIMIT, NoNumber};
use crate::run::Stop;

/// How long a server is given until it listens.
const LISTENS_AFTER: Duration = Duration::from_millis(300);

/// How long a server is given to end after its client.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// A program that runs; killed when dropped alive.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both do nothing where it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program that may use one core alone, or all when there is none.
fn start(command: &mut Command, core: Option<usize>) -> Result<Running, NoNumber> {
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    let name = command.get_program().to_string_lossy().into_owned();
    // A child inherits the core of the thread that starts it.
    let started = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            core.map_or(Ok(()), pin::pin_current_thread).map_err(BenchError::from)?;
            command.spawn().map_err(|error| NoNumber::Failed(format!("{name}: {error}")))
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    started.map(Running)
}

/// Runs a program to its end; what it prints.
pub fn output(command: &mut Command, core: Option<usize>, stop: &Stop) -> Result<String, NoNumber> {
    let name = command.get_program().to_string_lossy().into_owned();
    finish(&name, start(command, core)?, stop)
}

/// Runs a server and a client to the client's end; what the client prints.
pub fn client_output(
    server: &mut Command,
    client: &mut Command,
    cores: [usize; 2],
    stop: &Stop,
) -> Result<String, NoNumber> {
    let mut server = start(server, Some(cores[1]))?;
    std::thread::sleep(LISTENS_AFTER);
    let text = output(client, Some(cores[0]), stop)?;
    // A server that is killed while it cleans up leaves files in shared memory.
    let began = Instant::now();
    while matches!(server.0.try_wait(), Ok(None)) && began.elapsed() < ENDS_WITHIN {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(text)
}

fn finish(name: &str, mut running: Running, stop: &Stop) -> Result<String, NoNumber> {
    let began = Instant::now();
    loop {
        if stop.is_over() {
            return Err(NoNumber::Over(BenchError::Interrupted));
        }
        match running.0.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(NoNumber::Failed(format!("{name} ended: {status}"))),
            Err(error) => return Err(NoNumber::Failed(format!("{name}: {error}"))),
            Ok(None) if began.elapsed() > LIMIT => {
                return Err(NoNumber::Failed(format!("{name} took longer than {LIMIT:?}")));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    let mut text = String::new();
    if let Some(out) = &mut running.0.stdout {
        let read = out.read_to_string(&mut text);
        read.map_err(|error| NoNumber::Failed(format!("{name}: {error}")))?;
    }
    Ok(text)
}

/// Whether a program is on the path.
pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A port of loopback that was free a moment ago.
pub fn free_port() -> Result<String, NoNumber> {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|of| of.local_addr());
    port.map(|of| of.port().to_string()).map_err(|error| NoNumber::Failed(error.to_string()))
}
