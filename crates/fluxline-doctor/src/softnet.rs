//! The receive work of each core since boot.

use super::files::Files;

/// The receive work of one core since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Packets taken.
    pub processed: u64,
    /// Packets that the backlog had no room for.
    pub dropped: u64,
    /// Times that the budget ran out.
    pub squeezed: u64,
}

/// Columns of /proc/net/softnet_stat, one line per core, hexadecimal.
/// Source: net/core/net-procfs.c, softnet_seq_show.
pub(super) fn softnet(files: &Files) -> Vec<Softnet> {
    let text = files.text("/proc/net/softnet_stat").unwrap_or_default();
    let core = |line: &str| {
        let words: Vec<u64> = line
            .split_ascii_whitespace()
            .map(|word| u64::from_str_radix(word, 16).unwrap_or(0))
            .collect();
        let column = |index: usize| words.get(index).copied().unwrap_or(0);
        Softnet { processed: column(0), dropped: column(1), squeezed: column(2) }
    };
    text.lines().map(core).collect()
}
