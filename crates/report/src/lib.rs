//! Tables, units and JSON for people and machines.
