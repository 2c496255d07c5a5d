//! A BPF program that copies pages of kernel memory to this process.
//!
//! The program and this process share one map. This process writes addresses there and runs the program, which copies a
//! page from each address. An address that is not mapped gives zeros: the copy is the kernel's own, that cannot fault.

use std::ffi::CStr;
use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use warmswap_page::PAGE_BYTES;

use super::walk::{Table, Tables};

/// Pages that one run copies.
const MOST_PAGES: usize = 64;

/// The map: a page with [`TASK`], [`COUNT`] and the addresses, then the copies.
const MAP_BYTES: usize = (1 + MOST_PAGES) * PAGE_BYTES;
/// The address of the calling thread's `task_struct`.
const TASK: usize = 0;
const COUNT: usize = 1;
const ADDRESSES: usize = 2;
const _: () = assert!((ADDRESSES + MOST_PAGES) * 8 <= PAGE_BYTES);

// Of bpf(2).
const MAP_CREATE: i32 = 0;
const PROG_LOAD: i32 = 5;
const PROG_TEST_RUN: i32 = 10;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_IS_MAPPABLE: u32 = 1 << 10;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;

/// Copying kernel memory is for programs whose licence is compatible with the GPL.
const LICENSE: &CStr = c"Dual MIT/GPL";

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    most_entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ProgTestRun {
    program: u32,
    result: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

/// One instruction of a BPF machine: operation, registers, offset, constant.
const fn instruction(operation: u8, target: u8, source: u8, offset: i16, constant: i32) -> u64 {
    operation as u64
        | (target as u64) << 8
        | (source as u64) << 12
        | (offset as u16 as u64) << 16
        | (constant as u32 as u64) << 32
}

/// Helpers of the kernel (`include/uapi/linux/bpf.h`).
const MAP_LOOKUP_ELEM: i32 = 1;
const GET_CURRENT_TASK: i32 = 35;
const PROBE_READ_KERNEL: i32 = 113;

/// The program:
///
/// ```text
/// map = lookup(0); map[TASK] = current
/// for i in 0..min(map[COUNT], MOST_PAGES): probe_read_kernel(map + (1 + i) * PAGE_BYTES, PAGE_BYTES, map[ADDRESSES + i])
/// ```
fn program(map: &OwnedFd) -> [u64; 30] {
    const WORD: i16 = 8;
    let i = instruction;
    [
        // The key, 0, on the stack.
        i(0x62, 10, 0, -4, 0),
        // r1: the map, a constant of two instructions; r2: the key.
        i(0x18, 1, 1, 0, map.as_raw_fd()),
        0,
        i(0xbf, 2, 10, 0, 0),
        i(0x07, 2, 0, 0, -4),
        i(0x85, 0, 0, 0, MAP_LOOKUP_ELEM),
        i(0x55, 0, 0, 2, 0),
        i(0xb7, 0, 0, 0, 1),
        i(0x95, 0, 0, 0, 0),
        // r6: the map's memory; r8: how many; r7: which.
        i(0xbf, 6, 0, 0, 0),
        i(0x85, 0, 0, 0, GET_CURRENT_TASK),
        i(0x7b, 6, 0, WORD * TASK as i16, 0),
        i(0x79, 8, 6, WORD * COUNT as i16, 0),
        i(0xb7, 7, 0, 0, 0),
        // To the end (28) when r7 has reached one of both bounds.
        i(0x35, 7, 0, 13, MOST_PAGES as i32),
        i(0x3d, 7, 8, 12, 0),
        // r3: the address.
        i(0xbf, 1, 7, 0, 0),
        i(0x67, 1, 0, 0, 3),
        i(0x0f, 1, 6, 0, 0),
        i(0x79, 3, 1, WORD * ADDRESSES as i16, 0),
        // r1: the copy; r2: its length.
        i(0xbf, 1, 7, 0, 0),
        i(0x67, 1, 0, 0, PAGE_BYTES.ilog2() as i32),
        i(0x0f, 1, 6, 0, 0),
        i(0x07, 1, 0, 0, PAGE_BYTES as i32),
        i(0xb7, 2, 0, 0, PAGE_BYTES as i32),
        i(0x85, 0, 0, 0, PROBE_READ_KERNEL),
        i(0x07, 7, 0, 0, 1),
        // Back to the bounds (14).
        i(0x05, 0, 0, -14, 0),
        i(0xb7, 0, 0, 0, 0),
        i(0x95, 0, 0, 0, 0),
    ]
}

/// The memory of the map, shared with the kernel.
#[derive(Debug)]
struct MapMemory(NonNull<u8>);

// SAFETY: the mapping is this value's alone on our side. The kernel writes to it only while this process runs the program,
// which takes `&mut` of the reader that owns both.
unsafe impl Send for MapMemory {}

impl Drop for MapMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `KernelReader::load` made; all references into it borrow from this value.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), MAP_BYTES) };
    }
}

/// Copies pages of kernel memory.
#[derive(Debug)]
pub(super) struct KernelReader {
    program: OwnedFd,
    memory: MapMemory,
}

impl KernelReader {
    /// Loads the program.
    ///
    /// # Errors
    /// The kernel's answer: EPERM without the rights, EINVAL where it has no such program.
    pub fn load() -> io::Result<Self> {
        let map = call(
            MAP_CREATE,
            &mut MapCreate {
                map_type: MAP_TYPE_ARRAY,
                key_bytes: 4,
                value_bytes: MAP_BYTES as u32,
                most_entries: 1,
                flags: MAP_IS_MAPPABLE,
            },
        )?;
        // SAFETY: the kernel has just given us this descriptor.
        let map = unsafe { OwnedFd::from_raw_fd(map) };
        let code = program(&map);
        let program = call(
            PROG_LOAD,
            &mut ProgLoad {
                prog_type: PROG_TYPE_RAW_TRACEPOINT,
                instructions: code.len() as u32,
                code: code.as_ptr() as u64,
                license: LICENSE.as_ptr() as u64,
                ..ProgLoad::default()
            },
        )?;
        // SAFETY: the kernel has just given us this descriptor.
        let program = unsafe { OwnedFd::from_raw_fd(program) };
        // SAFETY: a fresh shared mapping at an address of the kernel's choice.
        let memory = unsafe {
            mmap(
                std::ptr::null_mut(),
                MAP_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &map,
                0,
            )
        }?;
        let memory = NonNull::new(memory.cast::<u8>());
        let memory = memory.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self {
            program,
            memory: MapMemory(memory),
        })
    }

    /// The address of the calling thread's `task_struct`.
    pub fn own_task(&mut self) -> io::Result<u64> {
        self.copy(&[])?;
        Ok(self.head()[TASK])
    }

    /// The word at an address that is a multiple of eight.
    pub fn word(&mut self, address: u64) -> io::Result<u64> {
        let page_bytes = PAGE_BYTES as u64;
        self.copy(&[address & !(page_bytes - 1)])?;
        Ok(self.table(0)[(address % page_bytes / 8) as usize])
    }

    fn head(&mut self) -> &mut Table {
        // SAFETY: the first page of the mapping, aligned, initialised by the kernel, and borrowed from `self`. Nothing else
        // writes there but the program, which runs in `copy` only, with `&mut self`.
        unsafe { self.memory.0.cast().as_mut() }
    }
}

impl Tables for KernelReader {
    const MOST: usize = MOST_PAGES;

    fn copy(&mut self, addresses: &[u64]) -> io::Result<()> {
        let head = self.head();
        head[COUNT] = addresses.len() as u64;
        head[ADDRESSES..ADDRESSES + addresses.len()].copy_from_slice(addresses);
        let mut run = ProgTestRun {
            program: self.program.as_raw_fd().unsigned_abs(),
            ..ProgTestRun::default()
        };
        call(PROG_TEST_RUN, &mut run)?;
        match run.result {
            0 => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    fn table(&self, at: usize) -> &Table {
        assert!(at < MOST_PAGES);
        // SAFETY: a page of the mapping behind the first, aligned and initialised by the kernel; it is borrowed from
        // `self`, so that the program does not run meanwhile.
        unsafe { self.memory.0.add((1 + at) * PAGE_BYTES).cast().as_ref() }
    }
}

/// The system call bpf(2).
fn call<A>(command: i32, attributes: &mut A) -> io::Result<i32> {
    // SAFETY: the kernel reads, and for a run of a program writes, at most as many bytes as the attributes have. Addresses
    // in them are of values that the caller borrows until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw mut *attributes,
            size_of_val(attributes),
        )
    };
    match result {
        0.. => Ok(result as i32),
        _ => Err(io::Error::last_os_error()),
    }
}
