//! builder/mod
