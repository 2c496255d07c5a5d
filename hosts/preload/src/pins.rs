//! Where pages are copied rather than moved (`--mechanism copy`), nothing says whether the kernel or a device holds a
//! page's frame. What it writes there after the page has left would be lost: so the calls by which a program has memory
//! held are refused, as sandboxes and old file systems refuse them.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter_all_threads,
};

/// Has the kernel refuse io_uring and Linux AIO (ENOSYS), and O_DIRECT (EINVAL), to this process and its children. From
/// now on it cannot gain rights by set-uid programs.
///
/// # Errors
/// What the kernel, or one built without seccomp, says to that.
pub fn refuse() -> Result<(), Error> {
    // Programs that get ENOSYS go on with `openat`.
    let missing = [
        libc::SYS_io_uring_setup,
        libc::SYS_io_setup,
        libc::SYS_openat2,
    ];
    let missing = missing.map(|call| (call, Vec::new()));
    filter(missing.into(), libc::ENOSYS)?;
    let set_flags = SeccompCondition::new(1, Dword, Eq, libc::F_SETFL as u64)?;
    let direct = [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, rule(vec![is_direct(1)?])?),
        (libc::SYS_openat, rule(vec![is_direct(2)?])?),
        (libc::SYS_fcntl, rule(vec![set_flags, is_direct(2)?])?),
    ];
    filter(direct.into(), libc::EINVAL)
}

/// Whether the argument has O_DIRECT.
fn is_direct(argument: u8) -> Result<SeccompCondition, Error> {
    let flag = libc::O_DIRECT as u64;
    Ok(SeccompCondition::new(
        argument,
        Dword,
        MaskedEq(flag),
        flag,
    )?)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<Vec<SeccompRule>, Error> {
    Ok(vec![SeccompRule::new(conditions)?])
}

/// Lets these calls fail with `errno`.
fn filter(calls: BTreeMap<c_long, Vec<SeccompRule>>, errno: c_int) -> Result<(), Error> {
    let filter = SeccompFilter::new(
        calls,
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?;
    apply_filter_all_threads(&BpfProgram::try_from(filter)?)
}
