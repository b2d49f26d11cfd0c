//! The commit that a program names as its source: in a checkout, in a worktree, outside.

#[allow(dead_code, reason = "its main is for cargo")]
#[path = "../build.rs"]
mod build;

use std::path::{Path, PathBuf};
use std::process::Command;

/// A command of git that must work, with an author and without the user's settings.
fn git(folder: &Path, words: &str) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(words.split(' '));
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@localhost"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@localhost"),
    ] {
        command.env(name, value);
    }
    let output = command.output().expect("git starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {words}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository with one commit and a crate, and its folder; `None`, said aloud: no git.
fn repository() -> Option<(tempfile::TempDir, PathBuf)> {
    if Command::new("git").arg("--version").output().is_err() {
        println!("skipped: git is not installed");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    let source = root.join("crates/one/src/main.rs");
    std::fs::create_dir_all(source.parent().expect("a folder")).expect("made");
    std::fs::write(&source, "fn main() {}\n").expect("written");
    git(&root, "init -q");
    git(&root, "add .");
    git(&root, "commit -q -m one");
    Some((folder, root))
}

#[test]
fn a_commit_is_named_and_what_was_changed_since_is_said() {
    let Some((_folder, root)) = repository() else { return };
    let head = git(&root, "rev-parse --short=12 HEAD");
    assert_eq!(build::commit(&root).as_deref(), Some(head.as_str()));
    // A tag is not a commit: it may be moved.
    git(&root, "tag -a v9 -m nine");
    assert_eq!(build::commit(&root).as_deref(), Some(head.as_str()));
    std::fs::write(root.join("crates/one/src/main.rs"), "fn main() { }\n").expect("written");
    assert_eq!(build::commit(&root), Some(format!("{head}-dirty")));
}

#[test]
fn what_is_watched_is_there_also_in_a_worktree_detached_and_after_packing() {
    let Some((folder, root)) = repository() else { return };
    let tree = folder.path().join("tree");
    git(&root, &format!("worktree add -q {}", tree.display()));
    let sees = |root: &Path, name: &str| {
        let watched = build::watched(root);
        assert!(watched.iter().all(|path| path.exists()), "{watched:?}");
        assert!(watched.iter().any(|path| path.ends_with("crates/one/src")), "{watched:?}");
        watched.iter().any(|path| path.ends_with(name))
    };
    // Of a worktree `.git` is a file, and HEAD is elsewhere.
    assert!(tree.join(".git").is_file() && sees(&tree, "worktrees/tree/HEAD"));
    assert!(sees(&tree, "refs/heads/tree"));
    git(&root, "pack-refs --all");
    // Its branch has no file now; with the next commit its folder gets one.
    assert!(sees(&tree, "packed-refs") && sees(&tree, "refs/heads"));
    git(&tree, "checkout -q --detach");
    assert!(sees(&tree, "worktrees/tree/HEAD") && !sees(&tree, "refs/heads/tree"));
    assert_eq!(build::commit(&tree), build::commit(&root));
}

#[test]
fn an_archive_has_no_commit_also_within_somebody_elses_checkout() {
    let Some((folder, root)) = repository() else { return };
    let unpacked = root.join("vendor/fluxline");
    std::fs::create_dir_all(&unpacked).expect("made");
    assert_eq!(build::commit(&unpacked), None);
    assert_eq!(build::commit(&folder.path().join("not there")), None);
    assert_eq!(build::commit(folder.path()), None);
    assert!(build::watched(folder.path()).is_empty());
}
