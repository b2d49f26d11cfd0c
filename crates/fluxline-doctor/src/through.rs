//! The path of a link on this host: memory, loopback, or an interface; and everything that
//! the kernel and the driver say of that interface.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};

use super::card::{Card, InUse};
use super::check::Check;
use super::facts::HostFacts;
use super::files::Files;
use super::interrupts::{Interrupt, Interrupts};
use super::rule::Needs;
use fluxline::host::ethtool;
use fluxline::udp::interface_of;

/// The hardware under a link on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Through {
    /// Anything: what concerns some link concerns this one.
    Anything,
    /// Memory that processes share.
    Memory,
    /// The kernel's network stack, within this host.
    Loopback,
    /// The interface of that name.
    Interface(String),
}

impl Through {
    /// Finds the path to `peer` by the kernel's routes; `None`: no route. Nothing is sent.
    #[must_use]
    pub fn toward(peer: IpAddr) -> Option<Through> {
        /// Any port: none is asked. Source: RFC 863, discard.
        const PORT: u16 = 9;
        let any = if peer.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((peer, PORT)).ok()?;
        let own = socket.local_addr().ok()?.ip();
        // To an own address the kernel sends from it, and over loopback.
        if own == peer || own.is_loopback() {
            return Some(Through::Loopback);
        }
        interface_of(own).map(Through::Interface)
    }

    /// The interface, where there is one.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Through::Loopback => Some("lo"),
            Through::Interface(name) => Some(name),
            Through::Anything | Through::Memory => None,
        }
    }

    /// Leaves out the facts that are about other interfaces.
    pub(super) fn narrow(&self, facts: &mut HostFacts) {
        if *self == Through::Anything {
            return;
        }
        let is_it = |name: &String| self.interface() == Some(name);
        facts.cards.retain(|name, _| is_it(name));
        facts.losses.kernel.interfaces.retain(|name, _| is_it(name));
    }

    /// Returns true if a check is about something that it goes through.
    pub(super) fn concerns(&self, check: &Check) -> bool {
        match (self, check.rule.needs) {
            (Through::Anything, _) | (_, Needs::Nothing) => true,
            (Through::Memory, needs) => needs == Needs::Shared,
            (Through::Loopback, needs) => needs == Needs::Sockets,
            (Through::Interface(_), needs) => matches!(needs, Needs::Sockets | Needs::Cards),
        }
    }
}

/// An interface with all that a record of a measurement keeps of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The card's settings that the doctor judges.
    pub card: Card,
    /// The driver.
    pub driver: Driver,
    /// Descriptors to send, in use and possible.
    pub transmit_ring: Option<InUse>,
    /// The time that it gathers, both ways.
    pub coalescing: Option<Coalescing>,
    /// Offloads that are on, by the kernel's names for them.
    pub offloads: Vec<String>,
    /// Its interrupts that ever came, by number.
    pub interrupts: BTreeMap<u64, Interrupt>,
}

/// The driver of an interface; empty: unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// `ice`, `virtio_net`, `veth`.
    pub name: String,
    /// Of the driver; of those in the kernel's tree the kernel's.
    pub version: String,
    /// Of the card.
    pub firmware: String,
    /// The bus and the address on it.
    pub bus: String,
}

/// The time that an interface gathers before it interrupts; zero: not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// The wait for received packets \[us\].
    pub receive_us: u32,
    /// The number of received packets \[frame\].
    pub receive_frames: u32,
    /// The wait for sent packets \[us\].
    pub transmit_us: u32,
    /// The number of sent packets \[frame\].
    pub transmit_frames: u32,
    /// It adapts the receiving times itself.
    pub adaptive: bool,
}

impl Passage {
    /// Reads this host's interface of that name; what nobody says is absent.
    ///
    /// Cost: some dozens of small files, some ten ioctls. Nothing is changed.
    #[must_use]
    pub fn read(name: &str) -> Passage {
        let files = Files::this_host();
        let mut card = Card::read(&files, name);
        card.ask_driver(name);
        let interrupts = lines_of(&files, name, &card);
        let driver = ethtool::driver(name).ok();
        let driver = driver.map(|of| Driver {
            name: known(of.name),
            version: known(of.version),
            firmware: known(of.firmware),
            bus: known(of.bus),
        });
        let coalescing = ethtool::coalescing(name).ok().map(|of| Coalescing {
            receive_us: of.us,
            receive_frames: of.frames,
            transmit_us: of.transmit_us,
            transmit_frames: of.transmit_frames,
            adaptive: of.adaptive,
        });
        let ring = ethtool::transmit_ring(name).ok().filter(|ring| ring.max > 0);
        Passage {
            driver: driver.unwrap_or_default(),
            transmit_ring: ring.map(|ring| InUse { now: ring.now, max: ring.max }),
            coalescing,
            offloads: ethtool::features(name).unwrap_or_default(),
            interrupts,
            card,
        }
    }
}

/// Returns all interrupts so far of this host's interface of that name, by number; empty if it is
/// not a card, such as loopback. Cost: some dozens of small files.
#[must_use]
pub fn interrupts_of(name: &str) -> BTreeMap<u64, Interrupt> {
    let files = Files::this_host();
    lines_of(&files, name, &Card::read(&files, name))
}

fn lines_of(files: &Files, name: &str, card: &Card) -> BTreeMap<u64, Interrupt> {
    let all = Interrupts::read_lines(files);
    let of_card = all.of(name, card).map(|(number, line)| (number, line.clone()));
    of_card.collect()
}

/// Returns a text of a driver, empty if it is unknown.
///
/// Source: Linux net/ethtool/ioctl.c and drivers.
fn known(text: String) -> String {
    if text == "N/A" { String::new() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_reached_through_loopback_and_no_interface_has_two_names() {
        for own in ["127.0.0.1", "127.9.9.9"] {
            assert_eq!(Through::toward(own.parse().unwrap()), Some(Through::Loopback), "{own}");
        }
        assert_eq!(Through::Loopback.interface(), Some("lo"));
        assert_eq!(Through::Memory.interface(), None);
    }

    #[test]
    fn loopback_is_read_although_the_doctor_does_not_judge_it() {
        let passage = Passage::read("lo");
        assert!(passage.card.mtu > 0, "{passage:?}");
        assert!(!passage.offloads.is_empty(), "{passage:?}");
        assert_eq!(passage.interrupts, BTreeMap::new(), "loopback has no card");
    }

    #[test]
    fn an_interface_that_is_not_there_is_nothing_and_no_panic() {
        for name in ["flx-none", "", "..", "a-name-longer-than-interfaces-have"] {
            let passage = Passage::read(name);
            assert_eq!((passage.offloads.len(), passage.interrupts.len()), (0, 0), "{name}");
            assert_eq!(passage.driver, Driver::default(), "{name}");
        }
    }
}
