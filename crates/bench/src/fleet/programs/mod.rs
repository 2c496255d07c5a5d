//! Programs on the managed heap.
