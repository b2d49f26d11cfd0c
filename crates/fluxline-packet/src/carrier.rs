//! The carrier of a Wireshark dissector: a UDP port, or a link type of private use.

use alloc::format;
use alloc::string::String;

/// The carrier of a description's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// UDP datagrams to this port.
    UdpPort(u16),
    /// Nothing: they are frames of link type LINKTYPE_USER0 and this number, at most 15.
    UserLink(u8),
}

/// Link type LINKTYPE_USER0; there are 16. Source: tcpdump.org, "Link-Layer Header Types".
pub const LINK_TYPE_USER0: u16 = 147;

impl Carrier {
    /// The frames of a link type, by tcpdump.org's numbers; `None`: it is not for private use.
    #[must_use]
    pub fn link_type(number: u16) -> Option<Carrier> {
        let user = number.checked_sub(LINK_TYPE_USER0).filter(|&user| user < 16)?;
        Some(Carrier::UserLink(user as u8))
    }

    /// The line of Lua that registers `proto`. Link types have numbers of Wireshark's own there.
    pub(super) fn register(self) -> String {
        match self {
            Carrier::UdpPort(port) => {
                format!("DissectorTable.get(\"udp.port\"):add({port}, proto)")
            }
            Carrier::UserLink(user) => {
                format!("DissectorTable.get(\"wtap_encap\"):add(wtap.USER{user}, proto)")
            }
        }
    }
}
