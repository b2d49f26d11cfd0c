//! Tests of every surface that takes bytes of strangers.

mod corpus;
mod strangers;
