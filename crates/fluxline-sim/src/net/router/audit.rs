//! Conservation of messages, packets and buffer space, checked at the end of each run.

use super::state::NONE;
use super::{Network, NetworkError};

impl Network {
    /// Checks the sums over all messages and buffers.
    ///
    /// # Errors
    /// When bytes or packets are missing or surplus, or free and used space of a buffer do not add
    /// up to its size: a defect of the model, not of its input.
    pub fn audit(&self) -> Result<(), NetworkError> {
        let fail = |text: String| Err(NetworkError(format!("does not add up: {text}")));
        let live = self.messages.iter().filter(|message| message.packets > 0);
        let (mut bytes, mut owed) = (0, 0);
        for message in live {
            bytes += u64::from(message.bytes);
            owed += u64::from(message.packets);
        }
        let lost = self.cuts.bytes;
        if self.bytes_in != self.bytes_out + lost + bytes {
            let (sent, out) = (self.bytes_in, self.bytes_out);
            return fail(format!(
                "{sent} bytes sent, {out} delivered, {lost} lost, {bytes} under way"
            ));
        }
        if owed != self.packets.len() as u64 {
            return fail(format!("{owed} packets expected, {} there", self.packets.len()));
        }
        let mut used = vec![0_u64; self.buffers.len()];
        for coming in self.from_routers.iter() {
            used[coming.buffer as usize] += u64::from(self.packets.get(coming.packet).bytes);
        }
        for (buffer, used) in self.buffers.iter().zip(&mut used) {
            let mut at = buffer.head;
            while at != NONE {
                *used += u64::from(self.packets.get(at).bytes);
                at = self.packets.get(at).next;
            }
            let free = buffer.promised(&self.later);
            if buffer.feeder != NONE && *used + free != u64::from(self.config.buffer_bytes) {
                let (router, place) = (buffer.router, buffer.place);
                return fail(format!(
                    "router {router}, buffer {place}: {used} bytes used, {free} free"
                ));
            }
        }
        Ok(())
    }
}
