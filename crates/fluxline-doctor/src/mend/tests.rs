//! Applying and undoing on hosts that are folders, with crashes and strangers in between.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::files::Files;

const RMEM: &str = "net.core.rmem_max";
const BACKLOG: &str = "net.core.netdev_max_backlog";

struct Bed {
    folder: tempfile::TempDir,
}

impl Bed {
    fn new() -> Bed {
        let bed = Bed { folder: tempfile::tempdir().unwrap() };
        bed.set(RMEM, "212992\n");
        bed.set(BACKLOG, "1000\n");
        bed
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("proc/sys").join(name.replace('.', "/"))
    }

    fn set(&self, name: &str, value: &str) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), value).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap().trim().to_owned()
    }

    fn host(&self) -> Files {
        Files::below(self.folder.path())
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("var/lib/fluxline/doctor.state")
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.state(), "boot").unwrap()
    }

    fn apply(&self, value: &str) -> Vec<Step> {
        let actions = [Action::sysctl(RMEM, value), Action::sysctl(BACKLOG, "10000")];
        apply(&self.host(), &mut self.journal(), &actions).unwrap()
    }

    fn undo(&self, force: bool) -> Vec<Step> {
        let Some(mut journal) = Journal::open_existing(&self.state(), "boot").unwrap() else {
            return Vec::new();
        };
        let steps = undo(&self.host(), &mut journal, force).unwrap();
        journal.close().unwrap();
        steps
    }
}

/// A host that dies (here: refuses everything) at the n-th write, or writes and then dies.
struct Dying<'a> {
    host: Files,
    left: &'a Cell<u32>,
}

impl Settings for Dying<'_> {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        Settings::read(&self.host, setting)
    }

    fn write(&self, setting: &Setting, value: &str) -> io::Result<()> {
        if self.left.get() == 0 {
            panic!("power failed");
        }
        self.left.set(self.left.get() - 1);
        Settings::write(&self.host, setting, value)
    }
}

#[test]
fn what_was_applied_is_undone_and_the_state_file_goes() {
    let bed = Bed::new();
    let steps = bed.apply("67108864");
    assert!(steps.iter().all(|step| matches!(step.outcome, Outcome::Set)), "{steps:?}");
    assert_eq!((bed.get(RMEM), bed.get(BACKLOG)), ("67108864".into(), "10000".into()));
    let steps = bed.undo(false);
    let order: Vec<String> = steps.iter().map(|step| step.setting.to_string()).collect();
    assert!(order[0].ends_with("netdev_max_backlog") && order[1].ends_with("rmem_max"));
    assert_eq!((bed.get(RMEM), bed.get(BACKLOG)), ("212992".into(), "1000".into()));
    assert!(!bed.state().exists());
}

#[test]
fn applied_twice_the_first_old_value_comes_back() {
    let bed = Bed::new();
    bed.apply("1000000");
    bed.apply("67108864");
    assert_eq!(bed.get(RMEM), "67108864");
    bed.undo(false);
    assert_eq!(bed.get(RMEM), "212992");
}

#[test]
fn a_crash_between_log_and_write_leaves_nothing_to_mourn() {
    for writes in 0..2 {
        let bed = Bed::new();
        let left = Cell::new(writes);
        let host = Dying { host: bed.host(), left: &left };
        let actions = [Action::sysctl(RMEM, "67108864"), Action::sysctl(BACKLOG, "10000")];
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = apply(&host, &mut bed.journal(), &actions);
        }));
        assert!(died.is_err());
        let logged = fs::read_to_string(bed.state()).unwrap();
        let announced = logged.lines().filter(|line| !line.starts_with("fluxline")).count();
        assert_eq!(announced, 1 + writes as usize, "announced before made: {logged}");
        let steps = bed.undo(false);
        assert_eq!(steps.len(), 1 + writes as usize);
        assert!(steps.iter().all(|s| matches!(s.outcome, Outcome::Set | Outcome::Already)));
        assert_eq!((bed.get(RMEM), bed.get(BACKLOG)), ("212992".into(), "1000".into()));
        assert!(!bed.state().exists());
    }
}

#[test]
fn a_log_cut_at_any_byte_is_read_and_forgets_no_whole_line() {
    let bed = Bed::new();
    bed.apply("67108864");
    let whole = fs::read(bed.state()).unwrap();
    for end in 0..=whole.len() {
        fs::write(bed.state(), &whole[..end]).unwrap();
        let kept = whole[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = std::str::from_utf8(&whole[..kept]).unwrap();
        let announced = text.lines().filter(|line| !line.starts_with("fluxline")).count();
        let journal = bed.journal();
        assert_eq!(journal.newest_first().len(), announced, "cut at {end}");
    }
}

#[test]
fn what_somebody_else_changed_is_left_alone_until_forced() {
    let bed = Bed::new();
    bed.apply("67108864");
    bed.set(RMEM, "5\n");
    let steps = bed.undo(false);
    assert!(matches!(&steps[1].outcome, Outcome::Foreign(now) if now == "5"), "{steps:?}");
    assert_eq!((bed.get(RMEM), bed.get(BACKLOG)), ("5".into(), "1000".into()));
    assert!(bed.state().exists(), "it still knows what was there");
    let steps = bed.undo(true);
    assert_eq!((steps.len(), bed.get(RMEM)), (1, "212992".into()));
    assert!(!bed.state().exists());
}

#[test]
fn what_cannot_be_read_or_written_is_said_and_the_rest_is_done() {
    let bed = Bed::new();
    let actions = [Action::sysctl("net.core.not_there", 1), Action::sysctl(BACKLOG, 10_000)];
    let steps = apply(&bed.host(), &mut bed.journal(), &actions).unwrap();
    assert!(matches!(steps[0].outcome, Outcome::Failed(_)));
    assert!(matches!(steps[1].outcome, Outcome::Set));
    assert_eq!(bed.undo(false).len(), 1);
}

/// Rounds what it is given down to hundreds, as drivers round rings to powers of two.
struct Rounding(Files);

impl Settings for Rounding {
    fn read(&self, setting: &Setting) -> io::Result<String> {
        Settings::read(&self.0, setting)
    }

    fn write(&self, setting: &Setting, value: &str) -> io::Result<()> {
        let number: u64 = value.parse().map_err(io::Error::other)?;
        Settings::write(&self.0, setting, &(number / 100 * 100).to_string())
    }
}

#[test]
fn a_host_that_rounds_or_refuses_silently_is_undone_all_the_same() {
    let bed = Bed::new();
    bed.set(RMEM, "200");
    let host = Rounding(bed.host());
    let steps = apply(&host, &mut bed.journal(), &[Action::sysctl(RMEM, 777)]).unwrap();
    assert!(matches!(&steps[0].outcome, Outcome::Became(now) if now == "700"), "{steps:?}");
    let steps = apply(&host, &mut bed.journal(), &[Action::sysctl(RMEM, 799)]).unwrap();
    assert!(matches!(steps[0].outcome, Outcome::Failed(_)), "{steps:?}");
    bed.undo(false);
    assert_eq!(bed.get(RMEM), "200");
}

#[test]
fn what_somebody_set_between_two_changes_comes_back_and_not_the_older_value() {
    let bed = Bed::new();
    bed.apply("1000000");
    bed.set(RMEM, "4194304\n");
    bed.apply("67108864");
    bed.undo(false);
    assert_eq!((bed.get(RMEM), bed.get(BACKLOG)), ("4194304".into(), "1000".into()));
    assert!(!bed.state().exists());
}

#[test]
fn after_a_restart_of_the_host_nothing_is_undone() {
    let bed = Bed::new();
    bed.apply("67108864");
    bed.set(RMEM, "67108864");
    let journal = Journal::open_existing(&bed.state(), "another boot").unwrap().unwrap();
    assert_eq!(journal.newest_first(), []);
    assert!(journal.is_void(), "and it can be said");
    journal.close().unwrap();
    assert_eq!(bed.get(RMEM), "67108864");
    assert!(!bed.state().exists());
}

#[test]
fn a_file_that_is_no_state_file_is_refused_and_left_as_it_is() {
    let bed = Bed::new();
    fs::create_dir_all(bed.state().parent().unwrap()).unwrap();
    let texts = [
        "something else\n",
        "something else",
        "fluxline doctor state 2\tboot\nfile /etc/passwd\ta\tb\n",
        "fluxline doctor state 2\tboot\nring eth0\t3\n",
    ];
    for text in texts {
        fs::write(bed.state(), text).unwrap();
        let refused = Journal::open(&bed.state(), "boot");
        assert!(matches!(refused, Err(JournalError::Foreign { .. })), "{text}: {refused:?}");
        assert_eq!(fs::read_to_string(bed.state()).unwrap(), text);
    }
}

#[test]
fn two_at_a_time_are_refused() {
    let bed = Bed::new();
    let first = bed.journal();
    let second = Journal::open(&bed.state(), "boot");
    assert!(matches!(second, Err(JournalError::Busy { .. })));
    drop(first);
    bed.journal().close().unwrap();
}
