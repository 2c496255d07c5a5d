//! The library that `warmswap run --host preload` preloads into unmodified programs: their memory becomes an arena's
//! ([`warmswap_program::Space`]), within a budget.
//!
//! | module | subject |
//! |---|---|
//! | `settings` | what the command asked for, and the space that it asked for |
//! | `malloc` | `malloc` and friends, by mimalloc, whose memory comes from `mmap` |
//! | `large` | its large blocks, which are mappings |
//! | `mallinfo` | what the program is told of its allocator |
//! | `mapping`, `remap` | `mmap`, `munmap`, `mprotect`, `madvise`, `mremap`: large private anonymous mappings are made in the space |
//! | `asks` | calls that say what is mapped |
//! | `go` | programs with a Go runtime are not paged |
//! | `handles` | functions that are looked up by a handle of the C library are this one's |
//! | `loading` | libraries that are loaded call this one, too |
//! | `hints` | programs that insist on the addresses that they hint at |
//! | `shm` | System V shared memory that the program attaches over its memory |
//! | `files` | files that the program maps to read them, when they are asked for |
//! | `fork` | both sides of a `fork` go on with all their memory |
//! | `gate` | no thread is inside mimalloc while the process forks |
//! | `ends` | the process ends with the last of the program's threads |
//! | `keeper` | the thread that takes the program's memory over when it nears its budget, and answers the command |
//! | `report` | what the program reports |
//! | `heap` | memory of this library's own, which is never paged |
//! | `limits` | limits of the program under which it is not paged, or that are kept here |
//! | `exec`, `target` | before another program takes this one's place, or is started: one that cannot take this library does not get it |
//! | `actions` | the folder in which a program begins that `posix_spawn` starts |
//! | `locked` | a program that locks all of its memory is not paged |
//! | `threads` | threads of this library are known from their first instruction, and have stacks of their own |
//! | `attributes` | what the kernel keeps of addresses beside their protection |
//! | `filters` | a program that filters its system calls is not paged |
//! | `real` | how this library stands before functions of the C library |
//! | `rights` | before the program gives up rights, what needs them is opened |
//! | `unbound` | before processes are created, and where threads may run is asked, no thread is bound to a processor |
//! | `thread_words` | words of each thread, which cost no call |
//! | `reentrancy` | when a thread works for this library |
//! | `kernel` | system calls past the replaced functions |
//!
//! # Rules
//!
//! - This library's own data lies in its own heap, its threads' stacks in memory of the kernel's: nothing that
//!   is needed to bring a page back is paged.
//! - A program that never maps more than its budget has no thread of this library, and no descriptor.
//! - The library's threads have a table of descriptors of their own. The program cannot close what they need,
//!   and they hold nothing of the program's open.
//! - What is not a large, private, anonymous mapping for reading and writing, or one of a file for reading, goes to the
//!   kernel as it is.
#![allow(unsafe_code)] // Functions of the C library, with the C library's own obligations.

mod actions;
mod asks;
mod attributes;
mod ends;
mod exec;
mod files;
mod filters;
mod fork;
mod gate;
mod go;
mod handles;
mod heap;
mod hints;
mod keeper;
mod kept;
mod kernel;
mod large;
mod limits;
mod loading;
mod locked;
mod mallinfo;
mod malloc;
mod mapping;
mod mover;
mod namespaces;
mod own_advice;
mod pins;
mod real;
mod reentrancy;
mod remap;
mod report;
mod rights;
mod settings;
mod shm;
mod stacks;
mod target;
mod thread_words;
mod threads;
mod uffds;
mod unbound;

#[global_allocator]
static HEAP: heap::Heap = heap::Heap::new();

/// Called when the library is loaded, before the program begins.
extern "C" fn start() {
    {
        let _within = reentrancy::ReentrancyGuard::enter();
        handles::start();
        malloc::know_foreign_blocks();
        gate::start();
        fork::start();
        threads::start();
        kept::start();
        uffds::start();
        filters::start();
        namespaces::start();
        shm::start();
        ends::start();
        unbound::start();
        loading::start();
        exec::start();
        rights::start();
        settings::start();
    }
    if let Some(space) = settings::space() {
        malloc::leave_early_segment(|address| space.range().contains(&address));
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
