//! Checks on the house.
fn main() {}
