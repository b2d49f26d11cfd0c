//! The laws about peers that are not there yet, and those that never come.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use alloc::boxed::Box;

use super::joined::{Joined, Pair, Side};
use super::nobody::Nobody;
use fluxline_core::fabric::connect::{Connector, NoConnection};
use fluxline_core::fabric::{Completion, ConnectError, EndpointId, PostError, Reliability, Work};
use fluxline_core::{Moment, Span};

/// The time until the late peer comes.
const ABSENCE: Span = Span::from_ms(60);
/// The latest end of a connector whose deadline is `ABSENCE`.
const SOON_AFTER: Span = Span::from_ms(1000);
/// The time until which nothing may follow.
const SETTLED: Span = Span::from_ms(160);
/// More than any link needs.
const PATIENCE: Span = Span::from_ms(10_000);

/// A pair whose left node connects.
struct Waiting {
    pair: Pair,
    connector: Connector,
    began: Moment,
}

impl Waiting {
    fn new(mut pair: Pair, limit: Span) -> Waiting {
        let began = (pair.now)();
        let until = began + limit;
        let connector = Connector::new(&pair.right_name, Reliability::Reliable, until);
        Waiting { pair, connector, began }
    }

    /// Polls both nodes, and gives the connector its turn. Returns the time since the beginning.
    fn turn(&mut self) -> (Span, Result<Option<EndpointId>, NoConnection>) {
        let now = (self.pair.now)();
        while let Some(what) = self.pair.left.poll(now) {
            let other = self.connector.handle(what);
            assert_eq!(other, None, "left has no other work");
        }
        while self.pair.right.poll(now).is_some() {}
        let turn = self.connector.progress(&mut *self.pair.left);
        // Read after the turn, which may see a later time than `now`.
        ((self.pair.now)().since(self.began), turn)
    }
}

/// A peer that comes before the deadline is connected.
pub fn a_peer_that_comes_later_is_connected(mut pair: Pair) {
    let Some(mut again) = pair.right_again.take() else { return };
    pair.right = Box::new(Nobody::default());
    let mut waiting = Waiting::new(pair, PATIENCE);
    let mut came = false;
    let endpoint = loop {
        let (took, turn) = waiting.turn();
        assert!(took < PATIENCE, "no connection to the late peer");
        match turn.expect("there is time") {
            Some(endpoint) => break endpoint,
            None if took >= ABSENCE && !came => {
                (waiting.pair.right, came) = (again(), true);
            }
            None => {}
        }
    };
    assert!(came, "connected to nobody");
    let mut joined = Joined::of_open(waiting.pair, endpoint);
    joined.pair.left.post(joined.left, 1, Work::Flush).expect("open");
    joined.done(1);
}

/// Without a peer, connecting ends soon after the deadline, and leaves nothing behind.
pub fn a_peer_that_never_comes_is_given_up_at_the_deadline(mut pair: Pair) {
    pair.right = Box::new(Nobody::default());
    let mut waiting = Waiting::new(pair, ABSENCE);
    let (took, reason) = loop {
        let (took, turn) = waiting.turn();
        assert!(took < PATIENCE, "it hangs");
        match turn {
            Ok(None) => {}
            Ok(Some(_)) => panic!("connected to nobody"),
            Err(NoConnection::Late { reason, .. }) => break (took, reason),
            Err(other) => panic!("{other}"),
        }
    };
    assert!(took >= ABSENCE, "given up after {took:?}");
    assert!(took < SOON_AFTER, "given up only after {took:?}");
    assert!(!reason.is_empty());
    let Waiting { mut pair, began, .. } = waiting;
    while (pair.now)().since(began) < SETTLED {
        let now = (pair.now)();
        assert_eq!(pair.left.poll(now), None, "nothing follows");
    }
}

/// A name that no node can have is refused at once.
pub fn an_impossible_peer_is_refused_at_once(mut pair: Pair) {
    pair.right_name = "a node / of no link".into();
    let mut waiting = Waiting::new(pair, PATIENCE);
    let (_, turn) = waiting.turn();
    let known = matches!(turn, Err(NoConnection::Refused(ConnectError::Name { .. })));
    assert!(known, "{turn:?}");
}

/// A call that is not answered yet can be ended by its caller; `Broken` follows at once.
pub fn a_call_can_be_called_off(mut pair: Pair) {
    pair.right = Box::new(Nobody::default());
    let now = (pair.now)();
    let peer = pair.right_name.clone();
    let Ok(asked) = pair.left.connect(&peer, Reliability::Reliable) else { return };
    let outcome = pair.left.disconnect(asked);
    assert!(matches!(outcome, Ok(()) | Err(PostError::NotConnected)), "{outcome:?}");
    let mut broken = 0;
    for _ in 0..3 {
        while let Some(what) = pair.left.poll(now) {
            let known = matches!(what, Completion::Broken { endpoint, .. } if endpoint == asked);
            assert!(known, "{what:?}");
            broken += 1;
        }
    }
    assert_eq!(broken, 1, "{:?} hears of its call once", Side::Left);
    assert_eq!(pair.left.disconnect(asked), Err(PostError::NotConnected));
}
