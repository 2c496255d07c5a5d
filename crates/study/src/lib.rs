//! The figures and tables of the papers, computed from traces and replays.
