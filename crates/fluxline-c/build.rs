//! Gives the shared library the name of its interface: programs ask for that of their header.

/// Number of the interface: it grows when a declaration of the header changes (`abi/`).
const INTERFACE: u32 = 0;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=FLUXLINE_INTERFACE={INTERFACE}");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfluxline_c.so.{INTERFACE}");
    }
}
