//! Management datagrams of strangers to a node that listens for programs of rdma_cm: nothing
//! panics, memory stays bounded, and no connection opens that the program did not accept.
//!
//! The input is a row of steps: a byte of flags, then, unless only time passes, up to 256 bytes of
//! a datagram. Missing bytes are zero.

use std::net::{Ipv4Addr, SocketAddr};

use fluxline_core::endpoint::management::mad::{FRAME_BYTES, MAD_BYTES, emit_frame};
use fluxline_core::endpoint::{EndpointConfig, ManagedTerms, Node};
use fluxline_core::fabric::{Completion, EndpointId, Fabric};
use fluxline_core::port::Port;
use fluxline_core::port::network::Network;
use fluxline_core::roce::{IcrcContext, Psn};
use fluxline_core::{Moment, Span};

/// The port that the node listens at, that of rping.
const PORT: u16 = 7174;
const FRAME_BYTES_MAX: usize = 1472;
const ENDPOINTS_MAX: u32 = 8;

// Flags of a step.
/// Only time passes: 100 ms.
const WAIT: u8 = 1;
/// The program accepts requests.
const ACCEPT: u8 = 2;
/// The program ends its last connection.
const LEAVE: u8 = 4;
/// The datagram comes from the second stranger.
const OTHER: u8 = 8;
/// The datagram's header is written over by a good one.
const GOOD: u8 = 16;
/// The datagram names the node's last answer: its identifiers.
const NAMED: u8 = 32;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 77, 0, last), 4791))
}

/// Any bytes as steps.
///
/// # Panics
/// When the node keeps more connections than its program accepted, or than its limit.
pub fn management_frames(bytes: &[u8]) {
    let network = Network::new();
    let config =
        EndpointConfig { endpoints_max: ENDPOINTS_MAX, ..EndpointConfig::new("x", [2; 16]) };
    let mut node = Node::new(network.port(address(1), FRAME_BYTES_MAX), config);
    let mut strangers = [2, 3].map(|last| network.port(address(last), FRAME_BYTES_MAX));
    node.listen(PORT);
    let (mut now, mut rest) = (Moment::from_ns(1), bytes);
    let (mut accepted, mut connected, mut last) = (0, 0, None::<EndpointId>);
    let mut ids = [0; 8];
    while let Some((&flags, tail)) = rest.split_first() {
        let wait = if flags & WAIT == 0 { 1 } else { 100 };
        now = now + Span::from_ms(wait);
        rest = tail;
        if flags & WAIT == 0 {
            let (datagram, tail) = tail.split_at(tail.len().min(MAD_BYTES));
            rest = tail;
            let mut mad = [0; MAD_BYTES];
            mad[..datagram.len()].copy_from_slice(datagram);
            if flags & GOOD != 0 {
                mad[..4].copy_from_slice(&[1, 7, 2, 3]);
                let kind = 0x10 | mad[17] & 7;
                mad[16..18].copy_from_slice(&[0, kind]);
            }
            if flags & NAMED != 0 {
                mad[24..32].copy_from_slice(&ids);
            }
            let from = if flags & OTHER == 0 { 0 } else { 1 };
            let port = &mut strangers[from];
            let mut frame = [0; FRAME_BYTES];
            emit_frame(&mad, Psn::new(0), &mut frame);
            let context =
                IcrcContext::new(address(2 + from as u8), address(1)).expect("one family");
            if let Some(out) = port.frame(address(1), FRAME_BYTES + 4) {
                out.bytes[..FRAME_BYTES].copy_from_slice(&frame);
                out.bytes[FRAME_BYTES..].copy_from_slice(&context.icrc(0, &frame).to_le_bytes());
            }
            port.flush(now);
        }
        while let Some(completion) = node.poll(now) {
            connected += u32::from(matches!(completion, Completion::Connected { .. }));
        }
        while let Some(request) = node.next_request() {
            match flags & ACCEPT != 0 {
                true => {
                    last = node.accept(&request, &ManagedTerms::default(), now).ok().or(last);
                    accepted += 1;
                }
                false => node.reject(&request, now),
            }
        }
        if flags & LEAVE != 0
            && let Some(endpoint) = last.take()
        {
            let _ = node.disconnect(endpoint);
        }
        for stranger in &mut strangers {
            stranger.receive(now, &mut |frame| {
                // Behind both headers: identifiers, the sender's first.
                if let Some(found) = frame.bytes.get(44..52) {
                    ids[..4].copy_from_slice(&found[4..]);
                    ids[4..].copy_from_slice(&found[..4]);
                }
            });
        }
        assert!(connected <= accepted, "{connected} connections, {accepted} accepted");
        assert!(node.waiting() < 4096);
    }
}
