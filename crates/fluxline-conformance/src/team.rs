//! Members of a group for the laws of groups, polled in turn by one thread.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::joined::{KEY, name};
use fluxline_core::fabric::group::{
    Collected, Group, GroupConfig, GroupError, Message, Outcome, Reduction, Request, Source, Values,
};
use fluxline_core::fabric::{Fabric, Local};
use fluxline_core::{Moment, Span};

/// A call that takes longer hangs.
pub(super) const PATIENCE: Span = Span::from_ms(20_000);
/// The longest message that is sent at once in these laws \[byte\].
pub(super) const EAGER_BYTES: u32 = 200;
/// The pieces of longer ones \[byte\].
pub(super) const CHUNK_BYTES: u32 = 1000;
pub(super) const SLOTS: u32 = 4;
/// The longest message that the laws receive \[byte\].
pub(super) const BYTES_MAX: u64 = 100_000;

/// Nodes that can reach each other.
pub struct Nodes {
    /// The nodes.
    pub fabrics: Vec<Box<dyn Fabric>>,
    /// The name by which each is connected.
    pub names: Vec<String>,
    /// The clock, real or virtual; it must advance between calls.
    pub now: Box<dyn FnMut() -> Moment>,
}

/// A member and its node.
pub(super) struct Member {
    pub fabric: Box<dyn Fabric>,
    pub group: Group,
}

/// The members of a group; `None`: it is dead.
pub(super) struct Team {
    members: Vec<Option<Member>>,
    now: Box<dyn FnMut() -> Moment>,
}

impl Nodes {
    pub(super) fn config(&self, rank: usize) -> GroupConfig {
        let config = GroupConfig::new(name("team"), KEY, rank, self.names.clone());
        GroupConfig {
            slots: SLOTS,
            eager_bytes: EAGER_BYTES,
            chunk_bytes: CHUNK_BYTES,
            patience: PATIENCE,
            ..config
        }
    }
}

impl Team {
    /// Joins all nodes.
    pub fn new(nodes: Nodes) -> Team {
        Team::with(nodes, |config| config)
    }

    pub fn with(nodes: Nodes, change: impl Fn(GroupConfig) -> GroupConfig) -> Team {
        let configs: Vec<GroupConfig> =
            (0..nodes.names.len()).map(|rank| change(nodes.config(rank))).collect();
        let members = nodes.fabrics.into_iter().zip(configs).map(|(mut fabric, config)| {
            let group = Group::new(&mut *fabric, config).expect("a right configuration");
            Some(Member { fabric, group })
        });
        let mut team = Team { members: members.collect(), now: nodes.now };
        team.until("joining", |team| {
            team.alive().all(|rank| team.of(rank).group.has_joined().expect("they join"))
        });
        team
    }

    pub fn alive(&self) -> impl Iterator<Item = usize> + use<> {
        let alive = self.members.iter().map(Option::is_some).collect::<Vec<bool>>();
        (0..alive.len()).filter(move |rank| alive[*rank])
    }

    pub fn of(&self, rank: usize) -> &Member {
        self.members[rank].as_ref().expect("it is alive")
    }

    pub fn member(&mut self, rank: usize) -> &mut Member {
        self.members[rank].as_mut().expect("it is alive")
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Polls all members once.
    pub fn turn(&mut self) -> Moment {
        let now = (self.now)();
        for member in self.members.iter_mut().flatten() {
            while member.group.poll(&mut *member.fabric, now).is_some() {}
        }
        now
    }

    pub fn until(&mut self, what: &str, mut ready: impl FnMut(&mut Team) -> bool) {
        let began = (self.now)();
        while !ready(self) {
            let now = self.turn();
            assert!(now.since(began) < PATIENCE, "{what} takes too long");
        }
    }

    /// Polls one member alone until it is ready.
    pub fn until_of(
        &mut self,
        rank: usize,
        what: &str,
        mut ready: impl FnMut(&mut Member) -> bool,
    ) {
        let began = (self.now)();
        loop {
            let now = (self.now)();
            let member = self.member(rank);
            while member.group.poll(&mut *member.fabric, now).is_some() {}
            if ready(member) {
                return;
            }
            assert!(now.since(began) < PATIENCE, "{what} takes too long");
        }
    }

    /// Polls one member for as long as its last notifications may take to leave.
    pub fn until_sent(&mut self, rank: usize) {
        let began = (self.now)();
        let mut now = began;
        while now.since(began) < Span::from_ms(5) {
            now = (self.now)();
            let member = self.member(rank);
            while member.group.poll(&mut *member.fabric, now).is_some() {}
        }
    }

    pub fn send(&mut self, from: usize, to: usize, message: Sample<'_>) -> Request {
        let Member { fabric, group } = self.member(from);
        let from = Local::Bytes(message.bytes);
        group.start_send(&mut **fabric, to, message.tag, from).expect("it is accepted")
    }

    pub fn receive(&mut self, rank: usize, from: Source, tag: Option<u64>) -> Request {
        let Member { fabric, group } = self.member(rank);
        group.start_receive(&mut **fabric, from, tag, BYTES_MAX).expect("it is accepted")
    }

    /// Turns until a request is over.
    pub fn end(&mut self, rank: usize, request: Request) -> Result<Outcome, GroupError> {
        let mut found = None;
        self.until("a request", |team| {
            found = team.member(rank).group.finished(request);
            found.is_some()
        });
        found.expect("it is over")
    }

    pub fn received(&mut self, rank: usize, request: Request) -> Message {
        match self.end(rank, request) {
            Ok(Outcome::Received(message)) => message,
            other => panic!("rank {rank}: {other:?}"),
        }
    }

    /// Turns until the collective operation of each rank is over.
    pub fn collect(&mut self) -> Vec<Result<Collected, GroupError>> {
        let mut found: Vec<Option<Result<Collected, GroupError>>> = vec![None; self.size()];
        let alive: Vec<usize> = self.alive().collect();
        self.until("a collective operation", |team| {
            for rank in &alive {
                if found[*rank].is_none() {
                    found[*rank] = team.member(*rank).group.collected();
                }
            }
            alive.iter().all(|rank| found[*rank].is_some())
        });
        found.into_iter().flatten().collect()
    }

    /// Kills a rank.
    pub fn kill(&mut self, rank: usize) {
        self.members[rank] = None;
    }
}

/// A message to send.
#[derive(Clone, Copy)]
pub(super) struct Sample<'a> {
    pub tag: u64,
    pub bytes: &'a [u8],
}

/// Bytes that depend on their index and a salt.
pub(super) fn pattern(salt: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index * 31 + salt * 7 + index / 251) as u8).collect()
}

impl Team {
    pub fn reduce(
        &mut self,
        reduction: Reduction,
        values: impl Fn(usize) -> Values,
    ) -> Vec<Result<Collected, GroupError>> {
        for rank in 0..self.size() {
            let Member { fabric, group } = self.member(rank);
            group.start_all_reduce(&mut **fabric, &values(rank), reduction).expect("begins");
        }
        self.collect()
    }
}
