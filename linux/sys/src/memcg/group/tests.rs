use super::*;

fn machine(mounts: &str) -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
    std::fs::create_dir_all(dir.path().join("cg/a/b")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("proc/self/mounts", mounts);
    write("cg/cgroup.controllers", "memory\n");
    write("cg/a/cgroup.procs", "7\n3\n");
    write("cg/a/b/cgroup.procs", "9\n3\n");
    let root = Root::at(dir.path());
    (dir, root)
}

#[test]
fn the_least_limit_above_a_process_holds_for_it() {
    for (mounts, own, file) in [
        (
            "none /cg cgroup rw,memory 0 0\n",
            "5:cpu:/x\n4:memory:/a/b\n0::/\n",
            "memory.limit_in_bytes",
        ),
        ("none /cg cgroup2 rw 0 0\n", "0::/a/b\n", "memory.max"),
    ] {
        let (dir, root) = machine(mounts);
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).unwrap();
        };
        assert_eq!(own_limit_bytes(&root), None);
        write("proc/self/cgroup", own);
        assert_eq!(own_limit_bytes(&root), None);
        write(&format!("cg/a/b/{file}"), "9000\n");
        assert_eq!(own_limit_bytes(&root), Some(9000));
        write(&format!("cg/a/{file}"), "7000\n");
        assert_eq!(own_limit_bytes(&root), Some(7000));
        let bounds = || -> Vec<(PathBuf, u64)> {
            let bounds = bounds_of(&root, 77).into_iter();
            bounds
                .map(|(group, bytes)| (group.path().to_owned(), bytes))
                .collect()
        };
        let (lower, upper) = (dir.path().join("cg/a/b"), dir.path().join("cg/a"));
        assert_eq!(bounds(), []);
        std::fs::create_dir_all(dir.path().join("proc/77")).unwrap();
        write("proc/77/cgroup", own);
        assert_eq!(bounds(), [(lower.clone(), 9000), (upper.clone(), 7000)]);
        write("cg/a/memory.high", "6000\n");
        let is_slowed = file == "memory.max";
        let least = if is_slowed { 6000 } else { 7000 };
        assert_eq!(bounds(), [(lower.clone(), 9000), (upper.clone(), least)]);
        assert_eq!(own_limit_bytes(&root), Some(7000));
        // Without swap of its own nothing can leave.
        let (name, none) = match is_slowed {
            true => ("memory.swap.max", "0\n"),
            false => ("memory.memsw.limit_in_bytes", "9000\n"),
        };
        write(&format!("cg/a/b/{name}"), none);
        assert_eq!(bounds(), [(lower, 0), (upper, least)]);
        std::fs::remove_file(dir.path().join(format!("cg/a/b/{name}"))).unwrap();
        std::fs::remove_dir_all(dir.path().join("proc/77")).unwrap();
        // Of another machine's group the part that is mounted here is left.
        write("proc/self/cgroup", &own.replace("/a/b", "/elsewhere/a"));
        write(&format!("cg/{file}"), "8000\n");
        assert_eq!(own_limit_bytes(&root), Some(8000));
    }
}

#[test]
fn version_1_calls_a_huge_limit_none() {
    let (dir, root) = machine("none /cg cgroup rw,memory 0 0\n");
    std::fs::write(dir.path().join("cg/a/memory.usage_in_bytes"), "900\n").unwrap();
    let limit = dir.path().join("cg/a/memory.limit_in_bytes");
    std::fs::write(&limit, "9223372036854771712\n").unwrap();

    let group = Group::open(&root, Path::new("/a")).unwrap();

    assert_eq!(group.usage_bytes().unwrap(), 900);
    assert_eq!(group.limit_bytes().unwrap(), None);
    std::fs::write(&limit, "4096\n").unwrap();
    assert_eq!(group.limit_bytes().unwrap(), Some(4096));
    assert_eq!(group.pids().unwrap(), [3, 7, 9]);
}

/// A group of a machine of one version, with these files.
fn group(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let group = Group::new(dir.path().to_owned(), version);
    (dir, group)
}

#[test]
fn both_versions_say_what_is_in_swap_and_how_often_the_limit_was_reached() {
    let (_dir, first) = group(
        Version::V1,
        &[
            ("memory.usage_in_bytes", "700\n"),
            ("memory.memsw.usage_in_bytes", "1000\n"),
            ("memory.failcnt", "4\n"),
        ],
    );
    assert_eq!(first.swapped_bytes().unwrap(), Some(300));
    assert_eq!(first.limit_hits().unwrap(), 4);
    let (_dir, second) = group(
        Version::V2,
        &[
            ("memory.swap.current", "301\n"),
            ("memory.events", "low 0\nhigh 9\nmax 5\noom 0\n"),
        ],
    );
    assert_eq!(second.swapped_bytes().unwrap(), Some(301));
    assert_eq!(second.limit_hits().unwrap(), 14);
    // What groups within it met at limits of their own is theirs.
    let (_dir, above) = group(
        Version::V2,
        &[
            ("memory.events", "high 9\nmax 500\n"),
            ("memory.events.local", "high 2\nmax 1\n"),
        ],
    );
    assert_eq!(above.limit_hits().unwrap(), 3);
    for version in [Version::V1, Version::V2] {
        let (_dir, none) = group(version, &[]);
        assert_eq!(none.swapped_bytes().unwrap(), None);
        assert!(none.limit_hits().unwrap_err().is_gone());
    }
}

#[test]
fn a_limit_is_lowered_to_what_is_asked() {
    let files = [
        ("memory.limit_in_bytes", "900000\n"),
        ("memory.usage_in_bytes", "700000\n"),
    ];
    let (_dir, first) = group(Version::V1, &files);
    for (bytes, from_bytes) in [(800_000, 900_000), (600_000, 800_000)] {
        first.lower_limit(bytes, from_bytes).unwrap();
        assert_eq!(first.limit_bytes().unwrap(), Some(bytes));
    }
}

#[test]
fn version_2_has_a_word_for_it() {
    let (dir, root) = machine("none /cg cgroup2 rw 0 0\n");
    std::fs::write(dir.path().join("cg/a/memory.current"), "901\n").unwrap();
    std::fs::write(dir.path().join("cg/a/memory.max"), "max\n").unwrap();

    let group = Group::open(&root, Path::new("a")).unwrap();

    assert_eq!(
        (group.usage_bytes().unwrap(), group.limit_bytes().unwrap()),
        (901, None)
    );
    assert!(Group::open(&root, Path::new("absent")).is_err());
}
