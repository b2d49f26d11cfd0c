//! Names the limit of a trial by rules over its counters, with the numbers that decide.

use super::cpu::CoreLoad;
use super::loss::{self, LossPlace};

/// The least load of a full core \[share\]: the ticks of a short trial are exact to some 4 %.
/// (assumed)
const FULL: f64 = 0.9;
/// The least share of others that is named as a disturbance. (assumed)
const DISTURBED: f64 = 0.05;
/// The least load of a full link \[share of its speed\]. (assumed)
const LINK_FULL: f64 = 0.95;

/// One side: the load of its core, and the part of its own thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// The core's load; `None`: not pinned, or hidden.
    pub core: Option<CoreLoad>,
    /// Of that, the experiment's own threads \[share\].
    pub own: f64,
    /// The host's cores that took the interrupts of its card; empty: no card is on the path.
    pub card_cores: Vec<usize>,
}

impl Side {
    /// Returns the share of the core that other programs took. It is a lower bound: ticks of
    /// interrupts may count for a thread and for the core's interrupts at once.
    fn others(&self) -> f64 {
        let core = self.core.unwrap_or_default();
        (core.user + core.nice + core.system - self.own).max(0.0)
    }
}

/// The evidence of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The sender's side.
    pub sender: Side,
    /// The receiver's side.
    pub receiver: Side,
    /// The receiving host's core that interrupts keep busiest: a card's are often not the
    /// receiver's core.
    pub interrupts: Option<CoreLoad>,
    /// True: the sender sent as fast as it could, or did not keep its rate.
    pub sender_at_most: bool,
    /// The losses by place.
    pub places: Vec<LossPlace>,
    /// Payload and headers as a share of the interface's speed; `None`: no speed (lo, veth).
    pub link: Option<f64>,
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The parts of a load that matter, largest first: `system 88 %, softirq 10 %`.
fn parts(core: &CoreLoad) -> String {
    let mut parts = core.parts().to_vec();
    parts.retain(|&(name, share)| name != "idle" && share >= 0.03);
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> =
        parts.iter().map(|(name, share)| format!("{name} {}", percent(*share))).collect();
    if words.is_empty() { "idle".to_owned() } else { words.join(", ") }
}

/// Names the limit in one sentence. The cores of the cards' interrupts, and disturbances, follow in
/// further sentences.
#[must_use]
pub fn name(evidence: &Evidence) -> String {
    let mut sentences = vec![bottleneck(evidence)];
    sentences.extend(card_interrupts(evidence));
    sentences.extend(disturbance(evidence));
    sentences.join(" ")
}

fn bottleneck(evidence: &Evidence) -> String {
    if let Some(share) = evidence.link.filter(|&share| share >= LINK_FULL) {
        return format!("The link: {} of its speed.", percent(share));
    }
    if evidence.places.is_empty() { without_loss(evidence) } else { with_loss(evidence) }
}

fn without_loss(evidence: &Evidence) -> String {
    let Some(core) = evidence.sender.core else {
        return "Unknown: nothing was lost, and the sender's core is not known.".to_owned();
    };
    let load = parts(&core);
    if !evidence.sender_at_most {
        return "Nothing at this rate: no datagram was lost, and the sender kept it.".to_owned();
    }
    if core.busy() < FULL {
        return format!(
            "Unknown: nothing was lost, and the sender's core {} is {} busy ({load}).",
            core.core,
            percent(core.busy())
        );
    }
    if let Some(others) = crowded_out(&evidence.sender, &core, "sender") {
        return format!("{others}; nothing was lost.");
    }
    let kernel = core.system + core.interrupts();
    let part = if kernel > core.user { "the kernel's sending path" } else { "its program" };
    format!("The sender: core {} is full with {part} ({load}); nothing was lost.", core.core)
}

/// Returns a clause about other programs that took more of a full core than the experiment and its
/// interrupts: then the result says nothing about the link.
fn crowded_out(side: &Side, core: &CoreLoad, name: &str) -> Option<String> {
    let own = side.own + core.interrupts();
    let taken = side.others() + core.steal;
    (core.busy() >= FULL && taken > own).then(|| {
        let (taken, own) = (percent(taken), percent(own));
        format!("Other programs took {taken} of the {name}'s core {}, itself {own}", core.core)
    })
}

fn with_loss(evidence: &Evidence) -> String {
    let at = loss::sentence(&evidence.places);
    let largest = evidence.places.iter().max_by_key(|place| place.datagrams);
    let first = largest.map_or("", |place| place.name.as_str());
    let Some(core) = evidence.receiver.core else {
        return format!("The receiver's side (lost at: {at}); its core's load is not known.");
    };
    if let Some(others) = crowded_out(&evidence.receiver, &core, "receiver") {
        return format!("{others}; lost at: {at}.");
    }
    if let Some(core) = evidence.interrupts.filter(|core| core.interrupts() >= FULL) {
        let load = format!("core {}: {}", core.core, parts(&core));
        return format!("The receiving host's interrupts fill a core ({load}); lost at: {at}.");
    }
    let load = format!("core {}: {}", core.core, parts(&core));
    if core.busy() >= FULL {
        let whose = if evidence.receiver.own > evidence.receiver.others() + core.softirq {
            "The receiving thread fills its core"
        } else {
            "The receiver's core is full"
        };
        return format!("{whose} ({load}); lost at: {at}.");
    }
    match first {
        "socket buffer" => format!(
            "Bursts: the socket's buffer was full while the receiver's core had time ({load}); \
             lost at: {at}."
        ),
        loss::UNKNOWN => format!("Unknown: no counter has the loss, and {load}."),
        _ => format!(
            "A queue before the socket, with time left on the core ({load}); lost at: {at}."
        ),
    }
}

/// Returns a sentence about the cores that take the cards' packets, and the threads on them.
fn card_interrupts(evidence: &Evidence) -> Option<String> {
    let mut words = Vec::new();
    for (side, of) in [("sender", &evidence.sender), ("receiver", &evidence.receiver)] {
        if of.card_cores.is_empty() {
            continue;
        }
        let cores: Vec<String> = of.card_cores.iter().map(ToString::to_string).collect();
        let own = of.core.map(|core| core.core);
        let where_it_is = match own {
            Some(core) if of.card_cores == [core] => format!(", the {side}'s own"),
            Some(core) if of.card_cores.contains(&core) => format!(", the {side}'s {core} too"),
            Some(core) => format!(", apart from the {side}'s {core}"),
            None => String::new(),
        };
        words.push(format!("the {side}'s card on core {}{where_it_is}", cores.join(",")));
    }
    (!words.is_empty()).then(|| format!("Interrupts: {}.", words.join("; ")))
}

fn disturbance(evidence: &Evidence) -> Option<String> {
    let mut words = Vec::new();
    for (side, of) in [("sender", &evidence.sender), ("receiver", &evidence.receiver)] {
        let Some(core) = of.core else { continue };
        if core.steal >= DISTURBED {
            let taken = percent(core.steal);
            words.push(format!("the hypervisor took {taken} of the {side}'s core {}", core.core));
        }
        if of.others() >= 2.0 * DISTURBED {
            let taken = percent(of.others());
            words.push(format!("other programs took {taken} of the {side}'s core {}", core.core));
        }
    }
    (!words.is_empty()).then(|| format!("Disturbed: {}.", words.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(number: usize, user: f64, system: f64, softirq: f64) -> CoreLoad {
        let idle = 1.0 - user - system - softirq;
        CoreLoad { core: number, user, system, softirq, idle, ..CoreLoad::default() }
    }

    fn evidence(sender: CoreLoad, receiver: CoreLoad, places: &[(&str, u64)]) -> Evidence {
        let side = |core: CoreLoad| Side {
            core: Some(core),
            own: core.user + core.system,
            card_cores: Vec::new(),
        };
        let place =
            |&(name, datagrams): &(&str, u64)| LossPlace { name: name.to_owned(), datagrams };
        Evidence {
            sender: side(sender),
            receiver: side(receiver),
            interrupts: Some(receiver),
            sender_at_most: true,
            places: places.iter().map(place).collect(),
            link: None,
        }
    }

    #[test]
    fn a_full_sender_without_loss_is_the_limit() {
        let said = name(&evidence(core(0, 0.05, 0.94, 0.0), core(1, 0.1, 0.3, 0.1), &[]));
        assert!(said.starts_with("The sender: core 0 is full with the kernel's sending"), "{said}");
        assert!(said.contains("system 94 %") && !said.contains("Disturbed"), "{said}");
        let said = name(&evidence(core(0, 0.94, 0.05, 0.0), core(1, 0.1, 0.3, 0.1), &[]));
        assert!(said.contains("its program"), "{said}");
    }

    #[test]
    fn a_rate_that_was_kept_without_loss_has_no_limit() {
        let mut kept = evidence(core(0, 0.9, 0.1, 0.0), core(1, 0.1, 0.3, 0.1), &[]);
        kept.sender_at_most = false;
        assert!(name(&kept).starts_with("Nothing at this rate"), "{}", name(&kept));
    }

    #[test]
    fn loss_is_the_receivers_and_its_load_says_which_part() {
        let lost = [("socket buffer", 9), ("unknown", 1)];
        let sender = core(0, 0.0, 1.0, 0.0);
        for (receiver, expected) in [
            (core(1, 0.2, 0.78, 0.02), "The receiving thread fills its core (core 1: system 78"),
            (core(1, 0.0, 0.05, 0.95), "The receiving host's interrupts fill a core"),
            (core(1, 0.02, 0.28, 0.69), "The receiver's core is full"),
            (core(1, 0.05, 0.2, 0.1), "Bursts: the socket's buffer was full"),
        ] {
            let said = name(&evidence(sender, receiver, &lost));
            assert!(said.starts_with(expected), "{said}");
            assert!(said.contains("socket buffer 90 %, unknown 10 %"), "{said}");
        }
        let said = name(&evidence(sender, core(1, 0.1, 0.1, 0.1), &[("backlog", 5)]));
        assert!(said.starts_with("A queue before the socket"), "{said}");
        let said = name(&evidence(sender, core(1, 0.1, 0.1, 0.1), &[("unknown", 5)]));
        assert!(said.starts_with("Unknown"), "{said}");
    }

    #[test]
    fn cores_that_take_interrupts_are_named_and_whether_they_are_the_experiments() {
        let mut on = evidence(core(0, 0.0, 1.0, 0.0), core(1, 0.1, 0.1, 0.1), &[]);
        assert!(!name(&on).contains("Interrupts"), "no card is between: {}", name(&on));
        on.sender.card_cores = vec![0];
        on.receiver.card_cores = vec![0, 1];
        let said = name(&on);
        let expected = "Interrupts: the sender's card on core 0, the sender's own; the receiver's \
                        card on core 0,1, the receiver's 1 too.";
        assert!(said.ends_with(expected), "{said}");
        on.receiver.card_cores = vec![3];
        on.sender.core = None;
        let said = name(&on);
        assert!(said.contains("the sender's card on core 0;"), "{said}");
        assert!(said.contains("on core 3, apart from the receiver's 1."), "{said}");
    }

    #[test]
    fn a_full_link_comes_before_all_else() {
        let mut full = evidence(core(0, 0.0, 1.0, 0.0), core(1, 0.0, 1.0, 0.0), &[("unknown", 5)]);
        full.link = Some(0.98);
        assert_eq!(name(&full), "The link: 98 % of its speed.");
    }

    #[test]
    fn steal_and_other_programs_are_named_beside_the_limit() {
        let mut noisy = evidence(core(0, 0.0, 0.9, 0.0), core(1, 0.3, 0.3, 0.0), &[]);
        noisy.sender.core =
            noisy.sender.core.map(|core| CoreLoad { steal: 0.1, idle: 0.0, ..core });
        noisy.receiver.own = 0.2;
        let said = name(&noisy);
        assert!(said.contains("the hypervisor took 10 % of the sender's core 0"), "{said}");
        assert!(said.contains("other programs took 40 % of the receiver's core 1"), "{said}");
    }

    #[test]
    fn a_core_that_others_fill_says_nothing_about_the_link() {
        let mut crowded = evidence(core(0, 0.1, 0.3, 0.0), core(1, 0.0, 0.2, 0.0), &[]);
        let busy = |side: &mut Side| {
            side.core = side.core.map(|core| CoreLoad { nice: core.idle, idle: 0.0, ..core });
        };
        busy(&mut crowded.sender);
        let said = name(&crowded);
        assert!(said.starts_with("Other programs took 60 % of the sender's core 0"), "{said}");
        busy(&mut crowded.receiver);
        crowded.places = vec![LossPlace { name: "socket buffer".to_owned(), datagrams: 1 }];
        let said = name(&crowded);
        assert!(said.starts_with("Other programs took 80 % of the receiver's"), "{said}");
        assert!(said.contains("lost at: socket buffer 100 %"), "{said}");
    }

    #[test]
    fn what_is_not_known_is_said_and_not_guessed() {
        assert!(name(&Evidence::default()).starts_with("Unknown"));
        let places = vec![LossPlace { name: "socket buffer".to_owned(), datagrams: 1 }];
        let lossy = Evidence { places, ..Evidence::default() };
        assert!(name(&lossy).contains("not known"), "{}", name(&lossy));
    }
}
