//! What goes wrong with events elsewhere, each by name; the worked cases of docs/events.md; random
//! runs against an offline join that knows everything that arrived.

mod cases;
mod files;
mod parts;
mod random;
mod sources;
mod world;
