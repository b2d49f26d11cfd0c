//! Visits every state that a few caches and one line can reach, with messages in any order.
//!
//! The search is breadth-first, so that a broken invariant comes with a shortest trace. States that
//! differ only in the numbering of caches count once. The invariants are those of Stern and Dill
//! and of coherence for one location. At the end, it checks that a quiet state can be reached from
//! every state.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::cache::Progress;
use super::line::{CacheState, Line, Operation};
use super::memory::MemoryLine;
use super::message::MemoryState;
use super::message::{Answer, CacheId, Request};
use super::respond::Mistake;

/// A packet of a cache on its way; a cache sends one request at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    #[default]
    None,
    Request(Request<u8>),
    Answer(Answer<u8>),
}

/// A state of all caches, memory and messages. Data is one byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct World {
    memory: MemoryLine<u8>,
    lines: Vec<Line<u8>>,
    messages: Vec<Message>,
    /// The data of the last completed store.
    current: u8,
}

/// The bounds of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of caches.
    pub caches: u8,
    /// Number of different values that are stored.
    pub values: u8,
    /// Number of states after which the walk is given up.
    pub states_max: usize,
    /// A deliberate mistake for the walk to find.
    pub mistake: Mistake,
}

/// The result of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// States, counted once for all numberings of the caches.
    pub states: usize,
    /// Number of steps between the states.
    pub steps: usize,
    /// Number of states in which nothing is under way.
    pub quiet: usize,
}

/// The reason why a walk ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// An invariant does not hold.
    #[error("{what}, after:\n{}", trace.join("\n"))]
    Invariant {
        /// The broken property.
        what: String,
        /// The steps that lead there, shortest.
        trace: Vec<String>,
    },
    /// No quiet state can be reached any more.
    #[error("stuck: quiet cannot be reached any more, after:\n{}", trace.join("\n"))]
    Stuck {
        /// The steps that lead there, shortest.
        trace: Vec<String>,
    },
    /// More states than allowed.
    #[error("more than {0} states; allow more, or take fewer caches or values")]
    TooMany(usize),
}

/// Visits all states. Cost: about 300 bytes and one to two microseconds per state.
pub fn explore(bounds: &Bounds) -> Result<Found, Broken> {
    let mut walk = Walk::begin(bounds);
    while let Some(index) = walk.open.pop_front() {
        let world = walk.worlds[index].clone();
        for step in world.steps(bounds.values) {
            let mut after = world.clone();
            if let Err(what) = after.take(&step, bounds.mistake) {
                return Err(walk.broken(index, &step, what));
            }
            let next = walk.visit(after.canonical(&walk.orders), index, step);
            walk.edges.push((index as u32, next as u32));
            if walk.worlds.len() > bounds.states_max {
                return Err(Broken::TooMany(bounds.states_max));
            }
        }
    }
    walk.can_all_become_quiet()?;
    let quiet = walk.worlds.iter().filter(|world| world.is_quiet()).count();
    Ok(Found { states: walk.worlds.len(), steps: walk.edges.len(), quiet })
}

struct Walk {
    worlds: Vec<World>,
    /// The predecessor of each state except the first, and the step from it.
    reached: Vec<(usize, Step)>,
    /// All numberings of the caches.
    orders: Vec<Vec<CacheId>>,
    numbers: HashMap<World, usize>,
    open: VecDeque<usize>,
    edges: Vec<(u32, u32)>,
}

impl Walk {
    fn begin(bounds: &Bounds) -> Walk {
        let mut orders = Vec::new();
        permutations(&mut Vec::new(), bounds.caches, &mut orders);
        let mut walk = Walk {
            worlds: Vec::new(),
            reached: Vec::new(),
            orders,
            numbers: HashMap::new(),
            open: VecDeque::new(),
            edges: Vec::new(),
        };
        let count = usize::from(bounds.caches);
        let start = World {
            memory: MemoryLine::default(),
            lines: vec![Line::default(); count],
            messages: vec![Message::None; count],
            current: 0,
        };
        walk.visit(start, 0, Step::Deliver(0));
        walk
    }

    fn visit(&mut self, world: World, from: usize, by: Step) -> usize {
        if let Some(&known) = self.numbers.get(&world) {
            return known;
        }
        let number = self.worlds.len();
        self.numbers.insert(world.clone(), number);
        self.worlds.push(world);
        self.reached.push((from, by));
        self.open.push_back(number);
        number
    }

    /// Returns the steps to a state. The numbering of caches may change between two steps.
    fn trace(&self, mut index: usize) -> Vec<String> {
        let mut steps = Vec::new();
        while index != 0 {
            let (from, by) = &self.reached[index];
            steps.push(self.worlds[*from].describe(by));
            index = *from;
        }
        steps.reverse();
        steps
    }

    fn broken(&self, index: usize, step: &Step, what: String) -> Broken {
        let mut trace = self.trace(index);
        trace.push(self.worlds[index].describe(step));
        Broken::Invariant { what, trace }
    }

    /// Follows the steps backwards from all quiet states: they must lead to every state.
    fn can_all_become_quiet(&mut self) -> Result<(), Broken> {
        self.edges.sort_unstable_by_key(|&(_, to)| to);
        let mut met: Vec<bool> = self.worlds.iter().map(World::is_quiet).collect();
        let mut open: Vec<usize> = (0..met.len()).filter(|&index| met[index]).collect();
        while let Some(index) = open.pop() {
            let first = self.edges.partition_point(|&(_, to)| (to as usize) < index);
            let into = self.edges[first..].iter().take_while(|&&(_, to)| to as usize == index);
            for &(from, _) in into {
                if !std::mem::replace(&mut met[from as usize], true) {
                    open.push(from as usize);
                }
            }
        }
        match met.iter().position(|met| !met) {
            Some(stuck) => Err(Broken::Stuck { trace: self.trace(stuck) }),
            None => Ok(()),
        }
    }
}

/// A possible step.
enum Step {
    Begin(CacheId, Operation<u8>),
    Deliver(CacheId),
}

impl World {
    fn is_quiet(&self) -> bool {
        self.lines.iter().all(|line| line.doing.is_none())
    }

    /// Describes a step in words.
    fn describe(&self, step: &Step) -> String {
        match step {
            Step::Begin(cache, operation) => {
                let state = self.lines[usize::from(*cache)].state;
                format!("  cache {cache} begins {operation:?}, being {state:?}")
            }
            Step::Deliver(cache) => {
                format!("  cache {cache}: {:?}", self.messages[usize::from(*cache)])
            }
        }
    }

    fn steps(&self, values: u8) -> Vec<Step> {
        let mut steps = Vec::new();
        for (cache, (line, message)) in (0..).zip(self.lines.iter().zip(&self.messages)) {
            if *message != Message::None {
                steps.push(Step::Deliver(cache));
            }
            if line.doing.is_none() {
                let stores = (0..values).map(Operation::Store);
                let others = [Operation::Load, Operation::Delete, Operation::FLUSH];
                let all = others.into_iter().chain(stores);
                steps.extend(all.map(|operation| Step::Begin(cache, operation)));
            }
        }
        steps
    }

    fn take(&mut self, step: &Step, mistake: Mistake) -> Result<(), String> {
        match step {
            Step::Begin(cache, operation) => {
                let progress = self.lines[usize::from(*cache)].begin(*cache, operation.clone());
                self.apply(*cache, progress)?;
            }
            Step::Deliver(cache) => self.deliver(*cache, mistake)?,
        }
        self.check()
    }

    fn deliver(&mut self, cache: CacheId, mistake: Mistake) -> Result<(), String> {
        let place = usize::from(cache);
        match std::mem::take(&mut self.messages[place]) {
            Message::None => Ok(()),
            Message::Answer(answer) => {
                let progress = self.lines[place].answered(cache, answer);
                self.apply(cache, progress)
            }
            Message::Request(Request::Memory { command, next, data }) => {
                let answer = self.memory.ask(cache, command, next, data);
                self.messages[place] = Message::Answer(answer);
                Ok(())
            }
            Message::Request(Request::Cache { to, command }) => {
                let asked = &mut self.lines[usize::from(to)];
                let answer = asked.respond(cache, command, mistake);
                let progress = asked.resume(to);
                self.messages[place] = Message::Answer(answer);
                self.apply(to, progress)
            }
        }
    }

    fn apply(&mut self, cache: CacheId, progress: Progress<u8>) -> Result<(), String> {
        match progress {
            Progress::Waits => Ok(()),
            Progress::Defect(what) => Err(format!("cache {cache}: not so: {what}")),
            Progress::Sends(request) => {
                self.messages[usize::from(cache)] = Message::Request(request);
                Ok(())
            }
            Progress::Done { operation: Operation::Store(value), .. } => {
                self.current = value;
                Ok(())
            }
            Progress::Done { operation: Operation::Load, value } if value != Some(self.current) => {
                Err(format!("cache {cache} loaded {value:?}, not {}", self.current))
            }
            Progress::Done { .. } => Ok(()),
        }
    }

    fn check(&self) -> Result<(), String> {
        let idle = |line: &&Line<u8>| line.doing.is_none() && line.state != CacheState::Invalid;
        if let Some(line) = self.lines.iter().filter(idle).find(|line| line.data != self.current) {
            return Err(format!("a copy is stale: {line:?}"));
        }
        let modifiable = self.lines.iter().filter(idle).any(|l| l.state == CacheState::OnlyDirty);
        if modifiable && self.lines.iter().filter(idle).count() > 1 {
            return Err("a copy may be modified while others may be read".to_owned());
        }
        if self.memory.state != MemoryState::Gone && self.memory.data != self.current {
            return Err(format!("memory counts its copy as valid: {:?}", self.memory));
        }
        if self.is_quiet() { self.check_list() } else { Ok(()) }
    }

    /// Checks that the sharing list of a quiet state is complete: memory names the head, neighbours
    /// name each other, and no cache outside the list has a copy.
    fn check_list(&self) -> Result<(), String> {
        let dirty = self.memory.state == MemoryState::Gone;
        let (mut before, mut at, mut count) = (None, self.memory.head, 0);
        while let Some(cache) = at {
            let line = &self.lines[usize::from(cache)];
            let expected = match (before, line.forward) {
                (None, next) => CacheState::head(next.is_none(), dirty),
                (Some(_), Some(_)) => CacheState::MidValid,
                (Some(_), None) => CacheState::TailValid,
            };
            count += 1;
            if line.state != expected || line.back != before || count > self.lines.len() {
                return Err(format!("the list is broken at cache {cache}: {:?}", self.lines));
            }
            (before, at) = (at, line.forward);
        }
        let copies = self.lines.iter().filter(|line| line.state != CacheState::Invalid).count();
        if copies == count && (count == 0) == (self.memory.state == MemoryState::Home) {
            return Ok(());
        }
        Err(format!("{copies} copies, {count} in the list, memory {:?}", self.memory))
    }

    /// Returns the same state with the numbering of caches that makes it smallest.
    fn canonical(self, orders: &[Vec<CacheId>]) -> World {
        orders.iter().map(|order| self.renumbered(order)).min().unwrap_or(self)
    }

    /// Returns the state with cache c renumbered to `order[c]`.
    fn renumbered(&self, order: &[CacheId]) -> World {
        let new = |cache: CacheId| order[usize::from(cache)];
        let mut world = self.clone();
        world.memory.head = self.memory.head.map(new);
        for (cache, (line, message)) in self.lines.iter().zip(&self.messages).enumerate() {
            let place = usize::from(order[cache]);
            world.lines[place] = rename::line(line, new);
            world.messages[place] = rename::message(message, new);
        }
        world
    }
}

fn permutations(taken: &mut Vec<CacheId>, count: CacheId, into: &mut Vec<Vec<CacheId>>) {
    if taken.len() == usize::from(count) {
        into.push(taken.clone());
        return;
    }
    for cache in 0..count {
        if !taken.contains(&cache) {
            taken.push(cache);
            permutations(taken, count, into);
            taken.pop();
        }
    }
}

/// Renumbers caches in all types that name them.
mod rename {
    use super::super::line::{Line, Phase};
    use super::super::message::{Answer, CacheCommand, CacheId, Request};
    use super::Message;

    pub fn line(line: &Line<u8>, new: impl Fn(CacheId) -> CacheId + Copy) -> Line<u8> {
        let mut line = line.clone();
        (line.forward, line.back) = (line.forward.map(new), line.back.map(new));
        if let Some((_, phase)) = &mut line.doing {
            *phase = match *phase {
                Phase::Attaching { to, copy, command } => {
                    Phase::Attaching { to: new(to), copy, command }
                }
                Phase::Leaving { to } => Phase::Leaving { to: new(to) },
                Phase::Left { by } => Phase::Left { by: new(by) },
                Phase::Purging { target, before } => {
                    Phase::Purging { target: new(target), before: new(before) }
                }
                other => other,
            };
        }
        line
    }

    pub fn message(message: &Message, new: impl Fn(CacheId) -> CacheId + Copy) -> Message {
        match message {
            Message::None => Message::None,
            Message::Answer(answer) => {
                Message::Answer(Answer { other: answer.other.map(new), ..answer.clone() })
            }
            Message::Request(Request::Memory { command, next, data }) => {
                let (command, next, data) = (*command, next.map(new), *data);
                Message::Request(Request::Memory { command, next, data })
            }
            Message::Request(Request::Cache { to, command }) => {
                let command = match *command {
                    CacheCommand::Previous(next) => CacheCommand::Previous(next.map(new)),
                    CacheCommand::NextMid(before) => CacheCommand::NextMid(new(before)),
                    CacheCommand::Invalidate { before } => {
                        CacheCommand::Invalidate { before: new(before) }
                    }
                    other => other,
                };
                Message::Request(Request::Cache { to: new(*to), command })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::respond::Mistake;
    use super::{Bounds, Broken, explore};

    fn bounds(caches: u8, mistake: Mistake) -> Bounds {
        Bounds { caches, values: 2, states_max: 3_000_000, mistake }
    }

    #[test]
    fn two_caches_never_break_an_invariant_nor_get_stuck() {
        let found = explore(&bounds(2, Mistake::None)).expect("the protocol holds");
        println!("{found:?}");
        assert!(found.states > 500 && found.quiet >= 5, "{found:?}");
    }

    #[test]
    fn three_caches_never_break_an_invariant_nor_get_stuck() {
        let all = Bounds { values: 1, ..bounds(3, Mistake::None) };
        let found = explore(&all).expect("the protocol holds");
        println!("{found:?}");
        assert!(found.states > 10_000, "{found:?}");
    }

    #[test]
    fn the_checker_finds_each_deliberate_mistake() {
        let mistakes = [
            Mistake::AttachDuringPurge,
            Mistake::LeaveDuringPass,
            Mistake::AnyoneMayLeave,
            Mistake::AnyoneMayInvalidate,
            Mistake::KeepsInvalidated,
            Mistake::SparesTheTail,
            Mistake::LeaverRefusesAll,
        ];
        for mistake in mistakes {
            let worlds = [(2, 2), (3, 1)].map(|(caches, values)| {
                explore(&Bounds { values, ..bounds(caches, mistake) }).err()
            });
            let broken = worlds.into_iter().flatten().next();
            println!("{mistake:?}: {}", broken.as_ref().map_or(String::new(), ToString::to_string));
            assert!(!matches!(broken, None | Some(Broken::TooMany(_))), "{mistake:?}");
        }
    }

    #[test]
    fn more_states_than_allowed_are_said_and_not_walked() {
        let few = Bounds { states_max: 10, ..bounds(2, Mistake::None) };
        assert_eq!(explore(&few), Err(Broken::TooMany(10)));
    }
}
