use super::*;

fn machine(mounts: &str, controllers: &str) -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
    std::fs::create_dir_all(dir.path().join("cg")).unwrap();
    std::fs::write(dir.path().join("proc/self/mounts"), mounts).unwrap();
    std::fs::write(dir.path().join("cg/cgroup.controllers"), controllers).unwrap();
    let root = Root::at(dir.path());
    (dir, root)
}

#[test]
fn both_versions_are_found_and_a_v2_without_memory_is_not() {
    let v1 =
        "none /cg2 cgroup2 rw 0 0\nnone /cpu cgroup rw,cpu 0 0\nnone /cg cgroup rw,memory 0 0\n";
    let v2 = "none /cg cgroup2 rw 0 0\n";

    let (_d1, first) = machine(v1, "");
    let (_d2, second) = machine(v2, "cpu memory pids\n");
    let (_d3, third) = machine(v2, "cpu pids\n");

    assert_eq!(Hierarchy::find(&first).unwrap().version, Version::V1);
    assert_eq!(Hierarchy::find(&second).unwrap().version, Version::V2);
    let error = Hierarchy::find(&third).unwrap_err();
    assert!(error.to_string().contains("doctor group"), "{error}");
}

#[test]
fn a_near_group_is_below_its_maker_in_version_1_and_beside_it_in_version_2() {
    let v1 = (
        "none /cg cgroup rw,memory 0 0\n",
        "4:memory:/a/b\n",
        "a/b/warmswap-x",
    );
    let v2 = ("none /cg cgroup2 rw 0 0\n", "0::/a/b\n", "a/warmswap-x");
    let top = ("none /cg cgroup2 rw 0 0\n", "0::/\n", "warmswap-x");
    // The machine's path of a container that sees a part of the hierarchy alone.
    let elsewhere = (
        "none /cg cgroup rw,memory 0 0\n",
        "4:memory:/c\n",
        "warmswap-x",
    );
    for (mounts, own, expected) in [v1, v2, top, elsewhere] {
        let (dir, root) = machine(mounts, "memory\n");
        let cg = dir.path().join("cg");
        std::fs::create_dir_all(cg.join("a/b")).unwrap();
        std::fs::write(dir.path().join("proc/self/cgroup"), own).unwrap();
        for parent in [cg.clone(), cg.join("a")] {
            std::fs::write(parent.join("cgroup.subtree_control"), "").unwrap();
        }
        let state = tempfile::tempdir().unwrap();
        let undo = Undo::open(&root, &state.path().join("s")).unwrap();
        let group = Memcg::create_near(&undo, "x").unwrap();
        assert_eq!(group.path(), cg.join(expected));

        // Its members go to the group of its maker.
        let maker = match own.rsplit_once('/').unwrap().1.trim() {
            "b" => cg.join("a/b"),
            _ => cg.clone(),
        };
        std::fs::write(maker.join("cgroup.procs"), "").unwrap();
        std::fs::write(group.path().join("cgroup.procs"), "7\n").unwrap();
        // A folder with a file in it stays, as a group with members does.
        assert!(group.remove().is_err());
        let moved = std::fs::read_to_string(maker.join("cgroup.procs")).unwrap();
        assert_eq!(moved, "7");
    }
}

#[test]
fn recorded_statistics_of_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("memory.usage_in_bytes", "900\n");
    write("memory.current", "901\n");
    write(
        "memory.stat",
        "total_rss 10\ntotal_rss_huge 77\ntotal_cache 20\ntotal_inactive_file 5\ntotal_pgmajfault 3\ntotal_dirty 2\n\
         total_writeback 1\ntotal_swap 6\ntotal_swapcached 8\nanon 11\nfile 21\nfile_dirty 7\npgmajfault 4\nswap 99\n",
    );

    let v1 = read_stats(dir.path(), Version::V1).unwrap();
    let v2 = read_stats(dir.path(), Version::V2).unwrap();

    assert_eq!(
        v1,
        MemcgStats {
            usage_bytes: 900,
            anonymous_bytes: 10,
            file_bytes: 20,
            inactive_file_bytes: 5,
            unwritten_bytes: 3,
            swapped_bytes: Some(6),
            major_faults: 3
        }
    );
    assert_eq!(
        v2,
        MemcgStats {
            usage_bytes: 901,
            anonymous_bytes: 11,
            file_bytes: 21,
            inactive_file_bytes: 0,
            unwritten_bytes: 7,
            swapped_bytes: None,
            major_faults: 4
        }
    );
    assert_eq!((v1.idle_file_bytes(), v2.idle_file_bytes()), (2, 0));
    write("memory.swap.current", "12\n");
    let v2 = read_stats(dir.path(), Version::V2).unwrap();
    assert_eq!(v2.swapped_bytes, Some(12));
    let stat = std::fs::read_to_string(dir.path().join("memory.stat")).unwrap();
    write("memory.stat", &format!("{stat}\nswapcached 5\n"));
    let v2 = read_stats(dir.path(), Version::V2).unwrap();
    assert_eq!(v2.swapped_bytes, Some(7), "five are in memory besides");
}

#[test]
fn pages_of_files_are_dropped_by_the_means_of_each_version() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let undo = Undo::open(&Root::at(&path), &path.join("state")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(path.join(name), text).unwrap();
    let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
    write("memory.swappiness", "70\n");
    write("memory.force_empty", "-");
    write("memory.current", "9000\n");
    write("memory.stat", "anon 1\nfile 8192\npgmajfault 0\n");
    write("memory.reclaim", "");
    let group = |version| Memcg {
        path: path.clone(),
        version,
        pending: undo.register(Action::Nothing).unwrap(),
    };

    group(Version::V1).drop_file_pages().unwrap();
    group(Version::V2).drop_file_pages().unwrap();

    assert_eq!(read("memory.force_empty"), "0");
    assert_eq!(read("memory.swappiness"), "70", "as it was");
    assert_eq!(read("memory.reclaim"), "8192 swappiness=0");
}

#[test]
fn a_group_of_the_machine_holds_a_child_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let undo = Undo::open(&Root::machine(), dir.path()).unwrap();
    let group = match Memcg::create(&undo, &format!("test-{}", std::process::id())) {
        Ok(group) => group,
        Err(e) => {
            warmswap_testkit::skip!("a_group_of_the_machine_holds_a_child_and_goes", "{e}");
        }
    };
    let mut sleep = std::process::Command::new("sleep");
    sleep.arg("60");
    let mut child = sleep.spawn().unwrap();
    group.start_here(&mut sleep).unwrap();
    let mut inside = sleep.spawn().unwrap();
    let path = group.path().to_owned();
    assert_eq!(group.group().pids().unwrap(), [inside.id()]);

    group.limit(Some(64 << 20)).unwrap();
    group.add(child.id()).unwrap();
    group.stats().unwrap();
    group.remove().unwrap();

    assert!(!path.exists());
    for child in [&mut child, &mut inside] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
