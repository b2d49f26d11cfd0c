//! Headers that are made once, for a train of packets that differ only in a few fields.

use super::header::{BTH_BYTES, RETH_BYTES};
use super::number::Psn;
use super::packet::Headers;

/// The places of the fields that differ \[byte\]. Source: IBTA volume 1, 9.2.
const FLAGS_AT: usize = 1;
const ACKNOWLEDGE_AT: usize = 8;
const ACKNOWLEDGE_BIT: u8 = 0x80;
const PSN_AT: usize = 9;
const ADDRESS_AT: usize = BTH_BYTES;
const ADDRESS_BYTES: usize = size_of::<u64>();

/// The headers of writes that differ in number, address and the request for an acknowledgement.
pub(crate) struct HeaderTemplate {
    bytes: [u8; BTH_BYTES + RETH_BYTES],
    used: usize,
    address: u64,
}

/// The fields of one packet of a template.
#[derive(Clone, Copy)]
pub(crate) struct TemplateFields {
    pub psn: Psn,
    pub acknowledge_request: bool,
    /// The distance of its address from that of the template \[byte\], if there is one.
    pub advance: u64,
}

impl HeaderTemplate {
    /// Returns the template of packets like this one, with payloads of `payload_bytes`.
    ///
    /// # Panics
    /// When the headers have more than a base header and an address.
    pub fn new(headers: &Headers, payload_bytes: usize) -> HeaderTemplate {
        let mut bytes = [0; BTH_BYTES + RETH_BYTES];
        let used = headers.emit(payload_bytes, &mut bytes);
        bytes[ACKNOWLEDGE_AT] &= !ACKNOWLEDGE_BIT;
        let mut address = [0; ADDRESS_BYTES];
        address.copy_from_slice(&bytes[ADDRESS_AT..][..ADDRESS_BYTES]);
        HeaderTemplate { bytes, used, address: u64::from_be_bytes(address) }
    }

    /// Returns the length of the headers \[byte\].
    pub fn bytes(&self) -> usize {
        self.used
    }

    /// Writes the headers of one packet to the beginning of `into`.
    ///
    /// # Panics
    /// When `into` is shorter than [`HeaderTemplate::bytes`].
    #[inline]
    pub fn emit(&self, fields: &TemplateFields, into: &mut [u8]) {
        let [_, psn @ ..] = fields.psn.get().to_be_bytes();
        let base = &mut into[..BTH_BYTES];
        base.copy_from_slice(&self.bytes[..BTH_BYTES]);
        base[ACKNOWLEDGE_AT] |= if fields.acknowledge_request { ACKNOWLEDGE_BIT } else { 0 };
        base[PSN_AT..].copy_from_slice(&psn);
        if self.used > BTH_BYTES {
            into[BTH_BYTES..self.used].copy_from_slice(&self.bytes[BTH_BYTES..self.used]);
            let address = self.address.wrapping_add(fields.advance).to_be_bytes();
            into[ADDRESS_AT..][..ADDRESS_BYTES].copy_from_slice(&address);
        }
    }
}

/// Returns the padding that a packet's base header names \[byte\], if there is a header.
pub(crate) fn pad_of(packet: &[u8]) -> Option<usize> {
    packet.get(FLAGS_AT).map(|flags| usize::from(flags >> 4 & 3))
}

impl HeaderTemplate {
    /// Compares the headers of a packet with the template's. Returns whether it requests an
    /// acknowledgement if it has this number, an address that far from the template's, and all
    /// other fields of the template; `None` otherwise.
    #[inline]
    pub fn asked_by(&self, psn: Psn, advance: u64, packet: &[u8]) -> Option<bool> {
        let header = packet.get(..self.used)?;
        let asks = header[ACKNOWLEDGE_AT] & ACKNOWLEDGE_BIT != 0;
        let mut expected = [0; BTH_BYTES + RETH_BYTES];
        let expected = &mut expected[..self.used];
        self.emit(&TemplateFields { psn, acknowledge_request: asks, advance }, expected);
        (header == expected).then_some(asks)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::roce::{Body, QueuePair, Reth, Transport, WritePart};

    /// Returns the headers of a write, as a template and directly.
    fn both(fields: TemplateFields, part: impl Fn(u64) -> WritePart) -> [Vec<u8>; 2] {
        let of = |psn, advance| {
            Headers::new(QueuePair::new(77), psn, Body::Write(Transport::Reliable, part(advance)))
        };
        let template = HeaderTemplate::new(&of(Psn::new(5), 0), 64);
        let mut by_template = vec![0xEE; template.bytes()];
        template.emit(&fields, &mut by_template);
        let mut headers = of(fields.psn, fields.advance);
        headers.acknowledge_request = fields.acknowledge_request;
        let mut directly = vec![0; headers.bytes()];
        headers.emit(64, &mut directly);
        [by_template, directly]
    }

    #[test]
    fn a_template_writes_the_headers_that_would_be_made_for_each_packet() {
        let reth = |advance| Reth { address: u64::from(u32::MAX) - 9 + advance, key: 3, bytes: 64 };
        for psn in [0, 1, 0xFFFF, 0x00FF_FFFF] {
            for acknowledge_request in [false, true] {
                let fields = TemplateFields { psn: Psn::new(psn), acknowledge_request, advance: 0 };
                let [one, other] = both(fields, |_| WritePart::Middle);
                assert_eq!(one, other);
                let fields = TemplateFields { advance: 4096, ..fields };
                let [one, other] = both(fields, |advance| WritePart::Only(reth(advance), None));
                assert_eq!(one, other);
            }
        }
    }
}
