//! Floors: the speed of this machine without the link, to compare the link with.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fluxline::udp::{SenderConfig, UdpSender};

use crate::Error;

/// The time of a measurement; the best of several counts.
const SPELL: Duration = Duration::from_millis(2);
const SPELLS: u32 = 3;

/// Measures the time of one call of `act` \[s\]: the best of some spells.
fn least(mut act: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..SPELLS {
        let (began, mut count) = (Instant::now(), 0_u32);
        while began.elapsed() < SPELL {
            act();
            count += 1;
        }
        best = best.min(began.elapsed().as_secs_f64() / f64::from(count.max(1)));
    }
    best
}

/// Measures a copy of this many bytes within this process \[s\].
#[must_use]
pub fn copy_seconds(bytes: u64) -> f64 {
    let from = vec![1_u8; bytes as usize];
    let mut to = vec![0_u8; bytes as usize];
    least(|| {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    })
}

/// Measures CRC32C over this many bytes \[s\].
#[must_use]
pub fn crc_seconds(bytes: u64) -> f64 {
    let block = vec![0x5A_u8; bytes as usize];
    least(|| {
        black_box(crc_fast::crc32_iscsi(black_box(&block)));
    })
}

/// Measures this many bytes through the kernel: one thread writes them to a local socket and reads
/// them \[s\]. `None`: the socket holds less, or the host refused.
#[must_use]
pub fn kernel_seconds(bytes: u64) -> Option<f64> {
    /// The bytes that a socket of any host holds at once. Assumed: half of 208 KiB, the default
    /// of net.core.wmem_default.
    const HELD_BYTES: u64 = 64 << 10;
    if bytes == 0 || bytes > HELD_BYTES {
        return None;
    }
    let (mut here, mut there) = UnixStream::pair().ok()?;
    let from = vec![1_u8; bytes as usize];
    let mut to = vec![0_u8; bytes as usize];
    let mut all_well = true;
    let seconds = least(|| {
        let moved = here.write_all(&from).and_then(|()| there.read_exact(&mut to));
        all_well &= moved.is_ok();
    });
    all_well.then_some(seconds)
}

/// The system call that sends several datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// One sendmmsg.
    Several,
    /// One send of a train that the kernel cuts (UDP segmentation).
    Train,
}

/// Measures datagrams per second that the kernel takes, `combined` to a call. Their receiver is a
/// socket of this host that is never read.
///
/// Errors: no socket.
pub fn datagrams_per_second(bytes: usize, combined: u64, call: Call) -> Result<f64, Error> {
    let host = || Error::host("a UDP socket");
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(host())?;
    let destination = socket.local_addr().map_err(host())?;
    let segmentation = call == Call::Train;
    let config = SenderConfig { segmentation, ..SenderConfig::new(destination) };
    let mut sender = UdpSender::open(config).map_err(|error| Error::Refused(error.to_string()))?;
    let block = vec![0x5A_u8; bytes];
    let batch: Vec<&[u8]> = (0..combined).map(|_| block.as_slice()).collect();
    let mut refused = None;
    let seconds = least(|| {
        if let Err(error) = sender.send(&batch) {
            refused = Some(error.to_string());
        }
    });
    match refused {
        Some(why) => Err(Error::Refused(why)),
        None => Ok(combined as f64 / seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_times_and_rates_and_more_bytes_take_longer() {
        assert!(copy_seconds(1 << 20) > copy_seconds(64));
        assert!(crc_seconds(1 << 20) > crc_seconds(64));
        assert!(kernel_seconds(64).expect("it holds that") > 0.0);
        assert_eq!(kernel_seconds(1 << 30), None);
        for call in [Call::Several, Call::Train] {
            assert!(datagrams_per_second(64, 4, call).expect("loopback") > 100.0);
        }
    }
}
