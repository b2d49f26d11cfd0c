//! QUIC by quinn: a program apart, named by `QUINN`.

use std::process::Command;

use super::ends::Settings;
use super::path::Path;
use super::trial::{Bench, End, Outcome};

/// One stream; `None`: the program is not there. `datagram`: UDP payload \[byte\].
pub fn stream(
    bench: &Bench,
    path: &Path,
    (datagram, control): (usize, &str),
    seconds: f64,
) -> Option<Outcome> {
    let program = std::env::var("QUINN").ok()?;
    let to = path.addresses(Settings::default()).address("to").to_string();
    let on_core = |core: usize, arguments: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string(), &program]).args(arguments);
        command
    };
    let receive = on_core(bench.cores.1, &["receive", &to, &seconds.to_string()]);
    let mut receiver = End::start(path.at_receiver(receive));
    let to = format!("{to}:{}", receiver.line("ready")?);
    let send = on_core(bench.cores.0, &["send", &to, &datagram.to_string(), control]);
    let sender = End::start(path.at_sender(send));
    let received = receiver.side();
    Some(Outcome { sent: sender.side(), received })
}
