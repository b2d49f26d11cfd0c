//! Rates of streams that state none: the share of a link's speed that is left for each.

use crate::concern::concerns;
use crate::facts::HostFacts;
use crate::load::{Load, Stream};
use crate::text;

/// Rate that is assumed where neither the experiment nor an interface says one \[bit/s\].
/// Assumed: the commonest link of a DAQ computer.
const BITS_PER_SECOND_ASSUMED: f64 = 10e9;

impl Load {
    /// Fills in rates that nothing says: a link's speed, shared by the streams that lack one.
    pub fn assume(&mut self, facts: &HostFacts) {
        let unknown = |stream: &&mut Stream| stream.rate_hz.is_none() && stream.uses_sockets();
        let missing = self.streams.iter_mut().filter(|stream| unknown(stream)).count();
        if missing == 0 {
            return;
        }
        let speeds =
            facts.cards.iter().filter(|(name, _)| concerns(&facts.cards, name, Some(self)));
        let fastest = speeds.filter_map(|(name, card)| Some((card.speed_bits()?, name))).max();
        let (bits, from) = match fastest {
            Some((bits, name)) => (bits as f64, format!("the speed of {name}")),
            None => (BITS_PER_SECOND_ASSUMED, "no interface says its speed".to_owned()),
        };
        let share = bits / 8.0 / missing as f64;
        for stream in self.streams.iter_mut().filter(unknown) {
            let all = share / stream.packet_bytes.max(1) as f64;
            stream.rate_hz = Some(all / stream.senders.max(1) as f64);
            self.assumptions.push(format!(
                "source `{}` states no rate: {} assumed ({from}); --rate says another.",
                stream.name,
                text::bits(share * 8.0),
            ));
        }
    }
}
