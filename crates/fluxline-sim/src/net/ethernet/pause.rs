//! Pause frames: the switch stops the nodes whose frames a queue has no room for.
//!
//! A queue above XOFF stops each node whose next frame it gets. At XON it lets them go on. A node
//! that several queues have stopped goes on with the last of them. A pause ends by itself, so the
//! switch repeats it at half of its time. Source: IEEE 802.3, annex 31B.

use super::framing::FRAME_BYTES_MIN;
use super::link::{Content, Entry, Frame};
use super::network::Network;
use crate::core::agenda::Schedule;
use crate::{Duration, Instant};

/// The longest time of a pause frame \[512 bits\].
const LONGEST: u16 = u16::MAX;
/// Bytes of a unit of the time of a pause frame.
const UNIT_BYTES: u64 = 512 / 8;

/// Returns a pause frame.
fn pause_frame(units: u16) -> Frame {
    let content = Content::Pause(units);
    Frame { content, bytes: FRAME_BYTES_MIN, is_marked: false, is_damaged: false }
}

impl Network {
    /// Stops the sender of a frame if its queue is above XOFF.
    pub(super) fn stop(
        &mut self,
        source: u32,
        target: u32,
        used_bytes: u64,
        agenda: &mut impl Schedule<Entry>,
    ) {
        let Some(pause) = self.config.pause.filter(|of| used_bytes > of.xoff_bytes) else { return };
        debug_assert!(pause.xon_bytes <= pause.xoff_bytes);
        let output = self.output(target);
        if !self.link(output).stopped.insert(source) {
            return;
        }
        self.stops[source as usize] += 1;
        if self.stops[source as usize] == 1 {
            self.send_pause(source, LONGEST, agenda);
            if !std::mem::replace(&mut self.refreshes[source as usize], true) {
                agenda.schedule_after(self.refresh_after(), Entry::Refresh { node: source });
            }
        }
    }

    /// Lets the nodes go on that a queue has stopped, once it is at XON.
    pub(super) fn release(&mut self, link: u32, agenda: &mut impl Schedule<Entry>) {
        let Some(pause) = self.config.pause else { return };
        let found = self.link(link);
        if found.stopped.is_empty() || found.used_bytes(agenda.now()) > pause.xon_bytes {
            return;
        }
        for node in std::mem::take(&mut found.stopped) {
            self.stops[node as usize] -= 1;
            if self.stops[node as usize] == 0 {
                self.send_pause(node, 0, agenda);
            }
        }
    }

    /// Repeats the pause frame to a node that still has to wait.
    pub(super) fn refresh(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        let is_stopped = self.stops[node as usize] > 0;
        self.refreshes[node as usize] = is_stopped;
        if is_stopped {
            self.send_pause(node, LONGEST, agenda);
            agenda.schedule_after(self.refresh_after(), Entry::Refresh { node });
        }
    }

    /// Forgets the stops of a node whose cable was cut, and those for its queue.
    pub(super) fn forget_stops(&mut self, node: u32, agenda: &mut impl Schedule<Entry>) {
        self.stops[node as usize] = 0;
        for link in &mut self.links {
            link.stopped.remove(&node);
        }
        let output = self.output(node);
        for stopped in std::mem::take(&mut self.link(output).stopped) {
            self.stops[stopped as usize] -= 1;
            if self.stops[stopped as usize] == 0 {
                self.send_pause(stopped, 0, agenda);
            }
        }
    }

    /// Obeys a pause frame that has arrived at a node.
    pub(super) fn stop_or_go(
        &mut self,
        node: u32,
        frame: Frame,
        agenda: &mut impl Schedule<Entry>,
    ) {
        let Content::Pause(units) = frame.content else { return };
        let byte = self.config.byte_time();
        let until: Instant = agenda.now() + byte.times(u64::from(units) * UNIT_BYTES);
        self.link(node).paused_until = until;
        self.look(node, agenda);
    }

    fn send_pause(&mut self, node: u32, units: u16, agenda: &mut impl Schedule<Entry>) {
        let output = self.output(node);
        if self.link(output).is_down {
            return;
        }
        self.counters.pauses += 1;
        self.link(output).control = Some(pause_frame(units));
        // The queue of this node's port may be the one at work: its own look comes after this.
        let link = &self.links[output as usize];
        let at = link.next_look().unwrap_or(agenda.now()).max(agenda.now());
        if at < link.wakes_at {
            self.link(output).wakes_at = at;
            agenda.schedule(at, Entry::Free { link: output });
        }
    }

    /// Returns the time after which a pause frame is repeated.
    fn refresh_after(&self) -> Duration {
        self.config.byte_time().times(u64::from(LONGEST) / 2 * UNIT_BYTES)
    }
}
