//! The share of the requested huge pages that the host granted.

use std::fmt;

use crate::sys::map::SharedMap;

/// A huge page \[byte\]. Source: x86-64, and AArch64 with base pages of 4 KiB.
const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Rows of `/proc/self/smaps` that count huge pages. Source: Linux man-page proc_pid_smaps(5).
const ROWS: [&str; 4] =
    ["ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"];

/// The share of a region on huge pages; its text names the remedy for missing pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Bytes on huge pages.
    pub granted_bytes: u64,
    /// Bytes of the region with its header.
    pub all_bytes: u64,
}

impl HugePages {
    pub(super) fn of(map: &SharedMap, all_bytes: u64) -> HugePages {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        HugePages { granted_bytes: huge_bytes(&text, map.address()), all_bytes }
    }

    /// Returns true if every possible huge page of the region was granted.
    #[must_use]
    pub fn are_granted(&self) -> bool {
        self.granted_bytes > 0 && self.granted_bytes + HUGE_PAGE_BYTES > self.all_bytes
    }
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HugePages { granted_bytes, all_bytes } = self;
        write!(f, "{granted_bytes} of {all_bytes} bytes are on huge pages")?;
        if self.are_granted() {
            return Ok(());
        }
        f.write_str(if *all_bytes < HUGE_PAGE_BYTES {
            "; a region of less than 2 MiB cannot be"
        } else if *granted_bytes == 0 {
            "; set `huge_pages`, and let the file system give them on advice \
             (`mount -o remount,huge=advise /dev/shm`)"
        } else {
            "; the host had no more memory in whole huge pages"
        })
    }
}

/// Returns the bytes on huge pages in the mapping that begins at `address`.
fn huge_bytes(smaps: &str, address: usize) -> u64 {
    let begins = format!("{address:08x}-");
    let of_mapping = smaps.lines().skip_while(|line| !line.starts_with(&begins)).skip(1);
    of_mapping
        .take_while(|line| !line.starts_with("VmFlags"))
        .filter_map(|line| {
            let rest = ROWS.iter().find_map(|row| line.strip_prefix(row))?;
            rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        })
        .map(|kib| kib << 10)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "7f0000000000-7f0000400000 rw-s 00000000 00:27 2 /dev/shm/a
Rss:                4096 kB
ShmemPmdMapped:     2048 kB
FilePmdMapped:         0 kB
VmFlags: rd wr sh
7f0000400000-7f0000800000 rw-s 00000000 00:27 3 /dev/shm/b
ShmemPmdMapped:     4096 kB
Shared_Hugetlb:     2048 kB
VmFlags: rd wr sh
";

    #[test]
    fn huge_pages_of_another_mapping_are_not_counted() {
        assert_eq!(huge_bytes(SMAPS, 0x7f00_0000_0000), 2 << 20);
        assert_eq!(huge_bytes(SMAPS, 0x7f00_0040_0000), 6 << 20);
        assert_eq!(huge_bytes(SMAPS, 0x7f00_0080_0000), 0);
    }

    #[test]
    fn a_lack_says_what_mends_it() {
        let text = |granted_bytes, all_bytes| HugePages { granted_bytes, all_bytes }.to_string();
        assert!(text(0, 4 << 20).contains("huge=advise"));
        assert!(text(0, 4096).contains("less than 2 MiB"));
        assert!(text(2 << 20, 8 << 20).contains("no more memory"));
        assert_eq!(text(4 << 20, 5 << 20), "4194304 of 5242880 bytes are on huge pages");
    }
}
