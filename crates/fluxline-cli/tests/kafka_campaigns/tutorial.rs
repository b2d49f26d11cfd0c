//! The tutorials on Kafka, followed to the letter with this program.

use std::path::Path;
use std::process::Command;

#[test]
fn tutorials_on_kafka_fail_when_followed_to_the_letter() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka/tutorial.sh");
    let python = std::env::var_os("FLUXLINE_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(script)
        .env("FLUXLINE", env!("CARGO_BIN_EXE_fluxline"))
        .env("FLUXLINE_PYTHON", python)
        .output()
        .expect("tools/kafka/tutorial.sh");
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "{}: {errors}", output.status);
}
