//! The laws about own memory: regions made of it, and views of their bytes.
#![allow(clippy::missing_panics_doc, reason = "panicking is what a broken law does")]

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::joined::{Joined, KEY, Pair, Side, name};
use fluxline_core::fabric::memory::zeroed;
use fluxline_core::fabric::{
    AccessError, Completion, Fabric, Grant, Level, Local, Memory, Operation, RegionId,
    RegisterError, Rights, Slice, Status, Target, Work,
};

/// Registers memory of the program, and keeps a handle to it; `None`: the link cannot.
fn own(fabric: &mut dyn Fabric, bytes: u64) -> Option<(RegionId, Arc<dyn Memory>)> {
    let memory = zeroed(bytes).expect("memory");
    match fabric.register_own(Arc::clone(&memory)) {
        Ok(region) => {
            assert!(fabric.capabilities().own_memory, "it can, and says that it cannot");
            Some((region, memory))
        }
        Err(RegisterError::OwnMemory) => {
            assert!(!fabric.capabilities().own_memory, "it says that it can");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn put(fabric: &mut Joined, from: Local<'_>, to: Target) {
    let work = Work::Put { from, to, notify: None, complete_at: Some(Level::Placed) };
    fabric.pair.left.post(fabric.left, 1, work).expect("legal");
    assert_eq!(fabric.done(1), (Operation::Put, Status::Done, 0));
}

/// A region of the program's memory is this memory: no bytes are copied to another one.
pub fn own_memory_is_the_region_itself(pair: Pair) {
    let mut joined = Joined::new(pair);
    let Some((region, memory)) = own(&mut *joined.pair.right, 64) else { return };
    let grant = Grant { rights: Rights::ALL, key: KEY };
    joined.pair.right.export(region, name("own"), grant).expect("free");
    let (remote, status, bytes) = joined.import("own", KEY);
    assert_eq!((status, bytes), (Status::Done, 64));
    put(&mut joined, Local::Bytes(&[7; 9]), Target { remote, offset: 3 });
    let mut found = vec![0; 64];
    memory.read(0, &mut found).expect("inside");
    let expected: Vec<u8> = (0..64).map(|at| if (3..12).contains(&at) { 7 } else { 0 }).collect();
    assert_eq!(found, expected, "the program's handle sees the put");

    memory.store(56, 40).expect("inside");
    let add = Work::FetchAdd { at: Target { remote, offset: 56 }, add: 2 };
    joined.pair.left.post(joined.left, 2, add).expect("legal");
    assert_eq!(joined.done(2), (Operation::FetchAdd, Status::Done, 40));
    assert_eq!(memory.load(56), Ok(42));
}

/// After the region's end nobody but the program has its memory.
pub fn own_memory_comes_back(pair: Pair) {
    let mut joined = Joined::new(pair);
    let Some((region, memory)) = own(&mut *joined.pair.left, 64) else { return };
    let (_, remote) = joined.shared("samples", 64);
    let slice = Slice { region, offset: 0, bytes: 64 };
    put(&mut joined, Local::Region(slice), Target { remote, offset: 0 });
    let get = Work::Get { from: Target { remote, offset: 0 }, into: slice };
    joined.pair.left.post(joined.left, 2, get).expect("legal");
    assert_eq!(joined.done(2).1, Status::Done);
    joined.pair.left.withdraw(region).expect("own");
    assert_eq!(Arc::strong_count(&memory), 1, "the link keeps a handle");
}

/// Memory of no bytes is refused as a region.
pub fn empty_own_memory_is_refused(pair: Pair) {
    let mut joined = Joined::new(pair);
    let refused = joined.pair.left.register_own(zeroed(0).expect("memory"));
    assert!(
        matches!(refused, Err(RegisterError::Size { bytes: 0, .. } | RegisterError::OwnMemory)),
        "{refused:?}"
    );
}

/// Writes through a view leave with puts, and a view has the bytes of gets and puts.
pub fn a_view_is_the_region_itself(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared_with("samples", 16, Rights::PUT);
    let mine = joined.pair.left.register(24).expect("memory");
    joined.pair.left.view(mine, &mut |bytes| bytes.copy_from_slice(&[5; 24])).expect("alone");
    let slice = Slice { region: mine, offset: 8, bytes: 16 };
    put(&mut joined, Local::Region(slice), Target { remote, offset: 0 });
    assert_eq!(joined.bytes(region, 0, 16), [5; 16]);

    let readable = Rights { get: true, ..Rights::default() };
    let (theirs, remote) = joined.shared_with("readable", 16, readable);
    joined.pair.right.view(theirs, &mut |bytes| bytes.fill(9)).expect("peers only read");
    let get = Work::Get { from: Target { remote, offset: 0 }, into: slice };
    joined.pair.left.post(joined.left, 2, get).expect("legal");
    assert_eq!(joined.done(2).1, Status::Done);
    let mut found = Vec::new();
    joined.pair.left.view(mine, &mut |bytes| found.extend_from_slice(bytes)).expect("alone");
    assert_eq!(found, [[5; 8], [9; 8], [9; 8]].concat());
}

/// A view is refused, and its function not called, while others may write the bytes.
pub fn a_view_is_refused_while_others_may_write(pair: Pair) {
    let mut joined = Joined::new(pair);
    let refusal = |joined: &mut Joined, region| {
        joined.pair.right.view(region, &mut |_| panic!("called")).expect_err("refused")
    };
    let atomic = Rights { atomic: true, ..Rights::default() };
    for (called, rights) in [("put", Rights::PUT), ("atomic", atomic)] {
        let region = joined.exported(called, 8, rights);
        assert_eq!(refusal(&mut joined, region), AccessError::Exported, "{called}");
        joined.pair.right.withdraw(region).expect("own");
        assert_eq!(refusal(&mut joined, region), AccessError::UnknownRegion, "{called}");
    }
    let region = joined.pair.right.register(8).expect("memory");
    let handle = joined.pair.right.memory(region).expect("own");
    assert_eq!(refusal(&mut joined, region), AccessError::InUse);
    drop(handle);
    let mut calls = 0;
    joined.pair.right.view(region, &mut |bytes| calls += bytes.len()).expect("nobody has it");
    assert_eq!(calls, 8);
    assert_eq!(refusal(&mut joined, RegionId(u32::MAX)), AccessError::UnknownRegion);
}

/// A get and a message under way never change the bytes of a view, and lose nothing by it.
pub fn work_under_way_does_not_change_a_view(pair: Pair) {
    let mut joined = Joined::new(pair);
    let (region, remote) = joined.shared("samples", 4096);
    let memory = joined.pair.right.memory(region).expect("own");
    memory.write(0, &[3; 4096]).expect("inside");
    let own = joined.pair.left.register(4096).expect("memory");
    let into = Slice { region: own, offset: 0, bytes: 4096 };
    let get = Work::Get { from: Target { remote, offset: 0 }, into };
    joined.pair.left.post(joined.left, 1, get).expect("legal");
    for _ in 0..100 {
        let mut whole = true;
        let Pair { left, right, now, .. } = &mut joined.pair;
        let seen = left.view(own, &mut |bytes| {
            let first = bytes.to_vec();
            let none = right.poll(now()).is_none(); // the peer goes on meanwhile
            whole = bytes == first && none;
        });
        assert!(matches!(seen, Ok(()) | Err(AccessError::InUse)), "{seen:?}");
        assert!(whole, "the bytes changed during the view");
        joined.turn();
    }
    assert_eq!(joined.done(1).1, Status::Done);
    let mut found = Vec::new();
    joined.pair.left.view(own, &mut |bytes| found.extend_from_slice(bytes)).expect("alone");
    assert!(found == [3; 4096], "the get is complete");
    assert!(!joined.rest(Side::Left).iter().any(|what| matches!(what, Completion::Broken { .. })));
}
