//! Messages between drivers, by remote writes into mailboxes.

use std::collections::BTreeMap;

use super::{Card, Owner, Step};
use crate::core::agenda::{Part, Schedule};
use crate::core::in_order::InOrder;
use crate::fabric::adapter::{Repeat, Report};
use crate::net::sci::adapter::address::{CREDIT_AT, MAIL_AT};
use crate::net::sci::adapter::mailbox::{MAILBOX_BYTES, SLOT_BYTES, SLOTS, Taken, blocks};
use crate::net::sci::adapter::mover;
use crate::net::sci::adapter::outbox::{Letter, Outbox};
use crate::net::sci::adapter::requester::Request;
use crate::net::sci::{Command, NodeId};

/// Messages read between two acknowledgements to their sender: a quarter of the mailbox.
const CREDIT_EVERY: u32 = SLOTS / 4;

/// Messages of this node's driver, and of others.
#[derive(Debug, Default)]
pub struct Mail {
    pub outboxes: BTreeMap<u32, Outbox>,
    /// The peer and the number of the message that a job writes.
    pub letters: InOrder<u64, (u32, u32)>,
    /// A peer for which a slot may be free since the last report.
    pub freed: Option<u32>,
    /// The source whose mailbox is being read.
    pub reading: Option<NodeId>,
    /// The number of messages of each peer that were acknowledged to the peer.
    pub credited: BTreeMap<NodeId, u32>,
}

/// Returns the address of a source's message with this number in a mailbox.
fn mail_offset(source: NodeId, number: u32) -> u64 {
    let slot = u64::from(number % SLOTS) * SLOT_BYTES as u64;
    MAIL_AT + u64::from(source.0) * MAILBOX_BYTES as u64 + slot
}

impl<W> Card<W> {
    /// Writes the messages for which there are slots: the peer has said how many it has read.
    pub(super) fn write_mail(&mut self, peer: u32, agenda: &mut impl Schedule<Step>) {
        let read = self.control.credit(self.ids.id(peer));
        loop {
            let next = self.mail.outboxes.get_mut(&peer).and_then(|outbox| outbox.next(read));
            let Some((number, Letter { job, message })) = next else { return };
            self.mail.letters.insert(job, (peer, number));
            let offset = mail_offset(self.ids.id(self.number), number);
            let action = mover::Action::Write(blocks(&message, number));
            let job = mover::Job { number: job, to: peer, offset, action, repeat: Repeat::Yes };
            self.mover.submit(job, &mut self.host, &mut Part::of(agenda));
        }
    }

    /// Acknowledges the messages of a source that were read.
    fn credit(&mut self, source: NodeId) {
        let read = self.control.mailbox(source).read();
        let reported = self.mail.credited.entry(source).or_default();
        if read.wrapping_sub(*reported) < CREDIT_EVERY {
            return;
        }
        *reported = read;
        let own = self.ids.id(self.number);
        let request = Request {
            target: source,
            command: Command::WriteSelected,
            offset: CREDIT_AT + u64::from(own.0) * 8,
            data: read.to_le_bytes().to_vec(),
            repeat: Repeat::Yes,
        };
        self.ask(Owner::Credit, request);
    }

    /// Reads the next message of other drivers, and acknowledges messages.
    pub(super) fn read_mail(&mut self, agenda: &mut impl Schedule<Step>) -> bool {
        let Some(source) = self.mail.reading else {
            self.mail.reading = self.control.next_rung();
            return self.mail.reading.is_some();
        };
        let from = self.number_of(source);
        match self.control.mailbox(source).take() {
            Taken::Message(message) => self.reports.push_back(Report::Message { from, message }),
            Taken::Nothing => {
                self.mail.reading = None;
                self.write_mail(from, agenda);
                self.credit(source);
            }
        }
        true
    }
}
