//! Clocks and packets that the measurements share.

#![allow(dead_code, reason = "each example uses a part")]

use fluxline_core::{Datagram, Moment, SenderAddress};

/// Returns the processor time of this process, all threads together \[s\]; its unit is 10 ms.
pub fn process_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in brackets may have spaces; the fields behind it have none.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// Returns the processor time of this thread \[ns\].
pub fn thread_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Returns the middle of some values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns a packet of the format `counter`.
pub fn packet(board: u16, number: u32, key: u64, part: (u16, u16), payload: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + payload);
    bytes.extend(0x4358_4C46u32.to_le_bytes());
    bytes.extend([1, 0]);
    bytes.extend(board.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(part.0.to_le_bytes());
    bytes.extend(part.1.to_le_bytes());
    bytes.extend(key.to_le_bytes());
    bytes.extend((key * 1000).to_le_bytes());
    bytes.resize(32 + payload, board as u8);
    bytes
}

/// Returns a packet as a datagram that arrived at `at`.
pub fn datagram(at: Moment, bytes: &[u8]) -> Datagram<'_> {
    Datagram { bytes, sender: SenderAddress::NONE, port: 0, time: at }
}
