//! The interfaces through which an experiment's packets may come.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::card::Card;
use crate::load::{Load, Stream};

/// Returns true if an experiment's packets may come through the interface `name`.
pub(crate) fn concerns(cards: &BTreeMap<String, Card>, name: &str, load: Option<&Load>) -> bool {
    let Some(load) = load else { return true };
    load.card_streams().any(|stream| {
        stream.listen.iter().any(|at| carries(cards, name, stream, at.ip()))
            || (stream.listen.is_empty() && stream.interface.as_deref() == Some(name))
    })
}

/// Returns true if a stream's packets to the address `to` may come through the interface `name`.
pub(crate) fn carries(
    cards: &BTreeMap<String, Card>,
    name: &str,
    stream: &Stream,
    to: IpAddr,
) -> bool {
    let Some(card) = cards.get(name) else { return false };
    if to.is_loopback() {
        return false;
    }
    if let Some(interface) = &stream.interface {
        return interface == name;
    }
    // An address that no interface is known to have may be this one's.
    let has_it = |card: &Card| card.addresses.contains(&to);
    to.is_unspecified() || has_it(card) || !cards.values().any(has_it)
}
