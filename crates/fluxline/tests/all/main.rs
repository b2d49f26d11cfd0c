//! The tests of real links. Tests that need other processes start this program again.

mod group;
mod loopback;
mod one_program;
mod ring_resume;
mod roce;
mod roce_namespaces;
mod roce_threads;
mod rxe;
mod scribbled;
mod shm_directory;
mod shm_processes;
mod shm_rings;
mod shm_users;
mod short_program;
mod support;
mod xdp;
