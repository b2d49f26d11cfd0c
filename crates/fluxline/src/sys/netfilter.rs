//! How many rules the kernel's packet filter has, by one dump of netfilter's netlink.
//!
//! Source: <linux/netfilter/nfnetlink.h>, <linux/netfilter/nf_tables.h>, netlink(7).

use std::io;

use super::netlink::KernelSocket;

/// `NFNL_SUBSYS_NFTABLES`, in the high byte of a message's type.
const SUBSYSTEM: u16 = 10 << 8;
/// `NFT_MSG_NEWRULE`, `NFT_MSG_GETRULE`.
const NEW_RULE: u16 = SUBSYSTEM | 6;
const GET_RULE: u16 = SUBSYSTEM | 7;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x1 | 0x300;
/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Length of a message's head \[byte\]: length, type, flags, sequence, port.
const HEAD_BYTES: usize = 16;
/// Most datagrams of an answer; one holds some hundred rules.
const DATAGRAMS_MAX: usize = 10_000;

/// Counts the rules of all tables of this network namespace. `PermissionDenied` without root.
pub(crate) fn rules() -> io::Result<u64> {
    let socket = KernelSocket::netfilter()?;
    let mut request = Vec::with_capacity(HEAD_BYTES + 4);
    request.extend_from_slice(&(HEAD_BYTES as u32 + 4).to_ne_bytes());
    request.extend_from_slice(&GET_RULE.to_ne_bytes());
    request.extend_from_slice(&REQUEST_DUMP.to_ne_bytes());
    // Sequence, port: ours alone. Then family (any), version, resource.
    request.extend_from_slice(&[0; 8 + 4]);
    socket.send(&request)?;
    let mut buffer = vec![0_u8; 64 << 10];
    let mut rules = 0;
    for _ in 0..DATAGRAMS_MAX {
        let length = match socket.receive(&mut buffer) {
            Ok(length) => length,
            // A dump is made while it is read: nothing more is there only after its end.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        };
        let (counted, at_end) = count(&buffer[..length])?;
        rules += counted;
        if at_end {
            break;
        }
    }
    Ok(rules)
}

/// Rules in a datagram, and whether it was the last one.
fn count(mut bytes: &[u8]) -> io::Result<(u64, bool)> {
    let mut rules = 0;
    while let Some((head, _)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = u16::from_ne_bytes([head[4], head[5]]);
        match (kind, bytes.get(HEAD_BYTES..HEAD_BYTES + 4)) {
            (NEW_RULE, _) => rules += 1,
            (DONE, _) => return Ok((rules, true)),
            (ERROR, Some(code)) => {
                let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
                if code != 0 {
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
            }
            _ => {}
        }
        // Messages begin at multiples of four; one shorter than its head would never end.
        let next = length.max(HEAD_BYTES).next_multiple_of(4);
        bytes = bytes.get(next..).unwrap_or_default();
    }
    Ok((rules, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = (HEAD_BYTES as u32 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&[0; 10]);
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn rules_are_counted_and_refusals_are_errors() {
        let two = [message(NEW_RULE, b"12345"), message(NEW_RULE, b""), message(DONE, &[0; 4])];
        assert_eq!(count(&two.concat()).unwrap(), (2, true));
        let refused = message(ERROR, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(count(&refused).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn answers_cut_or_changed_anywhere_end() {
        let whole = [message(NEW_RULE, b"1234"), message(NEW_RULE, b"12")].concat();
        for end in 0..whole.len() {
            let _ = count(&whole[..end]);
            let mut changed = whole.clone();
            changed[end] = 0xff;
            let _ = count(&changed);
            changed[end] = 0;
            let _ = count(&changed);
        }
    }
}
