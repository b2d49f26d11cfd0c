//! Packets of the counter format, made by hand.

/// One packet of a board.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The time of its capture \[ns\].
    pub time: u64,
    /// The board that sent it.
    pub board: u16,
    /// Its packet counter.
    pub number: u32,
    /// Its event.
    pub event: u64,
}

impl Packet {
    /// Its UDP payload, with 8 bytes of samples.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = 0x4358_4C46_u32.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(self.board.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend([0, 0, 1, 0]); // fragment 0 of 1
        bytes.extend(self.event.to_le_bytes());
        bytes.extend(self.time.to_le_bytes());
        bytes.extend([self.board as u8; 8]);
        bytes
    }
}
