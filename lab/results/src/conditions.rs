//! Under which conditions the relaunches of two results were measured or replayed.

use warmswap_bench::RelaunchReport;
use warmswap_columns::Quantity;
use warmswap_replay::{Pressure, Sight};
use warmswap_study::compare::{Comparison, SchemeRow};

use crate::latencies::arm_name;
use crate::stored::Results;

/// A condition of a result, or of one arm of it.
struct Condition {
    what: String,
    arm: Option<String>,
    value: String,
}

/// What two results did not have alike, a sentence each; of arms that both have.
pub(crate) fn unlike(before: &Results, after: &Results) -> Vec<String> {
    let after = of(after);
    let mut found: Vec<([String; 3], Vec<String>)> = Vec::new();
    for Condition { what, arm, value } in of(before) {
        let other = after
            .iter()
            .find(|other| (&other.what, &other.arm) == (&what, &arm));
        let Some(other) = other.filter(|other| other.value != value) else {
            continue;
        };
        let key = [what, value, other.value.clone()];
        let at = found.iter().position(|(of, _)| *of == key);
        let at = at.unwrap_or_else(|| {
            found.push((key, Vec::new()));
            found.len() - 1
        });
        found[at].1.extend(arm.as_deref().map(arm_name));
    }
    found
        .iter()
        .map(|(key, arms)| sentence(key, arms))
        .collect()
}

fn sentence([what, before, after]: &[String; 3], arms: &[String]) -> String {
    let arms = match arms {
        [] => String::new(),
        arms => format!(" of {}", arms.join(", ")),
    };
    format!("Not alike: {what}{arms}: {before} before, {after} after.")
}

fn of(results: &Results) -> Vec<Condition> {
    let mut found = match (results.relaunch.first(), results.compare.first()) {
        (Some(live), _) => of_live(live),
        (None, Some(replayed)) => of_replay(replayed),
        (None, None) => Vec::new(),
    };
    if let Some(source) = results.sources.first() {
        let of = &source.machine;
        let memory = bytes(of.memory_bytes);
        let machine = format!("{}, {} processors, {memory}", of.cpu, of.cores);
        found.push(whole("machine", machine));
    }
    found
}

fn of_live(of: &RelaunchReport) -> Vec<Condition> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let memory = of.total_bytes.map_or("no limit".to_owned(), bytes);
    let sampled = of.sample_ms.map(|ms| format!("every {ms} ms"));
    let mut found = vec![
        whole("memory", memory),
        whole("programs", of.apps.join(", ")),
        whole("relaunches", (of.blocks * of.relaunches).to_string()),
        whole("relaunches that are not counted", of.warm_up.to_string()),
        whole("rest after a switch", format!("{} ms", of.rest_ms)),
        whole("zram's algorithm", of.algorithm.clone()),
        whole("the library's scheme", or_none(of.preload_scheme.clone())),
        whole("samples of a switch", or_none(sampled)),
    ];
    for arm in &of.arms {
        let disks = arm.conditions.readahead_kib.iter();
        let disks: Vec<String> = disks
            .map(|disk| format!("{} {} KiB", disk.name, disk.value))
            .collect();
        found.push(of_arm("readahead", arm.arm.name(), disks.join(", ")));
    }
    found
}

fn of_replay(of: &Comparison) -> Vec<Condition> {
    let mut apps: Vec<&str> = Vec::new();
    for row in &of.apps {
        if !apps.contains(&row.app.as_str()) {
            apps.push(&row.app);
        }
    }
    let traces: Vec<&str> = of.traces.iter().map(|row| row.trace.as_str()).collect();
    let pressure = match of.pressure {
        Some(Pressure::Budget) => "the budget",
        Some(Pressure::Full) => "the budget, and applications that leave give everything up",
        None => "unknown",
    };
    let touches = match of.sight {
        Some(Sight::All) => "all",
        Some(Sight::Faults) => "faults",
        None => "unknown",
    };
    let contents = match of.with_contents {
        true => "as recorded",
        false => "assumed",
    };
    let mut found = vec![
        whole("recordings", traces.join(", ")),
        whole("applications", apps.join(", ")),
        whole("what makes pages leave", pressure.to_owned()),
        whole("touches that schemes see", touches.to_owned()),
        whole("contents", contents.to_owned()),
        whole("flash", of.device.clone()),
    ];
    for trace in &of.traces {
        let share = trace.sample_share;
        let share = share.map_or("all of it".to_owned(), |s| Quantity::Fraction(s).human());
        found.push(whole(
            &format!("budget of {}", trace.trace),
            bytes(trace.budget_bytes),
        ));
        found.push(whole(
            &format!("part of the recording {}", trace.trace),
            share,
        ));
    }
    found.extend(of.schemes.iter().flat_map(of_scheme));
    found
}

fn of_scheme(row: &SchemeRow) -> [Condition; 3] {
    let memory = &row.memory;
    let pool = memory.pool_limit_bytes as f64 / memory.budget_bytes.max(1) as f64;
    let files = match memory.file_pages {
        true => "replayed",
        false => "passed over",
    };
    [
        of_arm(
            "most of the budget for the pool",
            &row.scheme,
            Quantity::Fraction(pool).human(),
        ),
        of_arm(
            "backing file",
            &row.scheme,
            bytes(memory.backing_limit_bytes),
        ),
        of_arm("pages of files", &row.scheme, files.to_owned()),
    ]
}

fn whole(what: &str, value: String) -> Condition {
    Condition {
        what: what.to_owned(),
        arm: None,
        value,
    }
}

fn of_arm(what: &str, arm: &str, value: String) -> Condition {
    Condition {
        arm: Some(arm.to_owned()),
        ..whole(what, value)
    }
}

fn bytes(value: u64) -> String {
    Quantity::Bytes(value).human()
}
