//! emulator/mod
