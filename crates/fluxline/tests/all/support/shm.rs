//! Code that the tests of shared memory between processes share.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fluxline::clock;
use fluxline::shm::{Shm, ShmConfig, ShmError};
use fluxline_core::fabric::{Completion, EndpointId, Fabric, Key, Name, Status};

/// Of all regions.
pub const KEY: Key = Key(7);
/// Longer than anything takes on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A name that is legal.
pub fn name(text: &str) -> Name {
    Name::parse(text).expect("a legal name")
}

/// A base directory of the test's own, in memory.
pub fn base() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("fluxline-test-").tempdir_in("/dev/shm").expect("a directory")
}

/// A node of the group `lab`.
pub fn open(base: &Path, node: &str) -> Result<Shm, ShmError> {
    let config = ShmConfig { base: Some(base.join("base")), ..ShmConfig::default() };
    Shm::open(&name("lab"), &name(node), config)
}

/// Polls until `wanted` accepts something.
pub fn wait<T>(node: &mut Shm, mut wanted: impl FnMut(&Completion) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        while let Some(what) = node.poll(clock::now()) {
            if let Some(found) = wanted(&what) {
                return found;
            }
        }
        assert!(began.elapsed() < PATIENCE, "nothing came in time");
        node.wait(Duration::from_millis(10));
    }
}

/// The connection, if the completion reports one.
pub fn connected(what: &Completion) -> Option<EndpointId> {
    match what {
        Completion::Connected { endpoint, .. } => Some(*endpoint),
        _ => None,
    }
}

/// The reason why a connection is over, if the completion reports that.
pub fn broken(what: &Completion) -> Option<Status> {
    match what {
        Completion::Broken { status, .. } => Some(*status),
        _ => None,
    }
}

/// Starts the `child` of a module of this program, in a role.
pub fn start(module: &str, role: &str, base: &Path) -> Child {
    start_by(Command::new(std::env::current_exe().expect("a path")), module, role, base)
}

/// Starts this program again, with a limit of open descriptors.
pub fn start_limited(descriptors: u32, module: &str, role: &str, base: &Path) -> Child {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""));
    shell.arg(std::env::current_exe().expect("a path"));
    start_by(shell, module, role, base)
}

/// Starts the `child` of a module by another program.
fn start_by(mut program: Command, module: &str, role: &str, base: &Path) -> Child {
    program
        .args(["--exact", &format!("{module}::child"), "--include-ignored", "--nocapture"])
        .env("ROLE", role)
        .env("BASE", base)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts")
}
