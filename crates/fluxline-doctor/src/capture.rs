//! A host's files as a folder, so that somebody else can judge it: what is read of it, no more.
//!
//! Left out: hardware addresses, the host's name, names of processes but of irqbalance and of the
//! kernel's own, and what only the kernel says, but for the firewall's rules, where it shows them:
//! those may hold addresses.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::facts::HostFacts;
use super::files::{Files, Seen};
use super::firewall;

/// Counters of losses, which are read by the run's report as well. Source: kernel.rs.
const COUNTERS: [&str; 3] = ["/proc/net/snmp", "/proc/net/snmp6", "/proc/net/softnet_stat"];

/// Writes what the doctor reads of this host below `folder`, which must not be there or be empty;
/// returns how many files that are. `fluxline doctor --root FOLDER` judges it, on any host.
///
/// Errors: the folder holds something, or a file cannot be written. Cost: some hundred small files.
pub fn capture(folder: &Path) -> io::Result<usize> {
    if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it holds something already"));
    }
    let files = Files::recording();
    let facts = HostFacts::read(&files, None);
    for path in COUNTERS {
        files.text(path);
    }
    for name in facts.cards.keys() {
        let statistics = format!("/sys/class/net/{name}/statistics");
        for counter in files.names(&statistics) {
            files.text(&format!("{statistics}/{counter}"));
        }
    }
    let mut seen = files.seen();
    if let Some(text) = firewall::rules_as_text() {
        seen.insert(firewall::RULES_FILE.to_owned(), Seen::Text(text));
    }
    write_all(&seen, folder)
}

fn write_all(seen: &BTreeMap<String, Seen>, folder: &Path) -> io::Result<usize> {
    let mut written = 0;
    for (path, what) in seen.iter().filter(|(path, what)| is_kept(path, what, seen)) {
        let to = folder.join(path.trim_start_matches('/'));
        let Some(above) = to.parent() else { continue };
        match what {
            Seen::Text(text) => {
                std::fs::create_dir_all(above)?;
                std::fs::write(&to, format!("{text}\n"))?;
            }
            // A link's name is wanted, and what is below it: a folder of that name beside it.
            Seen::Link(name) => {
                std::fs::create_dir_all(above.join(name))?;
                std::os::unix::fs::symlink(name, &to)?;
            }
            Seen::Name => {
                std::fs::create_dir_all(above)?;
                std::fs::write(&to, "")?;
            }
        }
        written += 1;
    }
    Ok(written)
}

/// Returns true if it says something: not the names of folders whose files are kept, nor of
/// processes.
fn is_kept(path: &str, what: &Seen, seen: &BTreeMap<String, Seen>) -> bool {
    let is_process = path.strip_prefix("/proc/").is_some_and(|rest| {
        rest.starts_with(|first: char| first.is_ascii_digit()) && !rest.starts_with("self")
    });
    match what {
        Seen::Text(text) => !is_process || text == "irqbalance" || text.contains("napi/"),
        Seen::Link(_) => true,
        Seen::Name => {
            let below = format!("{path}/");
            let has_below = seen.range(below.clone()..).next();
            let listed = ["/proc/", "/sys/devices/system/"].iter().any(|at| path.starts_with(at));
            !listed && !has_below.is_some_and(|(other, _)| other.starts_with(&below))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_judged_from_its_copy_is_this_host() {
        let folder = tempfile::tempdir().unwrap();
        let written = capture(folder.path()).unwrap();
        assert!(written > 20, "{written} files");
        let copy = HostFacts::read(&Files::below(folder.path()), None);
        let host = HostFacts::read(&Files::this_host(), None);
        assert_eq!(copy.limits, host.limits);
        assert_eq!(copy.cards.keys().collect::<Vec<_>>(), host.cards.keys().collect::<Vec<_>>());
        for (name, card) in &copy.cards {
            let own = &host.cards[name];
            assert_eq!((card.mtu, &card.device, &card.rps), (own.mtu, &own.device, &own.rps));
            assert_eq!(card.interrupts, own.interrupts, "{name}");
        }
        assert_eq!(copy.interrupts.cores, host.interrupts.cores);
        assert_eq!(copy.processor.idle, host.processor.idle);
        assert_eq!(copy.processor.clock, host.processor.clock);
        let again = capture(folder.path()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists, "nothing is written over");
    }

    #[test]
    fn data_that_identifies_the_host_stays_there() {
        let folder = tempfile::tempdir().unwrap();
        capture(folder.path()).unwrap();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let mut names = vec![host.trim().to_owned()];
        for entry in std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten() {
            let address = std::fs::read_to_string(entry.path().join("address"));
            names.extend(address.ok().map(|text| text.trim().to_owned()));
        }
        let none = ["", "00:00:00:00:00:00", "localhost"];
        names.retain(|name| !none.contains(&name.as_str()));
        let mut folders = vec![folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                    // A short host name may be a word of the kernel's.
                    let tells = names.iter().find(|name| name.len() > 5 && text.contains(*name));
                    assert_eq!(tells, None, "{}", entry.path().display());
                }
            }
        }
    }
}
