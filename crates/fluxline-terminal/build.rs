//! Tells the program which commit it is built from: `FLUXLINE_COMMIT`, for `fluxline --version` and
//! for every report. `unknown` outside a checkout, as from an archive; packagers that know the
//! commit set this environment variable.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=FLUXLINE_COMMIT");
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let known = std::env::var("FLUXLINE_COMMIT").ok().filter(|commit| is_word(commit));
    let root = package.join("../..");
    let commit = match known {
        Some(commit) => commit,
        None => {
            for path in watched(&root) {
                println!("cargo::rerun-if-changed={}", path.display());
            }
            commit(&root).unwrap_or_else(|| "unknown".to_owned())
        }
    };
    println!("cargo::rustc-env=FLUXLINE_COMMIT={commit}");
}

/// Returns true if it fits into a line of the build's output and of a report.
fn is_word(commit: &str) -> bool {
    !commit.is_empty() && commit.chars().all(|letter| letter.is_ascii_graphic())
}

/// The commit of the checkout whose root is `root`, 12 digits, with `-dirty` where files that it
/// knows were changed since. `None`: no git, or no checkout of this; one in which an archive was
/// unpacked is another project's.
pub fn commit(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // Without tags: a tag can be moved. `--dirty` is what rev-parse cannot say.
    let words = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    git(root, &words).filter(|commit| is_word(commit))
}

/// Lists the files after whose change the commit may be another: HEAD, the branch that it points
/// to, packed branches, and the sources, since a clean tree becomes dirty with them.
///
/// Only what is there: cargo takes a missing file for one that always changes.
pub fn watched(root: &Path) -> Vec<PathBuf> {
    let place = |name: &str| git(root, &["rev-parse", "--git-path", name]).map(|at| root.join(at));
    let mut paths: Vec<PathBuf> = ["HEAD", "packed-refs"].into_iter().filter_map(place).collect();
    if let Some(branch) = git(root, &["symbolic-ref", "-q", "HEAD"]) {
        // A packed branch gets a file of its own with the next commit: then its folder changes.
        let file = place(&branch);
        let nearest = file.as_deref().and_then(|file| file.ancestors().find(|path| path.exists()));
        paths.extend(nearest.map(Path::to_path_buf));
    }
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    paths.extend(crates.map(|one| one.path().join("src")));
    paths.retain(|path| path.exists());
    paths
}

/// Returns the output of git, without the end of line; `None`: git is absent, or fails. It takes no
/// locks, and ignores another repository that a hook may have set.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("--no-optional-locks").arg("-C").arg(root).args(words);
    for told in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(told);
    }
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
