//! The memory of one node that others can reach: regions, receive buffers, and the rights to them.
//!
//! The owner's adapter has a table of which source may do what to which region; connecting drivers
//! fill it (`message.rs`): an import with the right key adds a row, the end of its connection
//! removes it. The adapter checks every request with it: [`Status::Address`] rejects an access to
//! no memory, [`Status::Rights`] one that is not allowed.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxline_core::fabric::memory::Words;
use fluxline_core::fabric::{AccessError, Grant, Memory, Name, RegionId, Rights, Slice};

use super::address::{AddressRange, PAGE_BYTES, REGIONS_AT, REGIONS_END};
use crate::host::{Atomic, Status};

/// An own region.
#[derive(Debug)]
pub struct Region {
    /// The first address.
    pub base: u64,
    /// Its memory; none of it once it was ended.
    pub words: Arc<dyn Memory>,
    /// Its size \[byte\].
    pub bytes: u64,
    /// Under which name and on which terms.
    pub exported: Option<(Name, Grant)>,
    /// True if it was ended.
    pub withdrawn: bool,
}

impl Region {
    /// Ends the region; its memory is its other holders'.
    pub fn withdraw(&mut self) {
        (self.withdrawn, self.exported) = (true, None);
        self.words = Arc::new(Words::default());
    }
}

/// The memory of one node that others can reach.
#[derive(Debug, Default)]
pub struct NodeMemory {
    regions: Vec<Region>,
    bases: BTreeMap<u64, usize>,
    /// The number of times that a source imported a region, over standing connections.
    imports: BTreeMap<(u32, u32), u32>,
    /// Receive buffers, and who may write them.
    buffers: Vec<(u32, AddressRange)>,
    /// Writes and locks of other nodes in regions so far.
    changes: u64,
}

impl NodeMemory {
    /// Adds a region of this memory. Returns `None` if the addresses do not suffice.
    pub fn register(&mut self, words: Arc<dyn Memory>) -> Option<RegionId> {
        let (base, bytes) = (self.free_base(words.bytes())?, words.bytes());
        let number = self.regions.len();
        self.bases.insert(base, number);
        self.regions.push(Region { base, words, bytes, exported: None, withdrawn: false });
        Some(RegionId(number as u32))
    }

    /// Returns the first address of the next region, if it has room for this many bytes.
    fn free_base(&self, bytes: u64) -> Option<u64> {
        let after = |last: &Region| (last.base + last.bytes).next_multiple_of(PAGE_BYTES);
        let base = self.regions.last().map_or(REGIONS_AT, after);
        (bytes <= REGIONS_END - base).then_some(base)
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
        let inside = offset - base <= region.bytes && !region.withdrawn;
        inside.then_some((RegionId(number as u32), offset - base))
    }

    /// Lets a source at a region, on the region's own terms; once for each import.
    pub fn grant(&mut self, source: u32, region: RegionId) {
        *self.imports.entry((source, region.0)).or_default() += 1;
    }

    /// Takes one import back.
    pub fn revoke(&mut self, source: u32, region: RegionId) {
        if let Some(count) = self.imports.get_mut(&(source, region.0)) {
            *count -= 1;
            if *count == 0 {
                self.imports.remove(&(source, region.0));
            }
        }
    }

    /// Lets a source write a receive buffer.
    pub fn open_buffer(&mut self, source: u32, place: AddressRange) {
        self.buffers.push((source, place));
    }

    /// Takes that back.
    pub fn close_buffer(&mut self, source: u32, place: AddressRange) {
        if let Some(found) = self.buffers.iter().position(|of| *of == (source, place)) {
            self.buffers.remove(found);
        }
    }

    /// Returns the number of writes and locks of other nodes in regions so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The region at an address, if the source may do this to it.
    fn reach(
        &self,
        source: u32,
        offset: u64,
        bytes: u64,
        right: impl Fn(Rights) -> bool,
    ) -> Result<(&dyn Memory, u64), Status> {
        let (number, at) = self.find(offset).ok_or(Status::Address)?;
        let region = &self.regions[number.0 as usize];
        region.words.check(at, bytes).map_err(|_| Status::Address)?;
        let imported = self.imports.contains_key(&(source, number.0));
        let rights = region.exported.as_ref().map(|of| of.1.rights).filter(|_| imported);
        if rights.is_some_and(right) { Ok((&*region.words, at)) } else { Err(Status::Rights) }
    }

    /// A receive buffer that the source may write and that holds the bytes.
    fn buffer(&self, source: u32, offset: u64, bytes: u64) -> Option<(&dyn Memory, u64)> {
        let holds = |of: &&(u32, AddressRange)| {
            let (whose, place) = **of;
            let inside = offset >= place.offset && offset - place.offset <= place.bytes;
            whose == source && inside && bytes <= place.bytes - (offset - place.offset)
        };
        self.buffers.iter().find(holds)?;
        let (number, at) = self.find(offset)?;
        Some((&*self.regions[number.0 as usize].words, at))
    }

    /// Writes for a source, into a region or a receive buffer.
    ///
    /// # Errors
    /// The owner's answer.
    pub fn write(&mut self, source: u32, offset: u64, data: &[u8]) -> Result<(), Status> {
        let bytes = data.len() as u64;
        let reached = self.reach(source, offset, bytes, |rights| rights.put);
        let reached = reached.or_else(|status| self.buffer(source, offset, bytes).ok_or(status));
        let (words, at) = reached?;
        words.write(at, data).map_err(|_| Status::Address)?;
        self.changes += 1;
        Ok(())
    }

    /// Reads for a source, up to the end of the region; returns the number of bytes.
    ///
    /// # Errors
    /// The owner's answer.
    pub fn read(&self, source: u32, offset: u64, into: &mut [u8]) -> Result<usize, Status> {
        let (words, at) = self.reach(source, offset, 1, |rights| rights.get)?;
        let count = (into.len() as u64).min(words.bytes() - at) as usize;
        words.read(at, &mut into[..count]).map_err(|_| Status::Address)?;
        Ok(count)
    }

    /// Changes a word for a source; returns its old value.
    ///
    /// # Errors
    /// The owner's answer.
    pub fn lock(
        &mut self,
        source: u32,
        offset: u64,
        atomic: Atomic,
        operands: [u64; 2],
    ) -> Result<u64, Status> {
        let (words, at) = self.reach(source, offset, 8, |rights| rights.atomic)?;
        let [first, second] = operands;
        let before = match atomic {
            Atomic::FetchAdd => words.fetch_add(at, first),
            Atomic::CompareSwap => words.compare_swap(at, first, second),
        };
        let before = before.map_err(|_| Status::Address)?;
        self.changes += 1;
        Ok(before)
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::fabric::memory::zeroed;
    use fluxline_core::fabric::{Grant, Key, Name, RegionId, Rights, Slice};

    use super::{AddressRange, NodeMemory};
    use crate::host::{Atomic, Status};

    const PEER: u32 = 1;
    const OTHER: u32 = 2;

    /// A region of 100 byte with these rights, imported by `PEER`, and where it lies.
    fn exported(rights: Rights) -> (NodeMemory, RegionId, u64) {
        let mut memory = NodeMemory::default();
        let region = memory.register(zeroed(100).expect("memory")).expect("room");
        let grant = Grant { rights, key: Key(1) };
        let name = Name::parse("samples").expect("a name");
        memory.region_mut(region).expect("own").exported = Some((name, grant));
        memory.grant(PEER, region);
        let base = memory.region(region).expect("own").base;
        (memory, region, base)
    }

    fn add(memory: &mut NodeMemory, source: u32, offset: u64) -> Result<u64, Status> {
        memory.lock(source, offset, Atomic::FetchAdd, [1, 0])
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
            let (mut memory, _, base) = exported(rights);
            for (source, stranger) in [(PEER, false), (OTHER, true)] {
                let found = [
                    memory.write(source, base, &[1; 8]),
                    memory.read(source, base, &mut [0; 8]).map(|_| ()),
                    add(&mut memory, source, base).map(|_| ()),
                ];
                for (found, allowed) in found.into_iter().zip(allowed) {
                    let expected = if allowed && !stranger { Ok(()) } else { Err(Status::Rights) };
                    assert_eq!(found, expected, "{rights:?}, {source:?}");
                }
            }
        }
    }

    #[test]
    fn what_leaves_the_region_has_no_address_and_a_read_is_cut_at_its_end() {
        let (mut memory, region, base) = exported(Rights::ALL);
        for (offset, bytes) in [(base + 93, 8), (base + 100, 1), (base - 1, 1), (base - 1, 8)] {
            assert_eq!(memory.write(PEER, offset, &vec![1; bytes]), Err(Status::Address));
        }
        assert_eq!(add(&mut memory, PEER, base + 96), Err(Status::Address));
        assert_eq!(memory.read(PEER, base + 100, &mut [0; 8]), Err(Status::Address));
        assert_eq!(memory.read(PEER, base + 64, &mut [0; 64]), Ok(36));
        let mut bytes = [0; 100];
        memory.region(region).expect("own").words.read(0, &mut bytes).expect("inside");
        assert_eq!(bytes, [0; 100], "nothing has changed");
    }

    #[test]
    fn rights_end_with_the_last_import_and_with_the_region() {
        let (mut memory, region, base) = exported(Rights::ALL);
        memory.grant(PEER, region);
        memory.revoke(PEER, region);
        assert_eq!(memory.write(PEER, base, &[1]), Ok(()), "imported twice, given back once");
        memory.revoke(PEER, region);
        assert_eq!(memory.write(PEER, base, &[1]), Err(Status::Rights));
        let (mut memory, region, base) = exported(Rights::ALL);
        memory.region_mut(region).expect("own").withdrawn = true;
        assert_eq!(memory.write(PEER, base, &[1]), Err(Status::Address));
        assert_eq!(memory.read(PEER, base, &mut [0]), Err(Status::Address));
    }

    #[test]
    fn a_receive_buffer_is_open_to_its_peer_alone_and_only_while_it_waits() {
        let (mut memory, _, _) = exported(Rights::default());
        let region = memory.register(zeroed(64).expect("memory")).expect("room");
        let place = memory.place(Slice { region, offset: 8, bytes: 16 }).expect("inside");
        memory.open_buffer(PEER, place);
        assert_eq!(memory.write(PEER, place.offset, &[1; 16]), Ok(()));
        assert_eq!(memory.write(OTHER, place.offset, &[1; 16]), Err(Status::Rights));
        for (offset, bytes) in [(place.offset - 1, 2), (place.offset + 1, 16)] {
            assert_eq!(memory.write(PEER, offset, &vec![1; bytes]), Err(Status::Rights));
        }
        assert_eq!(memory.read(PEER, place.offset, &mut [0; 16]), Err(Status::Rights));
        memory.close_buffer(PEER, place);
        assert_eq!(memory.write(PEER, place.offset, &[1; 16]), Err(Status::Rights));
    }

    #[test]
    fn regions_lie_apart_and_are_found_by_their_addresses() {
        let mut memory = NodeMemory::default();
        let regions: Vec<RegionId> = [1, 4096, 4097, 8]
            .map(|bytes| memory.register(zeroed(bytes).expect("memory")).expect("room"))
            .into();
        let mut ends = 0;
        for &region in &regions {
            let of = memory.region(region).expect("own");
            assert!(of.base >= ends && of.base.is_multiple_of(4096));
            ends = of.base + of.words.bytes();
            assert_eq!(memory.find(ends - 1), Some((region, of.words.bytes() - 1)));
        }
        assert_eq!(memory.find(0), None);
        assert_eq!(memory.free_base(1 << 48), None, "no such address");
        let slice = Slice { region: regions[1], offset: 4000, bytes: 96 };
        let base = memory.region(regions[1]).expect("own").base;
        assert_eq!(memory.place(slice), Ok(AddressRange { offset: base + 4000, bytes: 96 }));
    }
}
