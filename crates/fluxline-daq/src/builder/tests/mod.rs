//! Known failures of other event builders, by name; the worked cases of docs/events.md; random runs
//! compared with an offline join of all arrivals.

mod cases;
mod files;
mod lives;
mod no_room;
mod parts;
mod random;
mod restarts;
mod saved;
mod sources;
mod world;
