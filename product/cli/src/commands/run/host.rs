//! What pages a program: the kernel host or the preloaded library.

use super::{HostArg, RunArgs};
use anyhow::{Result, bail};
use warmswap_doctor::{Machine, Part, Row, Trouble, require};
use warmswap_output::BadInput;

/// The host, with the reason in words.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    Kernel { why: String },
    Preload { why: String },
}

/// Chooses.
///
/// # Errors
/// Where the kernel host is asked for: it needs something that is not there; [`BadInput`] for options of the library.
pub fn choose(args: &RunArgs) -> Result<Choice> {
    let probe = || require(&Machine::this(), Part::Group);
    decide(args.host, args.library.given(), probe)
}

fn decide(
    asked: HostArg,
    given: Option<&'static str>,
    probe: impl FnOnce() -> Result<(), Trouble>,
) -> Result<Choice> {
    Ok(match (asked, given) {
        (HostArg::Preload, _) => Choice::Preload {
            why: "as asked".to_owned(),
        },
        (HostArg::Kernel, None) => match probe() {
            Ok(()) => Choice::Kernel {
                why: "as asked".to_owned(),
            },
            Err(lacking) => {
                let needs = needs(&lacking);
                bail!(
                    "cannot page programs here: the kernel host needs {needs}; --host preload does without"
                );
            }
        },
        (HostArg::Kernel, Some(option)) => {
            let why = format!(
                "{option} is an option of the preloaded library, which the kernel host does not have; leave it out, or \
                 use --host preload"
            );
            return Err(BadInput(why).into());
        }
        (HostArg::Auto, Some(option)) => Choice::Preload {
            why: format!("{option} is an option of the preloaded library"),
        },
        (HostArg::Auto, None) => match probe() {
            Ok(()) => Choice::Kernel {
                why: "root, memory groups and zram are there".to_owned(),
            },
            Err(lacking) => Choice::Preload {
                why: format!("the kernel host needs {}", needs(&lacking)),
            },
        },
    })
}

/// What a host needs that is not there, in a few words.
pub fn needs(lacking: &Trouble) -> String {
    let needs = |row: &Row| match (row.key, &row.fix) {
        ("root", _) => "root (sudo)".to_owned(),
        ("preload_library", Some(fix)) => format!("a file: {} ({fix})", row.found),
        (_, Some(fix)) if fix.contains(EVERYWHERE) => {
            format!("{EVERYWHERE} (sudo sysctl -w {EVERYWHERE})")
        }
        (_, Some(fix)) => format!("{}: {} ({fix})", row.title, row.found),
        (_, None) => format!("{}: {}", row.title, row.found),
    };
    let rows: Vec<String> = lacking.rows.iter().map(needs).collect();
    rows.join(" and ")
}

/// Lets the library answer faults within system calls.
const EVERYWHERE: &str = "vm.unprivileged_userfaultfd=1";

#[cfg(test)]
mod tests {
    use super::*;
    use warmswap_doctor::ThisKernel;

    fn lacking() -> Result<(), Trouble> {
        let nowhere = tempfile::tempdir().unwrap();
        let root = warmswap_sys::Root::at(nowhere.path());
        let machine = Machine::recorded(root, Box::new(ThisKernel), nowhere.path());
        require(&machine, Part::Group)
    }

    #[test]
    fn auto_takes_the_kernel_unless_it_cannot_or_an_option_needs_the_library() {
        let auto = |given, probe: fn() -> _| decide(HostArg::Auto, given, probe).unwrap();
        assert!(matches!(auto(None, || Ok(())), Choice::Kernel { .. }));
        let Choice::Preload { why } = auto(None, lacking) else {
            panic!("the kernel host cannot work");
        };
        assert!(
            why.contains("no hierarchy with the memory controller"),
            "{why}"
        );
        let Choice::Preload { why } = auto(Some("--files"), || Ok(())) else {
            panic!("the kernel host has no such option");
        };
        assert!(why.starts_with("--files "), "{why}");
    }

    #[test]
    fn needs_are_a_few_words() {
        let row = |key, fix: &str| Row {
            key,
            title: "title",
            purpose: "",
            state: warmswap_doctor::State::Lacking,
            found: "not there".to_owned(),
            fix: Some(fix.to_owned()),
            must: Vec::new(),
            better: Vec::new(),
        };
        let rows = vec![
            row("root", "run the command with sudo"),
            row(
                "everywhere",
                "sudo sysctl -w vm.unprivileged_userfaultfd=1, or",
            ),
            row("zram", "load it"),
        ];
        assert_eq!(
            needs(&Trouble { rows }),
            "root (sudo) and vm.unprivileged_userfaultfd=1 (sudo sysctl -w vm.unprivileged_userfaultfd=1) and title: not \
             there (load it)"
        );
    }

    #[test]
    fn what_is_asked_for_is_done_or_refused() {
        let kernel = decide(HostArg::Kernel, None, || Ok(()));
        assert!(matches!(kernel, Ok(Choice::Kernel { .. })));
        let decide = |asked, given| decide(asked, given, lacking);
        assert!(matches!(
            decide(HostArg::Preload, None),
            Ok(Choice::Preload { .. })
        ));
        let refused = |given| decide(HostArg::Kernel, given).unwrap_err().to_string();
        let needs = refused(None);
        assert!(
            needs.contains("the kernel host needs") && needs.contains("memory controller"),
            "{needs}"
        );
        let option = refused(Some("--scheme"));
        assert!(option.starts_with("--scheme "), "{option}");
    }
}
