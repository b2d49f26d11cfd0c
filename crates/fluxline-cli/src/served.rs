//! The pages that the program serves, and the file by which `fluxline ctl` finds a run's.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fluxline_run::{Acquisition, Stop};
use fluxline_serve::{Listening, ServeError, Server, ServerConfig};

use crate::failure::Failure;
use crate::inform;

/// The file in the run folder, for its owner alone: the address with the token.
pub const FILE: &str = "serve.url";

/// A server, and its file; both end when it is dropped.
pub struct Served {
    file: Option<PathBuf>,
    _server: Server,
}

/// Listens on the address of the page, before the run begins.
pub fn listen(config: &ServerConfig) -> Result<Listening, Failure> {
    Listening::on(config).map_err(failure)
}

impl Served {
    /// Serves an acquisition and prints the address.
    pub fn start(listening: Listening, acquisition: &Acquisition) -> Result<Served, Failure> {
        let server = Server::start(listening, acquisition.watcher()).map_err(failure)?;
        inform!("page     {}", server.url());
        let folder = acquisition.plan().folder.as_deref();
        let file = folder.and_then(|folder| write(folder, &server.url()));
        Ok(Served { file, _server: server })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Writes the file; without it `fluxline ctl` needs the address, which is printed.
fn write(folder: &Path, url: &str) -> Option<PathBuf> {
    let path = folder.join(FILE);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&path).ok()?;
    writeln!(file, "{url}").ok()?;
    Some(path)
}

/// Waits for Ctrl-C.
pub fn wait(stop: &Stop) {
    while !stop.is_over() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the failure of a server that does not start.
pub fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Folder(_) | ServeError::Host(_) => Failure::input(error),
        ServeError::Listen { .. } => Failure::link(error),
        ServeError::System(_) => Failure::failed(error),
    }
}
