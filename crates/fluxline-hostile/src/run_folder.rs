//! Run folders from strangers, with anything under the names of their files: links, pipes, sockets,
//! devices, holes. Inspecting, exporting, recovering and serving them touches nothing outside, and
//! none of them waits for ever.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use fluxline_daq::event::EventBatch;
use fluxline_daq::record::{
    Author, Directory, Integrity, Join, JoinedReader, Mark, Marks, RunSummary, recover,
};
use fluxline_export::{Existing, ExportConfig, ExportFormat, export};
use fluxline_packet::shipped::shipped;
use fluxline_serve::{Listening, Server, ServerConfig, paths_of_runs};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::shared::{Behind, RUN_FORMATS, ask, scratch};

/// The longest time for one folder: far more than any needs.
const PATIENCE: Duration = Duration::from_secs(120);
/// The size of files that are holes \[byte\].
const HOLES_BYTES: u64 = 1 << 40;
/// Bytes outside the run, which nothing may read, change or copy.
const PRECIOUS: &str = "http://precious.example/#secret\n";

const KINDS: [ExportFormat; 4] =
    [ExportFormat::Csv, ExportFormat::Npy, ExportFormat::Parquet, ExportFormat::Arrow];

/// The names of files and folders in a run folder; `KIND` is that of an export.
pub const NAMES: [&str; 17] = [
    "run.json",
    "run.new",
    "run.json.torn",
    "sources.jsonl",
    "marks.jsonl",
    "serve.url",
    "formats",
    "formats/counter.toml",
    "events-000000.arrows",
    "events-000001.arrows",
    "events-000000.arrows.torn",
    "export-KIND",
    "export-KIND/export.json",
    "export-KIND/export.json.part",
    "export-KIND/events.KIND",
    "export-KIND/events.KIND.part",
    "export-KIND/packets.KIND.part",
];

/// The kinds of things that may be there instead of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// Nothing there.
    Absent,
    /// An empty file.
    Empty,
    /// A file of letters.
    Letters,
    /// A file that is a hole of a terabyte.
    Hole,
    /// The file, and a terabyte of holes behind it.
    Tail,
    /// A directory.
    Directory,
    /// A link to a file outside, by a relative path.
    Far,
    /// A link to a file outside, by an absolute path.
    Absolute,
    /// A link to a folder outside.
    Folder,
    /// A link to a file outside that does not exist.
    Dangling,
    /// A link to itself.
    Loop,
    /// A link to an endless device.
    DeviceLink,
    /// An endless device; where the process may not make one, nothing.
    Device,
    /// A named pipe without a writer.
    Pipe,
    /// A socket.
    Socket,
}

impl Thing {
    /// All of them.
    pub const ALL: [Thing; 15] = [
        Thing::Absent,
        Thing::Empty,
        Thing::Letters,
        Thing::Hole,
        Thing::Tail,
        Thing::Directory,
        Thing::Far,
        Thing::Absolute,
        Thing::Folder,
        Thing::Dangling,
        Thing::Loop,
        Thing::DeviceLink,
        Thing::Device,
        Thing::Pipe,
        Thing::Socket,
    ];

    /// Puts it in the place of what is at `path`; `outside` has the victim.
    fn put(self, path: &Path, outside: &Path) -> io::Result<()> {
        let is_folder = |parent: &Path| parent.symlink_metadata().is_ok_and(|of| of.is_dir());
        if !path.parent().is_some_and(is_folder) {
            return Ok(()); // its folder is gone, or a link
        }
        if self == Thing::Tail && path.symlink_metadata()?.is_file() {
            return File::options().write(true).open(path)?.set_len(HOLES_BYTES);
        }
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
        // From a folder of the run, one level deeper than its own files.
        let deep = path.strip_prefix(outside).map_or(2, |inner| inner.components().count());
        let up = "../".repeat(deep - 1);
        let mode = Mode::from_raw_mode(0o600);
        match self {
            Thing::Absent | Thing::Tail => Ok(()),
            Thing::Empty => fs::write(path, ""),
            Thing::Letters => fs::write(path, "letters\n".repeat(100)),
            Thing::Hole => File::create(path)?.set_len(HOLES_BYTES),
            Thing::Directory => fs::create_dir(path),
            Thing::Far => symlink(format!("{up}victim"), path),
            Thing::Absolute => symlink(outside.join("victim"), path),
            Thing::Folder => symlink(format!("{up}elsewhere"), path),
            Thing::Dangling => symlink(format!("{up}absent"), path),
            Thing::Loop => symlink(path, path),
            Thing::DeviceLink => symlink("/dev/zero", path),
            Thing::Device => {
                let made = mknodat(CWD, path, FileType::CharacterDevice, mode, makedev(1, 5));
                made.or(Ok(()))
            }
            Thing::Pipe => Ok(mknodat(CWD, path, FileType::Fifo, mode, 0)?),
            Thing::Socket => UnixListener::bind(path).map(drop),
        }
    }
}

/// Makes a whole run with a torn tail, and the folder of an export.
fn make_run(run: &Path, kind: ExportFormat) -> io::Result<()> {
    fs::create_dir_all(run.join("formats"))?;
    fs::create_dir(run.join(format!("export-{}", kind.extension())))?;
    let events = include_bytes!("../../../fuzz/seeds/run_file/two-batches.arrows");
    fs::write(run.join("events-000000.arrows"), [events, &b"torn"[..]].concat())?;
    fs::write(run.join("events-000001.arrows"), &events[..100])?;
    fs::write(run.join("run.json"), "{\"state\": \"running\"}")?;
    fs::write(run.join("serve.url"), "http://127.0.0.1:1/#token\n")?;
    let mut lines = String::new();
    for (source, format) in RUN_FORMATS.iter().enumerate() {
        fs::write(run.join(format!("formats/{format}.toml")), shipped(format).unwrap_or_default())?;
        let line = format!(r#"{{"source":{source},"name":"s{source}","format":"{format}"}}"#);
        lines.push_str(&line);
        lines.push('\n');
    }
    // Its last line has no end.
    fs::write(run.join("sources.jsonl"), lines.trim_end())
}

fn inspect(run: &Path) {
    let Ok(mut reader) = JoinedReader::open(run, Join::Late) else { return };
    let mut rows = EventBatch::default();
    while let Ok(Some(batch)) = reader.next_batch() {
        let _ = batch.append_to(&mut rows);
    }
    let _ = Integrity::of(reader.folder(), reader.report()).sentence();
}

/// Reads the line of the run in a list, and adds a tag to it.
fn list(run: &Path, runs: &Path) {
    let Ok(runs) = Directory::open(runs) else { return };
    let _ = RunSummary::read(&runs, Path::new("run"));
    if let Ok(run) = Directory::open(run) {
        let _ = Marks::append(&run, &Author::new("fuzzer", 1), &[Mark::Tag("tag".to_owned())]);
        let _ = Marks::read(&run);
    }
}

/// Asks a page over the folder of the run for everything; no answer has the victim.
fn serve(runs: &Path) {
    let listen = Some(([127, 0, 0, 1], 0).into());
    let config = ServerConfig { listen, ..ServerConfig::default() };
    let listening = Listening::on(&config).expect("a free port of loopback");
    let server = Server::start_runs(listening, runs).expect("a server of the fuzzer's own");
    for path in paths_of_runs() {
        let path = path.replace("{id}", "run");
        let head = format!("GET {path}?field=number&packet=0 HTTP/1.1\r\nHost: HOST\r\n");
        let request = format!("{head}Connection: close\r\n\r\n");
        let answer = ask(&server, request.as_bytes(), Behind::Open);
        assert_ne!(answer.status, 500, "{path}");
        assert!(!answer.text.contains("precious"), "{path}: {}", answer.text);
    }
}

/// Handles a run folder with these things under these names.
pub fn run_folder_with(things: &[(&str, Thing)], kind: ExportFormat) {
    let began = Instant::now();
    let dir = scratch().expect("a folder of the fuzzer's own");
    let (outside, run) = (dir.path(), dir.path().join("run"));
    let victim = outside.join("victim");
    fs::write(&victim, PRECIOUS).expect("written");
    fs::set_permissions(&victim, PermissionsExt::from_mode(0o600)).expect("changed");
    fs::create_dir(outside.join("elsewhere")).expect("made");
    make_run(&run, kind).expect("a run of the fuzzer's own");
    for (name, thing) in things {
        // What cannot be made here, such as a tail behind a pipe, is left out.
        let _ = thing.put(&run.join(name.replace("KIND", kind.extension())), outside);
    }
    let folder = run.join(format!("export-{}", kind.extension()));
    inspect(&run);
    list(&run, outside);
    serve(outside);
    let config = ExportConfig::new(kind, folder);
    let _ = export(&run, &config);
    let _ = export(&run, &ExportConfig { existing: Existing::Replace, ..config });
    let _ = recover(&run);
    inspect(&run);
    assert_eq!(fs::read_to_string(&victim).expect("the victim"), PRECIOUS, "{things:?}");
    let mode = victim.metadata().expect("the victim").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{things:?}");
    let count = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
    assert_eq!((count(outside), count(&outside.join("elsewhere"))), (3, 0), "{things:?}");
    no_copy(&run, things);
    assert!(began.elapsed() < PATIENCE, "{things:?} took {:?}", began.elapsed());
}

/// Checks that no regular file of the run has the victim's bytes.
fn no_copy(folder: &Path, things: &[(&str, Thing)]) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let found = entry.metadata().expect("there");
        if found.is_dir() {
            no_copy(&entry.path(), things);
        } else if found.is_file() && found.len() < 1 << 24 {
            let bytes = fs::read(entry.path()).expect("readable");
            let is_copy = bytes.windows(8).any(|part| part == b"precious");
            assert!(!is_copy, "{things:?}: {} is a copy", entry.path().display());
        }
    }
}

/// Any bytes as a choice of things in a run folder: of each pair, a name and what is there.
pub fn run_folder(bytes: &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let pick = |pair: &[u8]| {
        let (name, thing) = (usize::from(pair[0]), usize::from(pair[1]));
        (NAMES[name % NAMES.len()], Thing::ALL[thing % Thing::ALL.len()])
    };
    let things: Vec<_> = rest.chunks_exact(2).take(NAMES.len()).map(pick).collect();
    run_folder_with(&things, KINDS[usize::from(*first) % KINDS.len()]);
}
