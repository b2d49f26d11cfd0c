//! A night shift without a person: a scan of three runs, a high voltage that trips in the second,
//! and a program that is killed in the third. The folders alone are judged in the morning.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::health::run_python;
use crate::node_storms::python;
use crate::support::{PATIENCE, Running, call_json, free_port, run_document, send_signal, text};

/// The voltages of the three runs; the second is below the limit of the alarm.
const VOLTAGES: [u64; 3] = [1000, 900, 1100];

struct Night {
    scratch: tempfile::TempDir,
    port: u16,
}

impl Night {
    fn new() -> Night {
        let night =
            Night { scratch: tempfile::tempdir().expect("a scratch folder"), port: free_port() };
        let experiment = format!(
            "name = 'night'\nruns = '{}'\n[[source]]\nname = 'boards'\nformat = 'counter'\n\
             [source.emulator]\nsources = 2\nrate = 200.0\nseed = 5\n[events]\nbuild = 'key'\n\
             require = 2\n[slow-control]\nudp = '127.0.0.1:{}'\n[[alarm]]\nname = 'trip'\n\
             value = 'slow:hv/voltage'\nbelow = 950.0\nseverity = 'alarm'\n",
            night.path("runs").display(),
            night.port
        );
        let set = night.path("set");
        let sequence = format!(
            "[sequence]\nexperiment = 'experiment.toml'\nstop = {{ seconds = 15 }}\n\
             [[sequence.set]]\nname = 'hv'\nvalues = {VOLTAGES:?}\n\
             command = ['sh', '-c', 'echo {{value}} > {}']\n",
            set.display()
        );
        std::fs::write(night.path("experiment.toml"), experiment).expect("written");
        std::fs::write(night.path("scan.toml"), sequence).expect("written");
        night
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn run(&self, number: usize) -> PathBuf {
        self.path("runs").join(format!("{number:04}"))
    }

    /// Sends the voltage that is set, ten times a second, until the end.
    fn supply(&self, is_over: &AtomicBool) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        while !is_over.load(Ordering::Relaxed) {
            let set = std::fs::read_to_string(self.path("set")).unwrap_or_default();
            if let Ok(volts) = set.trim().parse::<u64>() {
                let line = format!("hv,unit=V voltage={volts}");
                // Between two runs nobody listens.
                let _ = socket.send_to(line.as_bytes(), ("127.0.0.1", self.port));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Begins the sequence, and kills it when the third run records.
    fn begin_and_kill(&self) {
        let running = Running::spawn(&["sequence", text(&self.path("scan.toml"))]);
        let (began, third) = (Instant::now(), self.run(2));
        let records = || {
            let size = third.join("events-000000.arrows").metadata().map_or(0, |of| of.len());
            size > 20_000 && third.join("slow.arrows").exists()
        };
        while !records() {
            assert!(began.elapsed() < PATIENCE, "the third run never recorded");
            std::thread::sleep(Duration::from_millis(20));
        }
        send_signal(running.id(), "KILL");
        let (code, said) = running.end();
        assert_eq!(code, None, "{said}");
    }

    fn resume(&self) {
        let scan = self.path("scan.toml");
        let (code, said) = Running::spawn(&["sequence", text(&scan), "--resume"]).end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("run 3 was cut, and is repeated"), "{said}");
    }
}

/// Returns the voltages of the events of a run by pyarrow: the newest value before each.
fn voltages(folder: &Path) -> String {
    let script = "
import glob, sys, pyarrow as pa
read = lambda path: pa.ipc.open_stream(path).read_all()
slow = read(sys.argv[1] + '/slow.arrows')
times = [one.value for one in slow['time']]
events = [one.value for path in sorted(glob.glob(sys.argv[1] + '/events-*.arrows'))
          for one in read(path)['first_time']]
assert len(events) > 100, len(events)
print(slow['value'].to_pylist()[-1], min(times) < max(events))
";
    run_python(&["-c", script, text(folder)])
}

#[test]
fn a_night_with_a_trip_and_a_killed_program_is_told_by_its_folders() {
    if python().is_none() {
        return;
    }
    let (night, is_over) = (Night::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| night.supply(&is_over));
        let work = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            night.begin_and_kill();
            night.resume();
        }));
        is_over.store(true, Ordering::Relaxed);
        work.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let alarms = |number: usize| run_document(&night.run(number))["health"]["alarms"].clone();
    let trips = |number| alarms(number).as_array().expect("a list").iter().any(is_trip);
    assert!(!trips(0) && trips(1) && !trips(3), "{} {} {}", alarms(0), alarms(1), alarms(3));
    for (number, volts) in [(0, VOLTAGES[0]), (1, VOLTAGES[1]), (3, VOLTAGES[2])] {
        let said = voltages(&night.run(number));
        assert_eq!(said.trim(), format!("{volts}.0 True"), "run {number}");
    }
    let listed = call_json(&["runs", text(&night.path("runs")), "--json"]);
    let tags: Vec<String> = listed["runs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|run| format!("{} {}", run["name"], run["tags"]))
        .collect();
    assert_eq!(tags.len(), 4, "{tags:?}");
    assert!(tags.iter().any(|run| run.contains("0002") && run.contains("replaced")), "{tags:?}");
    assert!(tags.iter().any(|run| run.contains("0003") && run.contains("hv=1100")), "{tags:?}");
}

fn is_trip(alarm: &Value) -> bool {
    alarm.as_str().is_some_and(|alarm| alarm.contains("trip: slow:hv/voltage is 900"))
}
