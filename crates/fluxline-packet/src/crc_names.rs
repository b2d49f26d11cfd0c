//! The names of check sums, and which of them somebody may have meant.

use fluxline_toml::nearest_three;

use super::check_sum::sum_names;

/// Usual names of check sums, letters and digits alone, and the catalogue's names for the likely
/// ones. Source: the catalogue's own aliases.
const ALIASES: [(&str, [&str; 3]); 8] = [
    ("CRC16", ["CRC-16/ARC", "CRC-16/IBM-3740", "CRC-16/MODBUS"]),
    ("CRC16CCITT", ["CRC-16/IBM-3740", "CRC-16/KERMIT", "CRC-16/XMODEM"]),
    ("CCITT", ["CRC-16/IBM-3740", "CRC-16/KERMIT", "CRC-16/XMODEM"]),
    ("CRC32", ["CRC-32/ISO-HDLC", "CRC-32/ISCSI", "CRC-32/MPEG-2"]),
    ("ETHERNET", ["CRC-32/ISO-HDLC", "CRC-32/ISCSI", "CRC-32/MPEG-2"]),
    ("CRC32ETHERNET", ["CRC-32/ISO-HDLC", "CRC-32/ISCSI", "CRC-32/MPEG-2"]),
    ("CRC32C", ["CRC-32/ISCSI", "CRC-32/ISO-HDLC", "CRC-32/MPEG-2"]),
    ("CRC64", ["CRC-64/XZ", "CRC-64/ECMA-182", "CRC-64/NVME"]),
];

/// The three names that are likely meant by `name`.
pub(crate) fn crc_names_like(name: &str) -> [&'static str; 3] {
    let same = |alias: &str| {
        let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
        letters.map(|letter| letter.to_ascii_uppercase()).eq(alias.bytes())
    };
    if let Some((_, names)) = ALIASES.iter().find(|(alias, _)| same(alias)) {
        return *names;
    }
    let names = CRC_NAMES.into_iter().chain(sum_names());
    match nearest_three(name, names).as_slice() {
        [a, b, c, ..] => [a, b, c],
        _ => ALIASES[3].1,
    }
}

/// The names that `crc.algorithm` takes, from the catalogue of parametrised CRC algorithms.
pub const CRC_NAMES: [&str; 50] = [
    "CRC-16/ARC",
    "CRC-16/CDMA2000",
    "CRC-16/CMS",
    "CRC-16/DDS-110",
    "CRC-16/DECT-R",
    "CRC-16/DECT-X",
    "CRC-16/DNP",
    "CRC-16/EN-13757",
    "CRC-16/GENIBUS",
    "CRC-16/GSM",
    "CRC-16/IBM-3740",
    "CRC-16/IBM-SDLC",
    "CRC-16/ISO-IEC-14443-3-A",
    "CRC-16/KERMIT",
    "CRC-16/LJ1200",
    "CRC-16/M17",
    "CRC-16/MAXIM-DOW",
    "CRC-16/MCRF4XX",
    "CRC-16/MODBUS",
    "CRC-16/NRSC-5",
    "CRC-16/OPENSAFETY-A",
    "CRC-16/OPENSAFETY-B",
    "CRC-16/PROFIBUS",
    "CRC-16/RIELLO",
    "CRC-16/SPI-FUJITSU",
    "CRC-16/T10-DIF",
    "CRC-16/TELEDISK",
    "CRC-16/TMS37157",
    "CRC-16/UMTS",
    "CRC-16/USB",
    "CRC-16/XMODEM",
    "CRC-32/AIXM",
    "CRC-32/AUTOSAR",
    "CRC-32/BASE91-D",
    "CRC-32/BZIP2",
    "CRC-32/CD-ROM-EDC",
    "CRC-32/CKSUM",
    "CRC-32/ISCSI",
    "CRC-32/ISO-HDLC",
    "CRC-32/JAMCRC",
    "CRC-32/MEF",
    "CRC-32/MPEG-2",
    "CRC-32/XFER",
    "CRC-64/ECMA-182",
    "CRC-64/GO-ISO",
    "CRC-64/MS",
    "CRC-64/NVME",
    "CRC-64/REDIS",
    "CRC-64/WE",
    "CRC-64/XZ",
];

#[cfg(test)]
mod tests {
    use super::{ALIASES, CRC_NAMES, crc_names_like};

    #[test]
    fn aliases_are_names_of_the_catalogue_and_typing_errors_find_theirs() {
        for name in ALIASES.iter().flat_map(|alias| alias.1) {
            assert!(CRC_NAMES.contains(&name), "{name}");
        }
        assert_eq!(crc_names_like("crc32c")[0], "CRC-32/ISCSI");
        assert_eq!(crc_names_like("CRC-32")[0], "CRC-32/ISO-HDLC");
        assert_eq!(crc_names_like("CRC-32/ISCS")[0], "CRC-32/ISCSI");
        assert_eq!(crc_names_like("CRC-16/MODBAS")[0], "CRC-16/MODBUS");
        assert_eq!(crc_names_like(""), crc_names_like(""));
    }
}
