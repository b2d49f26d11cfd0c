//! The cores on which senders and receiver really ran, each named once.

use super::senders::apart;
use super::trial::Trial;
use crate::result::Placement;

/// The placements of senders and receivers, in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub struct Placed(Vec<Placement>);

impl Placed {
    /// Adds the placements of a trial.
    pub fn add(&mut self, trial: &Trial) {
        let count = trial.sent.len();
        for (index, sent) in trial.sent.iter().enumerate() {
            let who = match count {
                1 => "sender alone".to_owned(),
                _ => format!("sender {} of {count}", index + 1),
            };
            let what = if sent.process.is_some() { "process" } else { "thread" };
            self.note(who, what, sent.cores.clone());
        }
        self.note("receiver".to_owned(), "thread", trial.received.affinity.clone());
    }

    /// Adds a placement, unless an older far side did not send its cores.
    fn note(&mut self, who: String, what: &str, cores: Vec<usize>) {
        let placement = Placement { who, what: what.to_owned(), cores };
        if !placement.cores.is_empty() && !self.0.contains(&placement) {
            self.0.push(placement);
        }
    }

    /// Returns a sentence about the senders of the largest trial and their number of cores.
    #[must_use]
    pub fn sentence(&self) -> String {
        let senders = || self.0.iter().filter(|one| one.who.starts_with("sender"));
        let words = match (senders().next(), senders().all(|one| one.what == "process")) {
            (None, _) => return String::new(),
            (_, true) => "Each sender is a process of its own",
            (_, false) => "Senders are threads of one process",
        };
        let of_many: Vec<&Placement> = senders().filter(|one| one.who.contains(" of ")).collect();
        let shared = of_many.windows(2).any(|pair| pair[0].cores == pair[1].cores);
        let words = words.to_owned();
        if shared { words + "; two share a core, as there are too few." } else { words + "." }
    }

    /// Returns all placements.
    #[must_use]
    pub fn into_all(self) -> Vec<Placement> {
        self.0
    }
}

/// Returns the time between the first and the last sender's start \[us\]; `None`: one sender.
#[must_use]
pub fn apart_us(trial: &Trial) -> Option<f64> {
    (trial.sent.len() > 1).then(|| apart(&trial.sent).as_secs_f64() * 1e6)
}
