//! Wrong arguments and defects become codes with a sentence, and never cross as a panic.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use fluxline_core::fabric::{Reliability, Status};

use super::*;

mod whole;

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
        assert_eq!(fluxline_open(c"tcp://x".as_ptr(), &raw mut node), FluxlineCode::Argument);
        assert!(sentence().contains("shm://GROUP/NODE"), "{}", sentence());
        assert_eq!(fluxline_open(c"udp://:x".as_ptr(), &raw mut node), FluxlineCode::Argument);
        assert!(sentence().contains("for example udp://10.0.0.7:4791"), "{}", sentence());
        assert_eq!(fluxline_open(c"shm://\xFF/x".as_ptr(), &raw mut node), FluxlineCode::Argument);
        assert_eq!(fluxline_open(c"shm://a/b".as_ptr(), null_mut()), FluxlineCode::Argument);
        let mut completion = std::mem::zeroed();
        assert_eq!(fluxline_poll(null_mut(), &raw mut completion), FluxlineCode::Argument);
        assert_eq!(sentence(), "the handle is null");
        fluxline_close(null_mut());
        assert_eq!(fluxline_publish(null_mut(), 1), FluxlineCode::Argument);
        assert_eq!(fluxline_receiver_close(null_mut(), 1), FluxlineCode::Argument);
    }
}

#[test]
fn wrong_numbers_have_different_errors() {
    let url = format!("shm://test-c-{}/node\0", std::process::id());
    let url = CStr::from_bytes_with_nul(url.as_bytes()).expect("one zero");
    let (mut node, mut second) = (null_mut(), null_mut());
    let (mut region, mut ring) = (0, 0);
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
        let odd = fluxline_receiver(node, c"ring".as_ptr(), 7, 0, 64, &raw mut ring);
        assert_eq!(odd, FluxlineCode::Refused);
        assert!(sentence().contains("0 slots of 64 bytes is not possible"), "{}", sentence());
        assert_eq!(fluxline_push(node, 9, into.cast_const(), 8), FluxlineCode::Argument);
        assert!(sentence().contains("this node has no open sender 9"), "{}", sentence());
        let mut endpoint = 0;
        let nobody = fluxline_connect(node, c"nobody".as_ptr(), 0, 10, &raw mut endpoint);
        assert_eq!(nobody, FluxlineCode::Timeout);
        assert!(sentence().contains("no connection to nobody"), "{}", sentence());
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
fn threads_of_one_address_are_opened_together_and_closed_one_by_one() {
    let mut nodes = [null_mut(); 3];
    let first = nodes.as_mut_ptr();
    let url = c"udp://127.0.0.1:0/threads".as_ptr();
    // SAFETY: strings that end with a zero, and places of this stack.
    unsafe {
        assert_eq!(fluxline_open_threads(url, 3, null_mut()), FluxlineCode::Argument);
        assert_eq!(fluxline_open_threads(url, 0, first), FluxlineCode::Refused);
        assert!(sentence().contains("1 to 64 are possible"), "{}", sentence());
        let shm = c"shm://test-c-threads/x".as_ptr();
        assert_eq!(fluxline_open_threads(shm, 2, first), FluxlineCode::Argument);
        assert!(sentence().contains("udp:// and xdp:// can"), "{}", sentence());
        assert!(nodes.iter().all(|node| node.is_null()));
        assert_eq!(fluxline_open_threads(url, 3, nodes.as_mut_ptr()), FluxlineCode::Done);
        for node in nodes {
            let mut region = 0;
            assert_eq!(fluxline_register(node, 64, &raw mut region), FluxlineCode::Done);
            fluxline_close(node);
        }
    }
}

#[test]
fn nothing_is_made_where_its_place_is_null() {
    let node = node_of("null", "node");
    let mut region = 0;
    let name = c"ring".as_ptr();
    // SAFETY: as above.
    unsafe {
        // More often than a node has regions: each would be one that nobody can give back.
        for _ in 0..1100 {
            assert_eq!(fluxline_register(node, 64, null_mut()), FluxlineCode::Argument);
            let made = fluxline_receiver(node, name, 7, 4, 64, null_mut());
            assert_eq!(made, FluxlineCode::Argument);
        }
        assert_eq!(fluxline_register(node, 64, &raw mut region), FluxlineCode::Done);
        assert_eq!(fluxline_poll(node, null_mut()), FluxlineCode::Argument);
        let peer = c"nobody".as_ptr();
        assert_eq!(fluxline_connect(node, peer, 0, 1, null_mut()), FluxlineCode::Argument);
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
            let late = fluxline_connect(node, c"idle".as_ptr(), 0, 0, &raw mut endpoint);
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
    let asked = one.fabric().connect("owner", Reliability::Reliable).expect("a place");
    assert!(matches!(other.poll_link(), Some(Completion::Connected { .. })));
    assert!(matches!(one.poll_link(), Some(Completion::Connected { .. })));
    (node, owner, asked.0)
}

#[test]
fn an_import_that_does_not_complete_in_time_is_given_back() {
    let (node, owner, endpoint) = connected("import");
    let (mut region, mut remote, mut size) = (0, 0, 0);
    // SAFETY: as above; the nodes are ended once.
    unsafe {
        assert_eq!(fluxline_register(owner, 64, &raw mut region), FluxlineCode::Done);
        let name = c"samples".as_ptr();
        assert_eq!(fluxline_export(owner, region, name, 7, FLUXLINE_PUT), FluxlineCode::Done);
        // A node that keeps the most completions takes no further ones.
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

/// Opens a node; the URL decides on which link.
fn open(url: &str) -> *mut FluxlineNode {
    let (url, mut node) = (std::ffi::CString::new(url).expect("no zero"), null_mut());
    // SAFETY: a string that ends with a zero, and a place of this stack.
    let opened = unsafe { fluxline_open(url.as_ptr(), &raw mut node) };
    assert_eq!(opened, FluxlineCode::Done, "{}", sentence());
    node
}

const RECORDS: u64 = 5_000;

/// Reads all records of a sender, which must come in order and with their stamps, in a thread of
/// its own.
fn read_all(url: String, ready: std::sync::mpsc::Sender<()>) {
    let node = open(&url);
    let (mut ring, mut record, mut count, mut at) = (0, std::ptr::null(), 0, 0);
    let began = Instant::now();
    // SAFETY: places of this stack; a record is read before the next call.
    unsafe {
        let made = fluxline_receiver(node, c"ring".as_ptr(), 7, 64, 100, &raw mut ring);
        assert_eq!(made, FluxlineCode::Done, "{}", sentence());
        ready.send(()).expect("awaited");
        let mut expected = 0;
        loop {
            let (place, room) = (&raw mut record, &raw mut count);
            match fluxline_next_stamped(node, ring, &raw mut at, place, room) {
                FluxlineCode::Done => {
                    assert_eq!((at, count), (expected, (expected % 100) as usize));
                    expected += 1;
                }
                FluxlineCode::Gone => break,
                FluxlineCode::Nothing => {
                    assert!(began.elapsed() < Duration::from_secs(20), "{expected} came");
                    fluxline_receiver_wait(node, ring, 5);
                }
                other => panic!("{other:?}: {}", sentence()),
            }
        }
        assert_eq!(expected, RECORDS);
        let mut counters = std::mem::zeroed();
        assert_eq!(fluxline_ring_counters(node, ring, &raw mut counters), FluxlineCode::Done);
        assert_eq!((counters.records, counters.died), (RECORDS, 0));
        assert_eq!(fluxline_receiver_close(node, ring), FluxlineCode::Done);
        assert_eq!(fluxline_receiver_close(node, ring), FluxlineCode::Argument);
        fluxline_close(node);
    }
}

/// A ring works by the same calls on each link, and the program hears of no completion of it.
fn a_ring_works(node: &str, owner: &str, peer: &str) {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let owner = owner.to_owned();
    let reading = std::thread::spawn(move || read_all(owner, ready));
    is_ready.recv().expect("it gets ready");
    let (node, mut ring) = (open(node), 0);
    let peer = std::ffi::CString::new(peer).expect("no zero");
    // SAFETY: as above.
    unsafe {
        let name = c"ring".as_ptr();
        let wrong = fluxline_sender(node, peer.as_ptr(), name, 8, 5000, &raw mut ring);
        assert_eq!(wrong, FluxlineCode::Refused);
        assert!(sentence().contains("the key is not the region's"), "{}", sentence());
        let none = fluxline_sender(node, peer.as_ptr(), c"no".as_ptr(), 7, 500, &raw mut ring);
        assert_eq!(none, FluxlineCode::Timeout);
        assert!(sentence().contains("no ring of that name"), "{}", sentence());
        let made = fluxline_sender(node, peer.as_ptr(), name, 7, 5000, &raw mut ring);
        assert_eq!(made, FluxlineCode::Done, "{}", sentence());
        let bytes = [1_u8; 100];
        for number in 0..RECORDS {
            let (from, count) = (bytes.as_ptr().cast(), (number % 100) as usize);
            let began = Instant::now();
            loop {
                match fluxline_push_stamped(node, ring, number, from, count) {
                    FluxlineCode::Done => break,
                    FluxlineCode::Full => std::thread::yield_now(),
                    other => panic!("{other:?}: {}", sentence()),
                }
                assert!(began.elapsed() < Duration::from_secs(20), "it stays full");
            }
            if number % 32 == 31 {
                assert_eq!(fluxline_publish(node, ring), FluxlineCode::Done, "{}", sentence());
            }
        }
        assert_eq!(fluxline_finish(node, ring, 5000), FluxlineCode::Done, "{}", sentence());
        assert_eq!(fluxline_finish(node, ring, 0), FluxlineCode::Argument);
        let mut completion = std::mem::zeroed();
        assert_eq!(fluxline_poll(node, &raw mut completion), FluxlineCode::Nothing);
        reading.join().expect("all came");
        fluxline_close(node);
    }
}

#[test]
fn a_push_ring_works_on_shared_memory() {
    let group = format!("shm://test-c-ring-{}", std::process::id());
    a_ring_works(&format!("{group}/node"), &format!("{group}/owner"), "owner");
}

/// Waits for a completion of this kind; others are dropped.
///
/// # Safety
/// The node is open and no other call uses it now.
unsafe fn wait_for(node: *mut FluxlineNode, kind: FluxlineKind) -> FluxlineCompletion {
    for _ in 0..500 {
        // SAFETY: all bytes zero are a completion.
        let mut found: FluxlineCompletion = unsafe { std::mem::zeroed() };
        // SAFETY: by this function's contract.
        while unsafe { fluxline_poll(node, &raw mut found) } == FluxlineCode::Done {
            if found.kind == kind {
                return found;
            }
        }
        // SAFETY: as above.
        assert_eq!(unsafe { fluxline_wait(node, 10) }, FluxlineCode::Done);
    }
    panic!("no {kind:?} came in 5 s");
}

/// The end that owns the memory: it posts a buffer, then reports one message and one notification,
/// and ends when its peer has gone.
fn own(url: &CStr, ready: &std::sync::mpsc::Sender<()>) -> (Vec<u8>, FluxlineCompletion) {
    let (mut node, mut region, mut inbox) = (null_mut(), 0, 0);
    // SAFETY: the node is this thread's, and is ended once.
    unsafe {
        assert_eq!(fluxline_open(url.as_ptr(), &raw mut node), FluxlineCode::Done);
        assert_eq!(fluxline_register(node, 4096, &raw mut region), FluxlineCode::Done);
        assert_eq!(fluxline_register(node, 64, &raw mut inbox), FluxlineCode::Done);
        let rights = FLUXLINE_PUT | FLUXLINE_GET | FLUXLINE_ATOMIC;
        let exported = fluxline_export(node, region, c"samples".as_ptr(), 7, rights);
        assert_eq!(exported, FluxlineCode::Done);
        let word = 40_u64.to_le_bytes();
        let written = fluxline_write(node, region, 64, word.as_ptr().cast(), 8);
        assert_eq!(written, FluxlineCode::Done);
        ready.send(()).expect("the test waits");
        let endpoint = wait_for(node, FluxlineKind::Connected).endpoint;
        let posted = fluxline_receive(node, endpoint, inbox, 0, 64, 5);
        assert_eq!(posted, FluxlineCode::Done);
        let received = wait_for(node, FluxlineKind::Received);
        assert_eq!((received.tag, received.status), (5, 0));
        let mut message = vec![0; received.bytes as usize];
        let into = message.as_mut_ptr().cast();
        let read = fluxline_read(node, inbox, 0, into, message.len());
        assert_eq!(read, FluxlineCode::Done);
        let notified = wait_for(node, FluxlineKind::Notified);
        let (mut address, mut size) = (null_mut(), 0);
        let found = fluxline_memory(node, region, &raw mut address, &raw mut size);
        assert_eq!((found, size), (FluxlineCode::Done, 4096));
        let there = std::slice::from_raw_parts(address.cast::<u8>().add(128), 4);
        assert_eq!(there, b"data", "the region's own memory");
        wait_for(node, FluxlineKind::Broken);
        fluxline_close(node);
        (message, notified)
    }
}

/// Every operation, from C, between two nodes with these URLs.
fn every_operation(own_url: &str, peer_url: &str, peer: &str) {
    let [own_url, peer_url, peer] =
        [own_url, peer_url, peer].map(|text| std::ffi::CString::new(text).expect("no zero"));
    let (sender, ready) = std::sync::mpsc::channel();
    let owner = std::thread::spawn(move || own(&peer_url, &sender));
    ready.recv().expect("the owner is open");
    let (mut node, mut endpoint, mut remote, mut size) = (null_mut(), 0, 0, 0);
    let (mut region, mut descriptor, mut deadline) = (0, -1, 0);
    // SAFETY: the node is this thread's, and is ended once.
    unsafe {
        assert_eq!(fluxline_open(own_url.as_ptr(), &raw mut node), FluxlineCode::Done);
        let odd = fluxline_connect(node, peer.as_ptr(), 2, 10, &raw mut endpoint);
        assert_eq!(odd, FluxlineCode::Argument);
        let connected =
            fluxline_connect(node, peer.as_ptr(), FLUXLINE_RELIABLE, 5000, &raw mut endpoint);
        assert_eq!(connected, FluxlineCode::Done, "{}", sentence());
        let name = c"samples".as_ptr();
        let wrong = fluxline_import(node, endpoint, name, 8, 5000, &raw mut remote, &raw mut size);
        assert_eq!(wrong, FluxlineCode::Refused);
        assert!(sentence().contains("the key is not the region's"), "{}", sentence());
        // A wrong key costs 0.1 s on Ethernet.
        std::thread::sleep(std::time::Duration::from_millis(150));
        let found = fluxline_import(node, endpoint, name, 7, 5000, &raw mut remote, &raw mut size);
        assert_eq!((found, size), (FluxlineCode::Done, 4096), "{}", sentence());

        let done = |tag: u64| {
            let done = wait_for(node, FluxlineKind::Completed);
            assert_eq!((done.tag, done.status), (tag, 0), "{}", status_name(done.status));
            done.value
        };
        assert_eq!(fluxline_fetch_add(node, endpoint, remote, 64, 2, 1), FluxlineCode::Done);
        assert_eq!(done(1), 40);
        let swapped = fluxline_compare_swap(node, endpoint, remote, 64, 42, 99, 2);
        assert_eq!(swapped, FluxlineCode::Done);
        assert_eq!(done(2), 42);
        assert_eq!(fluxline_register(node, 64, &raw mut region), FluxlineCode::Done);
        let got = fluxline_get(node, endpoint, remote, 64, region, 8, 8, 3);
        assert_eq!(got, FluxlineCode::Done);
        done(3);
        let mut word = [0; 8];
        let read = fluxline_read(node, region, 8, word.as_mut_ptr().cast(), 8);
        assert_eq!((read, u64::from_le_bytes(word)), (FluxlineCode::Done, 99));
        let sent = fluxline_send(node, endpoint, c"hello".as_ptr().cast(), 5, 4);
        assert_eq!(sent, FluxlineCode::Done);
        done(4);
        assert_eq!(fluxline_fence(node, endpoint, 7), FluxlineCode::Done);
        done(7);
        let bytes = c"data".as_ptr().cast();
        let put = fluxline_put(node, endpoint, remote, 128, bytes, 4, 77, -1);
        assert_eq!(put, FluxlineCode::Done);
        assert_eq!(fluxline_flush(node, endpoint, 5), FluxlineCode::Done);
        done(5);
        let outside = fluxline_put(node, endpoint, remote, 4095, bytes, 4, -1, 6);
        assert_eq!(outside, FluxlineCode::Argument, "{}", sentence());

        let on_socket = own_url.to_bytes().starts_with(b"udp");
        let found = fluxline_descriptor(node, &raw mut descriptor);
        assert_eq!(found == FluxlineCode::Done, on_socket);
        assert_eq!(descriptor >= 0, on_socket);
        assert_eq!(fluxline_deadline_ms(node, &raw mut deadline), FluxlineCode::Done);
        assert!((-1..=10_000).contains(&deadline), "{deadline} ms");
        assert_eq!(fluxline_disconnect(node, endpoint), FluxlineCode::Done);
        let late = fluxline_put(node, endpoint, remote, 0, bytes, 4, -1, -1);
        assert_eq!(late, FluxlineCode::Gone);
        wait_for(node, FluxlineKind::Broken);
        fluxline_wait(node, 50); // the goodbye leaves
        fluxline_close(node);
    }
    let (message, notified) = owner.join().expect("the owner's assertions hold");
    assert_eq!(message, b"hello");
    assert_eq!((notified.offset, notified.bytes, notified.value), (128, 4, 77));
}

fn status_name(status: u32) -> String {
    // SAFETY: a string that lives for ever.
    unsafe { CStr::from_ptr(fluxline_status_name(status)) }.to_string_lossy().into_owned()
}

#[test]
fn every_operation_works_on_shared_memory() {
    let group = format!("shm://test-c-all-{}", std::process::id());
    every_operation(&format!("{group}/node"), &format!("{group}/owner"), "owner");
}

#[test]
fn every_operation_works_on_udp() {
    // A socket of port 0 finds a port that is free; it is free again when the socket is dropped.
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let (node, owner) = (free().expect("a port"), free().expect("a port"));
    every_operation(&format!("udp://{node}"), &format!("udp://{owner}"), &owner.to_string());
}

#[test]
fn a_push_ring_works_on_udp() {
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let (node, owner) = (free().expect("a port"), free().expect("a port"));
    a_ring_works(&format!("udp://{node}"), &format!("udp://{owner}"), &owner.to_string());
}

#[test]
fn every_status_has_a_name_and_unknown_ones_say_so() {
    for (number, status) in Status::ALL.into_iter().enumerate() {
        assert_eq!(status.number() as usize, number);
        assert_eq!(status_name(number as u32), status.to_string());
    }
    assert!(status_name(1000).contains("does not know"));
}

#[test]
fn a_panic_becomes_a_code() {
    assert_eq!(border::guard(|| panic!("a defect, for the test")), FluxlineCode::Defect);
    assert!(sentence().contains("report it"));
}
