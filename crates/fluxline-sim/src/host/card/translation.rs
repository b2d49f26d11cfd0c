//! The card's cache of address translations, for pages of remote memory.

use crate::Duration;
use crate::host::config;

/// The cached pages in order of use, the last used at the end.
#[derive(Debug)]
pub(super) struct Translations {
    config: config::Translation,
    pages: Vec<(u32, u64)>,
    misses: u64,
}

impl Translations {
    pub(super) fn new(config: config::Translation) -> Translations {
        Translations { config, pages: Vec::new(), misses: 0 }
    }

    /// Returns the number of misses so far.
    pub(super) fn misses(&self) -> u64 {
        self.misses
    }

    /// Returns the present cost of translating this address: zero, or that of a miss. Takes time
    /// linear in the entries.
    pub(super) fn look_up(&mut self, to: u32, offset: u64) -> Duration {
        let page = (to, offset / self.config.page_bytes);
        let known = self.pages.iter().position(|other| *other == page);
        match known {
            Some(at) => {
                self.pages.remove(at);
            }
            None if self.pages.len() >= self.config.entries as usize => {
                self.pages.remove(0);
            }
            None => {}
        }
        self.pages.push(page);
        if known.is_some() {
            return Duration::ZERO;
        }
        self.misses += 1;
        self.config.miss
    }
}
