//! What people see of the daemon, of programs and of the machine.

pub mod daemon;
pub mod doctor;
pub mod kernel_program;
pub mod programs;
