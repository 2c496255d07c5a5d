//! What people see of the daemon, of programs and of the machine.

pub mod daemon;
pub mod doctor;
pub mod kernel_program;
pub mod programs;

use warmswap_output::Quantity;

fn ratio(value: Option<f64>) -> Quantity {
    value.map_or(Quantity::Missing, Quantity::Ratio)
}

fn fraction(value: Option<f64>) -> Quantity {
    value.map_or(Quantity::Missing, Quantity::Fraction)
}
