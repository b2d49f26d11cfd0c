//! The saved state of a builder, and the way back.
//!
//! All state is saved by serde's derives, so that a new field is saved by itself. Three parts are
//! written by hand, because they are large: the slots of open events, the closed keys, and the
//! table of keys, which follows from the two. Bytes from outside may state anything: before a
//! builder goes on from them, [`Builder::resume`] checks every number that later code uses as an
//! index or a length.

use super::keys::closed_keys_max;
use super::{Builder, BuilderConfig, Mode, judge, with_growth};

/// The reason why a builder cannot go on from a saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It was saved by a builder with another configuration.
    #[error("it was saved with another [events] table")]
    Config,
    /// Two of its parts contradict each other.
    #[error("its {0} contradict each other")]
    Unsound(&'static str),
}

impl Builder {
    /// Completes a builder that was read, and checks it. Call nothing else before.
    ///
    /// Errors: [`Unfit`]; no builder ever had this state.
    pub fn resume(mut self, config: &BuilderConfig) -> Result<Builder, Unfit> {
        if self.config != *config {
            return Err(Unfit::Config);
        }
        self.open.pressed = judge::Pressed::of(config);
        self.time.is_cut = false; // it reads the packets that were on their way
        self.open.slab.set_memory_max(with_growth(config.bytes_open_max));
        let is_keyed = config.mode != Mode::Packet;
        let sources = self.members.count();
        let checks = [
            (self.members.is_sound(&config.expectation), "sources"),
            (self.per_source.len() <= sources as usize, "counters of sources"),
            (self.open.slab.is_sound(sources, self.inputs.packets()), "open events"),
            (self.open.bytes == self.open.slab.cost(), "bytes of open events"),
            (self.keys.is_sound(closed_keys_max(config, is_keyed), sources), "closed events"),
            (self.gathering.is_sound(sources), "closed events of the batch"),
            (self.inputs.is_sound(), "inputs"),
        ];
        if let Some((_, part)) = checks.iter().find(|(is_sound, _)| !is_sound) {
            return Err(Unfit::Unsound(part));
        }
        let Builder { open, keys, .. } = &mut self;
        let slots = open.slab.slots();
        let has_last = open.last.is_none_or(|(id, slot)| {
            slot < slots && open.slab.is_open(slot) && open.slab.event(slot).id == id
        });
        if !open.lanes.is_sound(slots, sources) || !has_last {
            return Err(Unfit::Unsound("order of open events"));
        }
        match keys.relink(open.slab.open_events()) {
            true => Ok(self),
            false => Err(Unfit::Unsound("keys")),
        }
    }
}
