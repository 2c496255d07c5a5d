//! What is told of programs and of the processes that they started.

use super::*;

const BUDGET: u64 = 24 << 20;

fn stats(pid: u32, name: &str, managed: bool, swapped_out_pages: u64) -> ProgramStats {
    ProgramStats {
        pid,
        name: name.to_owned(),
        managed,
        swapped_out_pages,
        ..ProgramStats::default()
    }
}

/// Process 7 of these reports and answers, and what is told of it when its largest process had 46 MiB.
fn told(reports: Vec<ProgramStats>, answers: Vec<ProgramStats>) -> (RunResult, String) {
    let folder = tempfile::tempdir().unwrap();
    for report in reports {
        let path = folder.path().join(format!("{}.json", report.pid));
        std::fs::write(path, serde_json::to_vec(&report).unwrap()).unwrap();
    }
    let answers = Answers {
        programs: answers,
        has_children: false,
    };
    let mut result = collect(folder.path(), 7, answers, String::new());
    result.peak_bytes = Some(46 << 20);
    let name = std::ffi::OsStr::new("sh");
    let program = Program {
        path: "/bin/sh".into(),
        name,
        arguments: &[],
        start: program::start(Path::new("/bin/sh")).unwrap(),
        budget_bytes: BUDGET,
    };
    let text = summary_of(&result, &program, ExitStatus::from_raw(0), Style::PLAIN);
    (result, text)
}

/// The numbers of processes that cannot be: the kernel's largest is below.
const CHILD: u32 = 5_000_008;

#[test]
fn a_reason_is_told_where_all_memory_was_looked_at() {
    let (_, text) = told(vec![stats(7, "sh", true, 0)], vec![]);
    assert!(
        text.contains("budget of 24.0 MiB: files, and memory"),
        "{text}"
    );
    let (_, text) = told(vec![stats(7, "sh", false, 0)], vec![]);
    assert!(
        text.contains("budget of 24.0 MiB: files, and memory"),
        "{text}"
    );
}

#[test]
fn no_reason_is_told_where_another_process_may_be_the_largest() {
    let program = || stats(7, "sh", false, 0);
    let child = stats(CHILD, "alloc", true, 900);
    let (_, text) = told(vec![program(), child.clone()], vec![]);
    assert!(
        text.contains("more than the budget of 24.0 MiB\n"),
        "{text}"
    );
    assert!(text.contains("pages   900 out"), "{text}");

    let (mut result, text) = told(vec![program()], vec![child]);
    assert!(
        text.contains("more than the budget of 24.0 MiB\n"),
        "{text}"
    );
    // It was never paged.
    result.unfinished.clear();
    assert!(is_all_known(&result));
    result.has_children = true;
    assert!(!is_all_known(&result));
}

#[test]
fn a_program_that_wrote_nothing_was_not_looked_at() {
    let (result, text) = told(vec![], vec![]);
    assert!(
        text.contains("more than the budget of 24.0 MiB\n"),
        "{text}"
    );
    assert!(result.program.is_none() && !result.complete);
}

#[test]
fn a_paged_child_that_is_killed_is_told_as_it_was_last_seen() {
    let child = stats(CHILD, "python3", true, 900);
    let (result, text) = told(vec![stats(7, "sh", false, 0)], vec![child]);
    assert_eq!(result.unfinished.len(), 1);
    let block = text.split_once("python3 (5000008) ended after").unwrap().1;
    assert!(block.contains("pages   900 out"), "{text}");
    assert!(
        block.contains("as it was last seen: it was killed, became"),
        "{text}"
    );

    // One that wrote its report is told once.
    let child = || stats(CHILD, "python3", true, 900);
    let (result, text) = told(vec![child()], vec![child()]);
    assert_eq!((result.others.len(), result.unfinished.len()), (1, 0));
    assert!(!text.contains("last seen"), "{text}");
}

#[test]
fn a_child_that_outlives_the_program_is_told_to_go_on() {
    let child = stats(std::process::id(), "daemon", true, 900);
    let (_, text) = told(vec![stats(7, "sh", false, 0)], vec![child]);
    assert!(text.contains("runs after"), "{text}");
    assert!(text.contains("as it was last seen: it goes on\n"), "{text}");
}

#[test]
fn paging_before_an_exec_is_the_programs() {
    let before = stats(7, "python3", true, 900);
    let (result, text) = told(vec![stats(7, "echo", false, 0)], vec![before.clone()]);
    let program = result.program.unwrap();
    assert_eq!((program.name.as_str(), program.managed), ("python3", true));
    assert_eq!(program.swapped_out_pages, 900);
    assert!(!result.complete);
    assert_eq!(result.others.len(), 1);
    let line = "as it was last seen: it became echo (exec), which was not paged\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("it was not paged"), "{text}");

    // Both were paged.
    let (result, text) = told(vec![stats(7, "ruby", true, 5)], vec![before]);
    assert_eq!(result.program.unwrap().name, "ruby");
    assert!(result.complete);
    assert!(text.contains("pages   5 out"), "{text}");
    assert!(text.contains("pages   900 out"), "{text}");
}

#[test]
fn a_program_that_was_not_paged_is_told_by_what_it_had() {
    let line = |peak| peak_line(peak, 32 << 20, true, Style::PLAIN);
    assert_eq!(
        line(20 << 20),
        "  its largest process had at most 20.0 MiB in memory; budget 32.0 MiB\n"
    );
    let more = line(300 << 20);
    assert!(
        more.contains("300 MiB in memory, more than the budget of 32.0 MiB"),
        "{more}"
    );
}

#[test]
fn a_budget_that_was_exceeded_without_paging_is_told() {
    let paged = |pages| stats(7, "sh", true, pages);
    assert!(is_peak_told(Some(&paged(0)), 60 << 20, 30 << 20));
    assert!(!is_peak_told(Some(&paged(0)), 20 << 20, 30 << 20));
    assert!(!is_peak_told(Some(&paged(9)), 60 << 20, 30 << 20));
}
