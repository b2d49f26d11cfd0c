//! A process of a test, killed when it is dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait for anything; a busy machine is slow.
pub const WITHIN: Duration = Duration::from_secs(240);

/// Waits for a condition.
///
/// # Panics
/// Panics with `said` after a long time.
pub fn until(words: &str, mut is_true: impl FnMut() -> bool, said: impl Fn() -> String) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < WITHIN, "waited in vain for {words}: {}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a signal, such as `-STOP`, to a process.
pub fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
    assert!(sent.success(), "no process {pid} for {signal}");
}

/// A process; its outputs go to files in its folder.
pub struct Process {
    /// Its name in messages, and of its files.
    pub name: String,
    child: Mutex<Child>,
    folder: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Process {
    /// Starts a command in a folder.
    pub fn start(command: &mut Command, name: &str, folder: &Path) -> Process {
        let file = |end: &str| File::create(folder.join(format!("{name}.{end}"))).expect("a file");
        let command = command.current_dir(folder).stdout(file("out")).stderr(file("log"));
        let child = Mutex::new(command.spawn().expect("it starts"));
        Process { name: name.to_owned(), child, folder: folder.to_path_buf() }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self, end: &str) -> String {
        let path = self.folder.join(format!("{}.{end}", self.name));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Returns standard error so far.
    pub fn said(&self) -> String {
        self.text("log")
    }

    /// Waits for words on standard error.
    ///
    /// # Panics
    /// Panics when it ends without them.
    pub fn wait_for(&self, words: &str) {
        let has_said = || {
            let ended = self.ended();
            let has_said = self.said().contains(words);
            assert!(has_said || ended.is_none(), "{}: {ended:?}: {}", self.name, self.said());
            has_said
        };
        until(&format!("{}: {words}", self.name), has_said, || self.said());
    }

    /// Waits for words on standard error; returns what follows them in their line.
    pub fn wait_for_rest(&self, words: &str) -> String {
        let rest_of = |said: &str| {
            // The line may still be on its way.
            let (complete, _) = said.rsplit_once('\n')?;
            complete.lines().find_map(|line| Some(line.split_once(words)?.1.trim().to_owned()))
        };
        self.wait_for(words);
        until(words, || rest_of(&self.said()).is_some(), || self.said());
        rest_of(&self.said()).expect("it is there")
    }

    /// Returns the exit status of a process that has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().expect("a child")
    }

    /// Waits for the end; returns the exit status, the document on standard output, and standard
    /// error.
    pub fn end(self) -> (Option<i32>, Value, String) {
        let words = format!("the end of {}", self.name);
        until(&words, || self.ended().is_some(), || self.said());
        let status = self.ended().and_then(|status| status.code());
        let document = serde_json::from_str(&self.text("out")).unwrap_or(Value::Null);
        (status, document, self.said())
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(self.child().id(), name);
    }

    /// Kills it as a power cut does, and waits for its end.
    pub fn kill(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}
