//! The places where lost packets were lost, as far as this host can know.
//!
//! Packet counters show how many are missing; the kernel and the ring count how many they dropped.
//! The rest was lost before this host, or by something that does not count. The host's counters are
//! of all its traffic: where they exceed the missing packets, they are cut to that number, and a
//! note says so.

use serde::{Deserialize, Serialize};

use super::Ledger;

/// The places of lost packets. The places add up to `lost`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LostPlaces {
    /// Missing by the packet counters.
    pub lost: u64,
    /// Dropped because the push ring was full, or longer than its slots.
    pub ring: u64,
    /// Dropped because their slot of a region that peers write was not read yet.
    pub overrun: u64,
    /// Came as frames that were not placed: a wrong check, key, queue pair or address.
    pub frames: u64,
    /// Rejected or refused here: their numbers were not read.
    pub rejected: u64,
    /// Dropped by the kernel at the inputs' sockets.
    pub socket: u64,
    /// Dropped from the kernel's backlog.
    pub softnet: u64,
    /// Dropped by network cards.
    pub nic: u64,
    /// Lost before this host, or not accounted for by anyone.
    pub elsewhere: u64,
    /// The reason why the split is uncertain; empty when it is certain.
    pub note: String,
}

impl Ledger {
    /// Splits the lost packets into places, those nearest to the readout first.
    #[must_use]
    pub fn lost_places(&self) -> LostPlaces {
        let input = self.input_totals();
        let lost = self.source_totals().lost;
        let mut left = lost;
        let mut cut = Vec::new();
        let mut take = |name: &'static str, dropped: u64| {
            let taken = dropped.min(left);
            left -= taken;
            if taken < dropped {
                cut.push(format!("{name} {dropped}"));
            }
            taken
        };
        let ring = take("ring", input.ring_full + input.truncated);
        let remote = self.remote_totals();
        let overrun = take("overrun", remote.frames_overrun);
        let frames = take(
            "frames refused",
            remote.frames_wrong_check
                + remote.frames_unknown_pair
                + remote.frames_wrong_sender
                + remote.frames_out_of_bounds
                + remote.frames_broken_off
                + remote.frames_other
                + remote.frames_unannounced,
        );
        let socket = take("socket", input.socket_dropped);
        let softnet = take("softnet", self.host.softnet_dropped);
        let nic = take("network card", self.host.nic_dropped);
        let rejected = take("rejected or refused", input.rejected + input.sources_refused);
        let note = if cut.is_empty() {
            String::new()
        } else {
            format!(
                "More was dropped than the packet counters miss ({}): other traffic, packets \
                 without a counter, or packets before the first or after the last that came.",
                cut.join(", ")
            )
        };
        let elsewhere = left;
        LostPlaces { lost, ring, overrun, frames, rejected, socket, softnet, nic, elsewhere, note }
    }
}
