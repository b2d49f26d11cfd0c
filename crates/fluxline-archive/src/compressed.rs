//! Compression by zstd, in programs that were built with it.

use std::io::{self, Read};

/// True when this program compresses.
pub const IS_HERE: bool = cfg!(feature = "zstd");
/// The command that builds one.
pub const ADVICE: &str = "this program was built without zstd; build it with `cargo build \
                          --release --features zstd`";

/// Returns a reader of the compressed bytes of another.
#[cfg(feature = "zstd")]
pub fn encoder<'a>(source: &'a mut dyn Read) -> io::Result<Box<dyn Read + 'a>> {
    // The usual level of zstd.
    const LEVEL: i32 = 3;
    Ok(Box::new(zstd::stream::read::Encoder::new(source, LEVEL)?))
}

/// Returns a reader of the original bytes of a compressed one.
#[cfg(feature = "zstd")]
pub fn decoder<'a>(stored: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    Ok(Box::new(zstd::stream::read::Decoder::new(stored)?))
}

/// Refuses: this program was built without zstd.
#[cfg(not(feature = "zstd"))]
pub fn encoder<'a>(_source: &'a mut dyn Read) -> io::Result<Box<dyn Read + 'a>> {
    Err(io::Error::other(ADVICE))
}

/// Refuses: this program was built without zstd.
#[cfg(not(feature = "zstd"))]
pub fn decoder<'a>(_stored: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    Err(io::Error::other(ADVICE))
}
