//! Set-up frames written by hand, from the layout in docs/wire.md and not with the endpoint's code.

use fluxline_core::roce::{Headers, Packet};

pub const SETUP: u8 = 0xC0;
pub const SELECTIVE: u8 = 0xC1;
/// The base header \[byte\].
pub const BASE: usize = 12;

fn base(opcode: u8, to: u32, psn: u32) -> Vec<u8> {
    let mut bytes = vec![opcode, 0, 0xFF, 0xFF];
    bytes.extend(to.to_be_bytes());
    bytes.extend(psn.to_be_bytes());
    bytes
}

/// The offer of an end.
#[derive(Clone, Copy)]
pub struct Offer {
    pub pair: u32,
    pub psn: u32,
    pub frame_bytes: u32,
    pub credit_bytes: u64,
    pub reliable: bool,
}

pub const OFFER: Offer =
    Offer { pair: 0x77, psn: 100, frame_bytes: 1472, credit_bytes: 1 << 20, reliable: true };

fn offer(into: &mut Vec<u8>, of: Offer) {
    into.extend(of.pair.to_le_bytes());
    into.extend(of.psn.to_le_bytes());
    into.extend(of.frame_bytes.to_le_bytes());
    into.extend(of.credit_bytes.to_le_bytes());
    into.extend(0_u32.to_le_bytes());
    into.push(u8::from(of.reliable) | 2);
    into.extend([3, b'r', b'a', b'w']);
}

fn padded(mut bytes: Vec<u8>, whole: usize) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4).max(whole.saturating_sub(4)), 0);
    bytes
}

pub fn hello(version: u16, (nonce, cookie): (u64, u64), of: Offer, whole: usize) -> Vec<u8> {
    let mut bytes = base(SETUP, 1, 0);
    bytes.extend([1, 1]);
    bytes.extend(version.to_le_bytes());
    bytes.extend(nonce.to_le_bytes());
    bytes.extend(cookie.to_le_bytes());
    offer(&mut bytes, of);
    padded(bytes, whole)
}

pub fn accept(nonce: u64, of: Offer) -> Vec<u8> {
    let mut bytes = base(SETUP, 1, 0);
    bytes.extend([3, 1]);
    bytes.extend(nonce.to_le_bytes());
    offer(&mut bytes, of);
    padded(bytes, 0)
}

pub fn goodbye(to: u32, from: u32) -> Vec<u8> {
    let mut bytes = base(SETUP, to, 0);
    bytes.push(7);
    bytes.extend(from.to_le_bytes());
    padded(bytes, 0)
}

pub fn import(to: u32, request: u32, key: u64, name: &str) -> Vec<u8> {
    let mut bytes = base(SETUP, to, 0);
    bytes.push(5);
    bytes.extend(request.to_le_bytes());
    bytes.extend(key.to_le_bytes());
    bytes.push(name.len() as u8);
    bytes.extend(name.as_bytes());
    padded(bytes, 0)
}

/// The kind of a set-up frame; `None`: another frame.
pub fn setup_kind(frame: &[u8]) -> Option<u8> {
    (frame[0] == SETUP).then(|| frame[BASE])
}

fn u32_at(frame: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(frame[at..at + 4].try_into().expect("4 byte"))
}

fn u64_at(frame: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(frame[at..at + 8].try_into().expect("8 byte"))
}

/// Returns the nonce of a Hello, and the queue pair and PSN of its offer.
pub fn read_hello(frame: &[u8]) -> (u64, u32, u32) {
    assert_eq!(setup_kind(frame), Some(1));
    (u64_at(frame, BASE + 4), u32_at(frame, BASE + 20), u32_at(frame, BASE + 24))
}

/// Returns the cookie of a Retry.
pub fn read_retry(frame: &[u8]) -> u64 {
    assert_eq!(setup_kind(frame), Some(2));
    u64_at(frame, BASE + 9)
}

/// Returns the queue pair and PSN of an Accept.
pub fn read_accept(frame: &[u8]) -> (u32, u32) {
    assert_eq!(setup_kind(frame), Some(3));
    (u32_at(frame, BASE + 10), u32_at(frame, BASE + 14))
}

/// Returns the R_Key of an Imported without a failure.
pub fn read_imported(frame: &[u8]) -> u32 {
    assert_eq!((setup_kind(frame), frame[BASE + 1]), (Some(6), 0));
    u32_at(frame, BASE + 7)
}

/// Returns the packets of the standard among frames: headers and payload.
pub fn packets(frames: &[Vec<u8>]) -> Vec<(Headers, Vec<u8>)> {
    let parsed = frames.iter().filter_map(|frame| Packet::parse(frame).ok());
    parsed.map(|packet| (*packet.headers(), packet.payload().to_vec())).collect()
}
