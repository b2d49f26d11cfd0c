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
        assert_eq!(fluxline_poll(null_mut(), null_mut()), FluxlineCode::Argument);
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

#[test]
fn a_panic_becomes_a_code() {
    assert_eq!(border::guard(|| panic!("a defect, for the test")), FluxlineCode::Defect);
    assert!(sentence().contains("report it"));
}
