//! The 48 bits of address of one node: regions, mailboxes, credits, and who may touch what.
//!
//! SCI knows addresses and sources, no keys and no rights. This model adds, at the owner's adapter,
//! a table of which source may do what to which region; connecting drivers fill it (`message.rs`):
//! an import with the right key adds a row, the end of its connection removes it. Every request is
//! held against it: `Status::Address` answers what is nowhere, `Status::Type` what is not allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxline_core::fabric::memory::Words;
use fluxline_core::fabric::{AccessError, Grant, Name, RegionId, Rights, Slice};

use super::address::{
    AddressRange, CREDIT_AT, MAIL_AT, PAGE_BYTES, REGIONS_AT, REGIONS_END, REGISTERS_AT,
};
use super::interrupt::Lines;
use super::message::{MAILBOX_BYTES, Mailbox};
use super::responder::Space;
use crate::net::sci::packet::Lock;
use crate::net::sci::{NodeId, Status};

/// An own region.
#[derive(Debug)]
pub struct Region {
    /// The first address.
    pub base: u64,
    /// Its memory.
    pub words: Arc<Words>,
    /// Under which name and on which terms.
    pub exported: Option<(Name, Grant)>,
    /// True if it was ended.
    pub withdrawn: bool,
}

/// All that other nodes can reach of one node.
#[derive(Debug, Default)]
pub struct NodeSpace {
    regions: Vec<Region>,
    bases: BTreeMap<u64, usize>,
    /// The number of times that a source imported a region, over standing connections.
    imports: BTreeMap<(NodeId, u32), u32>,
    /// Receive buffers, and who may write them.
    buffers: Vec<(NodeId, AddressRange)>,
    mail: BTreeMap<NodeId, Mailbox>,
    credits: BTreeMap<NodeId, u32>,
    /// Sources whose mailbox or credit was written since it was looked at.
    rung: BTreeSet<NodeId>,
    /// Sources that are not answered any more.
    deaf: BTreeSet<NodeId>,
    /// Writes and locks of other nodes in regions so far.
    changes: u64,
    /// The interrupts that others can raise.
    pub interrupts: Lines,
}

impl NodeSpace {
    /// Adds a region. Returns `None` if memory or addresses do not suffice.
    pub fn register(&mut self, bytes: u64) -> Option<RegionId> {
        let base = self.regions.last().map_or(REGIONS_AT, |last| {
            (last.base + last.words.bytes()).next_multiple_of(PAGE_BYTES)
        });
        if bytes > REGIONS_END - base {
            return None;
        }
        let words = Arc::new(Words::zeroed(bytes)?);
        let number = self.regions.len();
        self.bases.insert(base, number);
        self.regions.push(Region { base, words, exported: None, withdrawn: false });
        Some(RegionId(number as u32))
    }

    /// Regions so far, withdrawn ones too.
    #[must_use]
    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    /// An own region that stands.
    pub fn region(&self, region: RegionId) -> Result<&Region, AccessError> {
        let found = self.regions.get(region.0 as usize).filter(|region| !region.withdrawn);
        found.ok_or(AccessError::UnknownRegion)
    }

    /// The same, to be changed.
    pub fn region_mut(&mut self, region: RegionId) -> Result<&mut Region, AccessError> {
        let found = self.regions.get_mut(region.0 as usize).filter(|region| !region.withdrawn);
        found.ok_or(AccessError::UnknownRegion)
    }

    /// The region of that name.
    #[must_use]
    pub fn exported(&self, name: &str) -> Option<RegionId> {
        let named =
            |region: &Region| region.exported.as_ref().is_some_and(|(of, _)| of.as_str() == name);
        self.regions.iter().position(named).map(|number| RegionId(number as u32))
    }

    /// Returns the address range of a slice of an own region. Errors: it is not inside.
    pub fn place(&self, slice: Slice) -> Result<AddressRange, AccessError> {
        let region = self.region(slice.region)?;
        region.words.check(slice.offset, slice.bytes)?;
        Ok(AddressRange { offset: region.base + slice.offset, bytes: slice.bytes })
    }

    /// Finds the own region of an address, and the offset in it.
    #[must_use]
    pub fn find(&self, offset: u64) -> Option<(RegionId, u64)> {
        let (&base, &number) = self.bases.range(..=offset).next_back()?;
        let region = &self.regions[number];
        let inside = offset - base <= region.words.bytes() && !region.withdrawn;
        inside.then_some((RegionId(number as u32), offset - base))
    }

    /// Lets a source at a region, on the region's own terms; once for each import.
    pub fn grant(&mut self, source: NodeId, region: RegionId) {
        *self.imports.entry((source, region.0)).or_default() += 1;
    }

    /// Takes one import back.
    pub fn revoke(&mut self, source: NodeId, region: RegionId) {
        if let Some(count) = self.imports.get_mut(&(source, region.0)) {
            *count -= 1;
            if *count == 0 {
                self.imports.remove(&(source, region.0));
            }
        }
    }

    /// Lets a source write a receive buffer.
    pub fn open_buffer(&mut self, source: NodeId, place: AddressRange) {
        self.buffers.push((source, place));
    }

    /// Takes that back.
    pub fn close_buffer(&mut self, source: NodeId, place: AddressRange) {
        if let Some(found) = self.buffers.iter().position(|of| *of == (source, place)) {
            self.buffers.remove(found);
        }
    }

    /// Stops answering a source that was given up, so that the source notices it, too.
    pub fn give_up(&mut self, source: NodeId) {
        self.deaf.insert(source);
    }

    /// Returns the number of writes and locks of other nodes in regions so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns true if a source is answered.
    #[must_use]
    pub fn hears(&self, source: NodeId) -> bool {
        !self.deaf.contains(&source)
    }

    /// The next source that has written a message or a credit.
    pub fn next_rung(&mut self) -> Option<NodeId> {
        self.rung.pop_first()
    }

    /// The mailbox of a source.
    pub fn mailbox(&mut self, source: NodeId) -> &mut Mailbox {
        self.mail.entry(source).or_default()
    }

    /// Returns the number of messages a peer has read, as it wrote here.
    #[must_use]
    pub fn credit(&self, source: NodeId) -> u32 {
        self.credits.get(&source).copied().unwrap_or(0)
    }

    /// The region at an address, if the source may do this to it.
    fn reach(
        &self,
        source: NodeId,
        offset: u64,
        bytes: u64,
        right: impl Fn(Rights) -> bool,
    ) -> Result<(&Words, u64), Status> {
        let (number, at) = self.find(offset).ok_or(Status::Address)?;
        let region = &self.regions[number.0 as usize];
        region.words.check(at, bytes).map_err(|_| Status::Address)?;
        let imported = self.imports.contains_key(&(source, number.0));
        let rights = region.exported.as_ref().map(|of| of.1.rights).filter(|_| imported);
        if rights.is_some_and(right) { Ok((&region.words, at)) } else { Err(Status::Type) }
    }

    /// A receive buffer that the source may write and that holds the bytes.
    fn buffer(&self, source: NodeId, offset: u64, bytes: u64) -> Option<(&Words, u64)> {
        let holds = |of: &&(NodeId, AddressRange)| {
            let (whose, place) = **of;
            let inside = offset >= place.offset && offset - place.offset <= place.bytes;
            whose == source && inside && bytes <= place.bytes - (offset - place.offset)
        };
        self.buffers.iter().find(holds)?;
        let (number, at) = self.find(offset)?;
        Some((&self.regions[number.0 as usize].words, at))
    }

    fn write_control(&mut self, source: NodeId, offset: u64, data: &[u8]) -> Result<(), Status> {
        let mail = MAIL_AT + u64::from(source.0) * MAILBOX_BYTES as u64;
        let credit = CREDIT_AT + u64::from(source.0) * 8;
        if (mail..mail + MAILBOX_BYTES as u64).contains(&offset) {
            let at = (offset - mail) as usize;
            self.mailbox(source).write(at, data).map_err(|_| Status::Address)?;
        } else if offset == credit {
            let word = data.try_into().map_err(|_| Status::Address)?;
            let (read, known) = (u32::from_le_bytes(word), self.credits.entry(source).or_default());
            // Credits only grow: an earlier one that comes late says nothing new.
            if read.wrapping_sub(*known) <= u32::MAX / 2 {
                *known = read;
            }
        } else {
            return Err(Status::Address);
        }
        self.rung.insert(source);
        Ok(())
    }
}

impl Space for NodeSpace {
    fn write(&mut self, source: NodeId, offset: u64, data: &[u8]) -> Result<(), Status> {
        if Lines::holds(offset) {
            return self.interrupts.write(offset);
        }
        if offset >= REGIONS_END {
            return self.write_control(source, offset, data);
        }
        let bytes = data.len() as u64;
        let reached = self.reach(source, offset, bytes, |rights| rights.put);
        let reached = reached.or_else(|status| self.buffer(source, offset, bytes).ok_or(status));
        let (words, at) = reached?;
        words.write(at, data).map_err(|_| Status::Address)?;
        self.changes += 1;
        Ok(())
    }

    fn read(&mut self, source: NodeId, offset: u64, into: &mut [u8]) -> Result<usize, Status> {
        if offset >= REGISTERS_AT {
            return Ok(into.len()); // an answer proves that the peer is alive
        }
        let (words, at) = self.reach(source, offset, 1, |rights| rights.get)?;
        let count = (into.len() as u64).min(words.bytes() - at) as usize;
        words.read(at, &mut into[..count]).map_err(|_| Status::Address)?;
        Ok(count)
    }

    fn lock(
        &mut self,
        source: NodeId,
        offset: u64,
        kind: Lock,
        arguments: [u64; 2],
    ) -> Result<u64, Status> {
        if Lines::holds(offset) {
            return self.interrupts.lock(offset, kind, arguments[0]);
        }
        let (words, at) = self.reach(source, offset, 8, |rights| rights.atomic)?;
        let [first, second] = arguments;
        let before = match kind {
            Lock::FetchAdd => words.fetch_add(at, first),
            Lock::CompareSwap => words.compare_swap(at, first, second),
            Lock::MaskSwap | Lock::BoundedAdd | Lock::WrapAdd => return Err(Status::Type),
        };
        let before = before.map_err(|_| Status::Address)?;
        self.changes += 1;
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::fabric::{Grant, Key, Name, RegionId, Rights, Slice};

    use super::{AddressRange, CREDIT_AT, MAIL_AT, NodeSpace, Space};
    use crate::net::sci::packet::Lock;
    use crate::net::sci::{NodeId, Status};

    const PEER: NodeId = NodeId(1);
    const OTHER: NodeId = NodeId(2);

    /// A region of 100 byte with these rights, imported by `PEER`, and where it lies.
    fn exported(rights: Rights) -> (NodeSpace, RegionId, u64) {
        let mut space = NodeSpace::default();
        let region = space.register(100).expect("memory");
        let grant = Grant { rights, key: Key(1) };
        let name = Name::parse("samples").expect("a name");
        space.region_mut(region).expect("own").exported = Some((name, grant));
        space.grant(PEER, region);
        let base = space.region(region).expect("own").base;
        (space, region, base)
    }

    fn add(space: &mut NodeSpace, source: NodeId, offset: u64) -> Result<u64, Status> {
        space.lock(source, offset, Lock::FetchAdd, [1, 0])
    }

    #[test]
    fn the_owner_asks_for_each_right_of_whoever_imported_and_of_nobody_else() {
        let none = Rights::default();
        let cases = [
            (Rights { put: true, ..none }, [true, false, false]),
            (Rights { get: true, ..none }, [false, true, false]),
            (Rights { atomic: true, ..none }, [false, false, true]),
        ];
        for (rights, allowed) in cases {
            let (mut space, _, base) = exported(rights);
            for (source, stranger) in [(PEER, false), (OTHER, true)] {
                let found = [
                    space.write(source, base, &[1; 8]),
                    space.read(source, base, &mut [0; 8]).map(|_| ()),
                    add(&mut space, source, base).map(|_| ()),
                ];
                for (found, allowed) in found.into_iter().zip(allowed) {
                    let expected = if allowed && !stranger { Ok(()) } else { Err(Status::Type) };
                    assert_eq!(found, expected, "{rights:?}, {source:?}");
                }
            }
        }
    }

    #[test]
    fn what_leaves_the_region_has_no_address_and_a_read_is_cut_at_its_end() {
        let (mut space, region, base) = exported(Rights::ALL);
        for (offset, bytes) in [(base + 93, 8), (base + 100, 1), (base - 1, 1), (base - 1, 8)] {
            assert_eq!(space.write(PEER, offset, &vec![1; bytes]), Err(Status::Address));
        }
        assert_eq!(add(&mut space, PEER, base + 96), Err(Status::Address));
        assert_eq!(space.read(PEER, base + 100, &mut [0; 8]), Err(Status::Address));
        assert_eq!(space.read(PEER, base + 64, &mut [0; 64]), Ok(36));
        let mut bytes = [0; 100];
        space.region(region).expect("own").words.read(0, &mut bytes).expect("inside");
        assert_eq!(bytes, [0; 100], "nothing has changed");
    }

    #[test]
    fn rights_end_with_the_last_import_and_with_the_region() {
        let (mut space, region, base) = exported(Rights::ALL);
        space.grant(PEER, region);
        space.revoke(PEER, region);
        assert_eq!(space.write(PEER, base, &[1]), Ok(()), "imported twice, given back once");
        space.revoke(PEER, region);
        assert_eq!(space.write(PEER, base, &[1]), Err(Status::Type));
        let (mut space, region, base) = exported(Rights::ALL);
        space.region_mut(region).expect("own").withdrawn = true;
        assert_eq!(space.write(PEER, base, &[1]), Err(Status::Address));
        assert_eq!(space.read(PEER, base, &mut [0]), Err(Status::Address));
    }

    #[test]
    fn a_receive_buffer_is_open_to_its_peer_alone_and_only_while_it_waits() {
        let (mut space, _, _) = exported(Rights::default());
        let region = space.register(64).expect("memory");
        let place = space.place(Slice { region, offset: 8, bytes: 16 }).expect("inside");
        space.open_buffer(PEER, place);
        assert_eq!(space.write(PEER, place.offset, &[1; 16]), Ok(()));
        assert_eq!(space.write(OTHER, place.offset, &[1; 16]), Err(Status::Type));
        for (offset, bytes) in [(place.offset - 1, 2), (place.offset + 1, 16)] {
            assert_eq!(space.write(PEER, offset, &vec![1; bytes]), Err(Status::Type));
        }
        assert_eq!(space.read(PEER, place.offset, &mut [0; 16]), Err(Status::Type));
        space.close_buffer(PEER, place);
        assert_eq!(space.write(PEER, place.offset, &[1; 16]), Err(Status::Type));
    }

    #[test]
    fn nobody_writes_into_the_mailbox_or_the_credits_of_another() {
        let mut space = NodeSpace::default();
        let own = MAIL_AT + u64::from(PEER.0) * 4096;
        assert_eq!(space.write(PEER, own, &[0; 64]), Ok(()));
        assert_eq!(space.write(OTHER, own, &[0; 64]), Err(Status::Address));
        assert_eq!(space.write(PEER, CREDIT_AT + 8, &8_u32.to_le_bytes()), Ok(()));
        assert_eq!(space.write(OTHER, CREDIT_AT + 8, &9_u32.to_le_bytes()), Err(Status::Address));
        assert_eq!(space.write(PEER, CREDIT_AT + 8, &7_u32.to_le_bytes()), Ok(()));
        assert_eq!(space.credit(PEER), 8, "an older credit that came late changes nothing");
        assert_eq!(add(&mut space, PEER, own), Err(Status::Address));
        assert_eq!(space.next_rung(), Some(PEER));
    }

    #[test]
    fn regions_lie_apart_and_are_found_by_their_addresses() {
        let mut space = NodeSpace::default();
        let regions: Vec<RegionId> =
            [1, 4096, 4097, 8].map(|bytes| space.register(bytes).expect("memory")).into();
        let mut ends = 0;
        for &region in &regions {
            let of = space.region(region).expect("own");
            assert!(of.base >= ends && of.base.is_multiple_of(4096));
            ends = of.base + of.words.bytes();
            assert_eq!(space.find(ends - 1), Some((region, of.words.bytes() - 1)));
        }
        assert_eq!(space.find(0), None);
        assert_eq!(space.register(1 << 48), None, "no such address");
        let slice = Slice { region: regions[1], offset: 4000, bytes: 96 };
        let base = space.region(regions[1]).expect("own").base;
        assert_eq!(space.place(slice), Ok(AddressRange { offset: base + 4000, bytes: 96 }));
    }
}
