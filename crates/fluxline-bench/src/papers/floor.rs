//! Floors: the speed of this machine without the link, to compare the link with.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

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
