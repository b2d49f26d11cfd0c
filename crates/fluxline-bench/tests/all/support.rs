//! Both sides of a benchmark in two threads of a test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fluxline_bench::environment::Plan;
use fluxline_bench::real::{Link, Near, NearConfig, Progress, Server, Until};
use fluxline_bench::result::Report;
use fluxline_bench::{Error, Stop, run};
use serde_json::json;

/// The key of every far side.
pub const KEY: &str = "a key of the test";
/// The longest wait for progress: a test that needs more hangs.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Waits for both cores: each of these tests wants them for itself.
pub fn alone() -> MutexGuard<'static, ()> {
    static CORES: Mutex<()> = Mutex::new(());
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The far side in a thread.
pub struct Far {
    pub address: SocketAddr,
    pub stop: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Far {
    pub fn start(until: Until) -> Far {
        let server = Server::bind("127.0.0.1:0".parse().expect("an address"), KEY).expect("free");
        let address = server.address();
        let (stop, said) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (flag, lines) = (Stop::on(Arc::clone(&stop)), Arc::clone(&said));
        let say = move |how: &str| lines.lock().expect("whole").push(how.to_owned());
        let thread = std::thread::spawn(move || server.serve(until, &flag, &say).expect("serves"));
        Far { address, stop, said, thread: Some(thread) }
    }

    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    pub fn said(&self) -> Vec<String> {
        self.said.lock().expect("whole").clone()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn connect(url: &str, control: SocketAddr, key: &str) -> Result<Near, Error> {
    connect_and_tell(url, control, key, Box::new(|_, _, _| {}))
}

/// Connects a near side that reports its progress.
pub fn connect_and_tell(
    url: &str,
    control: SocketAddr,
    key: &str,
    progress: Progress,
) -> Result<Near, Error> {
    Near::connect(NearConfig {
        link: Link::parse(url).expect("a link"),
        url: url.to_owned(),
        control,
        key: key.to_owned(),
        cores: [None, fluxline::pin::allowed_cores().last().copied()],
        progress,
        stop: Stop::default(),
    })
}

/// Runs experiments over a connection; all of them measure something.
pub fn measure(near: &mut Near, url: &str, only: &[&str], plan: &Plan) -> Report {
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    let entries = run::choose(&only, &Link::parse(url).expect("a link")).expect("experiments");
    let mut report = run::begin(url, plan, json!({}));
    let ended = run::run(near, plan, &entries, &mut report);
    ended.unwrap_or_else(|error| panic!("{url}: {error}"));
    for experiment in &report.experiments {
        assert_eq!(experiment.incomplete, "", "{url}, {}", experiment.name);
        assert!(!experiment.is_empty(), "{url}, {}", experiment.name);
    }
    report
}

/// Runs experiments between two threads.
pub fn measured(url: &str, only: &[&str], plan: &Plan) -> Report {
    let _alone = alone();
    let far = Far::start(Until::FirstEnds);
    let mut near = connect(url, far.address, KEY).expect("it serves");
    measure(&mut near, url, only, plan)
}
