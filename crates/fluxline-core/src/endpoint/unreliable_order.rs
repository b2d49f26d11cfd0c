//! The order of an unreliable peer's frames, and the one frame that is kept aside until the next
//! frame decides its fate.

use alloc::vec::Vec;

use super::context::{Context, ReceivedFrame};
use super::execute::{Check, Executor};
use super::peer::PeerKind;
use super::sequence::{Arrival, Fate, Judgement, Mark, Sequence};
use crate::roce::header::BTH_BYTES;
use crate::roce::{Packet, Psn};

/// The order of an unreliable peer's frames.
pub(super) struct UnreliableOrder {
    peer_kind: PeerKind,
    sequence: Sequence,
    /// A frame that may be the first after a restart of the peer.
    aside: Vec<u8>,
}

impl UnreliableOrder {
    pub fn new(peer_kind: PeerKind, first: Option<Psn>) -> UnreliableOrder {
        let sequence = match first {
            Some(first) if peer_kind.is_fluxline() => Sequence::agreed(first),
            _ => Sequence::configured(first),
        };
        UnreliableOrder { peer_kind, sequence, aside: Vec::new() }
    }

    /// Takes a frame that may be a duplicate, late, or from a sender that restarted. Its PSN is
    /// accepted only when its key and bounds are right.
    pub fn take(
        &mut self,
        frame: &ReceivedFrame<'_>,
        executor: &mut Executor,
        context: &mut Context<'_>,
    ) {
        let ReceivedFrame { packet, bytes, .. } = *frame;
        let psn = packet.headers().psn;
        let content = bytes.get(BTH_BYTES..).unwrap_or_default();
        // Between two Fluxline ends the print is not used.
        let print = if self.peer_kind.is_fluxline() { 0 } else { crc32fast::hash(content) };
        let mark = Mark { psn, print, now: context.now };
        let judged = self.sequence.judge(&mark);
        if judged.arrival != Arrival::Duplicate {
            let check = executor.check(psn, packet, context);
            // Between two Fluxline ends the queue pair cannot be guessed.
            let is_accepted = match self.peer_kind {
                PeerKind::Fluxline => matches!(check, Check::Fits | Check::Unusable),
                PeerKind::Standard => check == Check::Fits,
            };
            if !is_accepted {
                executor.count_unfit(check, packet, context);
                return;
            }
        }
        self.sequence.take(&mark, judged, context.counters);
        if judged.held == Some(Fate::Good) {
            self.do_aside(executor, context);
        }
        match judged.arrival {
            Arrival::Duplicate => {}
            Arrival::Doubtful(_) => {
                self.aside.clear();
                self.aside.extend_from_slice(bytes);
            }
            _ => executor.take_unreliable(psn, packet, context),
        }
    }

    /// Returns the number after the newest frame of a Fluxline peer.
    pub fn next_agreed(&self) -> Option<Psn> {
        self.sequence.next_agreed()
    }

    /// Notes a valid frame that has the number of [`UnreliableOrder::next_agreed`].
    pub fn note_next(&mut self, psn: Psn, context: &mut Context<'_>) {
        let judged = Judgement { held: None, arrival: Arrival::Ahead(1) };
        self.sequence.take(&Mark { psn, print: 0, now: context.now }, judged, context.counters);
    }

    /// Decides about the frame that was kept aside, because no frame follows it.
    pub fn settle(&mut self, executor: &mut Executor, context: &mut Context<'_>) {
        if self.sequence.finish(context.counters) == Some(Fate::Good) {
            self.do_aside(executor, context);
        }
    }

    /// Does the request of the frame that was kept aside.
    fn do_aside(&self, executor: &mut Executor, context: &mut Context<'_>) {
        if let Ok(packet) = Packet::parse(&self.aside) {
            executor.take_unreliable(packet.headers().psn, &packet, context);
        }
    }
}
