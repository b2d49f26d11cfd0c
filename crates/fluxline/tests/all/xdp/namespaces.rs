//! Two network namespaces joined by a veth pair, and processes in them; gone when dropped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    A,
    B,
}

/// The namespaces; in each, the interface `veth`.
pub(crate) struct Namespaces {
    names: [String; 2],
    number: u32,
}

/// Runs `ip`; what it wrote, or what it complained about.
fn ip(arguments: &str) -> Result<String, String> {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Namespaces {
    /// `None`, with a printed line, where they cannot be made; with FLUXLINE_REQUIRE_TOOLS=1 that
    /// is a failure for root.
    pub(crate) fn new(mtu: usize) -> Option<Namespaces> {
        Namespaces::with_queues(mtu, 1)
    }

    pub(crate) fn with_queues(mtu: usize, queues: u32) -> Option<Namespaces> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("flx{}{side}{number}", std::process::id());
        let made = Namespaces { names: [name('a'), name('b')], number };
        match made.set_up(mtu, queues) {
            Ok(()) => Some(made),
            Err(reason) => {
                println!("skipped: {reason}");
                let required = std::env::var("FLUXLINE_REQUIRE_TOOLS").is_ok_and(|it| it == "1");
                assert!(!(required && is_root()), "FLUXLINE_REQUIRE_TOOLS=1, and {reason}");
                None
            }
        }
    }

    fn set_up(&self, mtu: usize, queues: u32) -> Result<(), String> {
        let [a, b] = &self.names;
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        let count = format!("numrxqueues {queues} numtxqueues {queues}");
        let peer = format!("peer name veth netns {b} {count}");
        ip(&format!("link add veth netns {a} {count} type veth {peer}"))?;
        for side in [Side::A, Side::B] {
            let (v4, v6) = (self.v4(side), self.v6(side));
            let name = self.name(side);
            ip(&format!("-n {name} link set lo up"))?;
            ip(&format!("-n {name} link set veth mtu {mtu} up"))?;
            ip(&format!("-n {name} address add {v4}/24 dev veth"))?;
            ip(&format!("-n {name} address add {v6}/64 dev veth nodad"))?;
        }
        Ok(())
    }

    pub(crate) fn name(&self, side: Side) -> &str {
        &self.names[side as usize]
    }

    pub(crate) fn v4(&self, side: Side) -> String {
        format!("10.208.{}.{}", self.number, side as usize + 1)
    }

    pub(crate) fn v6(&self, side: Side) -> String {
        format!("fd00:208::{}:{}", self.number, side as usize + 1)
    }

    /// Runs `ip` in a namespace; it must succeed.
    pub(crate) fn ip(&self, side: Side, arguments: &str) -> String {
        ip(&format!("-n {} {arguments}", self.name(side))).expect("ip succeeds")
    }

    /// Runs a Python script in a namespace; it must succeed.
    pub(crate) fn python(&self, side: Side, script: &str) {
        let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let status = Command::new("ip")
            .args(["netns", "exec", self.name(side), &python, "-c", script])
            .status()
            .expect("python starts");
        assert!(status.success(), "the script failed");
    }

    /// Runs role `lengths` from A to `peer`, with that longest frame.
    pub(crate) fn lengths(&self, peer: &str, longest: usize, more: &[(&str, &str)]) {
        let own = if peer.contains(':') { self.v6(Side::A) } else { self.v4(Side::A) };
        let longest = longest.to_string();
        let mut environment = vec![("PEER", peer), ("OWN", &own), ("LONGEST", &longest)];
        environment.extend_from_slice(more);
        self.run(Side::A, "lengths", &environment);
    }

    fn start(&self, side: Side, role: &str, environment: &[(&str, &str)]) -> Child {
        let program = std::env::current_exe().expect("a path");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name(side)]).arg(program);
        command.args(["--exact", "xdp::child", "--include-ignored", "--nocapture"]);
        command.env("ROLE", role).envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts")
    }

    /// Plays a role to its end, which must be a success.
    pub(crate) fn run(&self, side: Side, role: &str, environment: &[(&str, &str)]) {
        print!("{}", self.said(side, role, environment));
    }

    /// The same; what it said.
    pub(crate) fn said(&self, side: Side, role: &str, environment: &[(&str, &str)]) -> String {
        let mut child = self.start(side, role, environment);
        let rest = child.stdout.take().map(BufReader::new);
        Process { child, rest }.said()
    }

    /// Starts a role that serves, until it says that it is ready.
    pub(crate) fn server(&self, side: Side, role: &str) -> Process {
        self.server_with(side, role, &[])
    }

    pub(crate) fn server_with(&self, side: Side, role: &str, with: &[(&str, &str)]) -> Process {
        let mut child = self.start(side, role, with);
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut said = String::new();
        while !said.ends_with("ready\n") {
            let read = output.read_line(&mut said).expect("text");
            assert!(read > 0, "{role} ended before it was ready: {said}");
        }
        Process { child, rest: Some(output) }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // The interfaces go with them.
        for name in &self.names {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

/// A role that runs; ended when dropped.
pub(crate) struct Process {
    child: Child,
    rest: Option<BufReader<std::process::ChildStdout>>,
}

impl Process {
    /// Waits for its end, which must be a success.
    pub(crate) fn finishes(self) {
        print!("{}", self.said());
    }

    /// The same; what it said.
    pub(crate) fn said(mut self) -> String {
        let status = self.wait();
        let mut said = String::new();
        if let Some(mut rest) = self.rest.take() {
            let _ = rest.read_to_string(&mut said);
        }
        assert!(status.success(), "{status}: {said}");
        said
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    })
}
