//! A process that holds the lock of its address space: one thread writes to a page of a file system that is frozen, and another
//! changes the rights of that mapping, for which it waits with the lock held.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use warmswap_sys::Root;
use warmswap_sys::process::Stat;

const PROGRAM: &str = r#"
import ctypes, mmap, os, sys, threading, time
file = os.open(sys.argv[1], os.O_RDWR)
memory = mmap.mmap(file, 16384)
memory[0]
address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
libc = ctypes.CDLL(None)
print("mapped", flush=True)
sys.stdin.readline()
writer = threading.Thread(target=libc.memset, args=(address, 1, 1))
writer.start()
def state():
    with open(f"/proc/self/task/{writer.native_id}/stat") as stat:
        return stat.read().rpartition(") ")[2][0]
while state() != "D":
    time.sleep(0.01)
print("writes", flush=True)
libc.mprotect(address, 16384, 1)
"#;

/// The process. Dropping it thaws the file system, and ends both.
pub struct Stuck {
    place: PathBuf,
    child: Option<Child>,
}

impl Stuck {
    /// Starts it, with its file system in a folder below `place`; why it cannot.
    pub fn start(place: &Path) -> Result<Self, String> {
        if !warmswap_sys::is_root() {
            return Err("only root may mount".to_owned());
        }
        let (image, mount) = (place.join("image"), place.join("mount"));
        let made = std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20));
        made.and_then(|()| std::fs::create_dir(&mount)).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(&mount))?;
        let mut stuck = Self {
            place: mount.clone(),
            child: None,
        };
        let path = mount.join("file");
        std::fs::write(&path, [0; 16384]).unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).arg(&path);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = python
            .spawn()
            .map_err(|error| format!("python3: {error}"))?;
        let child = stuck.child.insert(child);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut expect = |word: &str| match lines.next() {
            Some(Ok(line)) if line == word => Ok(()),
            other => Err(format!("python3 said {other:?}")),
        };
        expect("mapped")?;
        run(Command::new("fsfreeze").arg("-f").arg(&mount))?;
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        expect("writes")?;
        while !stuck.is_stuck() {
            std::thread::yield_now();
        }
        Ok(stuck)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Whether its main thread waits.
    pub fn is_stuck(&self) -> bool {
        Stat::read(&Root::machine(), self.pid()).is_ok_and(|stat| stat.state == 'D')
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        // Where it was not frozen yet, that is refused.
        let _ = run(Command::new("fsfreeze").arg("-u").arg(&self.place));
        if let Some(mut child) = self.child.take() {
            let _ = child.kill().and_then(|()| child.wait());
        }
        // The daemon's thread that waited for it lets go of its memory, and of the file in it, a moment later.
        let _ = run(Command::new("umount").arg("-l").arg(&self.place));
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
