//! The native half of the Python package `warmswap`.
//!
//! `keep` walks objects through the `gc` module and notes their pages; `module` hands them to the pager of
//! `warmswap-self-pager`, which works on a thread of its own. No structure of CPython is looked into: the stable
//! interface (abi3) gives addresses, types and lengths, and no more.

mod interpreter;
mod keep;
mod module;
