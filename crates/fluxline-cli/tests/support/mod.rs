//! The program as a black box: started with arguments, judged by output, status and files.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The program.
pub fn fluxline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fluxline"))
}

/// Runs it with these arguments.
pub fn call(arguments: &[&str]) -> Output {
    fluxline().args(arguments).output().expect("the program starts")
}

/// Runs it with `--json`; it must end well.
pub fn call_json(arguments: &[&str]) -> Value {
    let output = fluxline().arg("--json").args(arguments).output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// Asserts an exit status and one clear sentence on standard error; returns it.
pub fn refused(output: &Output, status: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    let last = errors.lines().last().unwrap_or_default().to_string();
    assert!(last.starts_with("fluxline: ") && last.ends_with('.'), "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    last
}

/// A file of the optional test data shared/captures; `None`, said aloud, where it is absent.
pub fn capture(name: &str) -> Option<String> {
    let root = std::env::var_os("FLUXLINE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join("captures").join(name);
    if !path.exists() {
        println!("skipped: {name} is not there (optional test data shared/captures)");
        return None;
    }
    Some(path.display().to_string())
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8 path")
}

/// A counter of a JSON object.
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}
