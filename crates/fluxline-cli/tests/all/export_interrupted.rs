//! Exports that are killed, or whose disk fills: no half file has the name of a whole one, and the
//! same command goes on to the files of an uninterrupted export.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{call_json, fluxline, sentence, text};
use fluxline_core::random::{Draw, test_seed};

/// The longest wait for a file of an export.
const PATIENCE: Duration = crate::support::PATIENCE;

/// Records a run of some MB; returns its folder.
fn recorded(scratch: &Path) -> PathBuf {
    let file = scratch.join("experiment.toml");
    let experiment = "[[source]]\nname = 'boards'\nformat = 'counter'\n[source.emulator]\n\
                      sources = 2\nrate = 0.0\npackets = 3000\nlink = 'direct'\nseed = 1\n\
                      payload-bytes = 1000\n[events]\nbuild = 'key'\nrequire = 2\n\
                      [record]\nbatch-bytes = 65536\n";
    fs::write(&file, experiment).expect("written");
    let run = scratch.join("run");
    call_json(&["run", text(&file), "--folder", text(&run)]);
    run
}

fn arguments<'a>(run: &'a Path, kind: &'a str, into: &'a Path) -> Vec<&'a str> {
    vec!["export", text(run), "--to", kind, "--into", text(into), "--part-mib", "1"]
}

/// The files below a folder with their contents, by their paths in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("inside").to_path_buf();
                // A part may get its final name between the listing and the reading.
                if let Ok(bytes) = fs::read(&path) {
                    found.insert(name, bytes);
                }
            }
        }
    }
    found
}

/// Checks that each file with a final name is the whole one. The journal grows.
fn assert_no_half_file_is_called_whole(folder: &Path, whole: &BTreeMap<PathBuf, Vec<u8>>) {
    for (name, bytes) in files(folder) {
        let is_part = name.extension().is_some_and(|ending| ending == "part");
        if is_part || name == Path::new("export.json") {
            continue;
        }
        assert!(whole.get(&name) == Some(&bytes), "{} is not whole", name.display());
    }
    assert!(!is_complete(folder), "an interrupted export says it is complete");
}

fn is_complete(folder: &Path) -> bool {
    let journal = fs::read_to_string(folder.join("export.json")).unwrap_or_default();
    journal.contains("\"complete\": true")
}

fn count_files(folder: &Path) -> usize {
    files(folder).keys().filter(|name| name.extension().is_some_and(|of| of != "part")).count()
}

#[test]
fn an_export_that_is_killed_again_and_again_ends_as_one_that_was_not() {
    let mut random = Draw::new(test_seed!(1));
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = recorded(scratch.path());
    for kind in ["parquet", "npy"] {
        let reference = scratch.path().join(format!("whole-{kind}"));
        call_json(&arguments(&run, kind, &reference));
        let whole = files(&reference);
        assert!(whole.len() > 6, "several parts: {:?}", whole.keys());

        let into = scratch.path().join(format!("killed-{kind}"));
        let (mut kills, mut whole_at_once) = (0, 0);
        while kills < 6 {
            let wanted = count_files(&into) + random.below(3) as usize;
            let mut child = fluxline();
            let child = child.args(arguments(&run, kind, &into)).stdout(Stdio::null());
            let mut child = child.stderr(Stdio::null()).spawn().expect("the program starts");
            let began = Instant::now();
            while count_files(&into) < wanted && child.try_wait().expect("waitable").is_none() {
                assert!(began.elapsed() < PATIENCE, "{kind}: no new file");
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(Duration::from_micros(random.below(30_000 >> whole_at_once)));
            child.kill().expect("killed"); // SIGKILL
            // A kill may come between the last file and the end of the process.
            if child.wait().expect("waited").success() || is_complete(&into) {
                if kills > 0 {
                    break;
                }
                // It was done before it could be killed: once more, and sooner.
                fs::remove_dir_all(&into).expect("removed");
                whole_at_once = (whole_at_once + 1).min(14);
                continue;
            }
            kills += 1;
            assert_no_half_file_is_called_whole(&into, &whole);
        }
        if kills == 6 {
            let document = call_json(&arguments(&run, kind, &into));
            assert_eq!(document["status"], 0);
        }
        let found = files(&into);
        assert!(found == whole, "{:?} instead of {:?}", found.keys(), whole.keys());
    }
}

#[test]
fn a_full_disk_ends_an_export_with_a_sentence_and_more_space_lets_it_go_on() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = recorded(scratch.path());
    let reference = scratch.path().join("whole");
    call_json(&arguments(&run, "arrow", &reference));
    let whole = files(&reference);
    let largest = whole.values().map(Vec::len).max().expect("files");
    let into = scratch.path().join("full");
    // A limit on the size of files fails a write as a full disk does.
    for part in [0, 1, 3] {
        let blocks = largest / 512 * part / 4;
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &limited, crate::support::PROGRAM])
            .args(arguments(&run, "arrow", &into))
            .output()
            .expect("sh starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert!(code.is_some_and(|code| code != 0), "{blocks} blocks: {:?}", output.status);
        let said = sentence(code, &errors, code.unwrap_or(0));
        assert!(said.contains(text(&into)), "it names the place: {said}");
        assert!(said.contains("File too large"), "it names the reason: {said}");
        assert_no_half_file_is_called_whole(&into, &whole);
    }
    call_json(&arguments(&run, "arrow", &into));
    assert!(files(&into) == whole, "the same files in the end");
}

#[test]
#[ignore = "all: a mount namespace"]
fn a_file_system_without_space_is_named_and_another_command_goes_on() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let run = recorded(scratch.path());
    let reference = scratch.path().join("whole");
    call_json(&arguments(&run, "arrow", &reference));
    let whole = files(&reference);
    let size: usize = whole.values().map(Vec::len).sum();
    let small = scratch.path().join("small");
    fs::create_dir(&small).expect("a folder");
    // A tmpfs in a mount namespace of its own: first half the size, then enough.
    let script = format!(
        "mount -t tmpfs -o size={half} none \"$1\" || exit 77; shift; \
         \"$@\"; echo \"first $?\"; mount -o remount,size={enough} none \"$OUT\" || exit 78; \
         \"$@\" >/dev/null; echo \"second $?\"; cp -r \"$OUT/export\" \"$COPY\"",
        half = size / 2,
        enough = 3 * size + (8 << 20)
    );
    let into = small.join("export");
    let copy = scratch.path().join("copy");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .args([text(&small), crate::support::PROGRAM])
        .args(arguments(&run, "arrow", &into))
        .envs([("OUT", &small), ("COPY", &copy)])
        .output();
    let Ok(output) = output.as_ref().map(|output| output.status.code().map(|code| (code, output)))
    else {
        println!("skipped: unshare is not installed");
        return;
    };
    let Some((0, output)) = output else {
        println!("skipped: this host allows no tmpfs in a namespace: {output:?}");
        return;
    };
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("first 0") && said.contains("second 0"), "{said}{errors}");
    assert!(errors.contains("No space left on device") && errors.contains(text(&into)), "{errors}");
    assert!(files(&copy) == whole, "the same files in the end");
}
