//! The values of a packet type that are needed: only those are loaded and computed.

use alloc::vec;
use alloc::vec::Vec;

use super::expression::Expr;
use super::layout::{Fragment, ItemKind, Layout, Origin, PacketType, SourceTerm};
use super::text::{Text, TextEnd};

/// All that `roots` are computed from.
pub(crate) fn closure(layout: &Layout, roots: &[&Expr]) -> Vec<bool> {
    let mut wanted = vec![false; layout.values.len()];
    let mut open = Vec::new();
    roots.iter().for_each(|root| root.for_each_value(&mut |id| open.push(id)));
    while let Some(id) = open.pop() {
        if core::mem::replace(&mut wanted[id], true) {
            continue;
        }
        if let Origin::Computed { value, when, .. } = &layout.values[id].origin {
            value.for_each_value(&mut |used| open.push(used));
            when.iter().for_each(|when| when.for_each_value(&mut |used| open.push(used)));
        }
    }
    wanted
}

/// The values that a role, a rule, `select` or the place of a field needs.
pub(crate) fn needed_values(packet: &PacketType) -> Vec<bool> {
    let layout = &packet.header;
    let mut roots: Vec<&Expr> = Vec::new();
    let mut fields = Vec::new();
    roots.extend(&packet.select);
    roots.extend(&packet.size.equals);
    for item in &layout.items {
        roots.extend(&item.when);
        match &item.kind {
            ItemKind::Bytes { length } => roots.push(length),
            ItemKind::Text(Text { end: TextEnd::Length(length), .. }) => roots.push(length),
            ItemKind::List(list) => roots.push(&list.count),
            ItemKind::Word { .. } | ItemKind::Text(_) => {}
        }
        let word = core::iter::once((item.value, &item.rules));
        for (value, rules) in word.chain(item.bits.iter().map(|b| (Some(b.value), &b.rules))) {
            if !rules.is_empty() {
                fields.extend(value);
                roots.extend(&rules.equals);
            }
        }
    }
    roots.extend(packet.sequence.iter().map(|sequence| &sequence.value));
    roots.extend(packet.sequence.iter().filter_map(|sequence| sequence.step_of.as_ref()));
    roots.extend(packet.event.iter().map(|event| &event.key));
    roots.extend(packet.event.iter().filter_map(|event| Some(&event.spill.as_ref()?.value)));
    roots.extend(packet.counts.iter().flat_map(|counts| [&counts.taken, &counts.dropped]));
    match &packet.fragment {
        Fragment::Whole => {}
        Fragment::Index { index, count, .. } => roots.extend([index, count]),
        Fragment::Bytes { offset, total, .. } => roots.extend([offset, total]),
    }
    if let Some(time) = &packet.timestamp {
        roots.extend(time.seconds.iter().chain(&time.ticks).chain(&time.when));
        roots.extend(time.field_epoch.iter().flat_map(|epoch| [&epoch.months, &epoch.days]));
    }
    let payload = &packet.payload;
    roots.extend(payload.from.iter().chain(&payload.length).chain(&payload.trailer));
    roots.extend(packet.crc.iter().filter_map(|crc| crc.when.as_ref()));
    for term in &packet.source {
        if let SourceTerm::Value { value, .. } = term {
            fields.push(*value);
        }
    }
    let field_roots: Vec<Expr> = fields.into_iter().map(Expr::Value).collect();
    roots.extend(&field_roots);
    closure(layout, &roots)
}
