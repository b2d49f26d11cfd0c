//! Packets, worms, inputs and outputs of the crossbars. Times are numbers of clocks.

use std::collections::VecDeque;

use super::config::WINDOW_MAX;
use super::routes::Path;
use super::wiring::NONE;

/// A clock that never comes.
pub const NEVER: u64 = u64::MAX;
/// The holder of an output that no message holds.
pub const FREE: u8 = u8::MAX;

/// A link packet, wherever it is.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Its message.
    pub worm: u32,
    /// The first byte of the message that it carries.
    pub first: u32,
    /// The next packet in the same buffer.
    pub next: u32,
    /// Its payload \[bytes\].
    pub bytes: u16,
    /// True for the first packet of a message, which has the route.
    pub is_head: bool,
    /// True for the last packet of a message.
    pub is_tail: bool,
}

/// A message in the network.
#[derive(Clone, Copy, Debug)]
pub struct Worm {
    pub send: u64,
    pub source: u32,
    pub target: u32,
    /// The host ports of sender and receiver.
    pub port: u8,
    pub target_port: u8,
    /// Bytes with header; those that the network port has cut into packets; those that arrived.
    pub bytes: u32,
    pub taken: u32,
    pub landed: u32,
    /// Packets in the network.
    pub packets: u32,
    pub path: Path,
    /// Crossbars that its head has passed.
    pub hop: u8,
    /// True if it belongs to the network's management.
    pub is_control: bool,
    /// True if a fault has removed it.
    pub is_dead: bool,
    /// True if a bit of it is wrong, and its target drops it.
    pub is_damaged: bool,
}

/// A change of the sender's permission on its way.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    pub tick: u64,
    pub word: Word,
}

/// The content of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Stop,
    Go,
    /// The place of this number of bytes is free.
    Credit(u32),
}

/// An input of a crossbar with its buffer.
#[derive(Clone, Debug)]
pub struct Input {
    /// First and last packet.
    pub head: u32,
    pub tail: u32,
    /// Bytes of payload in it, those of the leaving packet included.
    pub fill: u32,
    /// The packet that leaves: when its tail has left, and its bytes if they still count.
    pub leaving_until: u64,
    pub leaving_bytes: u16,
    /// The output that its message holds.
    pub out: u8,
    /// The message that holds it; [`NONE`]: none does.
    pub worm: u32,
    /// The output at the other end of the cable; [`NONE`]: a network port, or no cable.
    pub feeder: u32,
    /// True if the last signal was a stop.
    pub is_stopping: bool,
    /// True as long as the sender obeys a stop.
    pub is_stopped: bool,
    /// True if the sender waits for a go.
    pub is_awaited: bool,
    /// True if its link has credits.
    pub has_credits: bool,
    /// Bytes that the sender has sent, as far as their credits have not come back to it.
    pub owed: u32,
    pub signals: VecDeque<Signal>,
    /// Packets that are on their way to this input.
    pub coming: u32,
}

impl Input {
    pub fn new(feeder: u32, has_credits: bool) -> Input {
        Input {
            has_credits,
            owed: 0,
            head: NONE,
            tail: NONE,
            fill: 0,
            leaving_until: 0,
            leaving_bytes: 0,
            out: FREE,
            worm: NONE,
            feeder,
            is_stopping: false,
            is_stopped: false,
            is_awaited: false,
            signals: VecDeque::new(),
            coming: 0,
        }
    }
}

/// Packets that a link repeats.
#[derive(Clone, Debug, Default)]
pub struct Repair {
    /// Sent since the damaged one, which is the first: the receiver rejects them.
    pub lost: VecDeque<u32>,
    /// To be sent again.
    pub ready: VecDeque<u32>,
}

/// An output of a crossbar with its link.
#[derive(Clone, Debug)]
pub struct Output {
    /// The end of the last packet.
    pub free_at: u64,
    /// The next clock at which it chooses; [`NEVER`]: none.
    pub wake_at: u64,
    /// A bit for each input whose first packet asks for it.
    pub waiting: u32,
    /// The input that holds it for a message.
    pub holder: u8,
    /// The input that is checked first.
    pub turn: u8,
    /// True if nothing can be sent: no cable, a cut cable, or a dead node.
    pub is_dead: bool,
    /// The next of `acks`.
    pub ack: u8,
    /// The input at its other end; [`NONE`]: a network port, or no cable.
    pub to: u32,
    /// The clock from which each place of the retransmission buffer is free.
    pub acks: [u64; WINDOW_MAX],
    pub repair: Option<Box<Repair>>,
    /// Clocks for which it was busy.
    pub busy: u64,
}

impl Output {
    pub fn new(to: u32, is_dead: bool) -> Output {
        Output {
            free_at: 0,
            wake_at: NEVER,
            waiting: 0,
            holder: FREE,
            turn: 0,
            is_dead,
            ack: 0,
            to,
            acks: [0; WINDOW_MAX],
            repair: None,
            busy: 0,
        }
    }

    /// Returns true if packets wait to be sent again.
    pub fn repeats(&self) -> bool {
        self.repair.as_ref().is_some_and(|repair| !repair.ready.is_empty())
    }
}

/// A network port: the messages of one host port.
#[derive(Clone, Debug, Default)]
pub struct NetworkPort {
    /// Messages, the first of which is being cut into packets.
    pub worms: VecDeque<u32>,
    /// True if a packet of it is at the crossbar's input, or on the way there.
    pub is_supplied: bool,
    /// True if a message was rejected because the queue was full.
    pub has_refused: bool,
}

/// A packet that reaches an input.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    pub packet: u32,
    pub input: u32,
}

/// The work of one clock.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub is_planned: bool,
    pub arrivals: Vec<Coming>,
    /// Outputs that learn of a damaged packet.
    pub nacks: Vec<u32>,
    /// Outputs that choose.
    pub choices: Vec<u32>,
    /// Messages whose last symbol arrives.
    pub deliveries: Vec<u32>,
}
