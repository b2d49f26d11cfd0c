//! readout/mod
