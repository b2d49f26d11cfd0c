//! The tests of real links. Tests that need other processes start this program again.

mod group;
mod loopback;
mod one_program;
mod roce;
mod roce_namespaces;
mod roce_threads;
mod rxe;
mod scribbled;
mod shm_directory;
mod shm_processes;
mod shm_rings;
mod support;
mod xdp;
