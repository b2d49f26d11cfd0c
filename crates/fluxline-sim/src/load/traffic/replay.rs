//! A trace of traffic: every message is given, with its time.

use std::sync::Arc;

use super::{Message, Workload};
use crate::Instant;

/// Latest time of a message \[ns\]: ten seconds.
const TIME_NS_MAX: f64 = 1e10;
/// Largest message \[byte\].
const BYTES_MAX: u32 = 1 << 20;

/// The messages of a trace, in the order of their times.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    nodes: u32,
    messages: Arc<Vec<Message>>,
    /// The messages of each node, as indices.
    of_node: Arc<Vec<Vec<u32>>>,
    /// The number of messages of each node that are taken.
    taken: Vec<usize>,
}

impl Replay {
    /// Reads a trace: time \[ns\], source, target and bytes a line, separated by spaces or commas.
    /// Text behind `#` is ignored.
    ///
    /// # Errors
    /// The line and the problem, in one sentence.
    pub fn parse(nodes: u32, text: &str) -> Result<Replay, String> {
        let mut messages: Vec<Message> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let content = line.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let last = messages.last().map_or(Instant::START, |message| message.at);
            let message = parse(content, nodes)
                .and_then(|message| follows(&message, last))
                .map_err(|problem| format!("{number}: {problem}"))?;
            messages.push(Message { event: messages.len() as u64, ..message });
        }
        if messages.is_empty() {
            return Err(" the trace has no message; write time [ns], source, target, bytes.".into());
        }
        let mut of_node = vec![Vec::new(); nodes as usize];
        for (index, message) in (0..).zip(&messages) {
            of_node[message.source as usize].push(index);
        }
        Ok(Replay {
            nodes,
            taken: vec![0; of_node.len()],
            messages: Arc::new(messages),
            of_node: Arc::new(of_node),
        })
    }

    /// Returns the time of the last message.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.messages.last().map_or(Instant::START, |message| message.at)
    }

    /// Returns the bytes of the largest message.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.messages.iter().map(|message| message.bytes).max().unwrap_or(0)
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.messages.len()
    }
}

impl Workload for Replay {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn next(&mut self, source: u32, _: Instant) -> Option<Message> {
        let taken = self.taken.get_mut(source as usize)?;
        let index = *self.of_node[source as usize].get(*taken)?;
        *taken += 1;
        Some(self.messages[index as usize])
    }

    fn restarted(&mut self, source: u32, now: Instant) {
        let Some(taken) = self.taken.get_mut(source as usize) else { return };
        let of_node = &self.of_node[source as usize];
        let is_over = |index: &u32| self.messages[*index as usize].at < now;
        *taken = of_node.partition_point(is_over).max(*taken);
    }
}

fn parse(content: &str, nodes: u32) -> Result<Message, String> {
    let wrong = || {
        format!(
            "{content:?} is not a message; write time [ns], source, target, bytes: `250 0 3 64`."
        )
    };
    let mut parts = content.split([' ', '\t', ',']).filter(|part| !part.is_empty());
    let mut part = || parts.next();
    let (Some(at), Some(source), Some(to), Some(bytes), None) =
        (part(), part(), part(), part(), part())
    else {
        return Err(wrong());
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let at: f64 = at.parse().map_err(|_| wrong())?;
    let (source, to, bytes) = (number(source)?, number(to)?, number(bytes)?);
    if !(0.0..=TIME_NS_MAX).contains(&at) {
        return Err(format!("the time {at} ns is out of range; write 0 to {TIME_NS_MAX}."));
    }
    if let Some(node) = [source, to].into_iter().find(|&node| node >= nodes) {
        return Err(format!("node {node} does not exist; the nodes are 0 to {}.", nodes - 1));
    }
    if source == to {
        return Err(format!("node {source} sends to itself; name another target."));
    }
    if !(1..=BYTES_MAX).contains(&bytes) {
        return Err(format!("a message of {bytes} bytes; write 1 to {BYTES_MAX}."));
    }
    Ok(Message { at: Instant::from_ps((at * 1e3).round() as u64), source, to, bytes, event: 0 })
}

fn follows(message: &Message, last: Instant) -> Result<Message, String> {
    if message.at >= last {
        return Ok(*message);
    }
    Err(format!(
        "a message at {} ns after one at {} ns; sort the lines by time.",
        message.at.as_ps() as f64 / 1e3,
        last.as_ps() as f64 / 1e3
    ))
}

#[cfg(test)]
mod tests {
    use super::{Replay, Workload};
    use crate::Instant;

    #[test]
    fn each_node_gets_its_messages_in_order() {
        let text = "# time source target bytes\n0 1 0 64\n2.5, 0, 1, 100\n2.5 1 2 7\n";
        let mut replay = Replay::parse(3, text).expect("a trace");
        assert_eq!((replay.count(), replay.end().as_ps()), (3, 2_500));
        let mut next = |node| replay.next(node, Instant::START);
        let first = next(1).expect("a message");
        assert_eq!((first.at.as_ps(), first.to, first.bytes), (0, 0, 64));
        assert_eq!(next(1).map(|message| (message.at.as_ps(), message.event)), Some((2_500, 2)));
        assert_eq!(next(1), None);
        assert_eq!(next(0).map(|message| message.bytes), Some(100));
        assert_eq!((next(2), next(9)), (None, None));
    }

    #[test]
    fn traces_that_cannot_be_are_refused_with_their_line() {
        for (text, part) in [
            ("", "the trace has no message"),
            ("5 0 1 64\n4 0 1 64\n", "2: a message at 4 ns after one at 5 ns; sort the lines"),
            ("0 0 3 64\n", "1: node 3 does not exist; the nodes are 0 to 2"),
            ("0 1 1 64\n", "node 1 sends to itself"),
            ("0 1 2 0\n", "a message of 0 bytes"),
            ("0 1 2 9999999\n", "a message of 9999999 bytes"),
            ("0 1 2\n", "is not a message"),
            ("0 1 2 3 4\n", "is not a message"),
            ("-1 1 2 3\n", "out of range"),
            ("NaN 1 2 3\n", "out of range"),
            ("1e300 1 2 3\n", "out of range"),
            ("now 1 2 3\n", "is not a message"),
        ] {
            let problem = Replay::parse(3, text).expect_err(text);
            assert!(problem.contains(part) && problem.ends_with('.'), "{text:?}: {problem}");
        }
    }
}
