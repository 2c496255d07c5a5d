//! Pages of files that a program has to read again and again are locked in memory, as long as that is safe.

#[allow(dead_code, reason = "other tests need more of it")]
mod common;

use std::path::{Path, PathBuf};

use common::{Machine, Program, program_with_a_file, reclaim_file, within};
use rustix::fs::{self, fadvise};
use warmswap_kernel::{Host, HostConfig};
use warmswap_sys::Root;
use warmswap_sys::residency::page_cache;
use warmswap_testkit::skip;

/// The pages of its file that the program reads.
const USED: std::ops::Range<u64> = 512..1536;

/// Of these, pages that may be missing: the kernel may have taken some before they could be locked.
const FEW: u64 = 64;

/// A program that has a file of 16 MiB mapped, and a host that watches it.
struct Setting {
    machine: Machine,
    program: Program,
    path: PathBuf,
    host: Host,
}

impl Setting {
    fn new(name: &str) -> Result<Self, String> {
        let machine = Machine::set_up(name, 16384)?;
        let Some((program, path)) = program_with_a_file(&machine) else {
            return Err("temporary files are in memory here".to_owned());
        };
        let config = HostConfig {
            mlock_files: true,
            ..within(1 << 30)
        };
        let mut host = Host::new(config, &Root::machine()).unwrap();
        let app = host.add(program.application("a")).unwrap();
        for _ in 0..2 {
            host.switch_to(app).unwrap();
            host.launch_done(app).unwrap();
        }
        Ok(Self {
            machine,
            program,
            path,
            host,
        })
    }

    /// Has the kernel reclaim what it can of the file, as where memory is short, so that it notices when pages come back. How many of the used pages are still cached.
    fn evict(&self) -> u64 {
        reclaim_file(&self.program, &self.path);
        cached(&self.path)
    }

    /// Reads the used pages; major faults.
    fn read(&mut self) -> u64 {
        let answer = self
            .program
            .ask(&format!("read {} {}", USED.start, USED.end));
        let (faults, sum) = answer.split_once(' ').unwrap();
        let expected: u64 = USED.map(|number| number % 251).sum();
        assert_eq!(sum, expected.to_string());
        faults.parse().unwrap()
    }

    /// Has the file dropped and read again until so many of its pages are locked.
    fn lock(&mut self) {
        let enough = (USED.end - USED.start - FEW) * 4096;
        wait_until(|| {
            self.evict();
            self.read();
            self.host.tick();
            let status = self.host.status();
            assert_eq!(status.files_unlockable, None);
            status.locked_file_bytes >= enough
        });
    }

    fn wait_until_unlocked(&mut self) {
        wait_until(|| {
            self.host.tick();
            self.host.status().locked_file_bytes == 0
        });
    }
}

/// Waits until something holds that a thread sees to which is told of it every 2 s.
fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..600 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("it never held");
}

fn cached(path: &Path) -> u64 {
    let cached = page_cache(path).unwrap();
    USED.filter(|&page| cached[page as usize]).count() as u64
}

#[test]
fn pages_that_were_read_again_stay_in_memory_as_long_as_they_are_mapped() {
    let name = "pages_that_were_read_again_stay_in_memory_as_long_as_they_are_mapped";
    let mut setting = match Setting::new(name) {
        Ok(setting) => setting,
        Err(reason) => skip!(name, "{reason}"),
    };
    setting.lock();

    let kept = setting.evict();
    assert!(kept >= USED.end - USED.start - FEW, "{kept} pages");
    let faults = setting.read();
    assert!(faults <= FEW + 16, "{faults} faults");
    let counters = setting.host.counters();
    assert!(counters.file_faults_seen > 0 && counters.mlock_cpu_ns > 0);
    // The whole file is 4096 pages; what was not touched is not held, but for neighbours in the same windows.
    let locked = setting.host.status().locked_file_bytes / 4096;
    assert!(locked <= USED.end - USED.start + 256, "{locked} pages");

    // The program ends.
    setting.program.kill();
    setting.wait_until_unlocked();
    let file = std::fs::File::open(&setting.path).unwrap();
    fadvise(&file, 0, None, fs::Advice::DontNeed).unwrap();
    assert_eq!(cached(&setting.path), 0);
    let counters = setting.host.counters();
    assert_eq!(counters.file_pages_locked, counters.file_pages_unlocked);
}

#[test]
fn nothing_is_locked_without_room_in_swap_or_after_the_host() {
    let name = "nothing_is_locked_without_room_in_swap_or_after_the_host";
    let mut setting = match Setting::new(name) {
        Ok(setting) => setting,
        Err(reason) => skip!(name, "{reason}"),
    };
    setting.lock();
    let zram = setting.machine.zram.take();
    zram.unwrap().remove().unwrap();
    if setting.host.status().swap.total_bytes > 64 << 20 {
        skip!(name, "this machine has swap of its own");
    }
    setting.wait_until_unlocked();
    assert!(setting.evict() < FEW);
    // Nor later.
    for _ in 0..3 {
        setting.evict();
        setting.read();
        std::thread::sleep(std::time::Duration::from_millis(2100));
        setting.host.tick();
        assert_eq!(setting.host.status().locked_file_bytes, 0);
    }
}
