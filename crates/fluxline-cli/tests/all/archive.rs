//! Archives that are interrupted, full, damaged, hostile or wanted twice: what the program calls
//! archived is there, and nothing local is lost before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{
    PATIENCE, Running, TinyDisk, call, call_json, call_json_ending, refused, text,
};

/// Files of the archive itself, and the place of the archive in a run folder.
const OWN: [&str; 2] = ["archive.json", "archive.jsonl"];

/// A scratch folder with a real run and a target.
pub struct Site {
    scratch: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Site {
        let site = Site { scratch: tempfile::tempdir().expect("a scratch folder") };
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/board");
        let (capture, format) = (example.join("board.pcapng"), example.join("board.toml"));
        fs::create_dir(site.path("runs")).expect("made");
        fs::create_dir(site.path("target")).expect("made");
        let run = site.run();
        let read = ["run", "--pcap", text(&capture), "--format", text(&format)];
        let built = ["--events", "key", "--require", "4", "--folder", text(&run)];
        let output = call(&[&read[..], &built].concat());
        assert!(matches!(output.status.code(), Some(0 | 7)), "{output:?}");
        fs::create_dir(run.join("notes")).expect("made");
        fs::write(run.join("notes/night shift.txt"), "beam was back at 3\n").expect("written");
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn run(&self) -> PathBuf {
        self.path("runs/0042")
    }

    fn archived(&self) -> PathBuf {
        self.path("target/0042")
    }

    /// Adds files that take a while, with bytes that compression does not shrink.
    fn add_large_files(&self, count: usize, bytes: usize) {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        for number in 0..count {
            let noise: Vec<u8> = std::iter::repeat_with(|| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                word.to_le_bytes()
            })
            .take(bytes / 8)
            .flatten()
            .collect();
            fs::write(self.run().join(format!("notes/large-{number}.bin")), noise).expect("made");
        }
    }

    /// The arguments that archive the run.
    fn archive<'a>(&self, run: &'a Path, target: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
        [&["archive", text(run), "--to", text(target)], more].concat()
    }

    fn call_archive(&self, more: &[&str]) -> std::process::Output {
        call(&self.archive(&self.run(), &self.path("target"), more))
    }

    fn call_archive_json(&self, more: &[&str]) -> Value {
        call_json(&self.archive(&self.run(), &self.path("target"), more))
    }
}

/// All files below a folder with their bytes, without those about archives.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).expect("a folder").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
            if entry.file_type().expect("a type").is_dir() {
                folders.push(path);
            } else if !OWN.contains(&name.as_str()) {
                found.insert(name, fs::read(path).unwrap_or_default());
            }
        }
    }
    found
}

#[test]
fn a_run_comes_back_with_every_byte_also_compressed_and_links_are_named() {
    let forms = [&[][..], &["--compress"]];
    let count = if cfg!(feature = "zstd") { 2 } else { 1 };
    for compress in forms.into_iter().take(count) {
        let site = Site::new();
        let run = site.run();
        call_json(&["runs", "tag", text(&run), "good"]);
        let before = files(&run);
        symlink("/etc/passwd", run.join("notes/link")).expect("a link");
        let archived = site.call_archive_json(compress);
        assert_eq!(archived["left_out"], json!(["notes/link"]));
        assert_eq!(archived["files"], archived["sent"]);
        assert_eq!(archived["files"], before.len());
        let stored = files(&site.archived());
        assert_eq!(stored.len(), before.len());
        match compress {
            [] => assert_eq!(stored, before),
            _ => assert!(stored.keys().all(|name| name.ends_with(".zst"))),
        }
        let again = site.call_archive_json(compress);
        assert_eq!(again["sent"], 0, "{again}");
        let verified = call_json(&["archive", "--verify", text(&site.archived())]);
        assert_eq!((&verified["run"], &verified["faults"]), (&json!("0042"), &json!([])));
        let back = site.path("back");
        let archived_at = site.archived();
        let restored = ["archive", "--restore", text(&archived_at), "--to", text(&back)];
        let restored = call_json(&restored);
        assert_eq!(restored["written"], before.len());
        assert_eq!(files(&back), before);
        let (old, new) = (call(&["inspect", text(&run)]), call(&["inspect", text(&back)]));
        assert_eq!(old.status.code(), new.status.code(), "{new:?}");
    }
}

#[test]
fn a_killed_archive_goes_on_and_sends_no_verified_file_again() {
    let site = Site::new();
    site.add_large_files(12, 16 << 20);
    let before = files(&site.run());
    let (run, target) = (site.run(), site.path("target"));
    let is_verified = |count: usize| {
        let journal = fs::read_to_string(run.join("archive.jsonl")).unwrap_or_default();
        journal.matches("\"verified\"").count() >= count
    };
    for count in [3, 7] {
        let running = Running::spawn(&site.archive(&run, &target, &[]));
        let began = Instant::now();
        while !is_verified(count) {
            assert!(began.elapsed() < PATIENCE, "nothing is verified");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Dropped, and so killed by SIGKILL.
        drop(running);
        assert_eq!(files(&run), before, "the local files are untouched");
    }
    // A line that the kill has torn.
    let mut journal = File::options().append(true).open(run.join("archive.jsonl")).expect("there");
    journal.write_all(b"{\"at_ns\":1,\"target\":\"").expect("torn");
    let archived = site.call_archive_json(&["--remove-local"]);
    let sent = archived["sent"].as_u64().expect("a number");
    assert!(sent <= before.len() as u64 - 7, "{archived}");
    assert!(
        !fs::read_dir(site.archived())
            .expect("there")
            .flatten()
            .any(|entry| { entry.path().to_string_lossy().ends_with(".part") })
    );
    assert_eq!(files(&site.archived()), before);
}

#[test]
fn verified_files_that_vanished_from_the_target_are_sent_again() {
    let site = Site::new();
    site.call_archive_json(&[]);
    let before = files(&site.run());
    // As if the call had been killed before the end, and then somebody emptied the target.
    fs::remove_file(site.archived().join("archive.json")).expect("removed");
    fs::remove_file(site.archived().join("run.json")).expect("removed");
    fs::write(site.archived().join("notes/night shift.txt"), "beam was off").expect("damaged");
    let archived = site.call_archive_json(&[]);
    assert_eq!(archived["sent"], 2);
    assert_eq!(files(&site.archived()), before);
}

#[test]
fn a_full_target_is_a_sentence_and_the_archive_goes_on_when_there_is_room() {
    let site = Site::new();
    site.add_large_files(3, 4 << 20);
    let before = files(&site.run());
    let target = site.path("target");
    let Some(_disk) = TinyDisk::mount(&target, 18 << 20) else { return };
    fs::write(target.join("ballast"), vec![1; 10 << 20]).expect("room for it");
    let sentence = refused(&site.call_archive(&["--remove-local"]), 1);
    assert!(
        sentence.contains("cannot be written") && sentence.contains("call again"),
        "{sentence}"
    );
    assert_eq!(files(&site.run()), before);
    assert!(!site.archived().join("archive.json").exists(), "it is not complete");
    let refusal = refused(&call(&["archive", "--verify", text(&site.archived())]), 3);
    assert!(refusal.contains("not complete"), "{refusal}");
    fs::remove_file(target.join("ballast")).expect("removed");
    let archived = site.call_archive_json(&["--remove-local"]);
    assert!(archived["sent"].as_u64() < archived["files"].as_u64(), "{archived}");
    assert_eq!(files(&site.archived()), before);
    // The other way: the disk of the restored run is full.
    fs::write(target.join("ballast"), vec![1; 3 << 20]).expect("room for it");
    let back = target.join("back");
    let archived_at = site.archived();
    let restore = ["archive", "--restore", text(&archived_at), "--to", text(&back)];
    let sentence = refused(&call(&restore), 1);
    assert!(sentence.contains("free some space"), "{sentence}");
    assert!(!back.exists());
}

#[test]
fn a_target_with_other_content_is_refused_and_stays_as_it_was() {
    let site = Site::new();
    fs::create_dir(site.archived()).expect("made");
    fs::write(site.archived().join("thesis.tex"), "my only copy").expect("written");
    let sentence = refused(&site.call_archive(&[]), 3);
    assert!(sentence.contains("thesis.tex"), "{sentence}");
    fs::remove_file(site.archived().join("thesis.tex")).expect("removed");
    fs::write(site.archived().join("run.json"), "another run").expect("written");
    let sentence = refused(&site.call_archive(&["--remove-local"]), 3);
    assert!(sentence.contains("run.json"), "{sentence}");
    assert_eq!(fs::read(site.archived().join("run.json")).expect("there"), b"another run");
    // A finished archive of another run of the same number.
    fs::remove_dir_all(site.archived()).expect("removed");
    site.call_archive_json(&[]);
    let other = Site::new();
    fs::write(other.run().join("notes/night shift.txt"), "another night").expect("written");
    let before = (files(&other.run()), files(&site.archived()));
    let target = site.path("target");
    let sentence = refused(&call(&other.archive(&other.run(), &target, &["--remove-local"])), 3);
    assert!(sentence.contains("not the one in the archive"), "{sentence}");
    assert_eq!((files(&other.run()), files(&site.archived())), before);
    for (wrong, words) in [
        ("none", "is not a folder"),
        ("ftp://server/x", "ftp:// is not a kind of target"),
        ("runs/0042", "in the run itself"),
    ] {
        let to = if wrong.contains(':') { PathBuf::from(wrong) } else { site.path(wrong) };
        let sentence = refused(&call(&site.archive(&site.run(), &to, &[])), 3);
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn a_run_that_goes_on_or_was_killed_is_refused() {
    let site = Site::new();
    let live = site.path("runs/0043");
    let arguments = ["--format", "counter", "--folder", text(&live)];
    let (running, _port) = Running::listen(&arguments);
    let sentence = refused(&call(&site.archive(&live, &site.path("target"), &[])), 3);
    assert!(sentence.contains("still being recorded"), "{sentence}");
    drop(running);
    let sentence = refused(&call(&site.archive(&live, &site.path("target"), &[])), 3);
    assert!(sentence.contains("fluxline recover"), "{sentence}");
    assert!(!site.path("target/0043").exists());
    fs::write(live.join("run.json"), "{\"state\": 7}").expect("damaged");
    let sentence = refused(&call(&site.archive(&live, &site.path("target"), &[])), 3);
    assert!(sentence.contains("does not say"), "{sentence}");
}

#[test]
fn a_file_that_changes_meanwhile_is_never_called_archived() {
    let site = Site::new();
    site.add_large_files(2, 32 << 20);
    let path = site.run().join("notes/large-1.bin");
    let ends = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().append(true).open(&path).expect("there");
            while !ends.load(Ordering::Relaxed) {
                file.write_all(b"more").expect("written");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let output = site.call_archive(&["--remove-local"]);
        ends.store(true, Ordering::Relaxed);
        output
    });
    let sentence = refused(&output, 1);
    assert!(sentence.contains("large-1.bin") && sentence.contains("changed"), "{sentence}");
    assert!(!site.archived().join("archive.json").exists());
    let archived = site.call_archive_json(&[]);
    assert!(archived["sent"].as_u64() < archived["files"].as_u64(), "{archived}");
    assert_eq!(files(&site.archived()), files(&site.run()));
}

#[test]
fn two_archives_of_a_run_at_once_are_refused() {
    let site = Site::new();
    let journal = File::create(site.run().join("archive.jsonl")).expect("made");
    journal.try_lock().expect("locked");
    let sentence = refused(&site.call_archive(&[]), 1);
    assert!(sentence.contains("another `fluxline archive`"), "{sentence}");
    drop(journal);
    site.call_archive_json(&[]);
}

#[test]
fn removed_files_leave_a_line_in_the_list_and_come_back() {
    let site = Site::new();
    let (run, runs) = (site.run(), site.path("runs"));
    call_json(&["runs", "tag", text(&run), "good"]);
    let before = files(&run);
    let size = call_json(&["runs", text(&runs)])["runs"][0]["bytes"].clone();
    let archived = site.call_archive_json(&["--remove-local"]);
    assert_eq!(archived["removed"].as_u64(), Some(before.len() as u64 - 2));
    assert_eq!(files(&run).keys().collect::<Vec<_>>(), ["marks.jsonl", "run.json"]);
    assert!(!run.join("notes").exists() && !run.join("formats").exists());
    let row = call_json(&["runs", text(&runs)])["runs"][0].clone();
    assert_eq!((&row["bytes"], &row["tags"]), (&size, &json!(["good"])));
    assert_eq!(row["files_removed"], true);
    let table = String::from_utf8(call(&["runs", text(&runs)]).stdout).expect("text");
    assert!(table.contains(&format!("archived at {}", text(&site.archived()))), "{table}");
    let kept = files(&run);
    for command in ["inspect", "recover"] {
        let sentence = refused(&call(&[command, text(&run)]), 3);
        assert!(sentence.contains("fluxline archive --restore"), "{sentence}");
    }
    let sentence = refused(&site.call_archive(&[]), 3);
    assert!(sentence.contains("brings them back"), "{sentence}");
    assert_eq!(files(&run), kept);
    // Tags may be added meanwhile.
    call_json(&["runs", "tag", text(&run), "seen"]);
    let archived_at = site.archived();
    let restore = ["archive", "--restore", text(&archived_at), "--to", text(&run)];
    assert_eq!(call_json(&restore)["kept"], 2);
    let mut back = files(&run);
    assert!(back.remove("marks.jsonl").expect("marks").len() > before["marks.jsonl"].len());
    assert!(back.iter().all(|(name, bytes)| before[name] == *bytes));
    assert_eq!(back.len(), before.len() - 1);
    let sentence = refused(&call(&restore), 3);
    assert!(sentence.contains("exists already"), "{sentence}");
    // The new tag goes to the archive, and nothing else.
    let again = site.call_archive_json(&["--remove-local"]);
    assert_eq!(again["sent"], 1);
}

#[test]
fn a_kill_while_files_are_removed_loses_nothing() {
    let site = Site::new();
    let before = files(&site.run());
    site.call_archive_json(&["--remove-local"]);
    // One file is still there, as after a kill.
    let name = before.keys().find(|name| name.starts_with("events-")).expect("events");
    fs::write(site.run().join(name), &before[name]).expect("written");
    let again = site.call_archive_json(&["--remove-local"]);
    assert_eq!((&again["removed"], &again["sent"]), (&json!(1), &json!(0)));
    // A file that is not the archived one is never removed.
    fs::write(site.run().join(name), "other bytes").expect("written");
    let sentence = refused(&site.call_archive(&["--remove-local"]), 3);
    assert!(sentence.contains("not the one in the archive"), "{sentence}");
    assert!(site.run().join(name).exists());
    fs::remove_file(site.run().join(name)).expect("removed");
    fs::remove_dir_all(site.archived()).expect("the archive is lost");
    let sentence = refused(&site.call_archive(&["--remove-local"]), 8);
    assert!(sentence.contains("no archive.json"), "{sentence}");
}

#[test]
fn a_damaged_archive_is_named_and_keeps_the_local_files() {
    let site = Site::new();
    site.call_archive_json(&[]);
    let before = files(&site.run());
    let names: Vec<_> = before.keys().filter(|name| name.starts_with("events-")).collect();
    let damaged = site.archived().join(names[0]);
    let mut bytes = fs::read(&damaged).expect("there");
    bytes[100] ^= 1;
    fs::write(&damaged, bytes).expect("written");
    fs::remove_file(site.archived().join("notes/night shift.txt")).expect("removed");
    let verify = call_json_ending(&["archive", "--verify", text(&site.archived())], 8);
    assert_eq!(verify["faults"].as_array().map(Vec::len), Some(2), "{verify}");
    let sentence = refused(&site.call_archive(&["--remove-local"]), 8);
    assert!(sentence.contains("local files are untouched"), "{sentence}");
    assert_eq!(files(&site.run()), before);
    let back = site.path("back");
    let archived_at = site.archived();
    let restore = ["archive", "--restore", text(&archived_at), "--to", text(&back)];
    refused(&call(&restore), 8);
    assert!(!back.exists());
    // Once the file is good again, the restore goes on.
    fs::write(damaged, &before[names[0]]).expect("written");
    let note = "notes/night shift.txt";
    fs::write(site.archived().join(note), &before[note]).expect("written");
    fs::write(site.path("back.restoring/run.json"), "torn").expect("written");
    assert!(call_json(&restore)["kept"].as_u64().is_some());
    assert_eq!(files(&back), before);
}

#[test]
fn hostile_archives_write_nothing_outside_the_new_folder() {
    let site = Site::new();
    site.call_archive_json(&[]);
    let manifest = fs::read_to_string(site.archived().join("archive.json")).expect("there");
    let back = site.path("back");
    let archived_at = site.archived();
    let restore = ["archive", "--restore", text(&archived_at), "--to", text(&back)];
    for name in ["../evil", "/tmp/evil", "a/../../evil", "archive.json", "", "run.json/../../evil"]
    {
        let changed = manifest.replace("notes/night shift.txt", name);
        fs::write(site.archived().join("archive.json"), changed).expect("written");
        let sentence = refused(&call(&restore), 3);
        assert!(sentence.contains("names"), "{name}: {sentence}");
        assert!(
            !back.exists() && !site.path("evil").exists() && !site.path("back.restoring").exists()
        );
    }
    // A link of the archive is not followed, and neither is one in the draft of the new folder.
    fs::write(site.archived().join("archive.json"), &manifest).expect("written");
    let note = site.archived().join("notes/night shift.txt");
    let bytes = fs::read(&note).expect("there");
    fs::remove_file(&note).expect("removed");
    fs::write(site.path("secret"), &bytes).expect("written");
    symlink(site.path("secret"), &note).expect("a link");
    let sentence = refused(&call(&restore), 8);
    assert!(sentence.contains("symbolic link"), "{sentence}");
    fs::remove_file(&note).expect("removed");
    fs::write(&note, &bytes).expect("written");
    fs::remove_dir_all(site.path("back.restoring")).expect("removed");
    fs::create_dir_all(site.path("back.restoring")).expect("made");
    fs::create_dir(site.path("elsewhere")).expect("made");
    symlink(site.path("elsewhere"), site.path("back.restoring/notes")).expect("a link");
    refused(&call(&restore), 3);
    assert!(fs::read_dir(site.path("elsewhere")).expect("there").next().is_none());
    fs::remove_dir_all(site.path("back.restoring")).expect("removed");
    // Check sums and sizes that are not true.
    for (from, to) in [("\"bytes\": ", "\"bytes\": 9"), ("\"sha256\": \"", "\"sha256\": \"0")] {
        fs::write(site.archived().join("archive.json"), manifest.replace(from, to)).expect("there");
        let output = call(&restore);
        assert!(matches!(output.status.code(), Some(3 | 8)), "{output:?}");
        assert!(!back.exists());
    }
}

/// Without zstd, a compressed archive is neither made nor half read.
#[test]
#[cfg(not(feature = "zstd"))]
fn a_program_without_zstd_says_so() {
    let site = Site::new();
    let sentence = refused(&site.call_archive(&["--compress"]), 3);
    assert!(sentence.contains("built without zstd"), "{sentence}");
    assert!(!site.archived().exists());
    site.call_archive_json(&[]);
    let manifest = site.archived().join("archive.json");
    let whole = fs::read_to_string(&manifest).expect("there");
    fs::write(manifest, whole.replace("\"compressed\": false", "\"compressed\": true"))
        .expect("put");
    let sentence = refused(&call(&["archive", "--verify", text(&site.archived())]), 3);
    assert!(sentence.contains("is compressed"), "{sentence}");
}

#[test]
#[cfg(feature = "zstd")]
fn a_compressed_file_that_grows_without_end_is_stopped_at_its_size() {
    let site = Site::new();
    site.call_archive_json(&["--compress"]);
    let python = std::env::var("FLUXLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let bomb = site.archived().join("notes/night shift.txt.zst");
    // Frames of one repeated byte (RFC 8878, 3.1.1.2.2): 128 KiB in 4 bytes each.
    let frames = "import sys\nblock = bytes([0x02, 0, 0x10, 0x41])\nlast = bytes([0x03, 0, 0x10, \
                  0x41])\nhead = bytes([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58])\n\
                  open(sys.argv[1], 'wb').write(head + block * (1 << 20) + last)\n";
    let made = std::process::Command::new(python).args(["-c", frames]).arg(&bomb).status();
    assert!(made.is_ok_and(|status| status.success()), "python3 makes 128 GiB in 4 MiB");
    let verify = call_json_ending(&["archive", "--verify", text(&site.archived())], 8);
    let fault = verify["faults"][0].as_str().expect("a fault");
    assert!(fault.contains("longer than it was"), "{fault}");
}

#[test]
fn a_key_in_the_address_is_refused_and_not_repeated() {
    let site = Site::new();
    let to = PathBuf::from("s3://AKIAKEY:topsecret@bucket/runs");
    let output = call(&site.archive(&site.run(), &to, &[]));
    let sentence = refused(&output, 3);
    assert!(sentence.contains("AWS_ACCESS_KEY_ID"), "{sentence}");
    assert!(!sentence.contains("topsecret") && !sentence.contains("AKIAKEY"), "{sentence}");
    assert!(!site.run().join("archive.jsonl").exists());
    let missing = crate::support::fluxline()
        .args(site.archive(&site.run(), Path::new("s3://bucket/runs"), &[]))
        .env_remove("AWS_ACCESS_KEY_ID")
        .output()
        .expect("it starts");
    let sentence = refused(&missing, 3);
    let words = if cfg!(feature = "s3") { "AWS_ACCESS_KEY_ID is not set" } else { "without S3" };
    assert!(sentence.contains(words), "{sentence}");
}
