//! The capabilities of a node's link, and its clock.

use std::ffi::c_char;

use fluxline_core::Moment;

use crate::border::{Out, Refused, guard, handle, text};
use crate::{FluxlineCode, FluxlineNode};

/// The capabilities of a link, so that programs adapt instead of guessing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FluxlineCapabilities {
    /// The link's name, up to a zero byte.
    pub link: [c_char; 32],
    /// The longest operation, in bytes.
    pub operation_bytes_max: u64,
    /// The longest message, in bytes.
    pub message_bytes_max: u64,
    /// The largest region, in bytes.
    pub region_bytes_max: u64,
    /// The most regions, and the most imports.
    pub regions_max: u32,
    /// The most connections.
    pub endpoints_max: u32,
    /// Operations that one connection takes before some complete.
    pub queue_max: u32,
    /// The most pieces of one FluxlineWork.
    pub pieces_max: u32,
    /// Bits: FLUXLINE_CAN_MAP and so on.
    pub can: u32,
    /// Length from which a put is at least as fast as stores through a window, in bytes.
    pub crossover_bytes: u64,
    /// The longest time from a peer's death to the report of its broken connections, in ns.
    pub death_noticed_within_ns: u64,
}

/// Capability: fluxline_window maps peers' regions.
pub const FLUXLINE_CAN_MAP: u32 = 1;
/// Capability: atomics of peers are atomic with respect to the owner's own atomics.
pub const FLUXLINE_CAN_ATOMICS: u32 = 2;
/// Capability: work of one connection is placed in the order in which it was posted.
pub const FLUXLINE_CAN_ORDER: u32 = 4;

/// Writes the capabilities of the node's link to *capabilities.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_capabilities(
    node: *mut FluxlineNode,
    capabilities: *mut FluxlineCapabilities,
) -> FluxlineCode {
    guard(|| {
        let (place, node) = (Out::new(capabilities)?, handle(node)?);
        let of = *node.fabric().capabilities();
        let mut link = [0; 32];
        // The last byte stays zero.
        for (to, from) in link[..31].iter_mut().zip(of.link.bytes()) {
            *to = from.cast_signed() as c_char;
        }
        let bit = |has: bool, bit| if has { bit } else { 0 };
        place.put(FluxlineCapabilities {
            link,
            operation_bytes_max: of.operation_bytes_max,
            message_bytes_max: of.message_bytes_max,
            region_bytes_max: of.region_bytes_max,
            regions_max: of.regions_max,
            endpoints_max: of.endpoints_max,
            queue_max: of.queue_max,
            pieces_max: of.pieces_max,
            can: bit(of.windows, FLUXLINE_CAN_MAP)
                | bit(of.atomics, FLUXLINE_CAN_ATOMICS)
                | bit(of.ordered, FLUXLINE_CAN_ORDER),
            crossover_bytes: of.crossover_bytes,
            death_noticed_within_ns: of.death_noticed_within.as_ns(),
        });
        Ok(())
    })
}

/// Writes the time of the node's link to *now_ns, in ns: that of the host, or virtual time. It
/// never goes back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_now_ns(
    node: *mut FluxlineNode,
    now_ns: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (place, node) = (Out::new(now_ns)?, handle(node)?);
        place.put(node.fabric().now().as_ns());
        Ok(())
    })
}

/// Sleeps until fluxline_poll has something, or until this moment of fluxline_now_ns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_wait_until_ns(
    node: *mut FluxlineNode,
    until_ns: u64,
) -> FluxlineCode {
    guard(|| {
        let node = handle(node)?;
        if node.kept.is_empty() {
            node.fabric().wait(Moment::from_ns(until_ns));
        }
        Ok(())
    })
}

/// Writes a counter of the node's work to *value, by its name in docs/counters.md: `puts`, `done`
/// and so on. FLUXLINE_CODE_ARGUMENT: there is none of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fluxline_counter(
    node: *mut FluxlineNode,
    counter_name: *const c_char,
    value: *mut u64,
) -> FluxlineCode {
    guard(|| {
        let (place, node, wanted) = (Out::new(value)?, handle(node)?, text(counter_name)?);
        let found = node.fabric().counters().rows().find(|(row, _)| row.name == wanted);
        let unknown =
            || Refused::argument(format_args!("`{wanted}` is not a counter; see docs/counters.md"));
        place.put(found.ok_or_else(unknown)?.1);
        Ok(())
    })
}
