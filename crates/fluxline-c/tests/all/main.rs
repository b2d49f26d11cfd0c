//! The tests of the C library: C programs, and the laws of links through the C interface.

mod c_programs;
mod laws;
