//! Work as a structure, windows, and runs.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use super::sentence;
use crate::*;

#[test]
fn work_of_unknown_numbers_and_null_addresses_is_refused_and_counts_what_was_posted() {
    let url = format!("shm://test-c-post-{}/node\0", std::process::id());
    let url = CStr::from_bytes_with_nul(url.as_bytes()).expect("one zero");
    let mut node = null_mut();
    // SAFETY: as above; a structure of numbers and a null address may be zero.
    unsafe {
        assert_eq!(fluxline_open(url.as_ptr(), &raw mut node), FluxlineCode::Done);
        let mut posted = 7;
        let blank: FluxlineWork = std::mem::zeroed();
        let put = FluxlineOperation::Put as u32;
        for (work, expected) in [
            (blank, "the work has no operation"),
            (FluxlineWork { operation: 99, ..blank }, "operation 99 is not one of"),
            (FluxlineWork { operation: 6, ..blank }, "posted by fluxline_receive"),
            (FluxlineWork { operation: put, complete_at: 3, ..blank }, "complete_at 3 is not"),
        ] {
            let code = fluxline_post(node, 0, &raw const work, 1, &raw mut posted);
            assert_eq!((code, posted), (FluxlineCode::Argument, 0));
            assert!(sentence().contains(expected), "{}", sentence());
        }
        let flush = FluxlineWork { operation: FluxlineOperation::Flush as u32, ..blank };
        let code = fluxline_post(node, 0, &raw const flush, 1, &raw mut posted);
        assert_eq!((code, posted), (FluxlineCode::Gone, 0));
        let code = fluxline_post(node, 0, std::ptr::null(), 2, &raw mut posted);
        assert_eq!(code, FluxlineCode::Argument);
        let code = fluxline_post(node, 0, std::ptr::null(), 0, &raw mut posted);
        assert_eq!((code, posted), (FluxlineCode::Done, 0));
        assert_eq!(fluxline_post(node, 0, &raw const flush, 1, null_mut()), FluxlineCode::Argument);
        assert!(fluxline_peer(node, 3).is_null() && fluxline_peer(null_mut(), 3).is_null());
        fluxline_close(node);
    }
}

#[test]
fn a_window_is_the_peers_memory_and_needs_both_rights() {
    let url = |node| format!("shm://test-c-window-{}/{node}\0", std::process::id());
    let [owner_url, writer_url] = ["owner", "writer"].map(url);
    let c = |text: &str| CString::new(text.trim_end_matches('\0')).expect("no zero");
    let (mut owner, mut writer) = (null_mut(), null_mut());
    let (mut regions, mut endpoint, mut remote) = ([0; 2], 0, [0; 2]);
    // SAFETY: strings end with a zero, places are of this stack, both nodes are ended once.
    unsafe {
        assert_eq!(fluxline_open(c(&owner_url).as_ptr(), &raw mut owner), FluxlineCode::Done);
        assert_eq!(fluxline_open(c(&writer_url).as_ptr(), &raw mut writer), FluxlineCode::Done);
        for (place, rights) in [FLUXLINE_PUT | FLUXLINE_GET, FLUXLINE_PUT].into_iter().enumerate() {
            let region = &raw mut regions[place];
            assert_eq!(fluxline_register(owner, 64, region), FluxlineCode::Done);
            let name = c(["both", "put"][place]);
            let code = fluxline_export(owner, regions[place], name.as_ptr(), 7, rights);
            assert_eq!(code, FluxlineCode::Done);
        }
        let reliable = FLUXLINE_RELIABLE;
        let name = c("owner");
        let code = fluxline_begin_connect(writer, name.as_ptr(), reliable, &raw mut endpoint);
        assert_eq!(code, FluxlineCode::Done);
        let mut completion: FluxlineCompletion = std::mem::zeroed();
        assert_eq!(fluxline_poll(owner, &raw mut completion), FluxlineCode::Done);
        assert_eq!(completion.kind, FluxlineKind::Connected);
        assert_eq!(CStr::from_ptr(fluxline_peer(owner, completion.endpoint)), c"writer");
        assert_eq!(fluxline_poll(writer, &raw mut completion), FluxlineCode::Done);
        assert_eq!((completion.kind, completion.endpoint), (FluxlineKind::Connected, endpoint));
        let (mut address, mut size) = (null_mut(), 0);
        for place in 0..2 {
            let name = c(["both", "put"][place]);
            let into = &raw mut remote[place];
            let code = fluxline_begin_import(writer, endpoint, name.as_ptr(), 7, into);
            assert_eq!(code, FluxlineCode::Done);
            assert_eq!(fluxline_poll(writer, &raw mut completion), FluxlineCode::Done);
            assert_eq!(completion.kind, FluxlineKind::Imported);
            assert_eq!((completion.remote, completion.bytes), (remote[place], 64));
        }
        let code = fluxline_window(writer, remote[1], &raw mut address, &raw mut size);
        assert_eq!(code, FluxlineCode::Refused);
        assert!(sentence().contains("rights to put and to get"), "{}", sentence());
        let code = fluxline_window(writer, remote[0], &raw mut address, &raw mut size);
        assert_eq!((code, size), (FluxlineCode::Done, 64));
        address.cast::<u64>().add(1).write_volatile(77);
        let mut found = 0_u64;
        let into = (&raw mut found).cast();
        assert_eq!(fluxline_read(owner, regions[0], 8, into, 8), FluxlineCode::Done);
        assert_eq!(found, 77);
        let code = fluxline_window(writer, 999, &raw mut address, &raw mut size);
        assert_eq!(code, FluxlineCode::Argument);
        fluxline_close(writer);
        fluxline_close(owner);
    }
}

#[test]
fn a_run_that_cannot_start_or_has_ended_says_so() {
    let mut run = null_mut();
    // SAFETY: strings end with a zero; null and places of this stack are what is tested.
    unsafe {
        let none = c"/nowhere/x.toml".as_ptr();
        assert_eq!(fluxline_run_start(none, &raw mut run), FluxlineCode::Argument);
        assert!(sentence().contains("/nowhere/x.toml"), "{}", sentence());
        let code = fluxline_run_start_text(c"x".as_ptr(), c"name = 7".as_ptr(), &raw mut run);
        assert_eq!(code, FluxlineCode::Argument);
        assert_eq!(fluxline_run_finished(null_mut()), FluxlineCode::Argument);
        assert!(fluxline_run_headline(null_mut()).is_null());
        fluxline_run_close(null_mut());
    }
}
