//! Numbers that others cannot guess: queue pairs, keys of regions, cookies.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher24;

/// A generator of numbers and of cookies, both with one secret key. SipHash-2-4 (Aumasson,
/// Bernstein 2012) is a pseudo-random function: without the key its values look random.
pub(super) struct Secrets {
    key: [u8; 16],
    drawn: u64,
}

/// Tags of the three uses of the hash, so that their inputs always differ.
const NUMBER: u64 = 1;
const COOKIE: u64 = 2;
const BYTE: u64 = 3;

impl Secrets {
    pub fn new(key: [u8; 16]) -> Secrets {
        Secrets { key, drawn: 0 }
    }

    /// Returns the next random number.
    pub fn number(&mut self) -> u64 {
        self.drawn += 1;
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write_u64(NUMBER);
        hash.write_u64(self.drawn);
        hash.finish()
    }

    /// Returns a byte that is always the same.
    pub fn byte(&self) -> u8 {
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write_u64(BYTE);
        hash.finish() as u8
    }

    /// Returns the cookie that proves, within an epoch, that `peer` receives at its address.
    pub fn cookie(&self, peer: SocketAddr, nonce: u64, epoch: u64) -> u64 {
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write_u64(COOKIE);
        match peer.ip() {
            IpAddr::V4(address) => hash.write(&address.octets()),
            IpAddr::V6(address) => hash.write(&address.octets()),
        }
        hash.write_u16(peer.port());
        hash.write_u64(nonce);
        hash.write_u64(epoch);
        hash.finish().max(1)
    }
}
