//! The rounds: every contender measures every cell that it can do, in turns, so that a disturbance
//! of the machine affects all of them.

use super::contender::{Cell, Contender, NoNumber, OURS, Presence, Run};
use crate::Error;
use crate::result::Contest;

/// The cells in order, and the contenders of each.
pub struct Agenda {
    contenders: Vec<Box<dyn Contender>>,
    contests: Vec<(Cell, usize, Contest)>,
}

impl Agenda {
    /// Plans the contenders that are installed. A cell that no peer can do is left out: ours would
    /// have no peer to compare with.
    #[must_use]
    pub fn new(contenders: Vec<Box<dyn Contender>>, cells: &[Cell], quick: bool) -> Agenda {
        let mut contests = Vec::new();
        for cell in cells {
            let of_cell: Vec<_> = contenders
                .iter()
                .enumerate()
                .filter(|(_, one)| matches!(one.presence(), Presence::Version(_)))
                .filter_map(|(index, one)| Some((*cell, index, contest(&**one, cell, quick)?)))
                .collect();
            if of_cell.iter().any(|(_, _, contest)| !contest.is_ours) {
                contests.extend(of_cell);
            }
        }
        Agenda { contenders, contests }
    }

    /// Steps of a round.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.contests.len()
    }

    /// Measures all rounds; `step` gets the name of each step. Results are kept if it ends early.
    ///
    /// Errors: interrupted. A contender that fails has no number in that round, and a sentence.
    pub fn run(
        &mut self,
        rounds: u32,
        run: &Run<'_>,
        mut step: impl FnMut(&str),
    ) -> Result<(), Error> {
        for _ in 0..rounds {
            for (cell, index, contest) in &mut self.contests {
                run.stop.check()?;
                step(&format!(
                    "{} over {}, {}: {}",
                    contest.quantity, contest.path, contest.bytes, contest.contender
                ));
                match self.contenders[*index].measure(cell, run) {
                    Ok(number) => {
                        contest.samples.push(number.value);
                        contest.lost.extend(number.lost);
                    }
                    Err(NoNumber::Failed(why)) => contest.failed = why,
                    Err(NoNumber::Over(error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Returns the results.
    #[must_use]
    pub fn contests(self) -> Vec<(Cell, Contest)> {
        self.contests.into_iter().map(|(cell, _, contest)| (cell, contest)).collect()
    }
}

fn contest(contender: &dyn Contender, cell: &Cell, quick: bool) -> Option<Contest> {
    let offer = contender.offer(cell, quick)?;
    Some(Contest {
        quantity: cell.quantity.name().to_owned(),
        path: cell.path.name().to_owned(),
        bytes: cell.bytes,
        unit: cell.quantity.unit().to_owned(),
        contender: contender.name().to_owned(),
        is_ours: contender.peer() == OURS,
        is_equal: offer.is_equal,
        samples: Vec::new(),
        lost: Vec::new(),
        note: offer.note.to_owned(),
        failed: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::Stop;
    use crate::peers::contender::{Number, Offer, Path, Quantity};

    const TRIP: Cell = Cell { quantity: Quantity::Trip, path: Path::Shm, bytes: 8 };
    const STREAM: Cell = Cell { quantity: Quantity::Stream, ..TRIP };

    struct Scripted {
        name: &'static str,
        peer: &'static str,
        streams: bool,
        log: Rc<RefCell<Vec<&'static str>>>,
    }

    impl Contender for Scripted {
        fn peer(&self) -> &'static str {
            self.peer
        }
        fn name(&self) -> &'static str {
            self.name
        }
        fn presence(&self) -> Presence {
            match self.name {
                "absent" => Presence::Absent("not installed".into()),
                _ => Presence::Version("1".into()),
            }
        }
        fn offer(&self, cell: &Cell, _: bool) -> Option<Offer> {
            (self.streams || cell.quantity == Quantity::Trip).then_some(Offer::equal("")).flatten()
        }
        fn measure(&mut self, _: &Cell, run: &Run<'_>) -> Result<Number, NoNumber> {
            self.log.borrow_mut().push(self.name);
            run.stop.check()?;
            match self.name {
                "fails" => Err(NoNumber::Failed("it hangs".into())),
                _ => Ok(1.0.into()),
            }
        }
    }

    fn all(log: &Rc<RefCell<Vec<&'static str>>>) -> Vec<Box<dyn Contender>> {
        let scripted = |name, peer, streams| -> Box<dyn Contender> {
            Box::new(Scripted { name, peer, streams, log: Rc::clone(log) })
        };
        vec![
            scripted("ours", OURS, true),
            scripted("peer", "peer", false),
            scripted("fails", "fails", false),
            scripted("absent", "absent", true),
        ]
    }

    #[test]
    fn all_that_are_there_take_turns_and_one_that_fails_stops_nobody() {
        let log = Rc::default();
        let mut agenda = Agenda::new(all(&log), &[TRIP, STREAM], true);
        assert_eq!(agenda.steps(), 3, "nobody but ours has streams");
        let stop = Stop::default();
        agenda.run(2, &Run::new([0, 0], true, &stop), |_| {}).expect("it runs");
        let turns = log.borrow().clone();
        assert_eq!(turns, ["ours", "peer", "fails", "ours", "peer", "fails"]);
        let contests = agenda.contests();
        assert_eq!(contests[1].1.samples, [1.0, 1.0]);
        assert!(contests[2].1.samples.is_empty() && contests[2].1.failed == "it hangs");
    }

    #[test]
    fn an_interrupt_ends_the_rounds_and_keeps_what_was_measured() {
        let log = Rc::default();
        let mut agenda = Agenda::new(all(&log), &[TRIP], true);
        let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stop = Stop::on(std::sync::Arc::clone(&flag));
        let mut steps = 0;
        let ended = agenda.run(9, &Run::new([0, 0], true, &stop), |_| {
            steps += 1;
            flag.store(steps > 4, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(matches!(ended, Err(Error::Interrupted)));
        assert_eq!(agenda.contests()[0].1.samples.len(), 2);
    }
}
