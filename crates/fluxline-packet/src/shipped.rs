//! The formats that come with Fluxline: the files of `formats/`, kept in the binary.
//!
//! A format is named on the command line far from any checkout, so the texts travel with the
//! program; a run folder gets a copy of the one that it was taken with.

/// Name and text of each shipped format, sorted by name.
const SHIPPED: [(&str, &str); 20] = [
    ("chdr", include_str!("../formats/chdr.toml")),
    ("chdr-old", include_str!("../formats/chdr-old.toml")),
    ("counter", include_str!("../formats/counter.toml")),
    ("dca1000", include_str!("../formats/dca1000.toml")),
    ("difi", include_str!("../formats/difi.toml")),
    ("dune-daqeth", include_str!("../formats/dune-daqeth.toml")),
    ("e2sar", include_str!("../formats/e2sar.toml")),
    ("ess-readout", include_str!("../formats/ess-readout.toml")),
    ("hispec", include_str!("../formats/hispec.toml")),
    ("ouster", include_str!("../formats/ouster.toml")),
    ("panoseti", include_str!("../formats/panoseti.toml")),
    ("piraq", include_str!("../formats/piraq.toml")),
    ("reading", include_str!("../formats/reading.toml")),
    ("sci", include_str!("../formats/sci.toml")),
    ("sim-network", include_str!("../formats/sim-network.toml")),
    ("sls", include_str!("../formats/sls.toml")),
    ("spead", include_str!("../formats/spead.toml")),
    ("srs-vmm3", include_str!("../formats/srs-vmm3.toml")),
    ("vdif", include_str!("../formats/vdif.toml")),
    ("vita-49-2", include_str!("../formats/vita-49-2.toml")),
];

/// The text of the shipped format of that name; `None` when there is none.
#[must_use]
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all shipped formats, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The shipped format whose name is nearest to `name`, for "did you mean".
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    fluxline_toml::nearest(name, names())
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::vec::Vec;

    use super::{names, nearest, shipped};
    use crate::Description;

    #[test]
    fn every_shipped_format_loads_and_has_its_files_name() {
        for name in names() {
            let text = shipped(name).expect("a listed name");
            let loaded = Description::load(&format!("{name}.toml"), text, &BTreeMap::new());
            let description = loaded.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(description.name(), name);
        }
    }

    #[test]
    fn a_format_that_is_not_shipped_finds_its_neighbour_or_nothing() {
        let sorted: Vec<_> = names().collect();
        assert!(sorted.is_sorted());
        assert_eq!(shipped("srs"), None);
        assert_eq!(nearest("srs"), Some("srs-vmm3"));
        assert_eq!(nearest("oyster"), Some("ouster"));
        assert_eq!(nearest("quantum"), None);
    }
}
