//! Definitions of real applications: how to start, relaunch and use them.
