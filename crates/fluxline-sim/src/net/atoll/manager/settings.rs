//! The times and choices of the management. All are assumed: no source has those of PALMS.

use super::super::error::ConfigError;
use crate::Duration;

/// The choice of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Dimension order if the network is a grid, else up*/down*.
    #[default]
    Safe,
    /// Up*/down* on any network.
    UpDown,
    /// Paths by Nue, in one layer.
    Nue,
    /// Shortest paths, also where they can deadlock. Blocked messages are removed and repeated.
    Shortest,
}

/// The times and choices of agents and managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The node whose manager begins.
    pub manager: u32,
    /// The choice of routes.
    pub algorithm: Algorithm,
    /// Processor time of an agent for a message.
    pub agent_time: Duration,
    /// From a change of a link's signal to the agent's knowledge of it: an interrupt.
    pub signal_time: Duration,
    /// Processor time of a manager for each pair of nodes when it computes routes.
    pub pair_time: Duration,
    /// The interval at which neighbours greet each other.
    pub hello_every: Duration,
    /// Greetings that a neighbour may miss before it counts as silent.
    pub misses: u32,
    /// Intervals without a sign of the manager before another one takes over.
    pub manager_misses: u32,
    /// The time for which a repaired link must stay up before it is used.
    pub hold: Duration,
    /// The longest such time, for a link that changes again and again.
    pub hold_max: Duration,
    /// The wait for an answer before a question is asked again; it doubles each time.
    pub answer_wait: Duration,
    /// The wait for further news before routes are computed.
    pub news_wait: Duration,
    /// The longest wait for old messages to leave the network.
    pub drain_max: Duration,
    /// The time for which a first packet may wait at an input before it counts as blocked.
    pub dead_after: Duration,
    /// From the departure of a message to its repetition without acknowledgement; it doubles.
    pub repeat_after: Duration,
    /// Departures of a message before its sender gives up.
    pub tries: u32,
    /// The wait of a receiver that acknowledges several messages at once.
    pub ack_delay: Duration,
    /// The time for which a message waits for a route while there is no manager.
    pub patience: Duration,
    /// Messages of one host port that wait for their acknowledgement.
    pub window: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            manager: 0,
            algorithm: Algorithm::Safe,
            agent_time: Duration::from_us(5),
            signal_time: Duration::from_us(15),
            pair_time: Duration::from_ns(100),
            hello_every: Duration::from_us(1_000),
            misses: 10,
            manager_misses: 15,
            hold: Duration::from_us(500),
            hold_max: Duration::from_us(16_000),
            answer_wait: Duration::from_us(1_000),
            news_wait: Duration::from_us(20),
            drain_max: Duration::from_us(100_000),
            dead_after: Duration::from_us(1_000),
            repeat_after: Duration::from_us(1_000),
            tries: 64,
            ack_delay: Duration::from_us(10),
            patience: Duration::from_us(200_000),
            window: 64,
        }
    }
}

impl Settings {
    /// Checks the values for a network of `nodes` nodes.
    ///
    /// # Errors
    /// Names the wrong value and the allowed ones.
    pub fn check(&self, nodes: u32) -> Result<(), ConfigError> {
        let positive = [
            self.agent_time,
            self.hello_every,
            self.hold,
            self.answer_wait,
            self.dead_after,
            self.repeat_after,
        ];
        let problem = if self.manager >= nodes {
            format!("the manager is at node {}: give 0 to {}", self.manager, nodes - 1)
        } else if nodes > NODES_MAX {
            format!("{nodes} nodes: a manager has at most {NODES_MAX}")
        } else if positive.contains(&Duration::ZERO) {
            "a time of the management is 0: give at least 1 ns".to_owned()
        } else if self.misses == 0 || self.manager_misses <= self.misses {
            "manager_misses must be above misses, and both above 0".to_owned()
        } else if self.tries == 0 || self.window == 0 {
            "tries and window must be above 0".to_owned()
        } else {
            return Ok(());
        };
        Err(ConfigError(problem))
    }
}

/// The most nodes of a managed network. A choice: each node has a table with a path to each other.
pub const NODES_MAX: u32 = 1024;
