//! Records what real programs touch, on kernel zram, into a trace.
