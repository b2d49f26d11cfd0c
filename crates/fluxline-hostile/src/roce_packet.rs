//! RoCEv2 from strangers: nothing panics, and what parses is emitted as the bytes that it was read
//! from, but for what nobody looks at.

use std::net::{Ipv4Addr, SocketAddr};

use fluxline_core::roce::{IcrcContext, Opcode, Packet, split_icrc};

/// The base header \[byte\].
const BASE_BYTES: usize = 12;

/// Any bytes as a RoCEv2 packet.
pub fn roce_packet(bytes: &[u8]) {
    let address = |last, port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), port));
    let context = IcrcContext::new(address(1, 49_152), address(2, 4791)).expect("one family");
    let _ = context.verify(bytes, 0);
    let bytes = split_icrc(bytes).map_or(bytes, |(packet, _)| packet);
    let Ok(packet) = Packet::parse(bytes) else { return };
    let mut again = vec![0xAA; packet.bytes()];
    assert_eq!(packet.emit(&mut again), bytes.len());
    // Reserved bits, padding and what follows a congestion notification are not looked at.
    let mut meant = bytes.to_vec();
    meant[4] &= 0xC0;
    meant[8] &= 0x80;
    let looked_at = match packet.opcode() {
        Opcode::CongestionNotification => BASE_BYTES,
        opcode => opcode.header_bytes() + packet.payload().len(),
    };
    meant[looked_at..].fill(0);
    assert_eq!(again, meant);
}
