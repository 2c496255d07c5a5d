//! The `warmswap` command.
fn main() {}
