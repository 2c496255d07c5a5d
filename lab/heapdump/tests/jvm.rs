//! Sizes as the virtual machine itself counts them: dumps of a running JVM beside `GC.class_histogram`, under each layout
//! that its options make. Prints a table with `--nocapture`. Needs a JDK in /usr/lib/jvm; skipped by name where there is none.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use warmswap_heapdump::{DumpFile, ObjectGraph, ObjectKind, WhichDump};

/// Objects of many sizes, and parked virtual threads where Java has them.
const PROGRAM: &str = r#"
import java.util.*;
public class Sizes {
  static class Base { byte a; }
  static class Wide extends Base { long b; Object c; }
  static class Wider extends Wide { short d; byte e; Object f; double g; }
  public static void main(String[] args) throws Exception {
    List<Object> keep = new ArrayList<>();
    for (int i = 0; i < 20000; i++) {
      switch (i % 8) {
        case 0: keep.add(new Base()); break;
        case 1: keep.add(new Wide()); break;
        case 2: keep.add(new Wider()); break;
        case 3: keep.add("text " + i); break;
        case 4: keep.add(new byte[i % 100]); break;
        case 5: keep.add(new long[i % 20]); break;
        case 6: keep.add(new Object[i % 30]); break;
        default: keep.add(new HashMap<>(Map.of(i, "x" + i)));
      }
    }
    if (Runtime.version().feature() >= 21) {
      var start = Thread.class.getMethod("startVirtualThread", Runnable.class);
      for (int i = 0; i < 2000; i++) {
        int depth = i % 20;
        start.invoke(null, (Runnable) () -> park(depth));
      }
      while (parked.get() < 2000) Thread.sleep(10);
    }
    System.out.println("ready");
    System.in.read();
  }
  static final java.util.concurrent.atomic.AtomicInteger parked = new java.util.concurrent.atomic.AtomicInteger();
  static void park(int depth) {
    if (depth == 0) { parked.incrementAndGet(); while (true) java.util.concurrent.locks.LockSupport.park(); }
    long x = depth; park(depth - 1); if (x < 0) System.out.println(x);
  }
}
"#;

/// Options that change how objects are laid out, and collectors that leave them elsewhere.
const OPTIONS: [&[&str]; 11] = [
    &["-XX:+UseSerialGC"],
    &["-XX:+UseZGC"],
    &["-XX:-UseCompressedClassPointers"],
    &["-XX:ObjectAlignmentInBytes=16"],
    &["-XX:+UseCompactObjectHeaders"],
    &["-XX:+UseParallelGC"],
    &["-XX:+UseShenandoahGC"],
    &["-XX:-UseCompressedOops"],
    &["-XX:-UseCompressedOops", "-XX:-UseCompressedClassPointers"],
    &["-XX:ObjectAlignmentInBytes=32", "-XX:-UseCompressedOops"],
    &[
        "-XX:+UseCompactObjectHeaders",
        "-XX:ObjectAlignmentInBytes=16",
    ],
];

/// As many of them, from the front, are tried where the variable below is not set.
const TRIED: usize = 5;

/// Set to try all of them.
const ALL_VARIABLE: &str = "WARMSWAP_ALL_LAYOUTS";

struct Jvm {
    child: Child,
    jcmd: PathBuf,
}

impl Jvm {
    /// `None` where this version does not know the options.
    fn start(jdk: &Path, classes: &Path, options: &[&str]) -> Option<Self> {
        let mut child = Command::new(jdk.join("bin/java"))
            .args(["-Xmx96m", "-XX:TieredStopAtLevel=1"])
            .args(options)
            .arg("-cp")
            .arg(classes)
            .arg("Sizes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("java runs");
        let output = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line == "ready");
        let jvm = Self {
            child,
            jcmd: jdk.join("bin/jcmd"),
        };
        is_ready.then_some(jvm)
    }

    fn tell(&self, args: &[&str]) -> String {
        let pid = self.child.id().to_string();
        let output = Command::new(&self.jcmd).arg(pid).args(args).output();
        String::from_utf8(output.expect("jcmd runs").stdout).expect("text")
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Objects and bytes by class, as `GC.class_histogram` prints them.
fn histogram(text: &str) -> HashMap<String, (u64, u64)> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        words.next()?.strip_suffix(':')?;
        let (objects, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some((words.next()?.replace('.', "/"), (objects, bytes)))
    };
    text.lines().filter_map(row).collect()
}

fn sizes(graph: &ObjectGraph) -> HashMap<String, (u64, u64)> {
    let mut sizes: HashMap<String, (u64, u64)> = HashMap::new();
    for object in graph.objects() {
        let name = match graph.kind(object) {
            ObjectKind::Class => "java/lang/Class".to_owned(),
            _ => graph.class(graph.class_of(object)).name.clone(),
        };
        let class = sizes.entry(name).or_default();
        class.0 += 1;
        class.1 += graph.size_bytes(object);
    }
    sizes
}

/// How far the sizes are from the virtual machine's: of classes with as many objects in both, all together. The others have
/// objects that are not in a dump, as those of the archive of classes that are not used.
fn error_of(graph: &ObjectGraph, counted: &HashMap<String, (u64, u64)>) -> f64 {
    let (mut ours, mut theirs) = (0, 0);
    for (class, (objects, bytes)) in sizes(graph) {
        if let Some((counted_objects, counted_bytes)) = counted.get(&class)
            && *counted_objects == objects
        {
            ours += bytes;
            theirs += counted_bytes;
        }
    }
    let all: u64 = counted.values().map(|(_, bytes)| bytes).sum();
    assert!(
        theirs * 2 > all,
        "half of the heap can be compared: {theirs} of {all}"
    );
    (ours as f64 - theirs as f64) / theirs as f64
}

fn jdks() -> Vec<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib/jvm")
        .into_iter()
        .flatten()
        .flatten();
    let mut jdks: Vec<PathBuf> = folders
        .filter_map(|entry| entry.path().canonicalize().ok())
        .filter(|path| path.join("bin/javac").exists() && path.join("bin/jcmd").exists())
        .collect();
    jdks.sort();
    jdks.dedup();
    jdks
}

#[test]
fn sizes_are_the_virtual_machines() {
    let jdks = jdks();
    if jdks.is_empty() {
        warmswap_testkit::skip!("sizes_are_the_virtual_machines", "no JDK in /usr/lib/jvm");
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("Sizes.java"), PROGRAM).expect("written");
    let tried = match std::env::var_os(ALL_VARIABLE) {
        Some(_) => &OPTIONS[..],
        None => &OPTIONS[..TRIED],
    };
    for jdk in jdks {
        let classes = folder.path().join("classes");
        let javac = Command::new(jdk.join("bin/javac"))
            .arg("-d")
            .args([&classes, &folder.path().join("Sizes.java")])
            .status();
        assert!(javac.expect("javac runs").success());
        for options in tried {
            let Some(jvm) = Jvm::start(&jdk, &classes, options) else {
                continue;
            };
            let counted = histogram(&jvm.tell(&["GC.class_histogram"]));
            let dump = folder.path().join("dump.hprof");
            let _ = std::fs::remove_file(&dump);
            jvm.tell(&["GC.heap_dump", dump.to_str().expect("a name")]);
            let mut file = DumpFile::open(&dump).expect("a dump");
            let graph = file.graph(WhichDump::First).expect("a dump");
            let error = error_of(&graph, &counted);
            let version = jdk.file_name().expect("a name").to_string_lossy();
            println!(
                "| {version} | {} | {} | {:.3} | {:+.2} % |",
                options.join(" "),
                graph.layout().expect("a layout"),
                graph.layout_fit(),
                error * 100.0
            );
            assert!(error.abs() < 0.01, "{version} {options:?}: {error}");
        }
    }
}
