//! The way of a link through a host: the card, its driver, offloads, rings and interrupts, and the
//! findings of `fluxline doctor`.

use std::collections::BTreeSet;

use fluxline_doctor::{InUse, Interrupt, Passage, Row, Through};
use serde_json::{Value, json};

/// Describes the interface of a link; null for memory.
#[must_use]
pub fn describe(through: &Through) -> Value {
    match through.interface() {
        Some(name) => document(name, &Passage::read(name)),
        None => Value::Null,
    }
}

/// Lists the findings of `fluxline doctor` on the link's way, the worst first.
#[must_use]
pub fn findings(through: &Through) -> Value {
    let rows = fluxline_doctor::document(through);
    rows.iter().filter(|row| row.verdict != "good").map(finding).collect()
}

fn finding(row: &Row) -> Value {
    json!({
        "name": row.name,
        "found": row.found,
        "wanted": row.wanted,
        "verdict": row.verdict,
        "remedy": row.remedy,
    })
}

/// An interface; what nobody says is null.
pub(crate) fn document(name: &str, passage: &Passage) -> Value {
    let Passage { card, driver, .. } = passage;
    let in_use = |of: Option<InUse>| of.map(|of| json!({ "now": of.now, "max": of.max }));
    let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    json!({
        "interface": name,
        "driver": known(&driver.name),
        "driver_version": known(&driver.version),
        "firmware": known(&driver.firmware),
        "bus": known(&driver.bus),
        "mtu": card.mtu,
        "speed_mbps": card.speed_mbits,
        "full_duplex": card.full_duplex,
        "offloads": passage.offloads,
        "ring": { "receive": in_use(card.ring), "transmit": in_use(passage.transmit_ring) },
        "receive_queues": in_use(card.channels),
        "receive_steering": card.rps,
        "coalescing": passage.coalescing.map(|of| json!({
            "receive_us": of.receive_us,
            "receive_frames": of.receive_frames,
            "transmit_us": of.transmit_us,
            "transmit_frames": of.transmit_frames,
            "adaptive": of.adaptive,
        })),
        "threaded_napi": card.threaded,
        "interrupts": passage.interrupts.iter().map(|(number, line)| interrupt(*number, line)).collect::<Vec<_>>(),
    })
}

fn interrupt(number: u64, line: &Interrupt) -> Value {
    json!({
        "number": number,
        "name": line.name,
        "cores_allowed": line.allowed,
        "counts": line.counts,
    })
}

/// Returns a sentence about the cores that take the interrupts of both sides' cards, and about near
/// and far on them. `None`: no card is between them.
#[must_use]
pub fn interrupts(environment: &Value, cores: [Option<usize>; 2]) -> Option<String> {
    let sides = ["near", "far"].into_iter().zip(cores);
    let words: Vec<String> =
        sides.filter_map(|(side, core)| of_side(&environment[side]["link"], side, core)).collect();
    (!words.is_empty()).then(|| format!("Interrupts may come: {}", words.join("; ")))
}

fn of_side(link: &Value, side: &str, core: Option<usize>) -> Option<String> {
    let lines = link["interrupts"].as_array()?;
    let allowed = lines.iter().filter_map(|line| line["cores_allowed"].as_array()).flatten();
    let cores: BTreeSet<u64> = allowed.filter_map(Value::as_u64).collect();
    if cores.is_empty() {
        return None;
    }
    let runs = match core {
        Some(core) if cores.contains(&(core as u64)) => format!(", where {side} runs ({core})"),
        Some(core) => format!(", and {side} runs on {core}, apart from them"),
        None => String::new(),
    };
    let name = link["interface"].as_str().unwrap_or_default();
    let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
    Some(format!("{side}'s {name} to core {}{runs}", cores.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_described_and_memory_has_no_interface() {
        let loopback = describe(&Through::Loopback);
        assert_eq!(loopback["interface"], "lo");
        assert!(loopback["mtu"].as_u64().is_some_and(|mtu| mtu > 0), "{loopback}");
        assert!(loopback["offloads"].as_array().is_some_and(|all| !all.is_empty()), "{loopback}");
        assert_eq!(loopback["ring"]["receive"], Value::Null, "it has none, and none is made up");
        assert_eq!(describe(&Through::Memory), Value::Null);
    }

    #[test]
    fn interrupts_on_the_core_of_a_side_differ_from_those_on_another_core() {
        let card = |cores: &[usize]| {
            let line = Interrupt { allowed: cores.to_vec(), ..Interrupt::default() };
            document("eth0", &Passage { interrupts: [(38, line)].into(), ..Passage::default() })
        };
        let both =
            |near: Value, far: Value| json!({ "near": { "link": near }, "far": { "link": far } });
        let on = both(card(&[0, 1]), card(&[3]));
        assert_eq!(
            interrupts(&on, [Some(0), Some(1)]).as_deref(),
            Some(
                "Interrupts may come: near's eth0 to core 0,1, where near runs (0); far's eth0 to \
                 core 3, and far runs on 1, apart from them"
            )
        );
        let loopback = describe(&Through::Loopback);
        assert_eq!(interrupts(&both(loopback, Value::Null), [Some(0), None]), None);
        assert_eq!(interrupts(&Value::Null, [None, None]), None);
    }

    #[test]
    fn findings_are_what_is_not_good_and_say_what_is_wanted() {
        for through in [Through::Anything, Through::Loopback, Through::Memory] {
            let findings = findings(&through);
            for finding in findings.as_array().expect("a list") {
                assert_ne!(finding["verdict"], "good", "{finding}");
                for key in ["name", "found", "wanted"] {
                    assert!(
                        finding[key].as_str().is_some_and(|text| !text.is_empty()),
                        "{finding}"
                    );
                }
            }
        }
    }
}
