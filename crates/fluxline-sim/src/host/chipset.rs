//! PCI-X hosts whose bus was measured with Myrinet cards: 32 chained bursts of 4 KB.

use super::config::Bus;
use super::preset;
use crate::Clock;

/// A host with its measured bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chipset {
    /// The name in URLs.
    pub name: &'static str,
    /// The machine.
    pub machine: &'static str,
    /// The clock of the bus \[Hz\].
    pub hertz: u64,
    /// Clocks of a burst out of memory besides its data. Derived from `read_mb_s`.
    pub read_clocks: u32,
    /// Clocks of a burst into memory besides its data. Derived from `write_mb_s`.
    pub write_clocks: u32,
    /// The published rate out of memory, that of sending \[MB/s\].
    pub read_mb_s: f64,
    /// The published rate into memory, that of receiving \[MB/s\].
    pub write_mb_s: f64,
}

impl Chipset {
    /// A host with PCI-X at 133 MHz: the overheads of both directions, then both published rates.
    const fn at_133(
        name: &'static str,
        machine: &'static str,
        clocks: [u32; 2],
        mb_s: [f64; 2],
    ) -> Chipset {
        Chipset {
            name,
            machine,
            hertz: 133_333_333,
            read_clocks: clocks[0],
            write_clocks: clocks[1],
            read_mb_s: mb_s[0],
            write_mb_s: mb_s[1],
        }
    }

    /// Returns the bus.
    #[must_use]
    pub fn bus(&self) -> Bus {
        Bus {
            clock: Clock::from_hertz(self.hertz),
            read_clocks: self.read_clocks,
            write_clocks: self.write_clocks,
            ..preset::pci_x_100()
        }
    }

    /// Returns the host of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Chipset> {
        CHIPSETS.iter().find(|chipset| chipset.name == name)
    }
}

/// All measured hosts. Source: Myricom's page of PCI-X motherboards.
pub const CHIPSETS: [Chipset; 10] = [
    Chipset::at_133("melody", "Opteron 1.6 GHz, AMD 8131", [71, 17], [936.0, 1032.0]),
    Chipset::at_133("quartet", "Opteron, Quartet", [116, 40], [870.0, 989.0]),
    Chipset::at_133("g5", "Apple G5, 2 GHz", [107, 15], [882.0, 1036.0]),
    Chipset::at_133("marvel", "HP Marvel, EV7", [89, 14], [908.0, 1038.0]),
    Chipset::at_133("rx2000", "HP rx2000, Itanium 2", [184, 11], [784.0, 1044.0]),
    Chipset::at_133("i870", "Intel 870, Itanium 2", [155, 65], [819.0, 947.0]),
    Chipset::at_133("madison", "Itanium 2, Madison 1.5 GHz", [113, 65], [874.0, 946.0]),
    Chipset::at_133("gc", "Xeon 2.4 GHz, Serverworks GC", [126, 11], [856.0, 1044.0]),
    Chipset::at_133("gc-le", "Xeon 2.4 GHz, Serverworks GC-LE", [188, 11], [780.0, 1044.0]),
    Chipset {
        hertz: 100_000_000,
        ..Chipset::at_133("hs20", "IBM HS20, Xeon, PCI-X 100", [60, 10], [716.0, 784.0])
    },
];

#[cfg(test)]
mod tests {
    use super::super::Bus;
    use super::{CHIPSETS, Chipset, preset};
    use crate::Instant;

    /// Returns the rate of 32 bursts of 4 KB \[MB/s\].
    fn rate(end: Instant) -> f64 {
        32.0 * 4096.0 / (end.as_ps() as f64 / 1e6)
    }

    #[test]
    fn the_bursts_of_each_host_reach_its_published_rates() {
        for chipset in &CHIPSETS {
            let (start, bytes) = (Instant::START, 32 * 4096);
            let read = rate(Bus::new(chipset.bus()).read(start, bytes));
            let write = rate(Bus::new(chipset.bus()).write(start, bytes));
            let off = |model: f64, published: f64| (model / published - 1.0).abs();
            let (name, published) = (chipset.name, [chipset.read_mb_s, chipset.write_mb_s]);
            println!("{name}: {read:.0} and {write:.0}, published {published:?}");
            assert!(off(read, chipset.read_mb_s) < 0.005, "{name}: {read} MB/s out of memory");
            assert!(off(write, chipset.write_mb_s) < 0.005, "{name}: {write} MB/s into memory");
        }
    }

    #[test]
    fn two_hosts_are_the_presets_of_their_buses() {
        let bus = |name| Chipset::named(name).expect("a host").bus();
        assert_eq!(bus("gc-le"), preset::pci_x_133());
        assert_eq!(bus("hs20"), preset::pci_x_100());
        assert_eq!(Chipset::named("cray"), None);
    }
}
