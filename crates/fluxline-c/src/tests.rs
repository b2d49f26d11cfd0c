//! Wrong arguments and defects become codes with a sentence, and never cross as a panic.

use std::ffi::CStr;
use std::ptr::null_mut;

use super::*;

fn sentence() -> String {
    // SAFETY: a string that lives until this thread's next call.
    unsafe { CStr::from_ptr(fluxline_error()) }.to_string_lossy().into_owned()
}

#[test]
fn null_and_nonsense_are_arguments_and_not_crashes() {
    let mut node = null_mut();
    // SAFETY: strings end with a zero; null and places of this stack are what is tested.
    unsafe {
        assert_eq!(fluxline_open(std::ptr::null(), &raw mut node), FluxlineCode::Argument);
        assert_eq!(sentence(), "a string is null");
        assert_eq!(fluxline_open(c"udp://x".as_ptr(), &raw mut node), FluxlineCode::Argument);
        assert!(sentence().contains("shm://GROUP/NODE"), "{}", sentence());
        assert_eq!(fluxline_open(c"shm://\xFF/x".as_ptr(), &raw mut node), FluxlineCode::Argument);
        assert_eq!(fluxline_open(c"shm://a/b".as_ptr(), null_mut()), FluxlineCode::Argument);
        let mut completion = std::mem::zeroed();
        assert_eq!(fluxline_poll(null_mut(), &raw mut completion), FluxlineCode::Argument);
        assert_eq!(sentence(), "the handle is null");
        fluxline_close(null_mut());
        fluxline_producer_close(null_mut());
        fluxline_consumer_close(null_mut());
    }
}

#[test]
fn wrong_numbers_are_told_apart() {
    let url = format!("shm://test-c-{}/node\0", std::process::id());
    let url = CStr::from_bytes_with_nul(url.as_bytes()).expect("one zero");
    let (mut node, mut second) = (null_mut(), null_mut());
    let (mut region, mut consumer) = (0, null_mut());
    // SAFETY: as above; the node is ended once, at the end.
    unsafe {
        assert_eq!(fluxline_open(url.as_ptr(), &raw mut node), FluxlineCode::Done);
        assert_eq!(fluxline_open(url.as_ptr(), &raw mut second), FluxlineCode::Refused);
        assert!(sentence().contains("is open already"), "{}", sentence());
        assert_eq!(fluxline_register(node, 0, &raw mut region), FluxlineCode::Refused);
        assert_eq!(fluxline_register(node, 64, &raw mut region), FluxlineCode::Done);
        let mut room = [0_u8; 8];
        let into = room.as_mut_ptr().cast();
        assert_eq!(fluxline_read(node, region, 60, into, 8), FluxlineCode::Argument);
        assert!(sentence().contains("leave the region of 64 byte"), "{}", sentence());
        assert_eq!(fluxline_read(node, region, 56, into, 8), FluxlineCode::Done);
        assert_eq!(fluxline_read(node, region, 0, null_mut(), 8), FluxlineCode::Argument);
        let put = fluxline_put(node, 9, 9, 0, into.cast_const(), 8, -1, -1);
        assert_eq!(put, FluxlineCode::Gone);
        let odd = fluxline_consumer(node, 1000, &raw mut region, &raw mut consumer);
        assert_eq!(odd, FluxlineCode::Refused);
        assert!(sentence().contains("power of two"), "{}", sentence());
        let mut endpoint = 0;
        let nobody = fluxline_connect(node, c"nobody".as_ptr(), 10, &raw mut endpoint);
        assert_eq!(nobody, FluxlineCode::Refused);
        fluxline_close(node);
    }
}

/// A node of a group of this test.
fn node_of(test: &str, node: &str) -> *mut FluxlineNode {
    let url = format!("shm://test-c-{test}-{}/{node}\0", std::process::id());
    let url = CStr::from_bytes_with_nul(url.as_bytes()).expect("one zero");
    let mut node = null_mut();
    // SAFETY: a string that ends with a zero, and a place of this stack.
    assert_eq!(unsafe { fluxline_open(url.as_ptr(), &raw mut node) }, FluxlineCode::Done);
    node
}

/// Memory of regions and rings of a node \[byte\].
fn memory_of(test: &str) -> usize {
    let group = format!("test-c-{test}-{}", std::process::id());
    let nodes = fluxline::shm::list(None).expect("readable");
    nodes.iter().filter(|of| of.group == group).map(|of| of.regions.len()).sum()
}

#[test]
fn nothing_is_made_where_its_place_is_null() {
    let node = node_of("null", "node");
    let (mut region, mut consumer) = (0, null_mut());
    let mut ring = 0;
    // SAFETY: as above.
    unsafe {
        // More often than a node has regions: each would be one that nobody can give back.
        for _ in 0..1100 {
            assert_eq!(fluxline_register(node, 64, null_mut()), FluxlineCode::Argument);
            let made = fluxline_consumer(node, 64, null_mut(), &raw mut consumer);
            assert_eq!(made, FluxlineCode::Argument);
            let made = fluxline_consumer(node, 64, &raw mut ring, null_mut());
            assert_eq!(made, FluxlineCode::Argument);
        }
        assert_eq!(fluxline_register(node, 64, &raw mut region), FluxlineCode::Done);
        assert_eq!(fluxline_poll(node, null_mut()), FluxlineCode::Argument);
        let peer = c"nobody".as_ptr();
        assert_eq!(fluxline_connect(node, peer, 1, null_mut()), FluxlineCode::Argument);
        fluxline_close(node);
    }
}

#[test]
fn what_is_withdrawn_is_given_back() {
    let node = node_of("withdraw", "node");
    let mut region = 0;
    // SAFETY: as above.
    unsafe {
        for _ in 0..1100 {
            assert_eq!(fluxline_register(node, 64, &raw mut region), FluxlineCode::Done);
            let exported = fluxline_export(node, region, c"samples".as_ptr(), 7, FLUXLINE_PUT);
            assert_eq!(exported, FluxlineCode::Done);
            assert_eq!(memory_of("withdraw"), 1);
            assert_eq!(fluxline_withdraw(node, region), FluxlineCode::Done);
        }
        assert_eq!(memory_of("withdraw"), 0);
        assert_eq!(fluxline_withdraw(node, region), FluxlineCode::Argument);
        assert!(sentence().contains("was withdrawn"), "{}", sentence());
        assert_eq!(fluxline_register(node, 64, &raw mut region), FluxlineCode::Done);
        let odd = fluxline_export(node, region, c"samples".as_ptr(), 7, 8);
        assert_eq!(odd, FluxlineCode::Argument);
        assert!(sentence().contains("rights 8"), "{}", sentence());
        fluxline_close(node);
    }
}

#[test]
fn a_connection_that_is_not_answered_in_time_leaves_its_place() {
    let (node, idle) = (node_of("timeout", "node"), node_of("timeout", "idle"));
    let mut endpoint = 0;
    // SAFETY: as above.
    unsafe {
        let mut completion = std::mem::zeroed();
        // More often than a node has places.
        for _ in 0..1100 {
            let late = fluxline_connect(node, c"idle".as_ptr(), 0, &raw mut endpoint);
            assert_eq!(late, FluxlineCode::Timeout);
            assert_eq!(
                fluxline_poll(node, &raw mut completion),
                FluxlineCode::Nothing,
                "nobody asked"
            );
        }
        assert_eq!(
            fluxline_poll(idle, &raw mut completion),
            FluxlineCode::Nothing,
            "nobody is there"
        );
        assert_eq!(fluxline_disconnect(node, endpoint), FluxlineCode::Gone);
        fluxline_close(node);
        fluxline_close(idle);
    }
}

/// Two connected nodes of this thread, and the first's connection.
fn connected(test: &str) -> (*mut FluxlineNode, *mut FluxlineNode, u32) {
    let (node, owner) = (node_of(test, "node"), node_of(test, "owner"));
    // SAFETY: both are open; no other call uses them now.
    let (one, other) = unsafe { (&mut *node, &mut *owner) };
    let asked = one.shm.connect("owner", Reliability::Reliable).expect("a place");
    assert!(matches!(other.shm.poll(clock::now()), Some(Completion::Connected { .. })));
    assert!(matches!(one.shm.poll(clock::now()), Some(Completion::Connected { .. })));
    (node, owner, asked.0)
}

#[test]
fn an_import_that_is_not_told_in_time_is_given_back() {
    let (node, owner, endpoint) = connected("import");
    let (mut region, mut remote, mut size) = (0, 0, 0);
    // SAFETY: as above; the nodes are ended once.
    unsafe {
        assert_eq!(fluxline_register(owner, 64, &raw mut region), FluxlineCode::Done);
        let name = c"samples".as_ptr();
        assert_eq!(fluxline_export(owner, region, name, 7, FLUXLINE_PUT), FluxlineCode::Done);
        // A node that keeps so much already hears of nothing more.
        let broken = Completion::Broken { endpoint: EndpointId(9), status: Status::Done };
        (*node).kept = (0..KEPT_MAX).map(|_| broken.clone()).collect();
        for _ in 0..1100 {
            let (remote, size) = (&raw mut remote, &raw mut size);
            let late = fluxline_import(node, endpoint, name, 7, 0, remote, size);
            assert_eq!(late, FluxlineCode::Timeout, "{}", sentence());
        }
        (*node).kept.clear();
        let (place, room) = (&raw mut remote, &raw mut size);
        let found = fluxline_import(node, endpoint, name, 7, 0, place, room);
        assert_eq!((found, size), (FluxlineCode::Done, 64));
        fluxline_close(node);
        fluxline_close(owner);
    }
}

#[test]
fn values_and_tags_that_do_not_fit_are_arguments_and_not_none() {
    let (node, owner, endpoint) = connected("notify");
    let (mut region, mut remote, mut size) = (0, 0, 0);
    // SAFETY: as above.
    unsafe {
        assert_eq!(fluxline_register(owner, 64, &raw mut region), FluxlineCode::Done);
        let name = c"samples".as_ptr();
        assert_eq!(fluxline_export(owner, region, name, 7, FLUXLINE_PUT), FluxlineCode::Done);
        let (place, room) = (&raw mut remote, &raw mut size);
        let found = fluxline_import(node, endpoint, name, 7, 100, place, room);
        assert_eq!(found, FluxlineCode::Done);
        let bytes = [1_u8; 8];
        let put = |notify, tag| {
            fluxline_put(node, endpoint, remote, 0, bytes.as_ptr().cast(), 8, notify, tag)
        };
        for notify in [1 << 32, i64::MAX, -2, i64::MIN] {
            assert_eq!(put(notify, -1), FluxlineCode::Argument);
            assert!(sentence().contains("give -1 for none"), "{}", sentence());
        }
        assert_eq!(put(-1, -2), FluxlineCode::Argument);
        assert_eq!(put((1 << 32) - 1, -1), FluxlineCode::Done);
        assert_eq!(put(-1, -1), FluxlineCode::Done);
        let mut completion = std::mem::zeroed();
        assert_eq!(fluxline_poll(owner, &raw mut completion), FluxlineCode::Done);
        assert_eq!((completion.kind, completion.value), (FluxlineKind::Notified, (1 << 32) - 1));
        assert_eq!(fluxline_poll(owner, &raw mut completion), FluxlineCode::Nothing);
        fluxline_close(node);
        fluxline_close(owner);
    }
}

#[test]
fn one_producer_has_a_ring_and_each_side_is_told_that_the_other_has_gone() {
    let (node, owner, endpoint) = connected("ring");
    let (mut region, mut remote, mut size) = (0, 0, 0);
    let (mut consumer, mut first, mut second) = (null_mut(), null_mut(), null_mut());
    let (mut record, mut count) = (std::ptr::null(), 0);
    // SAFETY: as above.
    unsafe {
        let made = fluxline_consumer(owner, 256, &raw mut region, &raw mut consumer);
        assert_eq!(made, FluxlineCode::Done);
        let name = c"ring".as_ptr();
        assert_eq!(fluxline_export(owner, region, name, 7, FLUXLINE_PUT), FluxlineCode::Done);
        let (place, room) = (&raw mut remote, &raw mut size);
        let found = fluxline_import(node, endpoint, name, 7, 100, place, room);
        assert_eq!(found, FluxlineCode::Done);
        assert_eq!(fluxline_producer(node, remote, &raw mut first), FluxlineCode::Done);
        let doubled = fluxline_producer(node, remote, &raw mut second);
        assert_eq!(doubled, FluxlineCode::Refused);
        assert!(sentence().contains("has a producer already"), "{}", sentence());

        let mut next = || fluxline_next(consumer, &raw mut record, &raw mut count);
        assert_eq!(next(), FluxlineCode::Nothing);
        assert_eq!(fluxline_push(first, b"four".as_ptr().cast(), 4), FluxlineCode::Done);
        fluxline_producer_close(first);
        assert_eq!(next(), FluxlineCode::Done);
        assert_eq!(next(), FluxlineCode::Gone);
        assert!(sentence().contains("producer has gone"), "{}", sentence());
        assert_eq!(count, 4);

        assert_eq!(fluxline_producer(node, remote, &raw mut second), FluxlineCode::Done);
        fluxline_consumer_close(consumer);
        let mut code = FluxlineCode::Done;
        while code == FluxlineCode::Done {
            code = fluxline_push(second, b"four".as_ptr().cast(), 4);
        }
        assert_eq!(code, FluxlineCode::Gone);
        assert_eq!(fluxline_publish(second), FluxlineCode::Gone);
        fluxline_producer_close(second);
        assert_eq!(fluxline_producer(node, remote, &raw mut second), FluxlineCode::Gone);
        fluxline_close(node);
        fluxline_close(owner);
    }
}

#[test]
fn a_panic_becomes_a_code() {
    assert_eq!(border::guard(|| panic!("a defect, for the test")), FluxlineCode::Defect);
    assert!(sentence().contains("report it"));
}
