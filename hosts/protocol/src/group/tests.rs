use super::*;
use crate::{Answer, Server};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const MIB: u64 = 1 << 20;

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("work.group");
    (folder, path)
}

fn take(member: &Membership, bytes: u64) -> u64 {
    let take = |shares: &mut Shares, place: usize, _| (shares.take(place, bytes), Vec::new());
    member.with(take).unwrap()
}

#[test]
fn names_are_names_of_files() {
    for name in ["work", "a.b_c-9", &"x".repeat(64)] {
        let path = group_path(name).unwrap();
        assert_eq!(group_name(&path), name);
        assert!(path.to_string_lossy().ends_with(".group"));
    }
    for name in [
        "",
        ".",
        "..",
        ".x",
        "-x",
        "a/b",
        "a b",
        "é",
        &"x".repeat(65),
    ] {
        assert!(
            matches!(group_path(name), Err(GroupError::Name(_))),
            "{name}"
        );
    }
}

#[test]
fn the_first_says_the_budget_as_long_as_one_uses_the_group() {
    let (_folder, path) = place();
    let first = Group::open(&path, 100 * MIB).unwrap();
    let error = Group::open(&path, 50 * MIB).unwrap_err();
    assert!(matches!(error, GroupError::Budget { budget_bytes, .. } if budget_bytes == 100 * MIB));
    let second = Group::open(&path, 100 * MIB).unwrap();
    drop(first);
    assert!(Group::open(&path, 50 * MIB).is_err());
    let member = second.join(7, None).unwrap();
    assert!(Group::open(&path, 50 * MIB).is_err());
    assert_eq!(take(&member, MIB), MIB);
    drop(member);
    let other = Group::open(&path, 50 * MIB).unwrap();
    assert_eq!(
        other.shares().unwrap(),
        Shares::new(50 * MIB),
        "nothing is left"
    );
}

#[test]
fn a_share_is_everybodys_when_its_member_has_ended() {
    let (_folder, path) = place();
    let join = |pid| {
        Group::open(&path, 100 * MIB)
            .unwrap()
            .join(pid, None)
            .unwrap()
    };
    let (first, second) = (join(1), join(2));
    assert_eq!(take(&first, 70 * MIB), 70 * MIB);
    assert_eq!(take(&second, 70 * MIB), 30 * MIB);
    drop(first);
    assert_eq!(take(&second, 70 * MIB), 70 * MIB);
    let third = join(3);
    assert_eq!(third.place, 0);
    let try_join = |pid| Group::open(&path, 100 * MIB).unwrap().join(pid, None).ok();
    let members: Vec<_> = (4..).map_while(try_join).collect();
    assert_eq!(members.len(), MOST_MEMBERS - 2);
}

#[test]
fn those_that_are_to_give_are_called_and_one_that_does_not_listen_is_not_waited_for() {
    let (folder, path) = place();
    let socket = folder.path().join("1.sock");
    let mut server = Server::bind(&socket).unwrap();
    let join = |pid, socket: Option<&Path>| {
        Group::open(&path, 100 * MIB)
            .unwrap()
            .join(pid, socket)
            .unwrap()
    };
    let listening = join(1, Some(&socket));
    let dead = folder.path().join("2.sock");
    let silent = join(2, Some(&dead));
    let asking = join(3, None);
    for member in [&listening, &silent] {
        take(member, 50 * MIB);
        member.with(|shares, place, now| (shares.used(place, true, now), Vec::new()));
    }
    let asked = asking.with(|shares, place, now| {
        let called = shares.ask(place, 90 * MIB, now);
        (called.clone(), called)
    });
    assert_eq!(asked.unwrap(), [0, 1]);
    let mut heard = Vec::new();
    let timeout = Some(Duration::from_secs(60));
    while heard.is_empty() {
        let hear = |request| {
            heard.push(request);
            Ok(Answer::Done)
        };
        server.poll_once(timeout, hear).unwrap();
    }
    assert_eq!(heard, [Request::Give]);
}

#[test]
fn a_locked_table_holds_nobody_up() {
    let (_folder, path) = place();
    let member = Group::open(&path, MIB).unwrap().join(1, None).unwrap();
    let stopped = open(&path).unwrap();
    assert!(try_lock(&stopped, TABLE_LOCK, Access::Exclusive).unwrap());
    assert_eq!(member.with(|_, _, _| ((), Vec::new())), None);
    assert!(matches!(
        Group::open(&path, MIB),
        Err(GroupError::Busy { .. })
    ));
    drop(stopped);
    assert_eq!(take(&member, MIB), MIB);
}

#[test]
fn files_of_others_and_of_other_versions_are_refused() {
    let (folder, path) = place();
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(
        Group::open(&path, MIB),
        Err(GroupError::Unsafe { .. })
    ));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let group = Group::open(&path, MIB).unwrap();
    fs::write(&path, [0; TABLE_BYTES]).unwrap();
    assert!(matches!(group.shares(), Err(GroupError::Version { .. })));
    assert!(matches!(
        Group::open(&path, MIB),
        Err(GroupError::Version { .. })
    ));
    drop(group);
    // What an earlier boot left, of whichever version, is nobody's.
    assert_eq!(
        Group::open(&path, MIB).unwrap().shares().unwrap(),
        Shares::new(MIB)
    );

    let link = folder.path().join("link.group");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(
        Group::open(&link, MIB),
        Err(GroupError::System(_))
    ));
    if warmswap_sys::is_root() {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert!(matches!(
            Group::open(&path, MIB),
            Err(GroupError::Unsafe { .. })
        ));
    }
}

proptest! {
    #[test]
    fn a_table_is_read_as_it_was_written(
        budget_bytes in 1..u64::MAX,
        members in proptest::collection::vec((1..u32::MAX, any::<bool>(), any::<[u32; 6]>()), 0..MOST_MEMBERS),
    ) {
        let mut shares = Shares::new(budget_bytes);
        for (member, (pid, is_background, numbers)) in shares.members.iter_mut().zip(members) {
            let [last_used_ms, share_bytes, owed_bytes, asked_ms, cool_bytes, least_bytes] =
                numbers.map(u64::from);
            *member = Member {
                pid,
                is_background,
                last_used_ms,
                share_bytes,
                owed_bytes,
                asked_ms,
                cool_bytes,
                least_bytes,
            };
            member.owed_bytes = member.owed_bytes.min(share_bytes);
        }
        let sum: u64 = shares.members.iter().map(|member| member.share_bytes).sum();
        let expected = (sum <= budget_bytes).then(|| shares.clone());
        prop_assert_eq!(decode(&encode(&shares)), expected);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), TABLE_BYTES)) {
        let mut bytes: [u8; TABLE_BYTES] = bytes.try_into().unwrap();
        let _ = decode(&bytes);
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let _ = decode(&bytes);
    }
}
