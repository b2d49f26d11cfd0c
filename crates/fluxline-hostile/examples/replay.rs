//! Runs a target on stored inputs, and shortens those that fail.
//!
//! demonstrates: `cargo run -p fluxline-hostile --example replay -- acquisition fuzz/artifacts/...`
//! says which files fail, and writes the shortest input found beside each as `FILE.short`.

use std::panic::{catch_unwind, set_hook, take_hook};
use std::{env, fs, process};

use fluxline_hostile::{TARGETS, Target};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("usage: replay TARGET FILE...; targets are {}", names.join(", "));
        process::exit(2);
    };
    for file in arguments {
        let bytes = fs::read(&file)?;
        if !fails(target, &bytes) {
            println!("{file}: keeps its promises");
            continue;
        }
        let hook = take_hook();
        set_hook(Box::new(|_| {}));
        let short = shorten(target, bytes);
        set_hook(hook);
        fs::write(format!("{file}.short"), &short)?;
        println!("{file}: fails; {} bytes of it do too:", short.len());
        fails(target, &short);
    }
    Ok(())
}

fn fails(target: &Target, bytes: &[u8]) -> bool {
    catch_unwind(|| (target.run)(bytes)).is_err()
}

/// Leaves pieces out, large ones first, then makes bytes zero, as long as the rest still fails.
fn shorten(target: &Target, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut piece = bytes.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at + piece <= bytes.len() {
            let rest = [&bytes[..at], &bytes[at + piece..]].concat();
            match fails(target, &rest) {
                true => bytes = rest,
                false => at += piece,
            }
        }
        piece /= 2;
    }
    for at in 0..bytes.len() {
        let before = std::mem::take(&mut bytes[at]);
        if before != 0 && !fails(target, &bytes) {
            bytes[at] = before;
        }
    }
    bytes
}
