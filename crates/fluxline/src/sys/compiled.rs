//! A compiled function that decides on events, called by its address.
//!
//! C compilers, numba and cffi make such functions. Their rows are plain numbers, so that each of
//! these languages can declare them. The header of the C library is made from this file.

use std::ffi::c_void;

/// An event, as a filter reads it. Numbers that it does not have are UINT64_MAX or UINT32_MAX.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledEvent {
    /// The key that joined its packets.
    pub key: u64,
    /// Time of arrival of its first packet, in ns since 1970.
    pub first_ns: u64,
    /// Time of arrival of its last packet, in ns since 1970.
    pub last_ns: u64,
    /// Time at which it was closed, in ns since 1970.
    pub built_ns: u64,
    /// Length of the bytes of all its packets together.
    pub bytes: u64,
    /// Number of its packets.
    pub packets: u32,
    /// The generation of its key.
    pub generation: u32,
    /// The only source that it may hold, where sources do not share its key.
    pub source: u32,
    /// 0: complete, 1: incomplete, 2: stopped.
    pub status: u32,
}

/// The C header has `UINT64_MAX` instead of this constant.
///
/// cbindgen:ignore
impl CompiledEvent {
    /// The value of numbers that an event or packet does not have.
    pub const NONE: u64 = u64::MAX;
}

/// A packet of an event, as a filter reads it. Numbers that it does not have are UINT64_MAX.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledPacket {
    /// Start of its bytes in the bytes of the event.
    pub start: u64,
    /// The packet counter, unwrapped.
    pub sequence: u64,
    /// Time of arrival, in ns since 1970.
    pub time_ns: u64,
    /// The sensor's time, in ns since its epoch.
    pub sensor_time_ns: u64,
    /// Packet index or byte offset within its source's fragment.
    pub part: u64,
    /// Number of its bytes.
    pub bytes: u32,
    /// Start of the payload in the packet.
    pub payload_start: u32,
    /// Length of the payload, in bytes.
    pub payload_bytes: u32,
    /// The number of the source.
    pub source: u32,
    /// The number of the source's input: its place in the experiment, from 0.
    pub input: u32,
    /// The number of the packet type in the source's description, from 0.
    pub packet_type: u32,
}

/// A compiled filter: above 0 keeps the event, 0 rejects it, below 0 says that it failed.
///
/// It reads the event, as many packets as the event says, as many bytes as the event says, and the
/// pointer that was given with it.
pub type FilterFunction = unsafe extern "C" fn(
    event: *const CompiledEvent,
    packets: *const CompiledPacket,
    bytes: *const u8,
    context: *mut c_void,
) -> i32;

/// A compiled function with its context.
#[derive(Clone, Copy, Debug)]
pub struct CompiledFilter {
    function: FilterFunction,
    context: *mut c_void,
}

// SAFETY: `new` demands that the function may be called with the context from another thread.
unsafe impl Send for CompiledFilter {}

impl CompiledFilter {
    /// Makes a filter of a function and a pointer that is passed to it.
    ///
    /// # Safety
    /// The function and its context live as long as this value and its copies. The function may be
    /// called from any thread, one call at a time; it only reads what [`FilterFunction`] lists, and
    /// does not unwind.
    #[must_use]
    pub unsafe fn new(function: FilterFunction, context: *mut c_void) -> CompiledFilter {
        CompiledFilter { function, context }
    }

    /// Makes a filter of a function's address, as numba and cffi give it; `None` for 0.
    ///
    /// # Safety
    /// As for [`CompiledFilter::new`]: the address is that of a [`FilterFunction`].
    #[must_use]
    pub unsafe fn from_address(address: usize, context: usize) -> Option<CompiledFilter> {
        let pointer = std::ptr::with_exposed_provenance::<c_void>(address);
        // SAFETY: a null pointer is `None` by the layout of `Option` of a function pointer; for
        // any other, the caller promises a `FilterFunction`.
        let function =
            unsafe { std::mem::transmute::<*const c_void, Option<FilterFunction>>(pointer) };
        let context = std::ptr::with_exposed_provenance_mut(context);
        // SAFETY: the caller's promise.
        function.map(|function| unsafe { CompiledFilter::new(function, context) })
    }

    /// Calls the function for an event. Cost: one call through a pointer.
    ///
    /// # Panics
    /// Panics when `packets` or `bytes` are not as many as the event says.
    #[must_use]
    pub fn call(&self, event: &CompiledEvent, packets: &[CompiledPacket], bytes: &[u8]) -> i32 {
        assert!(event.packets as usize == packets.len() && event.bytes == bytes.len() as u64);
        // SAFETY: the pointers are valid for the lengths in `event` (asserted), and the maker of
        // this value promised that the function reads no more, and does not unwind.
        unsafe { (self.function)(event, packets.as_ptr(), bytes.as_ptr(), self.context) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the bytes of the packets' payloads, and compares the sum with the context.
    unsafe extern "C" fn sums(
        event: *const CompiledEvent,
        packets: *const CompiledPacket,
        bytes: *const u8,
        context: *mut c_void,
    ) -> i32 {
        // SAFETY: `CompiledFilter::call` passes valid pointers and lengths.
        let (packets, bytes) = unsafe {
            let event = &*event;
            let packets = std::slice::from_raw_parts(packets, event.packets as usize);
            (packets, std::slice::from_raw_parts(bytes, event.bytes as usize))
        };
        let mut sum = 0;
        for packet in packets {
            let start = (packet.start + u64::from(packet.payload_start)) as usize;
            sum += bytes[start..][..packet.payload_bytes as usize]
                .iter()
                .map(|b| i32::from(*b))
                .sum::<i32>();
        }
        // SAFETY: the test passes the address of a number that lives longer.
        sum - unsafe { *context.cast::<i32>() }
    }

    #[test]
    fn a_function_sees_event_packets_bytes_and_context() {
        let mut limit = 10;
        let address = (sums as *const ()).expose_provenance();
        let context = (&raw mut limit).expose_provenance();
        // SAFETY: it is the function above, and the context lives until the end of the test.
        let filter = unsafe { CompiledFilter::from_address(address, context) }.expect("an address");
        let packet = |start| CompiledPacket {
            start,
            bytes: 3,
            payload_start: 1,
            payload_bytes: 2,
            ..CompiledPacket::default()
        };
        let event = CompiledEvent { packets: 2, bytes: 6, ..CompiledEvent::default() };
        let packets = [packet(0), packet(3)];
        assert_eq!(filter.call(&event, &packets, &[100, 1, 2, 100, 3, 4]), 0);
        assert_eq!(filter.call(&event, &packets, &[0, 3, 3, 0, 3, 2]), 1);
        // SAFETY: no function is made of a null address.
        assert!(unsafe { CompiledFilter::from_address(0, 0) }.is_none());
    }

    #[test]
    fn rows_have_the_layout_that_other_languages_declare() {
        assert_eq!((size_of::<CompiledEvent>(), size_of::<CompiledPacket>()), (56, 64));
        assert_eq!(std::mem::offset_of!(CompiledEvent, packets), 40);
        assert_eq!(std::mem::offset_of!(CompiledPacket, bytes), 40);
    }
}
