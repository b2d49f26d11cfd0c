//! Management datagrams of connection management as values and as bytes.
//!
//! Source: IBTA volume 1, 13.4.3 (header), tables 106 to 113 (messages), A11.2 (IP addresses).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use crate::fabric::Reliability;
use crate::roce::header::BTH_BYTES;
use crate::roce::{PARTITION_DEFAULT, Psn, QueuePair};

/// A management datagram \[byte\].
pub const MAD_BYTES: usize = 256;
/// The header of a datagram (DETH) \[byte\].
const DETH_BYTES: usize = 8;
/// A frame with a management datagram, without its ICRC \[byte\].
pub const FRAME_BYTES: usize = BTH_BYTES + DETH_BYTES + MAD_BYTES;
/// The opcode UD SEND ONLY.
pub const UD_SEND_ONLY: u8 = 0x64;
/// The Q_Key of queue pair 1.
const QUEUE_KEY: u32 = 0x8001_0000;
/// The queue pair of the general service interface.
const GENERAL_SERVICE: u32 = 1;
/// Base version, class (communication management), its version, method (send).
const HEADER: [u8; 4] = [1, 0x07, 2, 0x03];
/// The service identifiers of TCP ports: this, and the port. Source: A11.3.
const TCP_SERVICE: u64 = 0x0106_0000;
/// The header of IP addresses in a request \[byte\].
const IP_HEADER_BYTES: usize = 36;
/// The longest private data of a request, behind the IP addresses \[byte\].
pub const REQUEST_DATA_MAX: usize = 92 - IP_HEADER_BYTES;
/// The longest private data of a reply \[byte\].
pub const REPLY_DATA_MAX: usize = 196;

/// Offsets in a datagram: 24 bytes of header, then the message.
mod at {
    pub const TRANSACTION: usize = 8;
    pub const ATTRIBUTE: usize = 16;
    pub const OWN_ID: usize = 24;
    pub const THEIR_ID: usize = 28;

    pub const REQ_SERVICE: usize = 32;
    pub const REQ_GUID: usize = 40;
    pub const REQ_PAIR: usize = 56;
    pub const REQ_ANSWERED: usize = 59;
    pub const REQ_ASKED: usize = 63;
    pub const REQ_TRANSPORT: usize = 67;
    pub const REQ_PSN: usize = 68;
    pub const REQ_TIMES: usize = 71;
    pub const REQ_PARTITION: usize = 72;
    pub const REQ_MTU: usize = 74;
    pub const REQ_RETRIES: usize = 75;
    pub const REQ_LIDS: usize = 76;
    pub const REQ_OWN_GID: usize = 80;
    pub const REQ_THEIR_GID: usize = 96;
    pub const REQ_HOPS: usize = 117;
    pub const REQ_ACK_TIME: usize = 119;
    pub const REQ_DATA: usize = 164;

    pub const MRA_WHICH: usize = 32;
    pub const MRA_TIME: usize = 33;

    pub const REJ_WHICH: usize = 32;
    pub const REJ_REASON: usize = 34;

    pub const REP_PAIR: usize = 36;
    pub const REP_PSN: usize = 44;
    pub const REP_ANSWERED: usize = 48;
    pub const REP_ASKED: usize = 49;
    pub const REP_RETRIES: usize = 51;
    pub const REP_GUID: usize = 52;
    pub const REP_DATA: usize = 60;

    pub const DREQ_PAIR: usize = 32;
}

/// Offsets in a frame of the identifiers of a message's sender and receiver \[byte\].
pub const FRAME_SENDER_ID: usize = BTH_BYTES + DETH_BYTES + at::OWN_ID;
/// See [`FRAME_SENDER_ID`].
pub const FRAME_RECEIVER_ID: usize = BTH_BYTES + DETH_BYTES + at::THEIR_ID;

/// The kinds of messages. Source: table 105.
mod kind {
    pub const REQ: u16 = 0x10;
    pub const MRA: u16 = 0x11;
    pub const REJ: u16 = 0x12;
    pub const REP: u16 = 0x13;
    pub const RTU: u16 = 0x14;
    pub const DREQ: u16 = 0x15;
    pub const DREP: u16 = 0x16;
}

/// The reason of a rejection (REJ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectReason(pub u16);

impl RejectReason {
    /// The node has the most connections that it can have.
    pub const NO_RESOURCES: RejectReason = RejectReason(3);
    /// The other end did not answer in time.
    pub const TIMEOUT: RejectReason = RejectReason(4);
    /// Nobody listens at the port.
    pub const NO_SERVICE: RejectReason = RejectReason(8);
    /// The transport is not supported.
    pub const TRANSPORT: RejectReason = RejectReason(9);
    /// The GID is not the address that the request came from.
    pub const GID: RejectReason = RejectReason(12);
    /// The path MTU is not supported.
    pub const PATH_MTU: RejectReason = RejectReason(26);
    /// The program refused.
    pub const PROGRAM: RejectReason = RejectReason(28);
}

/// The identifiers of a connection: of the sender of a message, and of its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The sender's.
    pub own: u32,
    /// The receiver's; 0 while it is not known.
    pub theirs: u32,
}

/// A queue pair as its end describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its number.
    pub pair: QueuePair,
    /// The PSN of the first frame that it expects: the other end begins with it.
    pub first: Psn,
    /// Reads and atomics that it answers at a time.
    pub answered: u8,
    /// Reads and atomics that it asks for at a time.
    pub asked: u8,
}

/// A request for a connection (REQ).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Req {
    /// The port that it is for.
    pub port: u16,
    /// The sender's queue pair.
    pub queue: Queue,
    /// The transport; `None`: neither RC nor UC.
    pub reliability: Option<Reliability>,
    /// The code of the path MTU: 1 is 256 bytes, 5 is 4096.
    pub mtu_code: u8,
    /// The addresses of the sender and of the receiver.
    pub from: Ipv6Addr,
    /// The address of the receiver.
    pub to: Ipv6Addr,
    /// The program's data.
    pub private_data: Vec<u8>,
}

/// The acceptance of a connection (REP).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rep {
    /// The sender's queue pair.
    pub queue: Queue,
    /// The program's data.
    pub private_data: Vec<u8>,
}

/// A message of connection management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Asks for a connection.
    Req(Req),
    /// Asks for patience: 4.096 us times a power of two.
    Mra {
        /// The power of two.
        time_code: u8,
    },
    /// Refuses a connection.
    Rej(RejectReason),
    /// Accepts a connection.
    Rep(Rep),
    /// Confirms the acceptance.
    Rtu,
    /// Ends the connection; it names the receiver's queue pair.
    Dreq(QueuePair),
    /// Confirms the end.
    Drep,
}

/// A management datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mad {
    /// A number of the sender; an answer repeats it.
    pub transaction: u64,
    /// The connection.
    pub ids: Ids,
    /// The message.
    pub message: Message,
}

impl Mad {
    /// Reads a datagram; `None`: it is not of connection management, or malformed.
    #[must_use]
    pub fn parse(bytes: &[u8; MAD_BYTES]) -> Option<Mad> {
        if !bytes.starts_with(&HEADER) {
            return None;
        }
        let ids = Ids { own: u32_at(bytes, at::OWN_ID), theirs: u32_at(bytes, at::THEIR_ID) };
        let message = match u16_at(bytes, at::ATTRIBUTE) {
            kind::REQ => Message::Req(parse_req(bytes)?),
            kind::MRA => Message::Mra { time_code: bytes[at::MRA_TIME] >> 3 },
            kind::REJ => Message::Rej(RejectReason(u16_at(bytes, at::REJ_REASON))),
            kind::REP => Message::Rep(parse_rep(bytes)),
            kind::RTU => Message::Rtu,
            kind::DREQ => Message::Dreq(QueuePair::new(u24_at(bytes, at::DREQ_PAIR))),
            kind::DREP => Message::Drep,
            _ => return None,
        };
        Some(Mad { transaction: u64_at(bytes, at::TRANSACTION), ids, message })
    }

    /// Returns the bytes. Private data that does not fit is cut off.
    #[must_use]
    pub fn emit(&self) -> [u8; MAD_BYTES] {
        let mut bytes = [0; MAD_BYTES];
        put(&mut bytes, 0, &HEADER);
        put(&mut bytes, at::TRANSACTION, &self.transaction.to_be_bytes());
        put(&mut bytes, at::OWN_ID, &self.ids.own.to_be_bytes());
        put(&mut bytes, at::THEIR_ID, &self.ids.theirs.to_be_bytes());
        let kind = match &self.message {
            Message::Req(req) => {
                // The field of the receiver's identifier is reserved in a request.
                put(&mut bytes, at::THEIR_ID, &[0; 4]);
                emit_req(req, &mut bytes);
                kind::REQ
            }
            Message::Mra { time_code } => {
                bytes[at::MRA_WHICH] = 0; // a request
                bytes[at::MRA_TIME] = time_code << 3;
                kind::MRA
            }
            Message::Rej(RejectReason(reason)) => {
                bytes[at::REJ_WHICH] = 0; // a request
                put(&mut bytes, at::REJ_REASON, &reason.to_be_bytes());
                kind::REJ
            }
            Message::Rep(rep) => {
                emit_rep(rep, &mut bytes);
                kind::REP
            }
            Message::Rtu => kind::RTU,
            Message::Dreq(pair) => {
                put(&mut bytes, at::DREQ_PAIR, &u24(pair.get()));
                kind::DREQ
            }
            Message::Drep => kind::DREP,
        };
        put(&mut bytes, at::ATTRIBUTE, &kind.to_be_bytes());
        bytes
    }
}

fn parse_req(bytes: &[u8; MAD_BYTES]) -> Option<Req> {
    let service = u64_at(bytes, at::REQ_SERVICE);
    // Other services than TCP ports have no listener: port 0.
    let port = if service >> 16 == TCP_SERVICE >> 16 { service as u16 } else { 0 };
    let gid = |at: usize| Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?));
    let data = bytes.get(at::REQ_DATA + IP_HEADER_BYTES..)?;
    Some(Req {
        port,
        queue: Queue {
            pair: QueuePair::new(u24_at(bytes, at::REQ_PAIR)),
            first: Psn::new(u24_at(bytes, at::REQ_PSN)),
            answered: bytes[at::REQ_ANSWERED],
            asked: bytes[at::REQ_ASKED],
        },
        reliability: match bytes[at::REQ_TRANSPORT] >> 1 & 3 {
            0 => Some(Reliability::Reliable),
            1 => Some(Reliability::Unreliable),
            _ => None,
        },
        mtu_code: bytes[at::REQ_MTU] >> 4,
        from: gid(at::REQ_OWN_GID)?,
        to: gid(at::REQ_THEIR_GID)?,
        private_data: data.to_vec(),
    })
}

fn emit_req(req: &Req, bytes: &mut [u8; MAD_BYTES]) {
    let Req { port, queue, from, to, .. } = req;
    put(bytes, at::REQ_SERVICE, &(TCP_SERVICE | u64::from(*port)).to_be_bytes());
    put(bytes, at::REQ_GUID, &guid_of(*from));
    put(bytes, at::REQ_PAIR, &u24(queue.pair.get()));
    bytes[at::REQ_ANSWERED] = queue.answered;
    bytes[at::REQ_ASKED] = queue.asked;
    let transport = u8::from(req.reliability == Some(Reliability::Unreliable));
    // The other end answers within 4.096 us times 2^18, about 1 s; 15 repetitions.
    bytes[at::REQ_TRANSPORT] = 18 << 3 | transport << 1;
    put(bytes, at::REQ_PSN, &u24(queue.first.get()));
    bytes[at::REQ_TIMES] = 18 << 3 | 7;
    put(bytes, at::REQ_PARTITION, &PARTITION_DEFAULT.to_be_bytes());
    bytes[at::REQ_MTU] = req.mtu_code << 4 | 7;
    bytes[at::REQ_RETRIES] = 15 << 4;
    put(bytes, at::REQ_LIDS, &[0xFF; 4]); // Ethernet has no LIDs
    put(bytes, at::REQ_OWN_GID, &from.octets());
    put(bytes, at::REQ_THEIR_GID, &to.octets());
    bytes[at::REQ_HOPS] = 64;
    bytes[at::REQ_ACK_TIME] = 18 << 3;
    let version = if from.to_ipv4_mapped().is_some() { 4 } else { 6 };
    bytes[at::REQ_DATA + 1] = version << 4;
    put(bytes, at::REQ_DATA + 4, &ip_of(*from));
    put(bytes, at::REQ_DATA + 20, &ip_of(*to));
    let data = &req.private_data[..req.private_data.len().min(REQUEST_DATA_MAX)];
    put(bytes, at::REQ_DATA + IP_HEADER_BYTES, data);
}

fn parse_rep(bytes: &[u8; MAD_BYTES]) -> Rep {
    Rep {
        queue: Queue {
            pair: QueuePair::new(u24_at(bytes, at::REP_PAIR)),
            first: Psn::new(u24_at(bytes, at::REP_PSN)),
            answered: bytes[at::REP_ANSWERED],
            asked: bytes[at::REP_ASKED],
        },
        private_data: bytes[at::REP_DATA..].to_vec(),
    }
}

fn emit_rep(rep: &Rep, bytes: &mut [u8; MAD_BYTES]) {
    let Rep { queue, private_data } = rep;
    put(bytes, at::REP_PAIR, &u24(queue.pair.get()));
    put(bytes, at::REP_PSN, &u24(queue.first.get()));
    bytes[at::REP_ANSWERED] = queue.answered;
    bytes[at::REP_ASKED] = queue.asked;
    bytes[at::REP_RETRIES] = 7 << 5;
    put(bytes, at::REP_GUID, &u64::from(queue.pair.get()).to_be_bytes());
    put(bytes, at::REP_DATA, &private_data[..private_data.len().min(REPLY_DATA_MAX)]);
}

/// Returns a number for the device, made from its address.
fn guid_of(address: Ipv6Addr) -> [u8; 8] {
    let [.., a, b, c, d, e, f, g, h] = address.octets();
    [a, b, c, d, e, f, g, h]
}

/// Returns an address as the header of IP addresses has it: IPv4 in the last four bytes.
fn ip_of(address: Ipv6Addr) -> [u8; 16] {
    let mut bytes = address.octets();
    if address.to_ipv4_mapped().is_some() {
        bytes[..12].fill(0);
    }
    bytes
}

/// Returns an address as a GID.
#[must_use]
pub fn gid_of(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Returns the datagram of a frame without its ICRC; `None`: it is not a datagram to
/// queue pair 1.
#[must_use]
pub fn of_frame(frame: &[u8]) -> Option<&[u8; MAD_BYTES]> {
    let (head, mad) = frame.split_at_checked(BTH_BYTES + DETH_BYTES)?;
    let deth = head.get(BTH_BYTES..)?;
    let is_datagram = head.first() == Some(&UD_SEND_ONLY)
        && deth.get(..4)? == QUEUE_KEY.to_be_bytes()
        && deth.get(5..8)? == u24(GENERAL_SERVICE);
    mad.try_into().ok().filter(|_| is_datagram)
}

/// Writes the frame of a datagram, without its ICRC.
pub fn emit_frame(mad: &[u8; MAD_BYTES], psn: Psn, frame: &mut [u8]) {
    frame.fill(0);
    let into = frame.first_chunk_mut::<FRAME_BYTES>().expect("the caller made room for a frame");
    into[0] = UD_SEND_ONLY;
    into[2..4].copy_from_slice(&PARTITION_DEFAULT.to_be_bytes());
    into[5..8].copy_from_slice(&u24(GENERAL_SERVICE));
    into[9..12].copy_from_slice(&u24(psn.get()));
    into[12..16].copy_from_slice(&QUEUE_KEY.to_be_bytes());
    into[17..20].copy_from_slice(&u24(GENERAL_SERVICE));
    into[20..].copy_from_slice(mad);
}

fn u24(value: u32) -> [u8; 3] {
    let [_, high, middle, low] = value.to_be_bytes();
    [high, middle, low]
}

/// Writes bytes at an offset of the table above, which are inside.
fn put(bytes: &mut [u8; MAD_BYTES], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn take<const N: usize>(bytes: &[u8; MAD_BYTES], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the offset is one of the table above")
}

fn u16_at(bytes: &[u8; MAD_BYTES], at: usize) -> u16 {
    u16::from_be_bytes(take(bytes, at))
}

fn u24_at(bytes: &[u8; MAD_BYTES], at: usize) -> u32 {
    let [high, middle, low] = take(bytes, at);
    u32::from_be_bytes([0, high, middle, low])
}

fn u32_at(bytes: &[u8; MAD_BYTES], at: usize) -> u32 {
    u32::from_be_bytes(take(bytes, at))
}

fn u64_at(bytes: &[u8; MAD_BYTES], at: usize) -> u64 {
    u64::from_be_bytes(take(bytes, at))
}
