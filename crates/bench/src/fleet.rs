//! Fleet beside a native collector and Marvin: the figures of section 7, on the managed heap.

pub mod program;
pub mod programs;
