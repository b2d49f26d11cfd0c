//! Settings and statistics of a card's driver: its name, rings, coalescing, offloads, channels.
//!
//! One ioctl with a structure of 32-bit words each; numbers and layouts: <linux/ethtool.h>.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// `SIOCETHTOOL`. Source: <linux/sockios.h>.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// Commands. Source: <linux/ethtool.h>, `ETHTOOL_…` of the same names.
const GDRVINFO: u32 = 0x03;
const GCOALESCE: u32 = 0x0e;
const SCOALESCE: u32 = 0x0f;
const GRINGPARAM: u32 = 0x10;
const SRINGPARAM: u32 = 0x11;
const GRXCSUM: u32 = 0x14;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GGRO: u32 = 0x2b;
const SGRO: u32 = 0x2c;
const GSSET_INFO: u32 = 0x37;
const GFEATURES: u32 = 0x3a;
const GCHANNELS: u32 = 0x3c;
/// `ETH_GSTRING_LEN` \[byte\].
const STRING_BYTES: usize = 32;
/// The names of statistics, `ETH_SS_STATS`. Cards with hundreds of queues have some ten thousand.
const STATISTICS: StringSet = StringSet { number: 1, strings_max: 16_384 };
/// The names of offloads, `ETH_SS_FEATURES`. Linux 6.12 has some 60.
const FEATURES: StringSet = StringSet { number: 4, strings_max: 1024 };
/// Words of `struct ethtool_drvinfo`, `ethtool_ringparam`, `ethtool_coalesce`, `ethtool_channels`,
/// `ethtool_value`.
const DRIVER_WORDS: usize = 49;
const RING_WORDS: usize = 9;
const COALESCE_WORDS: usize = 23;
const CHANNEL_WORDS: usize = 9;
const VALUE_WORDS: usize = 2;

/// A set of strings that the kernel names by a number.
#[derive(Clone, Copy)]
struct StringSet {
    number: u32,
    /// Most strings that are read.
    strings_max: usize,
}

/// The driver of a card. The driver may leave fields empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The driver's name, such as `mlx5_core`.
    pub name: String,
    /// The driver's version.
    pub version: String,
    /// The version of the card's firmware.
    pub firmware: String,
    /// The card's place on the bus, such as `0000:3b:00.0`.
    pub bus: String,
}

/// Descriptors of a card's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardRing {
    /// Descriptors in use.
    pub now: u32,
    /// Descriptors possible.
    pub max: u32,
}

/// The time for which a card gathers packets before it interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Longest delay of a receive interrupt \[us\].
    pub us: u32,
    /// Most received frames before an interrupt.
    pub frames: u32,
    /// The card adapts the delay to the traffic.
    pub adaptive: bool,
    /// Longest delay of a transmit interrupt \[us\].
    pub transmit_us: u32,
    /// Most transmitted frames before an interrupt.
    pub transmit_frames: u32,
}

/// Calls the driver with a command and its structure, which the kernel reads and writes.
///
/// `words` must be as long as the command's structure with all that the kernel appends to it.
fn call(interface: &str, words: &mut [u32]) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    // SAFETY: ifreq is a C structure of integers, bytes and pointers: all zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte fewer, so that the name ends with a zero.
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request names an interface; its data is writable and alive through the call and,
    // as every caller here sees to, as long as what the kernel writes for the command in it.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn ask<const WORDS: usize>(interface: &str, command: u32) -> io::Result<[u32; WORDS]> {
    let mut words = [0; WORDS];
    words[0] = command;
    call(interface, &mut words)?;
    Ok(words)
}

/// Returns the driver, its firmware, and the card's address on its bus.
pub fn driver(interface: &str) -> io::Result<Driver> {
    let words = ask::<DRIVER_WORDS>(interface, GDRVINFO)?;
    let mut names = words[1..].chunks_exact(STRING_BYTES / 4).map(name_of);
    let mut next = || names.next().unwrap_or_default();
    // In the order of the structure, which is the order in which fields are evaluated here.
    Ok(Driver { name: next(), version: next(), firmware: next(), bus: next() })
}

/// Receive descriptors in use and possible.
pub fn ring(interface: &str) -> io::Result<CardRing> {
    // Command, four maxima (rx first), four values (rx first).
    let words = ask::<RING_WORDS>(interface, GRINGPARAM)?;
    Ok(CardRing { now: words[5], max: words[1] })
}

/// Descriptors to send, in use and possible.
pub fn transmit_ring(interface: &str) -> io::Result<CardRing> {
    let words = ask::<RING_WORDS>(interface, GRINGPARAM)?;
    Ok(CardRing { now: words[8], max: words[4] })
}

/// Sets the receive descriptors; the link may go down for a moment.
pub fn set_ring(interface: &str, descriptors: u32) -> io::Result<()> {
    let mut words = ask::<RING_WORDS>(interface, GRINGPARAM)?;
    (words[0], words[5]) = (SRINGPARAM, descriptors);
    call(interface, &mut words)
}

/// Returns the time for which packets are gathered before an interrupt.
pub fn coalescing(interface: &str) -> io::Result<Coalescing> {
    let words = ask::<COALESCE_WORDS>(interface, GCOALESCE)?;
    Ok(Coalescing {
        us: words[1],
        frames: words[2],
        adaptive: words[10] != 0,
        transmit_us: words[5],
        transmit_frames: words[6],
    })
}

/// Sets the time that packets are gathered \[us\].
pub fn set_coalescing(interface: &str, us: u32) -> io::Result<()> {
    let mut words = ask::<COALESCE_WORDS>(interface, GCOALESCE)?;
    (words[0], words[1]) = (SCOALESCE, us);
    call(interface, &mut words)
}

/// Returns true when GRO is on.
pub fn gro(interface: &str) -> io::Result<bool> {
    Ok(ask::<VALUE_WORDS>(interface, GGRO)?[1] != 0)
}

/// Switches GRO.
pub fn set_gro(interface: &str, on: bool) -> io::Result<()> {
    call(interface, &mut [SGRO, u32::from(on)])
}

/// Returns true when the card checks the checksums of received packets.
pub fn receive_checksum(interface: &str) -> io::Result<bool> {
    Ok(ask::<VALUE_WORDS>(interface, GRXCSUM)?[1] != 0)
}

/// Queues that receive, in use and possible.
pub fn channels(interface: &str) -> io::Result<CardRing> {
    // Command, four maxima and four values: rx, tx, other, combined.
    let words = ask::<CHANNEL_WORDS>(interface, GCHANNELS)?;
    Ok(CardRing { now: words[5].max(words[8]), max: words[1].max(words[4]) })
}

/// The names of the offloads that are on, as `ethtool -k` of the kernel's own names has them.
pub fn features(interface: &str) -> io::Result<Vec<String>> {
    /// Words about 32 offloads: available, wanted, active, fixed.
    const BLOCK_WORDS: usize = 4;
    let count = count_of(interface, FEATURES)?;
    let names = strings(interface, FEATURES, count)?;
    // The kernel writes at most the number of blocks that the structure states.
    let mut words = vec![0_u32; 2 + count.div_ceil(32) * BLOCK_WORDS];
    (words[0], words[1]) = (GFEATURES, count.div_ceil(32) as u32);
    call(interface, &mut words)?;
    let is_on = |at: usize| words[2 + at / 32 * BLOCK_WORDS + 2] >> (at % 32) & 1 == 1;
    let on = names.into_iter().enumerate().filter(|(at, name)| is_on(*at) && !name.is_empty());
    Ok(on.map(|(_, name)| name).collect())
}

/// The card's own statistics by name, in its order.
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    let count = count_of(interface, STATISTICS)?;
    let names = strings(interface, STATISTICS, count)?;
    let mut values = vec![0_u32; 2 + room_for(STATISTICS) * 2];
    (values[0], values[1]) = (GSTATS, count as u32);
    call(interface, &mut values)?;
    if values[1] as usize != count {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let numbers = values[2..].chunks_exact(2).map(number_of);
    Ok(names.into_iter().zip(numbers).collect())
}

/// Returns the number of strings to reserve memory for. The kernel writes all that exist at the
/// moment of the call, whatever the caller states. Four times the accepted number is reserved, so
/// that queues that appear between two calls do no harm.
fn room_for(set: StringSet) -> usize {
    4 * set.strings_max
}

/// Returns the `count` strings of a set.
fn strings(interface: &str, set: StringSet, count: usize) -> io::Result<Vec<String>> {
    let mut words = vec![0_u32; 3 + room_for(set) * STRING_BYTES / 4];
    (words[0], words[1], words[2]) = (GSTRINGS, set.number, count as u32);
    call(interface, &mut words)?;
    if words[2] as usize != count {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(words[3..].chunks_exact(STRING_BYTES / 4).map(name_of).take(count).collect())
}

/// Returns the number of strings of a set. Error: there are more than are read.
fn count_of(interface: &str, set: StringSet) -> io::Result<usize> {
    // Command, reserved, a mask of 64 bits (asked and answered), one number per bit.
    let mut words = [GSSET_INFO, 0, 0, 0, 0];
    words[2..4].copy_from_slice(&halves(1 << set.number));
    call(interface, &mut words)?;
    let count = if number_of(&words[2..4]) == 0 { 0 } else { words[4] as usize };
    if count > set.strings_max {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(count)
}

/// Returns a 64-bit number as its two words in memory.
fn halves(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
    [half(0), half(4)]
}

fn number_of(words: &[u32]) -> u64 {
    let (first, second) = (words[0].to_ne_bytes(), words[1].to_ne_bytes());
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first);
    bytes[4..].copy_from_slice(&second);
    u64::from_ne_bytes(bytes)
}

fn name_of(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_survive_their_way_through_words() {
        for number in [0, 1, 1 << 40, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(number_of(&halves(number)), number);
        }
        let mut bytes = [0_u8; STRING_BYTES];
        bytes[..8].copy_from_slice(b"rx_drops");
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        assert_eq!(name_of(&words), "rx_drops");
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error_and_so_is_a_long_name() {
        assert!(ring("flx-none").is_err());
        assert!(statistics("flx-none").is_err());
        assert!(gro("a-name-longer-than-interfaces-have").is_err());
        assert!(gro("lo").is_ok());
        assert!(driver("flx-none").is_err());
        assert!(features("flx-none").is_err());
    }

    #[test]
    fn loopback_says_which_offloads_are_on_and_ethtool_agrees_about_gro() {
        let on = features("lo").expect("loopback has offloads");
        assert!(!on.is_empty() && on.iter().all(|name| name.is_ascii()), "{on:?}");
        let gro = gro("lo").expect("it is asked above, too");
        assert_eq!(on.iter().any(|name| name == "rx-gro"), gro, "{on:?}");
    }
}
