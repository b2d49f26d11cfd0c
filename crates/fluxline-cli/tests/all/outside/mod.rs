//! Runs seen from outside: senders and readers that share no code with the program.
//!
//! Boards are Python scripts with plain sockets; each keeps a log of every packet that it sent. The
//! files of the run are read by pyarrow. The two are compared to the packet, and with the ledger.
//! FLUXLINE_PYTHON names a Python with pyarrow; without one the tests are skipped, unless
//! FLUXLINE_REQUIRE_TOOLS=1.

mod captures;
mod deaths;
mod faults;
mod late;
mod scene;
mod writes;
