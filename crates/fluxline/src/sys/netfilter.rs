//! What the kernel's packet filter holds, by dumps of netfilter's netlink, as it answers.
//!
//! Source: <linux/netfilter/nfnetlink.h>, <linux/netfilter/nf_tables.h>, netlink(7).

use std::io;

use super::netlink::KernelSocket;

/// `NFNL_SUBSYS_NFTABLES`, in the high byte of a message's type.
const SUBSYSTEM: u16 = 10 << 8;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x1 | 0x300;
/// `NLM_F_DUMP_INTR`: it was changed while it was read.
const CHANGED: u16 = 0x10;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Length of a message's head \[byte\]: length, type, flags, sequence, port.
const HEAD_BYTES: usize = 16;
/// Length of netfilter's own head \[byte\]: family, version, resource.
const FAMILY_BYTES: usize = 4;
/// Most datagrams of an answer; one holds some hundred rules.
const DATAGRAMS_MAX: usize = 10_000;

/// What can be asked for; the number is that of the answer's messages (`NFT_MSG_NEW…`), that of
/// the question (`NFT_MSG_GET…`) is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tables = 0,
    Chains = 3,
    Rules = 6,
    Sets = 9,
    Elements = 12,
}

/// One table, chain, rule, set, or some of a set's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// `NFPROTO_…`: 1 inet, 2 IPv4, 5 netdev, 7 bridge, 10 IPv6.
    pub(crate) family: u8,
    /// Its attributes.
    pub(crate) attributes: Vec<u8>,
}

/// All of that kind, in this network namespace; `attributes` narrow it.
///
/// Errors: `PermissionDenied` without root; `Interrupted` when it was changed meanwhile;
/// `UnexpectedEof` when the answer has no end. Never waits.
pub(crate) fn dump(kind: Kind, family: u8, attributes: &[u8]) -> io::Result<Vec<Message>> {
    let socket = KernelSocket::netfilter()?;
    let length = HEAD_BYTES + FAMILY_BYTES + attributes.len();
    let mut request = Vec::with_capacity(length);
    request.extend_from_slice(&(length as u32).to_ne_bytes());
    request.extend_from_slice(&(SUBSYSTEM | (kind as u16 + 1)).to_ne_bytes());
    request.extend_from_slice(&REQUEST_DUMP.to_ne_bytes());
    // Sequence, port: ours alone. Then family, version, resource.
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(&[family, 0, 0, 0]);
    request.extend_from_slice(attributes);
    socket.send(&request)?;
    let mut buffer = vec![0_u8; 64 << 10];
    let mut messages = Vec::new();
    for _ in 0..DATAGRAMS_MAX {
        // A dump is made while it is read: nothing more is there only after its end.
        let length = match socket.receive(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            received => received?,
        };
        if take(&buffer[..length], kind, &mut messages)? {
            return Ok(messages);
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Takes a datagram's messages; whether it was the last one.
fn take(mut bytes: &[u8], kind: Kind, into: &mut Vec<Message>) -> io::Result<bool> {
    while let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let type_of = u16::from_ne_bytes([head[4], head[5]]);
        if u16::from_ne_bytes([head[6], head[7]]) & CHANGED != 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let body = bytes.get(HEAD_BYTES..length.min(bytes.len())).unwrap_or_default();
        if type_of == ERROR || type_of == DONE {
            let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            return Ok(true);
        }
        if type_of == SUBSYSTEM | kind as u16
            && let Some((head, attributes)) = body.split_first_chunk::<FAMILY_BYTES>()
        {
            into.push(Message { family: head[0], attributes: attributes.to_vec() });
        }
        // Messages begin at multiples of four; one shorter than its head would never end.
        let next = length.max(HEAD_BYTES).next_multiple_of(4);
        bytes = bytes.get(next..).unwrap_or_default();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: u16 = SUBSYSTEM | Kind::Rules as u16;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = (HEAD_BYTES as u32 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn rules_are_taken_up_to_the_end_and_refusals_are_errors() {
        let two = [message(RULE, b"\x01...5"), message(RULE, b"\x02..."), message(DONE, &[0; 4])];
        let mut rules = Vec::new();
        assert!(take(&two.concat(), Kind::Rules, &mut rules).unwrap());
        assert_eq!(rules.iter().map(|rule| rule.family).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(rules[0].attributes, b"5");
        for kind in [ERROR, DONE] {
            let refused = message(kind, &(-libc::EPERM).to_ne_bytes());
            let refused = take(&refused, Kind::Rules, &mut rules).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_list_that_changed_while_it_was_read_is_not_believed() {
        let mut changed = message(RULE, b"\x01...");
        changed[6] = CHANGED as u8;
        let read = take(&changed, Kind::Rules, &mut Vec::new());
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn answers_cut_or_changed_anywhere_end() {
        let whole = [message(RULE, b"1234"), message(RULE, b"12")].concat();
        for end in 0..whole.len() {
            let _ = take(&whole[..end], Kind::Rules, &mut Vec::new());
            for value in [0xff, 0] {
                let mut changed = whole.clone();
                changed[end] = value;
                let _ = take(&changed, Kind::Rules, &mut Vec::new());
            }
        }
    }
}
