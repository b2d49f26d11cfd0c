//! record/mod
