//! The version of this program, and the commit that it was built from (build.rs).

/// `0.1.0 (1234567890ab)`; `-dirty` behind a commit whose sources were changed before the build,
/// `unknown` instead where the build was outside a checkout.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("FLUXLINE_COMMIT"), ")");

/// The same with the program's name, for reports.
pub const PROGRAM: &str =
    concat!("fluxline ", env!("CARGO_PKG_VERSION"), " (", env!("FLUXLINE_COMMIT"), ")");
