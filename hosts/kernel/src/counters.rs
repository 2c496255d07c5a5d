//! What a host did, and what it was refused, by reason.

use serde::{Deserialize, Serialize};

/// Counters since the host began. Each says when it moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Pages that a page-out was asked for.
    pub page_out_asked: u64,
    /// Of these, pages that were seen in swap afterwards.
    pub page_out_done: u64,
    /// Of these, pages that were still in memory: several processes have them, they are locked, were touched at once, or
    /// swap has no room. Not asked for again for a while after the second time.
    pub page_out_kept: u64,
    /// Of these, pages that were gone: freed or unmapped meanwhile.
    pub page_out_freed: u64,
    /// Pages that the kernel paged out by itself.
    pub left_by_kernel: u64,
    /// Pages that came back because they were touched.
    pub came_back: u64,
    /// Pages that prepaging was asked for.
    pub prepage_asked: u64,
    /// Of these, pages that the kernel went through.
    pub prepage_done: u64,
    /// Of these, pages that were touched before the launch window closed.
    pub prepage_used: u64,
    /// Of these, pages that were not.
    pub prepage_wasted: u64,
    /// Of these, pages that were sent out of the swap cache again, since memory was short.
    pub prepage_put_back: u64,
    /// Ranges refused because they were not mapped any more.
    pub refused_unmapped: u64,
    /// Ranges refused because they are locked, huge or device memory.
    pub refused_unsuitable: u64,
    /// Ranges refused because the kernel had no time for them.
    pub refused_busy: u64,
    /// Ranges whose pages could not be read or written: the swap device failed.
    pub refused_failed: u64,
    /// Calls refused because the process may not be touched (EPERM): a set-user program, or one under a tracer
    /// that the security module protects.
    pub refused_permission: u64,
    /// Calls that found the process gone (ESRCH).
    pub process_gone: u64,
    /// Processes that could not be watched for another reason.
    pub process_unreadable: u64,
    /// Processes that were found to have executed another program: what was known of them was dropped.
    pub process_executed: u64,
    /// Page-outs put off because the swap has no room.
    pub put_off_no_swap: u64,
    /// Page-outs put off because so many pages had left in this second.
    pub put_off_rate: u64,
    /// Page-outs put off because all that could leave belongs to a launch under way.
    pub put_off_launch: u64,
    /// Switches while the host stood aside, since programs wait no longer without it.
    pub switches_aside: u64,
    /// Switches while it took part after which programs waited for memory as long as without it, or longer.
    pub switches_in_vain: u64,
    /// Scans of a process's page table.
    pub scans: u64,
    /// Pages that stayed in memory, and whose accessed bits were found set.
    pub accesses_seen: u64,
    /// How often the accessed bits of an application were cleared.
    pub access_clears: u64,
    /// Major faults on pages of files that were looked at.
    pub file_faults_seen: u64,
    /// Pages of files that were locked in memory after such a fault.
    pub file_pages_locked: u64,
    /// Of these, pages that were unlocked again.
    pub file_pages_unlocked: u64,
    /// Nanoseconds of CPU time of the thread that does so.
    pub mlock_cpu_ns: u64,
    /// Bytes of the pool that were freed by compressing idle pages anew, or writing them back.
    pub upkeep_freed_bytes: u64,
    /// Rounds of that which a device refused.
    pub upkeep_refused: u64,
    /// Nanoseconds of CPU time of the host's calls (observation and page-out).
    pub host_cpu_ns: u64,
    /// Of these, in calls in which the kernel pages out: any reclaim costs it.
    pub page_out_cpu_ns: u64,
    /// Of these, for accessed bits.
    pub access_cpu_ns: u64,
    /// Nanoseconds of CPU time of the prefetch threads.
    pub prepage_cpu_ns: u64,
}
