//! The tickets of sends under way.

use std::collections::VecDeque;

use crate::core::interconnect::SendId;

/// A carrier's number for a frame: it names the frame when its send ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// Tickets by send. Sends have rising numbers, and end in almost the same order, so a ring holds
/// them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tickets {
    /// The number of the first slot.
    first: u64,
    slots: VecDeque<Option<Ticket>>,
}

impl Tickets {
    /// Notes the ticket of a send.
    pub fn add(&mut self, send: SendId, ticket: Ticket) {
        if self.slots.is_empty() {
            self.first = send.0;
        }
        let Some(at) = send.0.checked_sub(self.first) else { return };
        while self.slots.len() as u64 <= at {
            self.slots.push_back(None);
        }
        self.slots[at as usize] = Some(ticket);
    }

    /// Takes the ticket of a send that ended.
    pub fn take(&mut self, send: SendId) -> Option<Ticket> {
        let at = send.0.checked_sub(self.first)?;
        let ticket = self.slots.get_mut(usize::try_from(at).ok()?)?.take();
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first += 1;
        }
        ticket
    }
}

#[cfg(test)]
mod tests {
    use super::{SendId, Ticket, Tickets};

    #[test]
    fn tickets_come_back_once_in_any_order() {
        let mut tickets = Tickets::default();
        for number in [7, 8, 11, 12] {
            tickets.add(SendId(number), Ticket(10 * number));
        }
        for (number, ticket) in [(8, Some(80)), (12, Some(120)), (12, None), (9, None), (3, None)] {
            assert_eq!(tickets.take(SendId(number)), ticket.map(Ticket), "{number}");
        }
        assert_eq!(tickets.take(SendId(7)), Some(Ticket(70)));
        assert_eq!(tickets.take(SendId(11)), Some(Ticket(110)));
        assert!(tickets.slots.is_empty());
        tickets.add(SendId(40), Ticket(1));
        assert_eq!(tickets.take(SendId(40)), Some(Ticket(1)));
    }
}
