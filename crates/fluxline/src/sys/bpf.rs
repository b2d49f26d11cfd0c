//! bpf(2): a map of AF_XDP sockets, a program that picks frames for them, and its tie to an
//! interface. All three end with their descriptors: a process that dies leaves nothing behind.
//!
//! Source: Linux man-pages bpf(2); <linux/bpf.h> for the numbers and layouts, of which each call
//! needs only the beginning: the rest counts as zero.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::c_long;

const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEMENT: c_long = 2;
const PROGRAM_LOAD: c_long = 5;
#[cfg(test)]
const PROGRAM_TEST_RUN: c_long = 10;
const LINK_CREATE: c_long = 28;

/// `BPF_MAP_TYPE_XSKMAP`.
const KIND_XSK_MAP: u32 = 17;
/// `BPF_PROG_TYPE_XDP`.
const KIND_XDP_PROGRAM: u32 = 6;
/// `BPF_XDP` of `enum bpf_attach_type`.
const ATTACH_XDP: u32 = 37;
/// `BPF_F_XDP_HAS_FRAGS`: the program may see frames of several buffers.
const HAS_FRAGMENTS: u32 = 1 << 5;
/// Size of the kernel's message about a program that it rejects \[byte\].
const LOG_BYTES: usize = 4096;

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// Calls bpf(2).
///
/// # Safety
/// `attributes` has the layout of the command, and the addresses in it are good for what the
/// kernel does with them, until the call returns.
unsafe fn call<T>(command: c_long, attributes: &mut T) -> io::Result<i32> {
    let attributes = &raw mut *attributes;
    // SAFETY: the structure is readable and writable for the size given; its content is the
    // caller's promise.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    i32::try_from(result).ok().filter(|&result| result >= 0).ok_or_else(io::Error::last_os_error)
}

fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: only called with what bpf(2) has just returned as a new descriptor.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// A map from a queue's number to the AF_XDP socket of that queue.
pub(crate) fn socket_map(queues: u32) -> io::Result<OwnedFd> {
    let mut attributes =
        MapCreate { kind: KIND_XSK_MAP, key_bytes: 4, value_bytes: 4, entries: queues };
    // SAFETY: no addresses.
    unsafe { call(MAP_CREATE, &mut attributes) }.map(owned)
}

/// Puts the socket of a queue into the map; closing the socket removes it.
pub(crate) fn put_socket(map: &OwnedFd, queue: u32, socket: RawFd) -> io::Result<()> {
    let mut attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const queue) as u64,
        value: (&raw const socket) as u64,
        flags: 0,
    };
    // SAFETY: key and value live through the call and have the four bytes that the map was made
    // for.
    unsafe { call(MAP_UPDATE_ELEMENT, &mut attributes) }.map(drop)
}

/// Loads an XDP program; the error has the verifier's message.
pub(crate) fn load(code: &[u64], fragments: bool) -> io::Result<OwnedFd> {
    let mut log = [0_u8; LOG_BYTES];
    let mut name = [0; 16];
    name[..8].copy_from_slice(b"fluxline");
    let mut attributes = ProgramLoad {
        kind: KIND_XDP_PROGRAM,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: if fragments { HAS_FRAGMENTS } else { 0 },
        name,
        device: 0,
        attach: ATTACH_XDP,
    };
    // SAFETY: code and license live through the call, the code with the length given.
    match unsafe { call(PROGRAM_LOAD, &mut attributes) } {
        Ok(program) => return Ok(owned(program)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) => {}
        Err(error) => return Err(error),
    }
    // Tries again for the reason: a log costs time, and a log that is too short is itself an error.
    (attributes.log_level, attributes.log_bytes) = (1, LOG_BYTES as u32);
    attributes.log = log.as_mut_ptr() as u64;
    // SAFETY: as above; the log is writable for the length given.
    match unsafe { call(PROGRAM_LOAD, &mut attributes) } {
        Ok(program) => Ok(owned(program)),
        Err(error) => {
            let said = String::from_utf8_lossy(&log);
            let last = said.trim_end_matches(['\0', '\n']).lines().rev().nth(1).unwrap_or("");
            Err(io::Error::new(error.kind(), format!("{error} ({last})")))
        }
    }
}

/// Ties the program to an interface, until the descriptor is closed. `flags`: `XDP_FLAGS_…`.
pub(crate) fn attach(program: &OwnedFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut attributes = LinkCreate { program, interface, attach: ATTACH_XDP, flags };
    // SAFETY: no addresses.
    unsafe { call(LINK_CREATE, &mut attributes) }.map(owned)
}

/// Returns the program's verdict on a frame: an `XDP_…` action.
#[cfg(test)]
pub(crate) fn test_run(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    #[repr(C)]
    struct TestRun {
        program: u32,
        result: u32,
        input_bytes: u32,
        output_bytes: u32,
        input: u64,
        output: u64,
        repeat: u32,
        duration: u32,
    }
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        result: 0,
        input_bytes: frame.len() as u32,
        output_bytes: 0,
        input: frame.as_ptr() as u64,
        output: 0,
        repeat: 1,
        duration: 0,
    };
    // SAFETY: the frame is readable for its length, through the call.
    unsafe { call(PROGRAM_TEST_RUN, &mut attributes) }?;
    Ok(attributes.result)
}
