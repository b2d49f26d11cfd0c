//! The limits of the plain-memory fabric.

use super::super::Capabilities;
use crate::Span;

pub(super) const CAPABILITIES: Capabilities = Capabilities {
    link: "memory",
    operation_bytes_max: 16 << 20,
    message_bytes_max: 16 << 20,
    region_bytes_max: 1 << 40,
    regions_max: 4096,
    endpoints_max: 4096,
    queue_max: 64,
    pieces_max: 64,
    own_memory: true,
    windows: true,
    atomics: true,
    ordered: true,
    crossover_bytes: 0,
    death_noticed_within: Span::ZERO,
};

/// A message that has waited this long for a buffer completes with `Status::NoBuffer`.
pub(super) const NO_BUFFER_WAIT: Span = Span::from_ms(10);

/// The most time that passes in one call of `wait`.
pub(super) const WAIT: Span = Span::from_ns(1000);
