//! capture/mod
